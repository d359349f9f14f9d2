"""The search of objects, and the records of a camera's day."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.alarms import Alarm
from edge.core.clips import ClipSpan
from edge.core.counts import Place
from edge.core.finding import BoxStart, DaySpan, FoundAfter, ObjectsCame, ObjectSearch, PlacePassed
from edge.core.journal_kinds import CAMERA_STATE_KINDS
from edge.store import tables as t
from edge.store.alarms import ObjectRecord, read_alarm, read_object
from edge.store.clips import ClipRecord, read_clip
from edge.store.database import insert_missing, retried
from edge.store.parts import Part, by_field, page, text
from edge.store.values import EventRecord, JobRecord

T = TypeVar("T")

_o, _p, _a, _c, _j, _e = t.objects.c, t.object_places.c, t.alarms.c, t.clips.c, t.jobs.c, t.journal.c
_CHUNK: Final = 500
#: Objects that one page of a search looks at; of attributes, which only Python reads, so many.
LOOKED_AT: Final = 20_000
LOOKED_AT_ATTRIBUTES: Final = 3_000
#: Clips are no longer than a ring, and no ring is longer, in seconds.
_LONGEST_CLIP_S: Final = 600.0
#: A retraining that began longer before a day is over by then.
_LONGEST_RETRAINING_S: Final = 86_400.0
MOST_OF_DAY: Final = 500
_MOST_STARTS: Final = 200
#: Entries of each kind that are read from before a day.
_BEFORE_DAY: Final = 20


@dataclass(frozen=True)
class FoundPage:
    """Objects that a search found, the newest first. `after`: go on there (None: there are no older ones); a page that
    has looked at enough objects ends, also where it found none."""

    objects: tuple[ObjectRecord, ...]
    after: FoundAfter | None


@dataclass(frozen=True)
class OfDay(Generic[T]):
    """Records of a day. `cut`: there are more than these."""

    rows: tuple[T, ...]
    cut: bool


class FindingPart(Part):
    """Reads what the other parts wrote."""

    @retried
    def put_object_places(self, passed: Sequence[PlacePassed]) -> None:
        """Record places of objects; those of objects that are not recorded are left out. A place that is recorded keeps
        its time. Raises DiskFull, Unavailable, StoreError."""
        numbers = sorted({one.object for one in passed})
        known = sa.select(_o.id, _o.camera, _o.began_utc_s)
        with self.database.write() as c:
            owners: dict[int, Any] = {}
            for n in range(0, len(numbers), _CHUNK):
                owners.update((r.id, r) for r in c.execute(known.where(_o.id.in_(numbers[n : n + _CHUNK]))))
            rows = [
                {
                    "object": one.object, "kind": one.place.kind, "name": text("place.name", one.place.name),
                    "way": one.place.way, "camera": owners[one.object].camera,
                    "began_utc_s": owners[one.object].began_utc_s, "at_utc_s": one.utc_s,
                }
                for one in passed
                if one.object in owners
            ]  # fmt: skip
            if rows:
                insert_missing(c, t.object_places, ("object", "kind", "name", "way"), rows)

    @retried
    def find_objects(
        self,
        wanted: ObjectSearch,
        limit: int,
        after: FoundAfter | None,
        cameras: Collection[str] | None,
        now: float,
        looked_at: int = LOOKED_AT,
    ) -> FoundPage:
        """One page of a search, without objects that cannot be read. `cameras` (not None): only objects of these, and
        no other object is looked at. At most `looked_at` objects of the cameras, time and place asked for are."""
        limit = page(limit)
        named = set(wanted.cameras) or None
        if cameras is not None:
            named = set(cameras) if named is None else named & set(cameras)
        if named is not None and not named:
            return FoundPage((), None)
        full = looked_at if wanted.attribute is None else LOOKED_AT_ATTRIBUTES
        then: FoundAfter | None = None
        rows: Sequence[Any] = ()
        with self.database.read() as c:
            # Most searches find enough among few.
            for most in (min(full, 4 * (limit + 1)), full):
                inner = _looked_at(wanted, after, named).limit(most).subquery()
                rows = self._matching(c, inner, wanted, limit, after, now)
                if len(rows) > limit:
                    rows = rows[:limit]
                    then = FoundAfter(float(rows[-1]["began_utc_s"]), int(rows[-1]["id"]))
                    break
                ordered = sa.select(inner.c.began_utc_s, inner.c.id).order_by(
                    inner.c.began_utc_s.desc(), inner.c.id.desc()
                )
                end = c.execute(ordered.offset(most - 1).limit(1)).first()
                then = None if end is None else FoundAfter(float(end[0]), int(end[1]))
                if then is None:
                    break
        found = self.database.unreadable.readable("object", rows, read_object, lambda row: int(row["id"]))
        return FoundPage(tuple(found), then)

    @staticmethod
    def _matching(
        c: Connection, inner: sa.Subquery, wanted: ObjectSearch, limit: int, after: FoundAfter | None, now: float
    ) -> list[sa.RowMapping]:
        """Of the objects that are looked at, those that are asked for; one more than `limit` says that there are
        more."""
        query = sa.select(t.objects).where(
            _o.id.in_(sa.select(inner.c.id)),
            # Again, for a database that goes through the objects first.
            *_came(_o.began_utc_s, wanted, after),
            *_conditions(wanted, now),
        )
        query = query.order_by(_o.began_utc_s.desc(), _o.id.desc())
        if wanted.attribute is None:
            return list(c.execute(query.limit(limit + 1)).mappings())
        return [row for row in c.execute(query).mappings() if _has(row["attributes"], wanted.attribute)][: limit + 1]

    @retried
    def places_passed(self, objects: Collection[int]) -> dict[int, tuple[PlacePassed, ...]]:
        """The lines that objects crossed, in the order of time."""
        if not objects:
            return {}
        query = sa.select(t.object_places).where(_p.object.in_(sorted(objects)), _p.kind == "line")
        found: dict[int, tuple[PlacePassed, ...]] = {}
        with self.database.read() as c:
            for r in c.execute(query.order_by(_p.at_utc_s, _p.name, _p.way)):
                one = PlacePassed(r.object, Place(r.kind, r.name, r.way), r.at_utc_s or r.began_utc_s)
                found[r.object] = (*found.get(r.object, ()), one)
        return found

    # -- a camera's day

    @retried
    def came(self, camera: str, day: DaySpan, bucket_s: int) -> tuple[ObjectsCame, ...]:
        """The objects of a day by bucket and class, in order."""
        part: sa.ColumnElement[Any] = (_o.began_utc_s - day.from_utc_s) / float(bucket_s)
        # SQLite cuts the fraction off and may have no `floor`; PostgreSQL rounds.
        bucket = sa.cast(part if self.database.sqlite else sa.func.floor(part), sa.Integer)
        inner = (
            sa.select(bucket.label("bucket"), _o.class_name)
            .where(_o.camera == camera, *_within(_o.began_utc_s, day))
            .subquery()
        )
        key = inner.c.bucket, inner.c.class_name
        query = sa.select(*key, sa.func.count().label("objects")).group_by(*key).order_by(*key)
        with self.database.read() as c:
            return tuple(ObjectsCame(int(n), str(name), int(objects)) for n, name, objects in c.execute(query))

    @retried
    def alarms_of(self, camera: str, day: DaySpan, most: int = MOST_OF_DAY) -> OfDay[Alarm]:
        """The alarms of a day, also those that went on then; the newest `most`, the newest first."""
        own = sa.select(t.alarms).where(_a.camera == camera)
        # By the index of the ends (a sum has none): through all older alarms it would be a long way.
        before = own.where(_a.began_utc_s + 0.0 < day.from_utc_s)
        rows: list[sa.RowMapping] = []
        with self.database.read() as c:
            for query in (
                own.where(*_within(_a.began_utc_s, day)),
                before.where(_a.ended_utc_s.is_(None)),
                before.where(_a.ended_utc_s >= day.from_utc_s),
            ):
                ordered = query.order_by(_a.began_utc_s.desc(), _a.id.desc()).limit(most + 1)
                rows += c.execute(ordered).mappings()
        rows.sort(key=lambda row: (-row["began_utc_s"], -row["id"]))
        alarms = self.database.unreadable.readable("alarm", rows[:most], read_alarm, lambda row: int(row["id"]))
        return OfDay(tuple(alarms), len(rows) > most)

    @retried
    def retrainings_of(self, camera: str, day: DaySpan, most: int = MOST_OF_DAY) -> OfDay[JobRecord]:
        """The retrainings of a day, also those that went on then; the newest `most`, the newest first."""
        near = DaySpan(day.from_utc_s - _LONGEST_RETRAINING_S, day.to_utc_s)
        went_on = (_j.started_utc_s >= day.from_utc_s) | _j.ended_utc_s.is_(None) | (_j.ended_utc_s >= day.from_utc_s)
        query = sa.select(t.jobs).where(_j.camera == camera, *_within(_j.started_utc_s, near), went_on)
        with self.database.read() as c:
            ordered = query.order_by(_j.started_utc_s.desc(), _j.id).limit(most + 1)
            found = [JobRecord(**by_field(t.jobs, row)) for row in c.execute(ordered).mappings()]
        return OfDay(tuple(found[:most]), len(found) > most)

    @retried
    def clips_of(self, camera: str, day: DaySpan, most: int = MOST_OF_DAY) -> OfDay[ClipRecord]:
        """The clips of a day's moments; the newest `most`, the newest first."""
        query = sa.select(t.clips).where(_c.camera == camera, *_within(_c.at_utc_s, day))
        with self.database.read() as c:
            ordered = query.order_by(_c.at_utc_s.desc(), _c.id.desc()).limit(most + 1)
            rows = c.execute(ordered).mappings().all()
        clips = self.database.unreadable.readable("clip", rows[:most], read_clip, lambda row: int(row["id"]))
        return OfDay(tuple(clips), len(rows) > most)

    @retried
    def clip_spans(self, camera: str, at_utc_s: float) -> tuple[ClipSpan, ...]:
        """The clips of a camera, kept or in the making, of moments around this one."""
        near = DaySpan(at_utc_s - _LONGEST_CLIP_S, at_utc_s + _LONGEST_CLIP_S)
        where = (_c.camera == camera, _c.state != "failed", *_within(_c.at_utc_s, near))
        with self.database.read() as c:
            rows = c.execute(sa.select(t.clips).where(*where).order_by(_c.id)).mappings().all()
        clips = self.database.unreadable.readable("clip", rows, read_clip, lambda row: int(row["id"]))
        return tuple(_span(clip) for clip in clips)

    @retried
    def entries_of_day(self, camera: str, kinds: Collection[str], day: DaySpan, most: int) -> OfDay[EventRecord]:
        """The first `most` journal entries of a camera in a day that are of these kinds, in the order of time, and
        before them the newest few of each kind from before the day."""
        names = ("id", "at_utc_s", "kind", "camera", "window", "data")
        own = sa.select(*(_e[name] for name in names)).where(_e.camera == camera)
        inside = own.where(_e.kind.in_(sorted(kinds)), *_within(_e.at_utc_s, day))
        found: list[EventRecord] = []
        with self.database.read() as c:
            for kind in sorted(kinds):
                before = own.where(_e.kind == kind, _e.at_utc_s < day.from_utc_s)
                newest = before.order_by(_e.at_utc_s.desc(), _e.id.desc()).limit(_BEFORE_DAY)
                found += [EventRecord(**row) for row in c.execute(newest).mappings()]
            found.sort(key=lambda e: (e.at_utc_s, e.id))
            rows = c.execute(inside.order_by(_e.at_utc_s, _e.id).limit(most + 1)).mappings().all()
        found += [EventRecord(**row) for row in rows[:most]]
        return OfDay(tuple(found), len(rows) > most)

    @retried
    def journal_begins(self) -> float | None:
        """When the oldest entry was written, but for the cameras' states, which retention keeps longer."""
        with self.database.read() as c:
            return _begins(c)

    @retried
    def box_starts(self, day: DaySpan) -> OfDay[BoxStart]:
        """The last start of the appliance before a day, those in it (the first _MOST_STARTS) and the next one, in
        order, each with the time of the journal's entry before it."""
        begun = sa.select(_e.id, _e.at_utc_s).where(_e.kind == "appliance.started")
        earlier = begun.where(_e.at_utc_s < day.from_utc_s).order_by(_e.id.desc()).limit(1)
        later = begun.where(_e.at_utc_s >= day.from_utc_s).order_by(_e.id).limit(_MOST_STARTS + 1)
        found: list[BoxStart] = []
        with self.database.read() as c:
            begins = _begins(c)
            rows = [*c.execute(earlier), *c.execute(later)]
            inside = sum(day.from_utc_s <= row.at_utc_s < day.to_utc_s for row in rows)
            for row in rows[:-1] if inside > _MOST_STARTS else rows:
                before = sa.select(_e.at_utc_s).where(_e.id < row.id).order_by(_e.id.desc()).limit(1)
                alive = c.execute(before).scalar()
                # The entry before it may have been deleted, and an old state of a camera been kept.
                known = alive is not None and begins is not None and alive >= begins
                found.append(BoxStart(float(row.at_utc_s), float(alive) if known and alive is not None else None))
                if row.at_utc_s >= day.to_utc_s:
                    break
        return OfDay(tuple(sorted(found, key=lambda s: s.at_utc_s)), inside > _MOST_STARTS)

    @retried
    def has_traces(self, camera: str) -> bool:
        """Whether an object, an alarm, a clip or a journal entry of a camera is kept."""
        with self.database.read() as c:
            found = (sa.select(own.id).where(own.camera == camera).limit(1) for own in (_o, _e, _a, _c))
            return any(c.execute(query).first() is not None for query in found)


