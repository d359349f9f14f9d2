"""The search of objects, and the records of a camera's day."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.alarms import Alarm
from edge.core.clips import ClipSpan
from edge.core.counts import Place
from edge.core.finding import BoxStart, DaySpan, FoundAfter, ObjectCame, ObjectSearch, PlacePassed
from edge.store import tables as t
from edge.store.alarms import ObjectRecord, read_alarm, read_object
from edge.store.clips import ClipRecord, read_clip
from edge.store.database import retried, upsert
from edge.store.parts import Part, page, text
from edge.store.values import JobRecord

_o, _p, _a, _c, _j, _e = t.objects.c, t.object_places.c, t.alarms.c, t.clips.c, t.jobs.c, t.journal.c
_CHUNK: Final = 500
#: Objects that one page of a search looks at; of attributes, which only Python reads, so many.
LOOKED_AT: Final = 20_000
LOOKED_AT_ATTRIBUTES: Final = 3_000
#: Clips are no longer than a ring, and no ring is longer, in seconds.
_LONGEST_CLIP_S: Final = 600.0
MOST_OF_DAY: Final = 500
_MOST_OBJECTS: Final = 200_000
_MOST_STARTS: Final = 200


@dataclass(frozen=True)
class FoundPage:
    """Objects that a search found, the newest first. `after`: go on there (None: there are no older ones); a page that
    has looked at enough objects ends, also where it found none."""

    objects: tuple[ObjectRecord, ...]
    after: FoundAfter | None


class FindingPart(Part):
    """Reads what the other parts wrote."""

    @retried
    def put_object_places(self, passed: Sequence[PlacePassed]) -> None:
        """Record places of objects; those of objects that are not recorded are left out. Raises DiskFull, Unavailable,
        StoreError."""
        numbers = sorted({one.object for one in passed})
        with self.database.write() as c:
            began: dict[int, float] = {}
            for n in range(0, len(numbers), _CHUNK):
                some = numbers[n : n + _CHUNK]
                began.update(
                    (r.id, r.began_utc_s) for r in c.execute(sa.select(_o.id, _o.began_utc_s).where(_o.id.in_(some)))
                )
            for one in passed:
                if one.object in began:
                    key = {
                        "object": one.object, "kind": one.place.kind, "name": text("place.name", one.place.name),
                        "way": one.place.way,
                    }  # fmt: skip
                    values = {"began_utc_s": began[one.object], "at_utc_s": one.utc_s}
                    upsert(c, t.object_places, tuple(key), key | values, {"at_utc_s": one.utc_s})

    @retried
    def find_objects(
        self, wanted: ObjectSearch, limit: int, after: FoundAfter | None, cameras: Collection[str] | None, now: float
    ) -> FoundPage:
        """One page of a search, without objects that cannot be read. `cameras` (not None): only objects of these. At
        most LOOKED_AT objects of the time and place asked for (where one camera is asked for, of it) are looked at."""
        limit = page(limit)
        full = LOOKED_AT if wanted.attribute is None else LOOKED_AT_ATTRIBUTES
        then: FoundAfter | None = None
        rows: Sequence[Any] = ()
        with self.database.read() as c:
            # Most searches find enough among few.
            for most in (min(full, 4 * (limit + 1)), full):
                inner = _looked_at(wanted, after, cameras).limit(most).subquery()
                rows = self._matching(c, inner, wanted, limit, cameras, now)
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
        c: Connection,
        inner: sa.Subquery,
        wanted: ObjectSearch,
        limit: int,
        cameras: Collection[str] | None,
        now: float,
    ) -> list[sa.RowMapping]:
        """Of the objects that are looked at, those that are asked for; one more than `limit` says that there are
        more."""
        looked_at = sa.select(inner.c.id).where(*_way(wanted, inner))
        query = sa.select(t.objects).where(_o.id.in_(looked_at), *_conditions(wanted, cameras, now))
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
    def came(self, camera: str, day: DaySpan) -> tuple[ObjectCame, ...]:
        """The objects of a day, in order: at most as many as the settings keep by default of all days."""
        query = sa.select(_o.began_utc_s, _o.class_name).where(_o.camera == camera, *_within(_o.began_utc_s, day))
        with self.database.read() as c:
            rows = c.execute(query.order_by(_o.began_utc_s).limit(_MOST_OBJECTS))
            return tuple(ObjectCame(float(began), str(name)) for began, name in rows)

    @retried
    def alarms_of(self, camera: str, day: DaySpan) -> tuple[Alarm, ...]:
        """The alarms of a day, also those that went on then; the newest MOST_OF_DAY, the newest first."""
        before = (_a.began_utc_s < day.from_utc_s) & (_a.ended_utc_s.is_(None) | (_a.ended_utc_s >= day.from_utc_s))
        inside = sa.and_(*_within(_a.began_utc_s, day))
        query = sa.select(t.alarms).where(_a.camera == camera, _a.began_utc_s < day.to_utc_s, inside | before)
        with self.database.read() as c:
            rows = c.execute(query.order_by(_a.began_utc_s.desc(), _a.id.desc()).limit(MOST_OF_DAY)).mappings().all()
        return tuple(self.database.unreadable.readable("alarm", rows, read_alarm, lambda row: int(row["id"])))

    @retried
    def retrainings_of(self, camera: str, day: DaySpan) -> tuple[JobRecord, ...]:
        """The retrainings that were started on a day; the newest MOST_OF_DAY, the newest first."""
        query = sa.select(t.jobs).where(_j.camera == camera, *_within(_j.started_utc_s, day))
        with self.database.read() as c:
            rows = c.execute(query.order_by(_j.started_utc_s.desc(), _j.id).limit(MOST_OF_DAY)).mappings()
            return tuple(JobRecord(**row) for row in rows)

    @retried
    def clips_of(self, camera: str, day: DaySpan) -> tuple[ClipRecord, ...]:
        """The clips of a day's moments; the newest MOST_OF_DAY, the newest first."""
        query = sa.select(t.clips).where(_c.camera == camera, *_within(_c.at_utc_s, day))
        with self.database.read() as c:
            rows = c.execute(query.order_by(_c.at_utc_s.desc(), _c.id.desc()).limit(MOST_OF_DAY)).mappings().all()
        return tuple(self.database.unreadable.readable("clip", rows, read_clip, lambda row: int(row["id"])))

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
    def box_starts(self, day: DaySpan) -> tuple[BoxStart, ...]:
        """The last start of the appliance before a day, those in it (at most _MOST_STARTS) and the next one, in order,
        each with the time of the journal's entry before it."""
        begun = sa.select(_e.id, _e.at_utc_s).where(_e.kind == "appliance.started")
        earlier = begun.where(_e.at_utc_s < day.from_utc_s).order_by(_e.id.desc()).limit(1)
        later = begun.where(_e.at_utc_s >= day.from_utc_s).order_by(_e.id).limit(_MOST_STARTS)
        found: list[BoxStart] = []
        with self.database.read() as c:
            for row in (*c.execute(earlier), *c.execute(later)):
                before = sa.select(_e.at_utc_s).where(_e.id < row.id).order_by(_e.id.desc()).limit(1)
                alive = c.execute(before).scalar()
                found.append(BoxStart(float(row.at_utc_s), None if alive is None else float(alive)))
                if row.at_utc_s >= day.to_utc_s:
                    break
        return tuple(sorted(found, key=lambda s: s.at_utc_s))

    @retried
    def has_traces(self, camera: str) -> bool:
        """Whether an object or a journal entry of a camera is kept."""
        with self.database.read() as c:
            found = (sa.select(own.id).where(own.camera == camera).limit(1) for own in (_o, _e))
            return any(c.execute(query).first() is not None for query in found)


