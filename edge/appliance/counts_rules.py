"""Numbers as facts for rules: movements as they are counted, and each hour beside what is usual in it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edge.core.alarms import CountedHour, Fact, HourCounted, Moved
from edge.core.counts import STEP_S, Counted, WatchedTime, places_of, watched_part
from edge.settings import CameraSettings
from edge.store.counts import CountsPart
from scheduler.counts.rules import HOUR_S, due_hour, same_hours


class CountFacts:
    """`cameras()` are the settings of those there now, `asked()` says whether a rule looks at hours, and `fact` takes
    what rules look at."""

    def __init__(
        self,
        counts: CountsPart,
        cameras: Callable[[], Mapping[str, CameraSettings]],
        asked: Callable[[], bool],
        fact: Callable[[Fact], None],
    ) -> None:
        self._counts, self._cameras, self._asked, self._fact = counts, cameras, asked, fact
        self._looked_until_s: int | None = None

    def counted(self, camera: str, one: Counted) -> None:
        """An object was counted: movements are facts at once."""
        if one.place.kind == "movement":
            self._fact(Moved(camera, one.object, one.class_name, one.place.name, one.place.way))

    async def look(self, now_utc_s: float) -> None:
        """Send the facts of the hour that is over, once in each run. Raises MagpieError: they are sent later."""
        start_s = due_hour(self._looked_until_s, now_utc_s)
        if start_s is None:
            return
        if self._asked():
            for camera, settings in self._cameras().items():
                if not settings.enabled:
                    continue
                # Of a camera without lines, too: an unusual hour there ends.
                found = [CountedHour(0.0, {})]
                if settings.lines:
                    starts = (start_s, *same_hours(start_s, None))
                    found = await asyncio.to_thread(self._hours, camera, starts, [x.name for x in settings.lines])
                if camera in self._cameras():
                    places = places_of((line.name for line in settings.lines), ())
                    self._fact(HourCounted(camera, start_s, places, found[0], tuple(found[1:])))
        self._looked_until_s = start_s + HOUR_S

    def _hours(self, camera: str, starts: tuple[int, ...], lines: Sequence[str]) -> list[CountedHour]:
        """The hour that is over first; of the others, the lines that counted nothing until the day before."""
        now, *past = (self._hour(camera, start_s) for start_s in starts)
        began = self._counts.lines_since(camera)

        def not_yet(start_s: int) -> frozenset[str]:
            return frozenset(line for line in lines if began.get(line, math.inf) + STEP_S["day"] > start_s)

        return [now, *(replace(h, not_yet=not_yet(s)) for h, s in zip(past, starts[1:], strict=True))]

    def _hour(self, camera: str, start_s: int) -> CountedHour:
        watched = self._counts.watched(camera, "hour", start_s, start_s + HOUR_S)
        part = watched_part(watched[0] if watched else WatchedTime(camera, start_s), HOUR_S)[0]
        counts = self._counts.counted(camera, "hour", start_s, start_s + HOUR_S)
        return CountedHour(part, {(c.place, c.class_name): c.objects for c in counts})
