"""Fronts of (latency, cost): added in series, the larger latency in parallel; dominated points are dropped."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from scheduler.pipelines.graph import Tree
from scheduler.pipelines.steps import CountedSteps

#: Latency, cost, and the module's choice for it, or the two points of which this one is made. A plain tuple: planners
#: make thousands of them.
Point = tuple[float, float, Any]

#: Ascending in latency, descending in cost.
ParetoFront = Sequence[Point]

#: Points that a joined front has at most, times the modules of the graph: a join may have as many points as both fronts
#: multiplied, so a large graph would never end. (On 680 workloads of up to five modules a front has 260 at most.)
MOST_POINTS = 8192

_T = TypeVar("_T")
_LATENCY = itemgetter(0)
_BOTH = itemgetter(0, 1)
_LEAST = 1e-12


def pareto(points: Iterable[Point]) -> list[Point]:
    """The points that no other beats in both."""
    front: list[Point] = []
    least = math.inf
    for point in sorted(points, key=_BOTH):
        if point[1] < least - _LEAST:
            front.append(point)
            least = point[1]
    return front


def in_series(first: ParetoFront, second: ParetoFront, limit: float, most_cost: float = math.inf) -> list[Point]:
    """One after the other: latencies and costs are added; nothing above `limit` or `most_cost`."""
    points: list[Point] = []
    for a in first:
        left, money = limit - a[0], most_cost - a[1]
        for b in second:
            if b[0] > left:
                break
            if b[1] <= money:
                points.append((a[0] + b[0], a[1] + b[1], (a, b)))
    return pareto(points)


def in_parallel(first: ParetoFront, second: ParetoFront) -> list[Point]:
    """Side by side: the larger latency, costs added. At each latency each takes its cheapest point."""
    points: list[Point] = []
    i = j = 0
    while i < len(first) and j < len(second):
        a, b = first[i], second[j]
        points.append((max(a[0], b[0]), a[1] + b[1], (a, b)))
        if i + 1 == len(first) and j + 1 == len(second):
            break
        if j + 1 == len(second) or (i + 1 < len(first) and first[i + 1][0] <= second[j + 1][0]):
            i += 1
        else:
            j += 1
    return pareto(points)


def joined(
    tree: Tree,
    fronts: Sequence[ParetoFront],
    limit: float,
    most_cost: float = math.inf,
    steps: CountedSteps | None = None,
) -> ParetoFront:
    """The front of a whole tree from those of its modules, up to `limit` and `most_cost`; of very many points some are
    left out, which `steps` then records."""
    if isinstance(tree, int):
        return fronts[tree]
    front = joined(tree.parts[0], fronts, limit, most_cost, steps)
    for part in tree.parts[1:]:
        other = joined(part, fronts, limit, most_cost, steps)
        whole = in_series(front, other, limit, most_cost) if tree.kind == "series" else in_parallel(front, other)
        front = thinned(whole, len(fronts))
        if steps is not None and len(front) < len(whole):
            steps.left_out()
    return front


def thinned(points: list[_T], modules: int) -> list[_T]:
    """The points, or of very many some at equal places, the first and the last among them."""
    most = MOST_POINTS // modules
    if len(points) <= most:
        return points
    return [points[n * (len(points) - 1) // (most - 1)] for n in range(most)]


def chosen(tree: Tree, point: Point, into: dict[int, Point]) -> None:
    """Put the point that each module of the tree has in `point` into `into`."""
    if isinstance(tree, int):
        into[tree] = point
        return
    for part in reversed(tree.parts[1:]):
        point, last = point[2]
        chosen(part, last, into)
    chosen(tree.parts[0], point, into)


def cheapest_within(front: ParetoFront, limit: float) -> Point | None:
    """The cheapest point of at most `limit`."""
    n = bisect_right(front, limit, key=_LATENCY)
    return front[n - 1] if n else None