def _begins(c: Connection) -> float | None:
    query = sa.select(_e.at_utc_s).where(_e.kind.not_in(sorted(CAMERA_STATE_KINDS))).order_by(_e.at_utc_s).limit(1)
    found = c.execute(query).scalar()
    return None if found is None else float(found)


def _within(column: Any, span: DaySpan) -> tuple[sa.ColumnElement[bool], ...]:
    return column >= span.from_utc_s, column < span.to_utc_s


def _came(began: sa.Column[Any], wanted: ObjectSearch, after: FoundAfter | None) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.from_utc_s is not None:
        found.append(began >= wanted.from_utc_s)
    if wanted.to_utc_s is not None:
        found.append(began < wanted.to_utc_s)
    if after is not None:
        found.append(began <= after.began_utc_s)
    return found


def _looked_at(wanted: ObjectSearch, after: FoundAfter | None, cameras: Collection[str] | None) -> sa.Select[Any]:
    """The objects that are looked at, in their order: chosen by columns of one index."""
    began, number, camera = _o.began_utc_s, _o.id, _o.camera
    place = ("line", wanted.line) if wanted.line is not None else ("zone", wanted.zone)
    where: list[sa.ColumnElement[bool]] = []
    if place[1] is not None:
        began, number, camera = _p.began_utc_s, _p.object, _p.camera
        where += [_p.kind == place[0], _p.name == place[1]]
        if wanted.way is not None:
            where.append(_p.way == wanted.way)
    if cameras is not None:
        names = sorted(cameras)
        where.append(camera == names[0] if len(names) == 1 else camera.in_(names))
    where += _came(began, wanted, after)
    if after is not None:
        where.append((began < after.began_utc_s) | (number < after.id))
    return sa.select(number.label("id"), began).where(*where).order_by(began.desc(), number.desc())


