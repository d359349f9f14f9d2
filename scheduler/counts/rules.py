"""Rules on numbers: how many are in a zone, and whether an hour's count is far from what is usual.

The usual count of an hour is the median of the same hour of the same weekday of past weeks; its spread is the median
absolute deviation, which a single odd week does not move. A count may always differ from another by chance, by about
the square root of what is usual, so the spread is never taken to be less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from statistics import median
from typing import Final

from edge.core.alarms import CountedHour
from edge.core.counts import Place
from edge.core.tracks import TrackedObject
from scheduler.counts.comparison import LEAST_WATCHED
from scheduler.counts.minutes import MINUTE_S, SETTLED_S

HOUR_S: Final = 3600
#: Past weeks that are looked at, and how many of them must have been watched to say what is usual.
MOST_WEEKS, LEAST_WEEKS = 8, 4
#: The median absolute deviation of a normal distribution is so much smaller than its standard deviation.
_NORMAL: Final = 1.4826


@dataclass(frozen=True)
class UsualCount:
    """The usual count of an hour, by `weeks` past weeks; `spread` as a standard deviation."""

    middle: float
    spread: float
    weeks: int

    def far(self, objects: int, factor: float) -> bool:
        """Whether a count is more than `factor` spreads away."""
        return abs(objects - self.middle) > factor * self.spread


def objects_at(hour: CountedHour, place: Place, classes: Sequence[str]) -> int | None:
    """Objects of `classes` (empty: all) at a place in an hour; None: too little of it was watched, or the line was not
    there yet."""
    if hour.watched < LEAST_WATCHED or place.name in hour.not_yet:
        return None
    return sum(n for (at, name), n in hour.objects.items() if at == place and (not classes or name in classes))


def usual_count(past: Iterable[int | None]) -> UsualCount | None:
    """The usual count by those of the same hour of past weeks (None: not watched); None: fewer than LEAST_WEEKS were
    watched."""
    counts = [c for c in past if c is not None]
    if len(counts) < LEAST_WEEKS:
        return None
    middle = float(median(counts))
    spread = _NORMAL * float(median(abs(c - middle) for c in counts))
    return UsualCount(middle, max(spread, math.sqrt(max(1.0, middle))), len(counts))


def same_hours(start_s: int, zone: tzinfo | None) -> tuple[int, ...]:
    """When the same hour of the same weekday began in each of the past MOST_WEEKS weeks, by the clock of `zone` (None:
    the box's own), the latest first."""
    local = datetime.fromtimestamp(start_s, zone)
    wall = local.replace(tzinfo=None)
    return tuple(
        int((wall - timedelta(weeks=n)).replace(tzinfo=zone).timestamp()) // HOUR_S * HOUR_S
        for n in range(1, MOST_WEEKS + 1)
    )


def due_hour(looked_until_s: int | None, now_utc_s: float) -> int | None:
    """When the hour began that is over and settled at `now_utc_s` and was not looked at (`looked_until_s`: the end of
    the last one that was); None: there is none."""
    end = int((now_utc_s - MINUTE_S - SETTLED_S) // HOUR_S) * HOUR_S
    return None if looked_until_s is not None and end <= looked_until_s <= end + HOUR_S else end - HOUR_S


def in_zones(objects: Sequence[TrackedObject], zones: Sequence[str], classes: Sequence[str]) -> dict[str, int]:
    """How many objects of `classes` (empty: all) are in each of `zones`; without zones in the picture, under ""."""
    counted = [o for o in objects if not classes or o.class_name in classes]
    if not zones:
        return {"": len(counted)}
    found = Counter(zone for o in counted for zone in o.zones)
    return {zone: found[zone] for zone in zones}
