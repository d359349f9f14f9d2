"""Settings documents and cameras, with a record of every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.errors import Conflict, NotFound
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import Part, document, page, text, words
from edge.store.values import AuditRecord, CameraRecord, SettingsRecord


class SettingsPart(Part):
    """Documents are plain JSON and are validated by their writer."""

    def get_settings(self, name: str) -> dict[str, Any] | None:
        """The document in force, or None."""
        record = self.settings_record(name)
        return None if record is None else record.value

    @retried
    def settings_record(self, name: str) -> SettingsRecord | None:
        """The document in force with its revision, or None."""
        with self.database.read() as c:
            row = c.execute(sa.select(t.settings).where(t.settings.c.name == name)).mappings().first()
        return None if row is None else SettingsRecord(**row)

    @retried
    def put_settings(
        self,
        name: str,
        value: Mapping[str, Any],
        by: str,
        *,
        expected_revision: int | None = None,
        audited: bool = True,
    ) -> int:
        """Replace a document and return its new revision (from 1). `audited` False: no audit record is kept (records of
        the appliance's own writes in every window would fill the disk in a year).

        Raises Conflict if `expected_revision` is given (0: must be new) and another change came first.
        """
        doc, now = document(f"settings.{text('settings.name', name)}", value), self._clock.utc()
        with self.database.write() as c:
            revision = _revision(c, t.settings, t.settings.c.name == name)
            _expect(f"settings {name}", revision or 0, expected_revision)
            row = {"value": doc, "changed_by": words(by), "changed_utc_s": now}
            if revision is None:
                c.execute(sa.insert(t.settings).values(name=name, revision=1, **row))
            else:
                c.execute(sa.update(t.settings).where(t.settings.c.name == name).values(revision=revision + 1, **row))
            if audited:
                action = "created" if revision is None else "changed"
                _audit(c, now, f"settings/{name}", action, (revision or 0) + 1, by, doc)
        return (revision or 0) + 1

    @retried
    def cameras(self) -> tuple[CameraRecord, ...]:
        """All cameras, the oldest first."""
        order = (t.cameras.c.created_utc_s, t.cameras.c.id)
        with self.database.read() as c:
            rows = c.execute(sa.select(t.cameras).order_by(*order)).mappings().all()
        return tuple(CameraRecord(**row) for row in rows)

    @retried
    def camera(self, camera: str) -> CameraRecord:
        """One camera. Raises NotFound."""
        with self.database.read() as c:
            row = c.execute(sa.select(t.cameras).where(t.cameras.c.id == camera)).mappings().first()
        if row is None:
            raise NotFound(f"camera {camera} does not exist")
        return CameraRecord(**row)

    @retried
    def put_camera(
        self,
        camera: str,
        settings: Mapping[str, Any],
        by: str,
        *,
        enabled: bool = True,
        expected_revision: int | None = None,
    ) -> CameraRecord:
        """Create a camera or replace its settings; returns the record in force.

        Raises Conflict if `expected_revision` is given (0: must be new) and another change came first.
        """
        doc, now = document(f"cameras.{text('cameras.id', camera)}", settings), self._clock.utc()
        with self.database.write() as c:
            revision = _revision(c, t.cameras, t.cameras.c.id == camera)
            _expect(f"camera {camera}", revision or 0, expected_revision)
            row = {"settings": doc, "enabled": enabled, "changed_utc_s": now}
            if revision is None:
                c.execute(sa.insert(t.cameras).values(id=camera, revision=1, created_utc_s=now, **row))
            else:
                c.execute(sa.update(t.cameras).where(t.cameras.c.id == camera).values(revision=revision + 1, **row))
            done = "created" if revision is None else "changed"
            _audit(c, now, f"camera/{camera}", done, (revision or 0) + 1, by, {"settings": doc, "enabled": enabled})
            found = c.execute(sa.select(t.cameras).where(t.cameras.c.id == camera)).mappings().one()
        return CameraRecord(**found)

    @retried
    def delete_camera(self, camera: str, by: str) -> int:
        """Delete a camera and all its model versions (their blobs go with the next retention); windows and journal
        keep its history. Returns how many versions went. Raises NotFound.
        """
        now = self._clock.utc()
        with self.database.write() as c:
            revision = _revision(c, t.cameras, t.cameras.c.id == camera)
            if revision is None:
                raise NotFound(f"camera {camera} does not exist")
            c.execute(sa.delete(t.cameras).where(t.cameras.c.id == camera))
            own = t.versions.c.camera == camera
            # The parent of a version is of the same camera; cut the links first, so that the order does not matter.
            c.execute(sa.update(t.versions).where(own).values(parent=None))
            count = c.execute(sa.delete(t.versions).where(own)).rowcount
            _audit(c, now, f"camera/{camera}", "deleted", revision + 1, by, None)
        return int(count)

    @retried
    def audit(
        self, subject: str | None = None, *, before_id: int | None = None, limit: int = 100
    ) -> tuple[AuditRecord, ...]:
        """Changes, the newest first: of one subject ("settings/NAME", "camera/ID") or all."""
        query = sa.select(t.audit).order_by(t.audit.c.id.desc()).limit(page(limit))
        if subject is not None:
            query = query.where(t.audit.c.subject == subject)
        if before_id is not None:
            query = query.where(t.audit.c.id < before_id)
        with self.database.read() as c:
            return tuple(AuditRecord(**row) for row in c.execute(query).mappings())


def _revision(c: Connection, table: sa.Table, where: sa.ColumnElement[bool]) -> int | None:
    # FOR UPDATE (ignored by SQLite, whose writers are alone) makes a second writer wait and see our revision.
    found = c.execute(sa.select(table.c.revision).where(where).with_for_update()).scalar()
    return None if found is None else int(found)


def _expect(what: str, revision: int, expected: int | None) -> None:
    if expected is not None and expected != revision:
        raise Conflict(
            f"{what} is at revision {revision}, the change was made for revision {expected}", "read it again"
        )


def _audit(
    c: Connection, now: float, subject: str, action: str, revision: int, by: str, value: dict[str, Any] | None
) -> None:
    row = {"at_utc_s": now, "subject": subject, "action": action, "revision": revision, "value": value}
    c.execute(sa.insert(t.audit).values(changed_by=words(by), address=getattr(by, "address", None), **row))
