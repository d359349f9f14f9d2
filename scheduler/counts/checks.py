"""Checks of a camera, ready to be summed over any time: sums of clusters up to each instant, by place and class."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from edge.core.counts import CountCheck, Place

#: How far around a time labels are looked for, in seconds, the nearest first: until there are so many.
REACH_S: Final = (0.0, 1800.0, 2 * 3600.0, 6 * 3600.0)
ENOUGH: Final = 30
#: With fewer labels or followed objects near a place nothing is said, unless each counted crossing is in the own time
#: of a labelled frame.
LEAST_OBJECTS: Final = 10


@dataclass(frozen=True)
class ClusterSums:
    """Sums over clusters of frames: followed objects, labels, those that are the same, and the squares and products of
    the first two."""

    clusters: int = 0
    followed: int = 0
    there: int = 0
    same: int = 0
    followed_squared: int = 0
    there_squared: int = 0
    product: int = 0

    @property
    def few(self) -> bool:
        """Whether they are too few to say how labels and followed objects differ."""
        return min(self.followed, self.there) < LEAST_OBJECTS

    def cover(self, counted: int) -> bool:
        """Whether each of the crossings `counted` in the time itself is in the own time of a labelled frame. Labels
        need not show it."""
        return 0 < counted <= self.followed

    def __add__(self, other: ClusterSums) -> ClusterSums:
        return ClusterSums(*(a + b for a, b in zip(_numbers(self), _numbers(other), strict=True)))

    def __sub__(self, other: ClusterSums) -> ClusterSums:
        return ClusterSums(*(a - b for a, b in zip(_numbers(self), _numbers(other), strict=True)))


def _numbers(sums: ClusterSums) -> tuple[int, ...]:
    return (
        sums.clusters, sums.followed, sums.there, sums.same, sums.followed_squared, sums.there_squared, sums.product
    )  # fmt: skip


def one_cluster(followed: int, there: int, same: int) -> ClusterSums:
    """The sums of one cluster."""
    return ClusterSums(1, followed, there, same, followed**2, there**2, followed * there)


class SumsAround(NamedTuple):
    """Sums of a class and of all classes at a place, around a time. `crossings`: they are of crossings of that time
    itself, so that the part of it which labels show is known."""

    own: ClusterSums = ClusterSums()
    every: ClusterSums = ClusterSums()
    crossings: bool = False


def sums_around(
    place: Place,
    first_s: float,
    end_s: float,
    counted: int,
    own: Callable[[float, float], ClusterSums],
    every: Callable[[float, float], ClusterSums],
) -> SumsAround:
    """Sums at a place from before `first_s` to after `end_s`: of as short a time as has enough labels, else of the
    longest; where that has fewer than LEAST_OBJECTS, of the time itself, if each crossing that was `counted` at a line
    then is in the own time of a labelled frame. `own` and `every` have the sums of a class and of all classes between
    two times."""
    for reach_s in REACH_S:
        first, end = first_s - reach_s, end_s + reach_s
        found = every(first, end)
        if found.there >= ENOUGH:
            break
    at_line = place.kind == "line"
    if at_line and found.few and (itself := every(first_s, end_s)).cover(counted):
        return SumsAround(own(first_s, end_s), itself, True)
    return SumsAround(own(first, end), found, at_line and reach_s == 0.0)


class _Row:
    """Clusters in order of time, with the sums up to each."""

    def __init__(self, clusters: Iterable[tuple[int, tuple[int, int, int]]]) -> None:
        found = sorted(clusters)
        self.starts = [start for start, _ in found]
        self.sums = [ClusterSums(), *accumulate(one_cluster(*row) for _, row in found)]

    def between(self, first_s: float, end_s: float) -> ClusterSums:
        return self.sums[bisect_left(self.starts, end_s)] - self.sums[bisect_left(self.starts, first_s)]


_NOTHING: Final = _Row(())


class CheckIndex:
    """The checks of one camera by place and class, and by place alone."""

    def __init__(self, found: Iterable[CountCheck]) -> None:
        by_class: dict[tuple[Place, str], dict[int, tuple[int, int, int]]] = defaultdict(dict)
        by_place: dict[Place, dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for check in found:
            row = (check.followed, check.there, check.same)
            for into in (by_class[check.place, check.class_name], by_place[check.place]):
                into[check.start_s] = _plus(into.get(check.start_s, (0, 0, 0)), row)
        self._by_class = {key: _Row(rows.items()) for key, rows in by_class.items()}
        self._by_place = {key: _Row(rows.items()) for key, rows in by_place.items()}

    def around(self, place: Place, class_name: str, first_s: float, end_s: float, counted: int) -> SumsAround:
        """As `sums_around`."""
        every = self._by_place.get(place)
        if every is None:
            return SumsAround()
        own = self._by_class.get((place, class_name), _NOTHING)
        return sums_around(place, first_s, end_s, counted, own.between, every.between)


def _plus(a: tuple[int, int, int], b: Sequence[int]) -> tuple[int, int, int]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]
