"""Counts as they are told: a row for each bucket, also where nobody watched, each count with how true it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edge.appliance.answers.counts import CountsAnswer
from edge.appliance.answers.read import read
from edge.core.counts import STEP_S, Corrected, Count, CountCheck, Step, WatchedTime, summed
from scheduler.counts.checks import CheckIndex
from scheduler.counts.correction import corrected
from scheduler.counts.near import checked_place


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
    truth = CheckIndex(found)
    by_start: dict[int, list[Count]] = defaultdict(list)
    for count in counts:
        by_start[count.start_s].append(count)
    seen = {w.start_s: w for w in watched}
    buckets = []
    for start in range(first, end, length):
        one = seen.get(start, WatchedTime(camera, start))
        counted = by_start.get(start, [])
        rows = [_row(c, _corrected(c, counted, truth, start, start + length)) for c in counted]
        buckets.append(
            {
                "start_utc_s": start,
                "watched": round(min(1.0, one.seconds / length), 4),
                "answers_per_s": round(one.answers / one.seconds, 2) if one.seconds > 0 else 0.0,
                "counts": rows,
            }
        )
    # Not the sum of the buckets' corrections: all of them lean on the same labels.
    sums = summed(replace(c, start_s=first) for c in counts)
    totals = [_row(count, _corrected(count, sums, truth, first, end)) for count in sums]
    part = sum(w.seconds for w in watched) / (end - first)
    told = {
        "camera": camera, "step": step, "from_utc_s": first, "to_utc_s": end, "watched": round(min(1.0, part), 4),
        "totals": totals, "buckets": buckets,
    }  # fmt: skip
    # Read as a whole: a year has tens of thousands of rows.
    return read(CountsAnswer, told)


def _corrected(count: Count, counted: Sequence[Count], truth: CheckIndex, first: int, end: int) -> Corrected | None:
    at_place = sum(c.objects for c in counted if c.place == count.place)
    own, every = truth.around(checked_place(count.place), count.class_name, first, end)
    return corrected(count.objects, at_place, own, every)


def _row(count: Count, true: Corrected | None) -> dict[str, Any]:
    return {
        "kind": count.place.kind, "name": count.place.name, "way": count.place.way, "class": count.class_name,
        "objects": count.objects, "seconds": round(count.seconds, 1), "standing_s": round(count.standing_s, 1),
        "most": count.most, "corrected": None if true is None else true.to_json(),
    }  # fmt: skip
