"""Alarms and objects: written behind in batches, read in pages, deleted by age, number and bytes of pictures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core import checks
from edge.core.alarms import Alarm
from edge.core.application_sources import AttributeValue
from edge.core.errors import NotFound, StoreError
from edge.core.tracks import TrackedObject
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import Part, document, page, text, words
from edge.store.unreadable import made

DAY_S = 86_400.0
_CHUNK = 500
_a, _o = t.alarms.c, t.objects.c

PictureOwner = Literal["alarms", "objects"]
OWNER_NOUNS: Final[Mapping[PictureOwner, str]] = {"alarms": "alarm", "objects": "object"}
#: In the order in which pictures go: those of alarms, which people asked for, last.
_KINDS: tuple[PictureOwner, ...] = ("objects", "alarms")


@dataclass(frozen=True)
class ObjectRecord:
    """An object as it was recorded last."""

    id: int
    camera: str
    class_name: str
    began_utc_s: float
    ended_utc_s: float | None
    score: float
    box: tuple[float, float, float, float]
    zone_s: dict[str, float]
    dwell_s: float
    picture: bool
    attributes: dict[str, AttributeValue]

    def tracked(self) -> TrackedObject:
        """As it was followed, as far as the record tells: `seen_utc_s` is its end, if it has ended, else its
        beginning; how many answers showed it is not known (1)."""
        seen_utc_s = self.began_utc_s if self.ended_utc_s is None else self.ended_utc_s
        return TrackedObject(
            self.id, self.camera, self.class_name, self.score, self.box, self.began_utc_s, seen_utc_s, self.dwell_s, 1,
            zone_s=self.zone_s, ended_utc_s=self.ended_utc_s, attributes=self.attributes,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As TrackedObject gives it, with `picture`."""
        return {
            "id": self.id, "camera": self.camera, "class": self.class_name, "began_utc_s": self.began_utc_s,
            "ended_utc_s": self.ended_utc_s, "score": round(self.score, 4), "box": [round(v, 4) for v in self.box],
            "zones": sorted(self.zone_s), "zone_dwell_s": self.zone_s, "dwell_s": round(self.dwell_s, 2),
            "attributes": {name: value.to_json() for name, value in sorted(self.attributes.items())},
            "picture": self.picture,
        }  # fmt: skip


@dataclass(frozen=True)
class AlarmRetention:
    """The deleted records; `failures` are pictures that could not be deleted, in words: they are tried again next
    time."""

    alarms: int
    objects: int
    pictures: int
    bytes_freed: int
    bytes_kept: int
    failures: tuple[str, ...]

    @property
    def anything(self) -> bool:
        """Worth a record."""
        return bool(self.alarms or self.objects or self.pictures or self.failures)

    def to_json(self) -> dict[str, Any]:
        return {
            "alarms": self.alarms, "objects": self.objects, "object_pictures": self.pictures,
            "bytes_freed": self.bytes_freed, "bytes_kept": self.bytes_kept, "failures": list(self.failures),
        }  # fmt: skip


