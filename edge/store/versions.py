"""Model versions: lineage, promotion, pins. At most one version of a camera is promoted, by a unique index.

candidate -> promoted | rejected        (the gate)
promoted  -> retired                    (another version is promoted)
promoted  -> rolled_back                (it gave way to an earlier version)
retired, rolled_back, rejected -> promoted   (a rollback, or an operator's choice)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.models import ModelVersion
from edge.store import tables as t
from edge.store.blobs import BlobStore
from edge.store.database import Database, retried
from edge.store.parts import Part, by_field, document, page, text, words
from edge.store.unreadable import made
from edge.store.values import DecisionRecord

_v = t.versions.c


class VersionsPart(Part):
    """Each change of state is one transaction and one row of `decisions`."""

    def __init__(self, database: Database, clock: Clock, blobs: BlobStore) -> None:
        super().__init__(database, clock)
        self.blobs = blobs

    @retried
    def add_version(self, version: ModelVersion) -> ModelVersion:
        """Record a version, as a candidate, or promoted (a camera's first model). Its blob must be in the store.

        Raises NotFound (blob or parent), Conflict (id taken, another model is promoted), InvalidValue.
        """
        row = checked_version(version)
        self.blobs.path(version.blob)
        with self.database.write() as c:
            if version.parent is not None:
                parent = _find(c, version.parent, "parent version")
                if parent.camera != version.camera:
                    raise Conflict(f"parent version {parent.id} belongs to camera {parent.camera}")
            if c.execute(sa.select(_v.id).where(_v.id == version.id)).first() is not None:
                raise Conflict(f"model version {version.id} exists already")
            if version.state == "promoted":
                other = _promoted(c, version.camera)
                if other is not None:
                    raise Conflict(f"camera {version.camera} already runs model version {other.id}")
            c.execute(sa.insert(t.versions).values(**row))
            _decided(c, version, self._clock.utc(), version.state, version.decided_by, version.reason)
        return ModelVersion.from_json(row)

    @retried
    def promote(self, version: str, by: str, reason: str, *, scores: Mapping[str, float] | None = None) -> ModelVersion:
        """Put a version in force and retire the one before it, at once. Promoting the promoted one changes nothing.

        Raises NotFound; Conflict if the camera's present model is pinned or the version's blob was deleted;
        StoreError or NotFound if the blob on disk is damaged or missing.
        """
        self._need_blob(version)
        with self.database.write() as c:
            return self._put_in_force(c, version, "retired", by, reason, scores)

    @retried
    def reject(self, version: str, by: str, reason: str, *, scores: Mapping[str, float] | None = None) -> ModelVersion:
        """Say no to a candidate. Rejecting a rejected one changes nothing. Raises NotFound, Conflict."""
        with self.database.write() as c:
            found = _find(c, version, lock=True)
            if found.state == "rejected":
                return found
            if found.state != "candidate":
                raise Conflict(f"model version {version} is {found.state}, only a candidate can be rejected")
            return _set(c, found, self._clock.utc(), "rejected", by, reason, scores)

    @retried
    def roll_back(self, camera: str, by: str, reason: str, *, to: str | None = None) -> ModelVersion:
        """Take a camera's model out of force for an earlier one, `to` or its nearest ancestor that was in force and
        was not rolled back itself; returns the version now in force.

        Raises NotFound; Conflict if there is nothing to go back to, or the present model is pinned.
        """
        with self.database.read() as c:
            target = to if to is not None else _rollback_target(c, camera)
            if target is None:
                raise Conflict(f"camera {camera} has no earlier model version to go back to")
            if _find(c, target).camera != camera:
                raise Conflict(f"model version {target} belongs to another camera")
        self._need_blob(target)
        with self.database.write() as c:
            present = _promoted(c, camera, lock=True)
            if present is None:
                raise Conflict(f"camera {camera} has no model in force")
            if present.id == target:
                raise Conflict(f"model version {target} is in force already")
            if to is None and _rollback_target(c, camera) != target:
                raise Conflict(f"camera {camera} got another model meanwhile", "look again")
            return self._put_in_force(c, target, "rolled_back", by, reason, None)

    @retried
    def replace_damaged(self, version: ModelVersion, target: ModelVersion) -> None:
        """Put `target` in force for a version whose blob is damaged or missing, pinned or not."""
        reason = f"the model file of {version.id} is damaged or missing"
        with self.database.write() as c:
            # A pin protects against being replaced by choice; a model that cannot be loaded gives way all the same.
            damaged = {"pinned": False, "blob_kept": False}
            c.execute(sa.update(t.versions).where(_v.id == version.id).values(**damaged))
            self._put_in_force(c, target.id, "rolled_back", "recovery", reason, None)

    @retried
    def set_pinned(self, version: str, pinned: bool, by: str, reason: str = "") -> ModelVersion:
        """Pin a version: retention never deletes it, and while it is in force no other is promoted. Or unpin it.

        Raises NotFound; Conflict for pinning a version whose blob was deleted.
        """
        with self.database.write() as c:
            found = _find(c, version, lock=True)
            if found.pinned == pinned:
                return found
            if pinned and not found.blob_kept:
                raise Conflict(f"model version {version} was deleted by retention; only its record is left")
            c.execute(sa.update(t.versions).where(_v.id == version).values(pinned=pinned))
            _decided(c, found, self._clock.utc(), "pinned" if pinned else "unpinned", by, reason)
            return _find(c, version)

    @retried
    def version(self, version: str) -> ModelVersion:
        """One version. Raises NotFound, UnreadableRecord."""
        with self.database.read() as c:
            return _find(c, version)

    @retried
    def newest(self, camera: str | None = None, limit: int = 200) -> tuple[ModelVersion, ...]:
        """Versions, the newest first, without those that cannot be read."""
        query = sa.select(t.versions).order_by(_v.created_utc_s.desc(), _v.id.desc()).limit(page(limit))
        if camera is not None:
            query = query.where(_v.camera == camera)
        with self.database.read() as c:
            rows = c.execute(query).mappings().all()
        return tuple(self.database.unreadable.readable("model version", rows, _read_version, _id))

    @retried
    def kept_versions(self) -> tuple[ModelVersion, ...]:
        """All versions whose blob was not deleted by retention, the oldest first."""
        query = sa.select(t.versions).where(_v.blob_kept.is_(True)).order_by(_v.created_utc_s, _v.id)
        with self.database.read() as c:
            return tuple(_version(row) for row in c.execute(query).mappings())

    @retried
    def promoted(self, camera: str) -> ModelVersion | None:
        """The camera's model in force, or None."""
        with self.database.read() as c:
            return _promoted(c, camera)

    @retried
    def all_promoted(self) -> dict[str, ModelVersion]:
        """The model in force of every camera that has one."""
        with self.database.read() as c:
            rows = c.execute(sa.select(t.versions).where(_v.state == "promoted").order_by(_v.camera)).mappings()
            return {row["camera"]: _version(row) for row in rows}

    @retried
    def lineage(self, version: str) -> tuple[ModelVersion, ...]:
        """The version, its parent, and so on to the first one. Raises NotFound, UnreadableRecord."""
        with self.database.read() as c:
            _find(c, version)
            return _lineage(c, version)

    @retried
    def readable_lineage(self, version: str) -> tuple[ModelVersion, ...]:
        """`lineage` without ancestors that cannot be read. Raises NotFound, UnreadableRecord (the version itself)."""
        with self.database.read() as c:
            _find(c, version)
            rows = _lineage_rows(c, version)
        return tuple(self.database.unreadable.readable("model version", rows, _read_version, _id))

    @retried
    def decisions(
        self, *, camera: str | None = None, version: str | None = None, limit: int = 200
    ) -> tuple[DecisionRecord, ...]:
        """Changes of state and pins, the newest first."""
        own = t.decisions.c
        query = sa.select(t.decisions).order_by(own.id.desc()).limit(page(limit))
        if camera is not None:
            query = query.where(own.camera == camera)
        if version is not None:
            query = query.where(own.version == version)
        with self.database.read() as c:
            return tuple(DecisionRecord(**row) for row in c.execute(query).mappings())

    def _need_blob(self, version: str) -> None:
        found = self.version(version)
        if not found.blob_kept:
            raise Conflict(f"model version {version} was deleted by retention; only its record is left")
        self.blobs.verify(found.blob)

    def _put_in_force(
        self,
        c: Connection,
        version: str,
        leaves_as: str,
        by: str,
        reason: str,
        scores: Mapping[str, float] | None,
    ) -> ModelVersion:
        found, now = _find(c, version, lock=True), self._clock.utc()
        if found.state == "promoted":
            return found
        if not found.blob_kept:  # retention came first
            raise Conflict(f"model version {version} was deleted by retention; only its record is left")
        present = _promoted(c, found.camera, lock=True)
        if present is not None:
            if present.pinned:
                raise Conflict(f"camera {found.camera}: model version {present.id} is pinned", "unpin it first")
            why = reason if leaves_as == "rolled_back" else f"replaced by {version}"
            _set(c, present, now, leaves_as, by, why, None)  # first, or the unique index refuses the second
        return _set(c, found, now, "promoted", by, reason, scores)


def checked_version(version: ModelVersion) -> dict[str, Any]:
    """The row of a new version. Raises InvalidValue naming the field."""
    if version.state not in ("candidate", "promoted"):
        raise InvalidValue("version.state", version.state, "candidate or promoted for a new version")
    return version.to_json() | {
        "id": text("version.id", version.id),
        "camera": text("version.camera", version.camera),
        "spec": document("version.spec", version.spec.to_json()),
        "scores": document("version.scores", version.scores),
        "reason": words(version.reason),
        "decided_by": words(version.decided_by),
        "blob_kept": True,
    }


def _version(row: sa.RowMapping) -> ModelVersion:
    return made("model version", row["id"], lambda: _read_version(row))


def _read_version(row: sa.RowMapping) -> ModelVersion:
    return ModelVersion.from_json(by_field(t.versions, row))


def _id(row: Mapping[str, Any] | sa.RowMapping) -> str:
    return str(row["id"])


def _find(c: Connection, version: str, what: str = "model version", *, lock: bool = False) -> ModelVersion:
    query = sa.select(t.versions).where(_v.id == version)
    row = c.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotFound(f"{what} {version} does not exist")
    return _version(row)


def _promoted(c: Connection, camera: str, *, lock: bool = False) -> ModelVersion | None:
    query = sa.select(t.versions).where(_v.camera == camera, _v.state == "promoted")
    row = c.execute(query.with_for_update() if lock else query).mappings().first()
    return None if row is None else _version(row)


def _lineage(c: Connection, version: str) -> tuple[ModelVersion, ...]:
    return tuple(_version(row) for row in _lineage_rows(c, version))


def _lineage_rows(c: Connection, version: str) -> Sequence[sa.RowMapping]:
    chain = (
        sa.select(_v.id, _v.parent, sa.literal(0).label("depth")).where(_v.id == version).cte("chain", recursive=True)
    )
    chain = chain.union_all(sa.select(_v.id, _v.parent, chain.c.depth + 1).join(chain, _v.id == chain.c.parent))
    query = sa.select(t.versions).join(chain, _v.id == chain.c.id).order_by(chain.c.depth)
    return c.execute(query).mappings().all()


def _rollback_target(c: Connection, camera: str) -> str | None:
    present = _promoted(c, camera)
    if present is None:
        return None
    for ancestor in _lineage(c, present.id)[1:]:
        if ancestor.state == "retired" and ancestor.blob_kept:
            return ancestor.id
    return None


def _set(
    c: Connection,
    version: ModelVersion,
    now: float,
    state: str,
    by: str,
    reason: str,
    scores: Mapping[str, float] | None,
) -> ModelVersion:
    changes: dict[str, Any] = {"state": state, "decided_by": words(by), "reason": words(reason)}
    if scores is not None:
        changes["scores"] = version.scores | document("version.scores", scores)
    c.execute(sa.update(t.versions).where(_v.id == version.id).values(**changes))
    _decided(c, version, now, state, by, reason)
    return _find(c, version.id)


def _decided(c: Connection, version: ModelVersion, now: float, action: str, by: str, reason: str) -> None:
    row = {"version": version.id, "camera": version.camera, "at_utc_s": now, "action": action}
    c.execute(sa.insert(t.decisions).values(decided_by=words(by), reason=words(reason), **row))
