"""A time beside an earlier one of the same length, bucket by bucket: only what was watched in both is compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from edge.core.counts import Count, Place, WatchedTime, watched_part

#: A bucket of which less was watched says nothing: neither about itself, nor about what is usual.
LEAST_WATCHED: Final = 0.9

#: A place and a class.
Row = tuple[Place, str]


@dataclass(frozen=True)
class BucketPair:
    """A bucket and the earlier one, with the parts [0, 1] of them that were watched, and the objects by place and class
    in both, whether or not they are compared."""

    start_s: int
    before_s: int
    watched: float
    watched_before: float
    objects: Mapping[Row, tuple[int, int]]

    @property
    def compared(self) -> bool:
        """Both were watched, so that their numbers mean the same."""
        return min(self.watched, self.watched_before) >= LEAST_WATCHED


@dataclass(frozen=True)
class CountComparison:
    """`pairs` in order; `totals`: objects of the compared buckets now and before, with a row for each place and class
    of any bucket."""

    pairs: tuple[BucketPair, ...]
    totals: Mapping[Row, tuple[int, int]]

    @property
    def compared(self) -> float:
        """The part of the time [0, 1] that is compared."""
        return sum(p.compared for p in self.pairs) / len(self.pairs) if self.pairs else 0.0


def compare(
    starts: range,
    before_s: int,
    counts: Iterable[Count],
    earlier: Iterable[Count],
    watched: Iterable[WatchedTime],
    watched_earlier: Iterable[WatchedTime],
) -> CountComparison:
    """The buckets that begin at `starts` (whose step is their length) beside those from `before_s` on."""
    length, shift = starts.step, starts.start - before_s
    found: dict[int, dict[Row, tuple[int, int]]] = defaultdict(dict)
    for count in counts:
        _add(found[count.start_s], count, (count.objects, 0))
    for count in earlier:
        _add(found[count.start_s + shift], count, (0, count.objects))
    now = {w.start_s: watched_part(w, length)[0] for w in watched}
    then = {w.start_s: watched_part(w, length)[0] for w in watched_earlier}
    pairs = tuple(
        BucketPair(s, s - shift, now.get(s, 0.0), then.get(s - shift, 0.0), dict(sorted(found.get(s, {}).items())))
        for s in starts
    )
    totals: dict[Row, tuple[int, int]] = {}
    for pair in pairs:
        for row, (objects, before) in pair.objects.items():
            known = totals.get(row, (0, 0))
            totals[row] = (known[0] + objects, known[1] + before) if pair.compared else known
    return CountComparison(pairs, dict(sorted(totals.items())))


def _add(into: dict[Row, tuple[int, int]], count: Count, more: tuple[int, int]) -> None:
    row = count.place, count.class_name
    known = into.get(row, (0, 0))
    into[row] = known[0] + more[0], known[1] + more[1]
