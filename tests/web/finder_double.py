"""The search of objects, and days, of the web tests' appliance."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from edge.appliance.answers.finding import FoundObject, FoundObjects, HourOfDay, TimelineAnswer
from edge.appliance.answers.read import by_name, read
from edge.core.errors import InvalidValue, NotFound
from edge.core.finding import DaySpan, FoundAfter, ObjectSearch
from scheduler.finding.buckets import by_bucket, hours
from web.examples.finding import FOUND, TIMELINE

if TYPE_CHECKING:
    from alarms_double import DictAlarms


class DictFinder:
    """Implements `FinderService`: the double's objects, by camera and class only, with the example's line; a day as in
    the example, of all its hours in UTC."""

    def __init__(self, alarms: DictAlarms, cameras: Callable[[], Collection[str]]) -> None:
        self._alarms, self._cameras = alarms, cameras
        self.asked: list[ObjectSearch] = []

    def objects(
        self, wanted: ObjectSearch, limit: int, after: FoundAfter | None, cameras: Collection[str] | None
    ) -> FoundObjects:
        for camera in wanted.cameras:
            if camera not in self._cameras():
                raise NotFound(f"camera {camera} does not exist")
        self.asked.append(wanted)
        below = None if after is None else after.id
        rows = [
            one
            for one in self._alarms.objects(1000, below, None, None, None, cameras)
            if (not wanted.cameras or one.camera in wanted.cameras)
            and (not wanted.classes or one.class_ in wanted.classes)
        ]
        (example,) = read(FoundObjects, FOUND).found
        found = tuple(FoundObject(camera=one.camera, object=one, lines=example.lines) for one in rows[:limit])
        last = found[-1].object if len(rows) > limit else None
        then = None if last is None else FoundAfter(last.began_utc_s, last.id)
        return FoundObjects(
            found=found, next=None if then is None else then.cursor,
            looked_back_to_utc_s=None if then is None else then.began_utc_s,
        )  # fmt: skip

    def timeline(self, camera: str, day: date | None, bucket_s: int) -> TimelineAnswer:
        if camera not in self._cameras():
            raise NotFound(f"camera {camera} does not exist")
        example = read(TimelineAnswer, TIMELINE)
        if day is not None and day.isoformat() > example.today:
            raise InvalidValue("day", day.isoformat(), f"a day up to today, {example.today}")
        span = DaySpan(example.from_utc_s, example.to_utc_s)
        buckets = by_bucket(span, bucket_s, ())
        counts = {n: {"car": 1 + n % 7, "person": n % 3} for n in range(len(buckets) // 4, len(buckets) // 2)}
        return replace(
            example, camera=camera, day=example.today if day is None else day.isoformat(), bucket_s=bucket_s,
            hours=by_name(tuple[HourOfDay, ...], hours(span, None)),
            buckets=tuple(
                replace(example.buckets[0], from_utc_s=b.from_utc_s, to_utc_s=b.to_utc_s, objects=counts.get(n, {}))
                for n, b in enumerate(buckets)
            ),
            alarms=tuple(replace(a, camera=camera) for a in example.alarms),
            clips=tuple(replace(c, camera=camera) for c in example.clips),
        )  # fmt: skip
