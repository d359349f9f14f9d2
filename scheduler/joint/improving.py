"""A shape made smaller while everything holds: a descent by steps that each take less, and then a search aimed at less.

A shape is judged along whole paths, so a step may take from one stage the time that another leaves. The aimed search
begins with shapes that take less and do not hold, and changes them at the same total share until they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.joint.moves import moves
from scheduler.joint.shapes import Shape, ShapeBench
from scheduler.pipelines.steps import CountedSteps

#: Shapes from which the aimed search begins, and changes of each.
_STARTS, _CLIMBS = 6, 10


def descended(bench: ShapeBench, shape: Shape, steps: CountedSteps) -> Shape:
    """The smallest shape that was found from `shape`, which holds, by steps that each make it smaller."""
    current = shape
    while True:
        now = bench.total(current)
        totals = {other: bench.total(other) for other in moves(bench, current)}
        # Small steps first: they hold most often, and lead to the large ones.
        tried = sorted((other for other in totals if totals[other] < now), key=lambda other: -totals[other])
        for other in tried:
            if not steps.take():
                return current
            if bench.holds(other) is not None:
                current = other
                break
        else:
            return current


def aimed(bench: ShapeBench, shapes: Sequence[Shape], steps: CountedSteps) -> Shape:
    """The smallest shape that was found from `shapes` (at least one, all holding)."""
    best = min(shapes, key=bench.total)
    while True:
        found = next((f for s in dict.fromkeys(shapes) if (f := _less(bench, s, bench.total(best), steps))), None)
        if found is None:
            return best
        best = descended(bench, found, steps)
        shapes = [best]


def _less(bench: ShapeBench, shape: Shape, above: int, steps: CountedSteps) -> Shape | None:
    """A shape that holds and takes less than `above`, or None."""
    tried = {shape}
    starts = _ranked(bench, shape, above, tried, steps)
    for missed, start in starts[:_STARTS]:
        current, least = start, missed
        for _ in range(_CLIMBS):
            if least <= 0:
                return current
            others = _ranked(bench, current, above, tried, steps)
            if not others or others[0][0] >= least:
                break
            least, current = others[0]
    return None


def _ranked(
    bench: ShapeBench, shape: Shape, above: int, tried: set[Shape], steps: CountedSteps
) -> list[tuple[float, Shape]]:
    """The shapes one step away that take less than `above`, with how much they miss, those that miss least first."""
    found = []
    for other in moves(bench, shape):
        if other in tried or bench.total(other) >= above:
            continue
        tried.add(other)
        if not steps.take():
            break
        missed = bench.missed(other)
        if missed < math.inf:
            found.append((missed, other))
            if missed <= 0:
                break
    return sorted(found, key=lambda item: item[0])