def _conditions(wanted: ObjectSearch, now: float) -> list[sa.ColumnElement[bool]]:
    """Conditions on the objects themselves."""
    found: list[sa.ColumnElement[bool]] = []
    if wanted.classes:
        found.append(_o.class_name.in_(sorted(wanted.classes)))
    stay = sa.func.coalesce(_o.ended_utc_s, now) - _o.began_utc_s
    if wanted.least_s is not None:
        found.append(stay >= wanted.least_s)
    if wanted.most_s is not None:
        found.append(stay <= wanted.most_s)
    if wanted.line is not None and wanted.zone is not None:
        there = sa.select(_p.object).where(_p.object == _o.id, _p.kind == "zone", _p.name == wanted.zone)
        found.append(there.exists())
    return found


def _has(attributes: Any, wanted: tuple[str, str]) -> bool:
    """Whether an application gave this label; numbers are compared as numbers."""
    said = attributes.get(wanted[0]) if isinstance(attributes, Mapping) else None
    if not isinstance(said, Mapping):
        return False
    value = said.get("value")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(wanted[1]) == value
        except ValueError:
            return False
    return str(value) == wanted[1]


def _span(clip: ClipRecord) -> ClipSpan:
    begins, seconds = clip.outcome.get("begins_utc_s"), clip.outcome.get("seconds")
    asked = clip.from_utc_s, clip.to_utc_s
    if clip.state == "kept" and begins is not None and seconds is not None:
        return ClipSpan(clip.id, float(begins), float(begins) + float(seconds), False, asked)
    return ClipSpan(clip.id, *asked, clip.state == "making", asked)