def _within(column: Any, span: DaySpan) -> tuple[sa.ColumnElement[bool], ...]:
    return column >= span.from_utc_s, column < span.to_utc_s


def _looked_at(wanted: ObjectSearch, after: FoundAfter | None, cameras: Collection[str] | None) -> sa.Select[Any]:
    """The objects that are looked at, in their order: chosen by indexed columns."""
    began: sa.Column[Any]
    number: sa.Column[Any]
    place = ("line", wanted.line) if wanted.line is not None else ("zone", wanted.zone)
    where: list[sa.ColumnElement[bool]] = []
    more: tuple[Any, ...] = ()
    if place[1] is not None:
        began, number, more = _p.began_utc_s, _p.object, (_p.way,)
        where += [_p.kind == place[0], _p.name == place[1]]
    else:
        began, number = _o.began_utc_s, _o.id
        named = set(wanted.cameras) if cameras is None else set(cameras) & set(wanted.cameras or cameras)
        if len(named) == 1:
            where.append(_o.camera == named.pop())
    if wanted.from_utc_s is not None:
        where.append(began >= wanted.from_utc_s)
    if wanted.to_utc_s is not None:
        where.append(began < wanted.to_utc_s)
    if after is not None:
        # The first part lets an index be used, whatever the database makes of the second.
        where += [began <= after.began_utc_s, (began < after.began_utc_s) | (number < after.id)]
    columns: tuple[Any, ...] = (number.label("id"), began, *more)
    return sa.select(*columns).where(*where).order_by(began.desc(), number.desc())


def _way(wanted: ObjectSearch, inner: sa.Subquery) -> tuple[sa.ColumnElement[bool], ...]:
    return () if wanted.way is None else (inner.c.way == wanted.way,)


def _conditions(wanted: ObjectSearch, cameras: Collection[str] | None, now: float) -> list[sa.ColumnElement[bool]]:
    """Conditions on the objects themselves."""
    found: list[sa.ColumnElement[bool]] = []
    for column, names in ((_o.camera, wanted.cameras), (_o.class_name, wanted.classes)):
        if names:
            found.append(column.in_(sorted(names)))
    if cameras is not None:
        found.append(_o.camera.in_(sorted(cameras)))
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
    """Whether an application gave this label."""
    said = attributes.get(wanted[0]) if isinstance(attributes, Mapping) else None
    return isinstance(said, Mapping) and str(said.get("value")) == wanted[1]


def _span(clip: ClipRecord) -> ClipSpan:
    begins, seconds = clip.outcome.get("begins_utc_s"), clip.outcome.get("seconds")
    if clip.state == "kept" and begins is not None and seconds is not None:
        return ClipSpan(clip.id, float(begins), float(begins) + float(seconds), False)
    return ClipSpan(clip.id, clip.from_utc_s, clip.to_utc_s, clip.state == "making")
