"""A day's objects by bucket of time, and its hours by the clock of its place."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from edge.core.finding import DaySpan, ObjectsCame, check_bucket

HOUR_S: Final = 3600


@dataclass(frozen=True)
class ObjectsInBucket:
    """The objects that came from `from_utc_s` to before `to_utc_s`, by class."""

    from_utc_s: float
    to_utc_s: float
    objects: Mapping[str, int]


@dataclass(frozen=True)
class HourMark:
    """An hour begins: as clocks show it ("03:00"), and by how many seconds they are ahead of UTC from then on."""

    at_utc_s: float
    label: str
    ahead_s: int


def by_bucket(day: DaySpan, bucket_s: int, came: Iterable[ObjectsCame]) -> tuple[ObjectsInBucket, ...]:
    """All buckets of a day, in order; they touch, and the last one ends with the day, shorter where the day is no whole
    number of them. Raises InvalidValue."""
    check_bucket(bucket_s)
    number = math.ceil((day.to_utc_s - day.from_utc_s) / bucket_s)
    edges = [*(day.from_utc_s + n * bucket_s for n in range(number)), day.to_utc_s]
    counts: list[Counter[str]] = [Counter() for _ in range(number)]
    for some in came:
        # A database divides, and may round the last instant of a day up.
        counts[min(some.bucket, number - 1)][some.class_name] += some.objects
    return tuple(
        ObjectsInBucket(first, end, dict(sorted(found.items())))
        for (first, end), found in zip(itertools.pairwise(edges), counts, strict=True)
    )


def hours(day: DaySpan, zone: tzinfo | None) -> tuple[HourMark, ...]:
    """An hour after the other from the day's beginning: 23 or 25 where clocks change. `zone` None: the box's."""
    marks = []
    for n in range(math.ceil((day.to_utc_s - day.from_utc_s) / HOUR_S)):
        at = day.from_utc_s + n * HOUR_S
        local = datetime.fromtimestamp(at, zone).astimezone(zone)
        ahead = local.utcoffset()
        marks.append(HourMark(at, f"{local:%H:%M}", 0 if ahead is None else int(ahead.total_seconds())))
    return tuple(marks)
