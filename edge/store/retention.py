"""Retention by age and by bytes. Nothing that a rollback or the comparison with the frozen model needs goes.

Protected are, of every camera, the promoted version, pinned versions, the parents of both, the first version (the
frozen student) and versions in the making (candidates younger than a day).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import StoreError
from edge.core.journal_kinds import CAMERA_STATE_KINDS
from edge.store import tables as t
from edge.store.blobs import BlobStore
from edge.store.database import Database, retried
from edge.store.parts import Part
from edge.store.values import CameraWindow

DAY_S = 86_400.0
_CHUNK = 2000  # rows deleted in one transaction, so that others need not wait long
GRACE_S = 120.0  # a blob younger than this is left alone: it may be about to be recorded

_v, _w, _cw, _j = t.versions.c, t.windows.c, t.camera_windows.c, t.journal.c


@dataclass(frozen=True)
class RetentionLimits:
    """`days` for everything; `max_bytes` for window data and model blobs together; the journal has its own two."""

    days: float = 30.0
    max_bytes: int = 20_000_000_000
    max_events: int = 1_000_000
    max_event_bytes: int = 500_000_000

    def __post_init__(self) -> None:
        checks.in_range("retention.days", self.days, 0.0, 36_500, low_open=True)
        checks.in_range("retention.max_bytes", self.max_bytes, 0, 1e18)
        checks.in_range("retention.max_events", self.max_events, 0, 1e12)
        checks.in_range("retention.max_event_bytes", self.max_event_bytes, 0, 1e18)


@dataclass(frozen=True)
class RetentionReport:
    """The deleted records. `bytes_over` is what is still above `max_bytes` and may not go; `failures` are in words."""

    events: int
    windows: int
    picture_sets: int
    versions: int
    blobs: int
    bytes_freed: int
    bytes_kept: int
    bytes_over: int
    failures: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class RetentionPart(Part):
    """Files go first where a record points at data that may be missing, records first where they must not lie."""

    def __init__(self, database: Database, clock: Clock, blobs: BlobStore) -> None:
        super().__init__(database, clock)
        self.blobs = blobs

    def retain(
        self,
        limits: RetentionLimits,
        drop_pictures: Callable[[CameraWindow], None] | None = None,
    ) -> RetentionReport:
        """Delete what is too old or too much, oldest first: window data, then models, journal, windows.

        `drop_pictures` deletes the data of one camera's window from disk (it may be called again for data already
        gone); an OSError or StoreError of it is reported and the data is tried again next time. Without it window data
        is left alone. The open window is never touched, and the newest window stays as a record.

        Raises DiskFull, Unavailable, StoreError.
        """
        oldest = self._clock.utc() - limits.days * DAY_S
        failures: list[str] = []
        freed = sets = 0
        models = self.blobs.total_bytes()
        if drop_pictures is not None:
            sets, freed = self._drop_pictures(limits, oldest, models, drop_pictures, failures)
        gone = self._delete_versions(limits, oldest)
        blobs = self._sweep_blobs(failures)
        models_after = self.blobs.total_bytes()
        events = self._delete_events(limits, oldest)
        windows = self._delete_windows(oldest)
        kept = models_after + self._picture_bytes()
        return RetentionReport(
            events, windows, sets, gone, blobs, freed + max(0, models - models_after), kept,
            max(0, kept - limits.max_bytes), tuple(failures),
        )  # fmt: skip

    def sizes(self) -> dict[str, int]:
        """Bytes on disk of "pictures" and "models", and of the "database". Raises Unavailable, StoreError."""
        return {
            "pictures": self._picture_bytes(),
            "models": self.blobs.total_bytes(),
            "database": self._database_bytes(),
        }

    @retried
    def _database_bytes(self) -> int:
        if self.database.sqlite:
            file = str(self.database.url.database)
            return sum(Path(file + end).stat().st_size for end in ("", "-wal", "-shm") if Path(file + end).exists())
        with self.database.read() as c:
            return int(c.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())

    @retried
    def protected_versions(self) -> frozenset[str]:
        """Ids of the versions that retention never deletes."""
        with self.database.read() as c:
            return frozenset(_protected(c, self._clock.utc()))

    @retried
    def _picture_bytes(self) -> int:
        query = sa.select(sa.func.coalesce(sa.func.sum(_cw.picture_bytes), 0)).where(_cw.pictures_dropped.is_(False))
        with self.database.read() as c:
            return int(c.execute(query).scalar_one())

    @retried
    def _picture_sets(self) -> list[tuple[CameraWindow, float]]:
        query = (
            sa.select(t.camera_windows, _w.start_utc_s + _w.length_s)
            .join(t.windows, _w.id == _cw.window)
            .where(_cw.pictures_dropped.is_(False), _w.open.is_(False), _cw.manifest.is_not(None))
            .order_by(_cw.window, _cw.camera)
        )
        names = [column.name for column in t.camera_windows.columns]
        with self.database.read() as c:
            return [(CameraWindow(**dict(zip(names, row, strict=False))), float(row[-1])) for row in c.execute(query)]

    @retried
    def _mark_dropped(self, kept: CameraWindow) -> None:
        one = (_cw.window == kept.window) & (_cw.camera == kept.camera)
        with self.database.write() as c:
            c.execute(sa.update(t.camera_windows).where(one).values(pictures_dropped=True))

    def _drop_pictures(
        self,
        limits: RetentionLimits,
        oldest: float,
        model_bytes: int,
        drop: Callable[[CameraWindow], None],
        failures: list[str],
    ) -> tuple[int, int]:
        total, count, freed = model_bytes + self._picture_bytes(), 0, 0
        for kept, end_utc_s in self._picture_sets():
            if end_utc_s >= oldest and total <= limits.max_bytes:
                continue
            try:
                drop(kept)
            except (OSError, StoreError) as error:
                failures.append(f"data of window {kept.window}, camera {kept.camera}: {error}")
                continue
            self._mark_dropped(kept)
            total, freed, count = total - kept.picture_bytes, freed + kept.picture_bytes, count + 1
        return count, freed

    @retried
    def _delete_versions(self, limits: RetentionLimits, oldest: float) -> int:
        pictures, now, count = self._picture_bytes(), self._clock.utc(), 0
        with self.database.write() as c:
            protected = _protected(c, now)
            query = sa.select(_v.id, _v.blob, _v.created_utc_s).where(_v.blob_kept.is_(True)).order_by(_v.created_utc_s)
            rows = c.execute(query).all()
            users: dict[str, int] = {}
            for row in rows:
                users[row.blob] = users.get(row.blob, 0) + 1
            total = pictures + sum(self.blobs.size(blob) for blob in users)
            for row in rows:
                if row.id in protected or (row.created_utc_s >= oldest and total <= limits.max_bytes):
                    continue
                c.execute(sa.update(t.versions).where(_v.id == row.id).values(blob_kept=False))
                count += 1
                users[row.blob] -= 1
                if users[row.blob] == 0:
                    total -= self.blobs.size(row.blob)
            _forget_leaves(c, oldest)
        return count

    @retried
    def _sweep_blobs(self, failures: list[str]) -> int:
        # Records went first: a crash between the two leaves a blob too many, never a record without its blob.
        with self.database.read() as c:
            keep = set(c.execute(sa.select(_v.blob).where(_v.blob_kept.is_(True)).distinct()).scalars())
        try:
            return len(self.blobs.sweep(keep, older_than_utc_s=self._clock.utc() - GRACE_S))
        except StoreError as error:
            failures.append(str(error))
            return 0

    def _delete_events(self, limits: RetentionLimits, oldest: float) -> int:
        count = self._delete_events_where(_j.at_utc_s < oldest)
        border = self._too_many_events(limits)
        return count if border is None else count + self._delete_events_where(_j.id <= border)

    def _delete_events_where(self, condition: sa.ColumnElement[bool]) -> int:
        last = self._last_states(condition)
        count = 0
        while deleted := self._delete_some_events(condition, last):
            count += deleted
        return count

    @retried
    def _last_states(self, condition: sa.ColumnElement[bool]) -> list[int]:
        """The last state that each camera has among these entries: it holds until the next one, however long that is.
        Of a camera that was removed it is not wanted."""
        last = sa.select(sa.func.max(_j.id)).where(condition, _j.kind.in_(sorted(CAMERA_STATE_KINDS)))
        newest = sa.select(_j.id).where(_j.id.in_(last.group_by(_j.camera)), _j.kind != "camera.removed")
        with self.database.read() as c:
            return list(c.execute(newest).scalars())

    @retried
    def _too_many_events(self, limits: RetentionLimits) -> int | None:
        newest_first = _j.id.desc()
        rows = sa.select(
            _j.id,
            sa.func.row_number().over(order_by=newest_first).label("n"),
            sa.func.sum(_j.bytes).over(order_by=newest_first, rows=(None, 0)).label("total"),
        ).subquery()
        over = (rows.c.n > limits.max_events) | (rows.c.total > limits.max_event_bytes)
        with self.database.read() as c:
            return c.execute(sa.select(sa.func.max(rows.c.id)).where(over)).scalar()

    @retried
    def _delete_some_events(self, condition: sa.ColumnElement[bool], kept: Sequence[int]) -> int:
        some = sa.select(_j.id).where(condition, _j.id.not_in(kept)).order_by(_j.id).limit(_CHUNK)
        with self.database.write() as c:
            return int(c.execute(sa.delete(t.journal).where(_j.id.in_(some))).rowcount)

    @retried
    def _delete_windows(self, oldest: float) -> int:
        waiting = sa.select(_cw.window).where(_cw.pictures_dropped.is_(False), _cw.manifest.is_not(None))
        newest = sa.select(sa.func.max(_w.id)).scalar_subquery()
        old = (_w.open.is_(False)) & (_w.start_utc_s + _w.length_s < oldest) & (_w.id < newest)
        with self.database.write() as c:
            return int(c.execute(sa.delete(t.windows).where(old, _w.id.not_in(waiting))).rowcount)


def _protected(c: Connection, now: float) -> set[str]:
    rows = c.execute(
        sa.select(_v.id, _v.camera, _v.parent, _v.state, _v.pinned, _v.created_utc_s).order_by(_v.created_utc_s, _v.id)
    ).all()
    kept: set[str] = set()
    first: set[str] = set()
    for row in rows:
        in_use = row.state == "promoted" or row.pinned
        if in_use and row.parent is not None:
            kept.add(row.parent)
        making = row.state == "candidate" and row.created_utc_s > now - DAY_S
        if in_use or making or (row.parent is None and row.camera not in first):
            kept.add(row.id)
        if row.parent is None:
            first.add(row.camera)
    # The root of a lineage in use is the first student that runs in shadow: a camera whose student was changed has two.
    by_id = {row.id: row for row in rows}
    for row in rows:
        if row.state == "promoted" or row.pinned:
            root = row
            while root.parent in by_id:
                root = by_id[root.parent]
            kept.add(root.id)
    kept.update(_targets(c))
    return kept


def _targets(c: Connection) -> Iterator[str]:
    """Where a rollback of each camera would go: the nearest retired ancestor, which need not be the parent."""
    rows = c.execute(sa.select(_v.id, _v.parent, _v.state, _v.blob_kept)).all()
    by_id = {row.id: row for row in rows}
    for row in rows:
        if row.state != "promoted":
            continue
        above = by_id.get(row.parent)
        while above is not None and not (above.state == "retired" and above.blob_kept):
            above = by_id.get(above.parent)
        if above is not None:
            yield above.id


def _forget_leaves(c: Connection, oldest: float) -> None:
    """Delete old records whose blob is gone and that no other version descends from, from the leaves up."""
    child = t.versions.alias("child")
    childless = ~sa.exists().where(child.c.parent == _v.id)
    old = (_v.blob_kept.is_(False)) & (_v.created_utc_s < oldest)
    while True:
        leaves = c.execute(sa.select(_v.id).where(old, childless)).scalars().all()
        if not leaves:
            return
        for n in range(0, len(leaves), 500):
            c.execute(sa.delete(t.versions).where(_v.id.in_(leaves[n : n + 500])))
