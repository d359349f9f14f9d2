"""Upper bounds of a module's cost at each latency, once the others take their least: a search in one module needs
to look at nothing dearer."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from scheduler.pipelines.graph import Branch, Tree
from scheduler.pipelines.pareto import ParetoFront, cheapest_within, joined, thinned

#: (latency, cost): where the module takes at most `latency`, the others cost at least `cost`. Both ascend.
Caps = list[tuple[float, float]]


def caps(tree: Tree, module: int, fronts: Sequence[ParetoFront], objective: float, most_cost: float) -> Caps:
    """The least cost of all other modules by the latency of `module`; empty where they leave it none at a total cost
    of at most `most_cost`. `fronts` are lower bounds of each module's cost."""
    found: Caps = [(objective, 0.0)]
    while isinstance(tree, Branch):
        inside = next(part for part in tree.parts if _holds(part, module))
        for part in tree.parts:
            if part is not inside:
                front = joined(part, fronts, objective, most_cost)
                found = _after(found, front, most_cost) if tree.kind == "series" else _beside(found, front, most_cost)
                found = thinned(found, len(fronts))
        tree = inside
    return found


def _holds(tree: Tree, module: int) -> bool:
    return tree == module if isinstance(tree, int) else any(_holds(part, module) for part in tree.parts)


def _after(known: Caps, front: ParetoFront, most_cost: float) -> Caps:
    """The other part takes latency away."""
    return _ascending(
        [
            (latency - point[0], cost + point[1])
            for latency, cost in known
            for point in front
            if latency > point[0] and cost + point[1] <= most_cost
        ]
    )


def _beside(known: Caps, front: ParetoFront, most_cost: float) -> Caps:
    """The other part may take as much latency as the module."""
    found = []
    for latency, cost in known:
        point = cheapest_within(front, latency)
        if point is not None and cost + point[1] <= most_cost:
            found.append((latency, cost + point[1]))
    return _ascending(found)


def _ascending(points: Caps) -> Caps:
    """The points that no other beats by more latency at less cost."""
    found: Caps = []
    least = math.inf
    for latency, cost in sorted(points, key=lambda point: (-point[0], point[1])):
        if cost < least - 1e-12:
            found.append((latency, cost))
            least = cost
    found.reverse()
    return found


class Allowance:
    """The caps of one module as a question: how much may it cost at a latency of at least L?"""

    def __init__(self, found: Caps, most_cost: float, slack: float) -> None:
        self._latencies = [latency + slack for latency, _ in found]
        self._costs = [most_cost - cost + slack for _, cost in found]

    @property
    def longest(self) -> float:
        """The longest latency that the others leave it; 0 where there is none."""
        return self._latencies[-1] if self._latencies else 0.0

    def at(self, latency: float) -> float:
        """The most that a point of at least `latency` may cost; negative where there may be none."""
        n = bisect_left(self._latencies, latency)
        return self._costs[n] if n < len(self._costs) else -1.0
