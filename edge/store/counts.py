"""Counted objects: added to their minute, hour and day at once, read by camera and time, deleted by age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core import checks
from edge.core.counts import (
    CLUSTER_S,
    STEP_S,
    Corrected,
    Count,
    CountCheck,
    Place,
    Step,
    WatchedTime,
    coarser,
    watched_coarser,
)
from edge.store import tables as t
from edge.store.check_totals import Totals, read_totals
from edge.store.database import retried, upsert
from edge.store.parts import Part, text

DAY_S = 86_400.0
_CHUNK = 5000
_c, _w, _k, _s = t.counts.c, t.count_watched.c, t.count_checks.c, t.count_check_sums.c
#: The clusters of checks that are summed when checks are added.
_CLUSTERS = (CLUSTER_S["hour"], CLUSTER_S["day"])
_COUNT_KEY = ("camera", "step_s", "start_s", "kind", "name", "way", "class_name")
_WATCHED_KEY = ("camera", "step_s", "start_s")
_CHECK_KEY = ("camera", "start_s", "kind", "name", "way", "class_name")
_SUM_KEY = ("camera", "step_s", "start_s", "kind", "name", "way", "class_name")


@dataclass(frozen=True)
class CountRetention:
    """How many rows were deleted."""

    minutes: int
    older: int
    checks: int

    @property
    def anything(self) -> bool:
        """Worth a record."""
        return bool(self.minutes or self.older or self.checks)

    def to_json(self) -> dict[str, Any]:
        return {"minutes": self.minutes, "hours_and_days": self.older, "checks": self.checks}


class CountsPart(Part):
    """A count is never changed, only added to."""

    @retried
    def add_counts(self, counts: Sequence[Count], watched: Sequence[WatchedTime], found: Sequence[CountCheck]) -> None:
        """Add to what is there, all or nothing. Raises DiskFull, Unavailable, StoreError, InvalidValue."""
        with self.database.write() as c:
            for step_s in STEP_S.values():
                for row in coarser(counts, step_s):
                    _add_count(c, step_s, row)
                for one in watched_coarser(watched, step_s):
                    _add_watched(c, step_s, one)
            for check in found:
                _add_check(c, check)

    @retried
    def counted(self, camera: str, step: Step, from_s: float, to_s: float) -> tuple[Count, ...]:
        """The counts of a camera in the buckets that begin from `from_s` to before `to_s`, in order."""
        checks.one_of("step", step, STEP_S)
        where = (_c.camera == camera) & (_c.step_s == STEP_S[step]) & (_c.start_s >= from_s) & (_c.start_s < to_s)
        query = sa.select(t.counts).where(where).order_by(_c.start_s, _c.kind, _c.name, _c.way, _c.class_name)
        place = cache(Place)  # few places, and tens of thousands of rows
        with self.database.read() as c:
            return tuple(
                Count(
                    camera, start, place(kind, name, way), class_name, objects, seconds, standing, most, bool(settled),
                    None if value is None else Corrected(value, low, high),
                )
                for (
                    camera, _, start, kind, name, way, class_name, objects, seconds, standing, most, settled, value,
                    low, high,
                ) in c.execute(query).all()
            )  # fmt: skip

    @retried
    def lines_since(self, camera: str) -> dict[str, int]:
        """When the first day began in which something was counted at each line of a camera, of the days that are
        kept."""
        where = (_c.camera == camera) & (_c.step_s == STEP_S["day"]) & (_c.kind == "line") & (_c.objects > 0)
        with self.database.read() as c:
            rows = c.execute(sa.select(_c.name, sa.func.min(_c.start_s)).where(where).group_by(_c.name))
            return {name: int(start_s) for name, start_s in rows}

    @retried
    def watched(self, camera: str, step: Step, from_s: float, to_s: float) -> tuple[WatchedTime, ...]:
        """How much of the same buckets the camera was watched; one that is not there was not watched at all."""
        checks.one_of("step", step, STEP_S)
        where = (_w.camera == camera) & (_w.step_s == STEP_S[step]) & (_w.start_s >= from_s) & (_w.start_s < to_s)
        with self.database.read() as c:
            rows = c.execute(sa.select(t.count_watched).where(where).order_by(_w.start_s))
            return tuple(WatchedTime(r.camera, r.start_s, r.seconds, r.answers) for r in rows)

    @retried
    def count_checks(self, camera: str, from_s: float, to_s: float, cluster_s: int = 1) -> tuple[CountCheck, ...]:
        """The checks that begin from `from_s` to before `to_s`, in order, those of `cluster_s` seconds as one."""
        if cluster_s in _CLUSTERS:
            return self._clusters(camera, from_s, to_s, cluster_s)
        where = (_k.camera == camera) & (_k.start_s >= from_s) & (_k.start_s < to_s)
        start = (_k.start_s - _k.start_s % cluster_s).label("start")
        key = (start, _k.kind, _k.name, _k.way, _k.class_name)
        sums = [sa.func.sum(t.count_checks.c[name]).label(name) for name in ("frames", "followed", "there", "same")]
        query = sa.select(*key, *sums).where(where).group_by(*key).order_by(start)
        with self.database.read() as c:
            return tuple(
                CountCheck(
                    camera, r.start, Place(r.kind, r.name, r.way), r.class_name, int(r.frames), int(r.followed),
                    int(r.there), int(r.same),
                )
                for r in c.execute(query)
            )  # fmt: skip

    def _clusters(self, camera: str, from_s: float, to_s: float, cluster_s: int) -> tuple[CountCheck, ...]:
        """As `count_checks`, of clusters that are summed already; the first one whole, if it begins before."""
        first_s = from_s - from_s % cluster_s
        where = (_s.camera == camera) & (_s.step_s == cluster_s) & (_s.start_s >= first_s) & (_s.start_s < to_s)
        key = (_s.start_s, _s.kind, _s.name, _s.way, _s.class_name)
        with self.database.read() as c:
            found = sa.select(*key, _s.frames, _s.followed, _s.there, _s.same).where(where).order_by(*key)
            rows, place = c.execute(found).all(), cache(Place)
            return tuple(CountCheck(camera, r[0], place(r[1], r[2], r[3]), *r[4:]) for r in rows)

    @retried
    def check_totals(self, camera: str, from_s: float, to_s: float, cluster_s: int) -> Totals:
        """Sums over the clusters of `cluster_s` seconds that begin in a time, by place and class, and of all classes
        under "": how many clusters, followed, there, same, and the squares and the product of the first two."""
        where = (_s.camera == camera) & (_s.step_s == cluster_s) & (_s.start_s >= from_s) & (_s.start_s < to_s)
        with self.database.read() as c:
            return read_totals(c, where)

    @retried
    def next_bucket(self, step: Step, from_s: float, to_s: float) -> int | None:
        """The first bucket that anything was counted in, of those that begin from `from_s` to before `to_s`."""
        where = (_c.step_s == STEP_S[step]) & (_c.start_s >= from_s) & (_c.start_s < to_s)
        with self.database.read() as c:
            return c.execute(sa.select(sa.func.min(_c.start_s)).where(where)).scalar()

    @retried
    def counting_cameras(self, step: Step, start_s: int) -> tuple[str, ...]:
        """The cameras that counted anything in a bucket."""
        where = (_c.step_s == STEP_S[step]) & (_c.start_s == start_s)
        with self.database.read() as c:
            return tuple(c.execute(sa.select(_c.camera).where(where).distinct().order_by(_c.camera)).scalars())

    @retried
    def settle_counts(self, step: Step, counts: Sequence[Count]) -> None:
        """Keep what labels make of counts, to the hundredth, unless more was counted since they were read."""
        columns = {name: _c[name] == sa.bindparam(f"at_{name}") for name in (*_COUNT_KEY, "objects")}
        change = sa.update(t.counts).where(*columns.values()).values(
            settled=1, corrected=sa.bindparam("value"), low=sa.bindparam("from"), high=sa.bindparam("to")
        )  # fmt: skip
        rows = [
            {
                "at_camera": n.camera, "at_step_s": STEP_S[step], "at_start_s": n.start_s, "at_kind": n.place.kind,
                "at_name": n.place.name, "at_way": n.place.way, "at_class_name": n.class_name,
                "at_objects": n.objects, "value": None if n.corrected is None else round(n.corrected.value, 2),
                "from": None if n.corrected is None else round(n.corrected.low, 2),
                "to": None if n.corrected is None else round(n.corrected.high, 2),
            }
            for n in counts
        ]  # fmt: skip
        with self.database.write() as c:
            if rows:
                c.execute(change, rows)

    @retried
    def has_counted(self, camera: str) -> bool:
        """Whether anything of a camera is kept."""
        with self.database.read() as c:
            return c.execute(sa.select(_w.start_s).where(_w.camera == camera).limit(1)).first() is not None

    @retried
    def retain_counts(self, days: float, count_days: float) -> CountRetention:
        """Delete minutes and checks that are older than `days`, hours and days that are older than `count_days`."""
        minute, older = STEP_S["minute"], tuple(s for s in STEP_S.values() if s != STEP_S["minute"])
        now = self._clock.utc()
        short, long = now - days * DAY_S, now - max(days, count_days) * DAY_S
        minutes = self._drop(t.counts, (_c.step_s == minute) & (_c.start_s < short))
        minutes += self._drop(t.count_watched, (_w.step_s == minute) & (_w.start_s < short))
        rest = self._drop(t.counts, _c.step_s.in_(older) & (_c.start_s < long))
        rest += self._drop(t.count_watched, _w.step_s.in_(older) & (_w.start_s < long))
        found = self._drop(t.count_checks, _k.start_s < short)
        found += self._drop(t.count_check_sums, (_s.step_s == CLUSTER_S["hour"]) & (_s.start_s < short))
        found += self._drop(t.count_check_sums, (_s.step_s == CLUSTER_S["day"]) & (_s.start_s < long))
        return CountRetention(minutes, rest, found)

    def _drop(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        """Delete rows, some at a time, so that others need not wait long."""
        keys = list(table.primary_key.columns)
        total = 0
        while True:
            with self.database.write() as c:
                found = sa.select(*keys).where(where).limit(_CHUNK)
                gone = c.execute(sa.delete(table).where(sa.tuple_(*keys).in_(found))).rowcount
            total += gone
            if gone < _CHUNK:
                return total


def _add_count(c: Connection, step_s: int, count: Count) -> None:
    key = {
        "camera": text("count.camera", count.camera), "step_s": step_s, "start_s": count.start_s,
        "kind": count.place.kind, "name": text("count.name", count.place.name), "way": count.place.way,
        "class_name": text("count.class", count.class_name),
    }  # fmt: skip
    values = {"objects": count.objects, "seconds": count.seconds, "standing_s": count.standing_s, "most": count.most}
    more: dict[str, Any] = {n: t.counts.c[n] + values[n] for n in ("objects", "seconds", "standing_s")}
    more["settled"] = 0
    more["most"] = sa.case((_c.most < count.most, count.most), else_=_c.most)
    upsert(c, t.counts, _COUNT_KEY, key | values, more)


def _add_watched(c: Connection, step_s: int, one: WatchedTime) -> None:
    key = {
        "camera": text("watched.camera", one.camera), "step_s": step_s, "start_s": one.start_s,
    }  # fmt: skip
    more = {"seconds": _w.seconds + one.seconds, "answers": _w.answers + one.answers}
    upsert(c, t.count_watched, _WATCHED_KEY, key | {"seconds": one.seconds, "answers": one.answers}, more)


def _add_check(c: Connection, check: CountCheck) -> None:
    key = {
        "camera": text("check.camera", check.camera), "start_s": check.start_s, "kind": check.place.kind,
        "name": text("check.name", check.place.name), "way": check.place.way,
        "class_name": text("check.class", check.class_name),
    }  # fmt: skip
    values = {"frames": check.frames, "followed": check.followed, "there": check.there, "same": check.same}
    more = {name: t.count_checks.c[name] + value for name, value in values.items()}
    upsert(c, t.count_checks, _CHECK_KEY, key | values, more)
    more = {name: _s[name] + value for name, value in values.items()}
    for step_s in _CLUSTERS:
        at = {"step_s": step_s, "start_s": check.start_s // step_s * step_s}
        upsert(c, t.count_check_sums, _SUM_KEY, key | at | values, more)
