"""Counts as they are told: a row for each bucket, also where nobody watched, each count with how true it is."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from edge.appliance.answers.counts import BucketAnswer, CountAnswer, CountsAnswer
from edge.appliance.answers.read import read
from edge.core.counts import STEP_S, Corrected, Count, CountCheck, Step, WatchedTime
from edge.core.counts import Place as CountPlace
from scheduler.counts.correction import LEAST_OBJECTS, corrected
from scheduler.counts.near import checked_place
from scheduler.counts.tally import summed

#: How far around a bucket labels are looked for, the nearest first: until there are enough.
_REACH_S: Final = (1800.0, 2 * 3600.0, 6 * 3600.0)
_ENOUGH: Final = 20 * LEAST_OBJECTS


class _Checks:
    """The checks of a camera by place, in order of time."""

    def __init__(self, found: Iterable[CountCheck]) -> None:
        self._by_place: Mapping[CountPlace, list[CountCheck]] = defaultdict(list)
        for check in found:
            self._by_place[check.place].append(check)
        self._starts = {place: [c.start_s for c in rows] for place, rows in self._by_place.items()}
        self._kept: dict[tuple[CountPlace, int, int], tuple[CountCheck, ...]] = {}

    def around(self, place: CountPlace, first: int, end: int) -> tuple[CountCheck, ...]:
        """Those from before `first` to after `end`, of as short a time as has enough."""
        key = place, first, end
        if key not in self._kept:
            self._kept[key] = self._around(place, first, end)
        return self._kept[key]

    def _around(self, place: CountPlace, first: int, end: int) -> tuple[CountCheck, ...]:
        rows, starts = self._by_place.get(place, []), self._starts.get(place, [])
        found: tuple[CountCheck, ...] = ()
        for reach_s in _REACH_S:
            found = tuple(rows[bisect_left(starts, first - reach_s) : bisect_left(starts, end + reach_s)])
            if sum(c.there for c in found) >= _ENOUGH:
                break
        return found


def counts_answer(
    camera: str,
    step: Step,
    first: int,
    end: int,
    counts: Sequence[Count],
    watched: Sequence[WatchedTime],
    found: Sequence[CountCheck],
) -> CountsAnswer:
    """The answer about the buckets from `first` to before `end`."""
    length = STEP_S[step]
    truth = _Checks(found)
    by_start: dict[int, list[Count]] = defaultdict(list)
    for count in counts:
        by_start[count.start_s].append(count)
    seen = {w.start_s: w for w in watched}
    buckets = []
    for start in range(first, end, length):
        one = seen.get(start, WatchedTime(camera, start))
        rows = [_row(c, _corrected(c, truth, start, start + length)) for c in by_start.get(start, ())]
        buckets.append(
            BucketAnswer(
                start_utc_s=start,
                watched=round(min(1.0, one.seconds / length), 4),
                answers_per_s=round(one.answers / one.seconds, 2) if one.seconds > 0 else 0.0,
                counts=tuple(rows),
            )
        )
    # Not the sum of the buckets' corrections: all of them lean on the same labels.
    sums = summed(replace(c, start_s=first) for c in counts)
    totals = tuple(_row(count, _corrected(count, truth, first, end)) for count in sums)
    part = sum(w.seconds for w in watched) / (end - first)
    return CountsAnswer(
        camera=camera, step=step, from_utc_s=first, to_utc_s=end, watched=round(min(1.0, part), 4), totals=totals,
        buckets=tuple(buckets),
    )  # fmt: skip


def _corrected(count: Count, truth: _Checks, first: int, end: int) -> Corrected | None:
    near = truth.around(checked_place(count.place), first, end)
    return corrected(count.objects, [c for c in near if c.class_name == count.class_name], near)


def _row(count: Count, true: Corrected | None) -> CountAnswer:
    told = {
        "kind": count.place.kind, "name": count.place.name, "way": count.place.way, "class": count.class_name,
        "objects": count.objects, "seconds": round(count.seconds, 1), "standing_s": round(count.standing_s, 1),
        "most": count.most, "corrected": None if true is None else true.to_json(),
    }  # fmt: skip
    return read(CountAnswer, told)