class AlarmsPart(Part):
    """Numbers (ids) only grow: the newest row of either table is never deleted."""

    @retried
    def last_numbers(self) -> tuple[int, int]:
        """The highest id of an alarm and of an object (0: none yet)."""
        with self.database.read() as c:
            alarm = c.execute(sa.select(sa.func.max(_a.id))).scalar()
            tracked = c.execute(sa.select(sa.func.max(_o.id))).scalar()
        return int(alarm or 0), int(tracked or 0)

    @retried
    def put_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Create alarms, or bring what changes in their life up to date: phase, end, message, value, details.
        Acknowledgement and picture are written by their own methods. Raises DiskFull, Unavailable, StoreError."""
        rows = []
        for alarm in alarms:
            changing = {
                "phase": alarm.phase, "ended_utc_s": alarm.ended_utc_s, "message": words(alarm.message)[:2000],
                "value": alarm.value, "details": document("alarm.details", alarm.details),
            }  # fmt: skip
            fixed = {
                "id": alarm.id, "rule": text("alarm.rule", alarm.rule), "rule_name": words(alarm.rule_name),
                "kind": alarm.kind, "severity": alarm.severity, "camera": alarm.camera, "subject": alarm.subject,
                "began_utc_s": alarm.began_utc_s, "object": alarm.object, "acknowledged_by": alarm.acknowledged_by,
                "acknowledged_utc_s": alarm.acknowledged_utc_s, "picture_bytes": 0,
            }  # fmt: skip
            rows.append((fixed, changing))
        with self.database.write() as c:
            _put(c, t.alarms, rows)

    @retried
    def put_objects(self, objects: Sequence[TrackedObject]) -> None:
        """Create objects, or bring them up to date. Raises DiskFull, Unavailable, StoreError."""
        rows = []
        for tracked in objects:
            changing = {
                "class_name": text("object.class", tracked.class_name), "ended_utc_s": tracked.ended_utc_s,
                "score": tracked.score, "box": [round(v, 4) for v in tracked.box],
                "zone_s": {z: round(s, 2) for z, s in tracked.zone_s.items()}, "dwell_s": tracked.dwell_s,
                "attributes": {text("object.attribute", n): v.to_json() for n, v in tracked.attributes.items()},
            }  # fmt: skip
            fixed = {
                "id": tracked.id, "camera": text("object.camera", tracked.camera), "began_utc_s": tracked.began_utc_s,
                "picture_bytes": 0,
            }  # fmt: skip
            rows.append((fixed, changing))
        with self.database.write() as c:
            _put(c, t.objects, rows)

    @retried
    def set_picture(self, of: PictureOwner, number: int, size: int) -> bool:
        """A picture of so many bytes is kept now; False if the row is not there (any more)."""
        table = t.alarms if of == "alarms" else t.objects
        with self.database.write() as c:
            done = c.execute(sa.update(table).where(table.c.id == number).values(picture_bytes=size))
        return bool(done.rowcount)

    @retried
    def acknowledge_alarm(self, number: int, by: str) -> Alarm:
        """Record the first person who saw it, with the time; a second time changes nothing. Raises NotFound."""
        now = self._clock.utc()
        with self.database.write() as c:
            new = (_a.id == number) & _a.acknowledged_utc_s.is_(None)
            c.execute(sa.update(t.alarms).where(new).values(acknowledged_by=words(by), acknowledged_utc_s=now))
            row = c.execute(sa.select(t.alarms).where(_a.id == number)).mappings().first()
        if row is None:
            raise NotFound(f"alarm {number} does not exist")
        return _alarm(row)

    @retried
    def alarm(self, number: int) -> Alarm:
        """One alarm. Raises NotFound."""
        with self.database.read() as c:
            row = c.execute(sa.select(t.alarms).where(_a.id == number)).mappings().first()
        if row is None:
            raise NotFound(f"alarm {number} does not exist")
        return _alarm(row)

    @retried
    def newest(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        camera: str | None = None,
        rule: str | None = None,
        active: bool | None = None,
        cameras: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> tuple[Alarm, ...]:
        """Newest first, without those that cannot be read. `cameras` and `tenants` (not None): only alarms of these; of
        those that belong to no camera only the ones of tenants and of their served models. The cameras in `details` are
        not looked at."""
        query = sa.select(t.alarms).order_by(_a.id.desc())
        if camera is not None:
            query = query.where(_a.camera == camera)
        if rule is not None:
            query = query.where(_a.rule == rule)
        if active is not None:
            query = query.where(_a.ended_utc_s.is_(None) if active else _a.ended_utc_s.is_not(None))
        if cameras is not None or tenants is not None:
            tenant = sa.case((_a.kind == "tenant", _a.subject), (self._of_served(), _a.details["tenant"].as_string()))
            of_tenant = tenant.is_not(None) if tenants is None else tenant.in_(sorted(tenants))
            of_camera = _a.camera.is_not(None) if cameras is None else _a.camera.in_(sorted(cameras))
            query = query.where(of_camera | (_a.camera.is_(None) & of_tenant))
        with self.database.read() as c:
            fetch = _fetch(c, query, _a.id)
            found = self.database.unreadable.page("alarm", page(limit), before, fetch, read_alarm, _number)
        return tuple(found)

    def _of_served(self) -> sa.ColumnElement[bool]:
        """Rows of served models with `details` that can be searched: SQLite keeps texts that are not JSON, too, and
        fails a query that looks inside one."""
        served = _a.kind == "slo"
        return served & (sa.func.json_valid(_a.details) == 1) if self.database.sqlite else served

    @retried
    def tracked_object(self, number: int) -> ObjectRecord:
        """One object. Raises NotFound."""
        with self.database.read() as c:
            row = c.execute(sa.select(t.objects).where(_o.id == number)).mappings().first()
        if row is None:
            raise NotFound(f"object {number} does not exist")
        return _object(row)

    @retried
    def tracked_objects(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        camera: str | None = None,
        class_name: str | None = None,
        active: bool | None = None,
        cameras: Collection[str] | None = None,
    ) -> tuple[ObjectRecord, ...]:
        """Newest first, without those that cannot be read. `cameras` (not None): only objects of these."""
        query = sa.select(t.objects).order_by(_o.id.desc())
        if camera is not None:
            query = query.where(_o.camera == camera)
        if class_name is not None:
            query = query.where(_o.class_name == class_name)
        if active is not None:
            query = query.where(_o.ended_utc_s.is_(None) if active else _o.ended_utc_s.is_not(None))
        if cameras is not None:
            query = query.where(_o.camera.in_(sorted(cameras)))
        with self.database.read() as c:
            fetch = _fetch(c, query, _o.id)
            found = self.database.unreadable.page("object", page(limit), before, fetch, read_object, _number)
        return tuple(found)

    def open_objects(self) -> tuple[ObjectRecord, ...]:
        """Objects that have not ended, in the order of their numbers, without those that cannot be read."""
        query = sa.select(t.objects).where(_o.ended_utc_s.is_(None)).order_by(_o.id)
        with self.database.read() as c:
            rows = c.execute(query).mappings().all()
        return tuple(self.database.unreadable.readable("object", rows, read_object, _number))

    @retried
    def end_open_objects(self, at_utc_s: float, last_id: int) -> None:
        """Objects up to number `last_id` that have not ended end now, or where they began if that is later."""
        ended = sa.case((_o.began_utc_s > at_utc_s, _o.began_utc_s), else_=at_utc_s)
        order = sa.update(t.objects).where(_o.ended_utc_s.is_(None), _o.id <= last_id).values(ended_utc_s=ended)
        with self.database.write() as c:
            c.execute(order)

    def retain_alarms(
        self, days: float, max_rows: int, max_picture_bytes: int, drop: Callable[[PictureOwner, int, str | None], None]
    ) -> AlarmRetention:
        """Delete what is too old or too much, oldest first; of each kind at most `max_rows` stay. `drop(kind, id,
        camera)` deletes one picture (it may be gone already); an OSError or StoreError of it is reported, and its row
        stays for the next time. Alarms that are active and the newest row stay. Raises DiskFull, Unavailable,
        StoreError, InvalidValue."""
        checks.in_range("retention.days", days, 0.0, 36_500, low_open=True)
        checks.in_range("retention.max_rows", max_rows, 1, 1e12)
        checks.in_range("retention.max_picture_bytes", max_picture_bytes, 0, 1e18)
        oldest = self._clock.utc() - days * DAY_S
        failures: list[str] = []
        counts: dict[PictureOwner, int] = {"alarms": 0, "objects": 0}
        pictures = freed = 0
        for kind in _KINDS:
            while rows := self._too_old(kind, oldest, max_rows):
                gone = []
                for number, camera, size in rows:
                    if size and not _dropped(drop, kind, number, camera, failures):
                        continue
                    gone.append(number)
                    pictures, freed = pictures + (size > 0), freed + size
                counts[kind] += self._delete_rows(kind, gone)
                if len(gone) < len(rows):
                    break
        total = self.alarm_picture_bytes()
        for kind in _KINDS:
            while total > max_picture_bytes and (rows := self._oldest_pictures(kind)):
                before = total
                for number, camera, size in rows:
                    if total <= max_picture_bytes:
                        break
                    if _dropped(drop, kind, number, camera, failures):
                        self.set_picture(kind, number, 0)
                        total, freed, pictures = total - size, freed + size, pictures + 1
                if total == before:
                    break
        return AlarmRetention(counts["alarms"], counts["objects"], pictures, freed, total, tuple(failures))

    @retried
    def alarm_picture_bytes(self) -> int:
        """Bytes of all pictures of alarms and objects."""
        with self.database.read() as c:
            sums = [
                c.execute(sa.select(sa.func.sum(column))).scalar() for column in (_a.picture_bytes, _o.picture_bytes)
            ]
        return sum(int(s or 0) for s in sums)

    @retried
    def _too_old(self, kind: PictureOwner, oldest: float, max_rows: int) -> list[tuple[int, str | None, int]]:
        table = t.alarms if kind == "alarms" else t.objects
        own = table.c
        with self.database.read() as c:
            ids = sa.select(own.id).order_by(own.id.desc())
            border = c.execute(ids.offset(max_rows).limit(1)).scalar()
            newest = c.execute(sa.select(sa.func.max(own.id))).scalar()
            condition = own.began_utc_s < oldest
            if border is not None:
                condition = condition | (own.id <= border)
            query = (
                sa.select(own.id, own.camera, own.picture_bytes)
                .where(condition, own.ended_utc_s.is_not(None), own.id != newest)
                .order_by(own.id)
                .limit(_CHUNK)
            )
            return [(row.id, row.camera, row.picture_bytes) for row in c.execute(query)]

    @retried
    def _oldest_pictures(self, kind: PictureOwner) -> list[tuple[int, str | None, int]]:
        own = (t.alarms if kind == "alarms" else t.objects).c
        query = sa.select(own.id, own.camera, own.picture_bytes).where(own.picture_bytes > 0)
        with self.database.read() as c:
            return [tuple(row) for row in c.execute(query.order_by(own.id).limit(_CHUNK))]

    @retried
    def _delete_rows(self, kind: PictureOwner, numbers: Sequence[int]) -> int:
        if not numbers:
            return 0
        table = t.alarms if kind == "alarms" else t.objects
        with self.database.write() as c:
            return int(c.execute(sa.delete(table).where(table.c.id.in_(numbers))).rowcount)


def _dropped(
    drop: Callable[[PictureOwner, int, str | None], None],
    kind: PictureOwner,
    number: int,
    camera: str | None,
    failures: list[str],
) -> bool:
    try:
        drop(kind, number, camera)
    except (OSError, StoreError) as error:
        failures.append(f"picture of {kind} {number}: {error}")
        return False
    return True


def _put(c: Connection, table: sa.Table, rows: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Insert rows that are new; of the others update what changes. The last of several with one id counts."""
    latest = {fixed["id"]: (fixed, changing) for fixed, changing in rows}
    numbers = list(latest)
    known: set[int] = set()
    for n in range(0, len(numbers), _CHUNK):
        some = numbers[n : n + _CHUNK]
        known.update(c.execute(sa.select(table.c.id).where(table.c.id.in_(some))).scalars())
    new = [fixed | changing for number, (fixed, changing) in latest.items() if number not in known]
    if new:
        c.execute(sa.insert(table), new)
    changed = [changing | {"number": number} for number, (_, changing) in latest.items() if number in known]
    if changed:
        # Parameters may not have the names of columns that are set.
        to = {name: sa.bindparam(f"to_{name}", type_=table.c[name].type) for name in changed[0] if name != "number"}
        renamed = [{(k if k == "number" else f"to_{k}"): v for k, v in row.items()} for row in changed]
        c.execute(sa.update(table).where(table.c.id == sa.bindparam("number")).values(to), renamed)


def _fetch(
    c: Connection, query: sa.Select[Any], number: sa.Column[Any]
) -> Callable[[int, int | None], Sequence[sa.RowMapping]]:
    def fetch(wanted: int, before: int | None) -> Sequence[sa.RowMapping]:
        some = query if before is None else query.where(number < before)
        return c.execute(some.limit(wanted)).mappings().all()

    return fetch


def _number(row: Any) -> int:
    return int(row["id"])


def _alarm(row: Any) -> Alarm:
    return made("alarm", row["id"], lambda: read_alarm(row))


def _object(row: Any) -> ObjectRecord:
    return made("object", row["id"], lambda: read_object(row))


def read_alarm(row: Any) -> Alarm:
    """A row as an alarm; raises anything for one that is not as it expects (see edge.store.unreadable)."""
    given = dict(row)
    return Alarm(picture=given.pop("picture_bytes") > 0, **given)


def read_object(row: Any) -> ObjectRecord:
    """A row as an object; raises as `read_alarm`."""
    given = dict(row)
    attributes = {name: AttributeValue.from_json(value) for name, value in given.pop("attributes").items()}
    return ObjectRecord(
        box=tuple(given.pop("box")), picture=given.pop("picture_bytes") > 0, attributes=attributes, **given
    )
