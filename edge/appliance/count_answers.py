"""Counts as they are shown: a row for each bucket, also where it was not watched, each count with how true it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.answers.read import read
from edge.appliance.count_table import formats
from edge.core.counts import STEP_S, Count, Step, WatchedTime, count_row, totals, watched_part
from scheduler.counts.comparison import CountComparison, Row
from scheduler.counts.minutes import ChecksAround, corrected_count, objects_by_place


def counts_answer(
    camera: str,
    step: Step,
    first: int,
    end: int,
    counts: Sequence[Count],
    watched: Sequence[WatchedTime],
    truth: ChecksAround,
    whole: ChecksAround,
) -> CountsAnswer:
    """The answer about the buckets from `first` to before `end`: `truth` has the checks around those that are not
    settled, `whole` those around all of the time."""
    length = STEP_S[step]
    by_start: dict[int, list[Count]] = defaultdict(list)
    for count in counts:
        by_start[count.start_s].append(count)
    seen = {w.start_s: w for w in watched}
    buckets = []
    for start in range(first, end, length):
        one = seen.get(start, WatchedTime(camera, start))
        counted = by_start.get(start, ())
        at = objects_by_place(counted)
        rows = [count_row(c, corrected_count(c, at[c.place], truth, start, start + length)) for c in counted]
        part, rate = watched_part(one, length)
        buckets.append({"start_utc_s": start, "watched": part, "answers_per_s": rate, "counts": rows})
    # Not the sum of the buckets' corrections: all of them lean on the same labels.
    sums = totals(counts, first)
    at = objects_by_place(sums)
    whole_rows = [count_row(count, corrected_count(count, at[count.place], whole, first, end)) for count in sums]
    part = sum(w.seconds for w in watched) / (end - first)
    fields = {
        "camera": camera, "step": step, "from_utc_s": first, "to_utc_s": end, "watched": round(min(1.0, part), 4),
        "totals": whole_rows, "buckets": buckets, "formats": formats(),
    }  # fmt: skip
    # Read as a whole: a year has tens of thousands of rows.
    return read(CountsAnswer, fields)


def comparison_answer(
    camera: str, step: Step, starts: range, before_s: int, found: CountComparison
) -> ComparisonAnswer:
    """The answer about the buckets that begin at `starts` beside those from `before_s` on."""
    buckets = [
        {
            "start_utc_s": p.start_s, "before_utc_s": p.before_s, "watched": p.watched,
            "watched_before": p.watched_before, "compared": p.compared, "counts": _compared(p.objects),
        }
        for p in found.pairs
    ]  # fmt: skip
    fields = {
        "camera": camera, "step": step, "from_utc_s": starts.start, "to_utc_s": starts.stop,
        "before_from_utc_s": before_s, "compared": round(found.compared, 4), "totals": _compared(found.totals),
        "buckets": buckets,
    }  # fmt: skip
    return read(ComparisonAnswer, fields)


def _compared(rows: Mapping[Row, tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {
            "kind": place.kind, "name": place.name, "way": place.way, "class": name, "objects": objects,
            "before": before,
        }
        for (place, name), (objects, before) in rows.items()
    ]  # fmt: skip
