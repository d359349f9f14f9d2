"""The objective of each pipeline split over its stages at the least price, exactly, in any graph: an integer programme
that chooses one point of each model's front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.joint.demand import JointProblem
from scheduler.pipelines.pareto import ParetoFront

#: Nodes of the programme, and points of a front that enter it.
_NODES = 500
_POINTS = 60


def cheapest_split(
    problem: JointProblem, names: Sequence[str], fronts: Sequence[ParetoFront]
) -> dict[str, float] | None:
    """Model -> worst case in ms, bursts included, so that no path is above its objective and the sum of prices is the
    least; None where there is none. `names` and `fronts` are in the same order."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # loaded when first needed: it takes half a second

    few = [_few(front) for front in fronts]
    first = np.concatenate([[0], np.cumsum([len(front) for front in few])]).astype(int)
    place = {name: n for n, name in enumerate(names)}
    ends = {(p.name, s): int(first[-1]) + n for n, (p, s) in enumerate((p, s) for p in problem.busy for s in p.order)}
    size = int(first[-1]) + len(ends)
    rows, low = [], []

    def latency(row: np.ndarray, model: str, sign: float) -> None:
        m = place[model]
        for k, point in enumerate(few[m]):
            row[first[m] + k] += sign * (point[0] + problem.burst_ms[model])

    for m in range(len(names)):
        row = np.zeros(size)
        row[first[m] : first[m + 1]] = 1.0
        rows.append(row)
        low.append(1.0)
    for p in problem.busy:
        for s in p.stages:
            # A stage ends no sooner than each one before it, plus what it takes.
            for before in s.after or (None,):
                row = np.zeros(size)
                row[ends[p.name, s.name]] = 1.0
                if before is not None:
                    row[ends[p.name, before]] = -1.0
                latency(row, s.model, -1.0)
                rows.append(row)
                low.append(0.0)
    high = np.full(len(rows), np.inf)
    high[: len(names)] = 1.0
    cost = np.zeros(size)
    cost[: first[-1]] = [point[1] for front in few for point in front]
    most = np.ones(size)
    for (name, _), n in ends.items():
        most[n] = next(p.slo_ms for p in problem.busy if p.name == name)
    whole = np.zeros(size, np.int64)
    whole[: first[-1]] = 1
    answer = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), np.array(low), high),
        integrality=whole,
        bounds=Bounds(np.zeros(size), most),
        options={"node_limit": _NODES, "mip_rel_gap": 1e-4},
    )
    if answer.x is None:
        return None
    chosen = [int(np.argmax(answer.x[first[m] : first[m + 1]])) if few[m] else 0 for m in range(len(names))]
    return {name: few[m][chosen[m]][0] + problem.burst_ms[name] for m, name in enumerate(names)}


def _few(front: ParetoFront) -> ParetoFront:
    """At most so many points, evenly many left out; the first and the last stay."""
    if len(front) <= _POINTS:
        return front
    kept = np.unique(np.linspace(0, len(front) - 1, _POINTS).round().astype(int))
    return [front[n] for n in kept]
