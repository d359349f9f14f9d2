"""Oracles: the allocations of those who know the true curves and loads.

They are for comparison only, in worlds whose truth is known: no policy is given them, and `magpie plan tenants` has no
policy of that kind. Social and egalitarian welfare are maximised exactly, by the programme and the bisection that
policies use on what they learned; fairness without justified complaints is the procedure with true demands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edge.core import checks
from scheduler.tenants.grid import no_complaints, to_steps
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import TenantGoal
from scheduler.tenants.welfare import best_least, best_sum, most_needed

ORACLES = ("sw", "ew", "njc")
#: True performance at these units under a load.
TrueCurve = Callable[[Floats, float], Floats]
#: A move that helps by less (ms) is not made.
_LEAST_GAIN_MS = 1e-6


def true_tables(
    goals: Sequence[TenantGoal], curves: Sequence[TrueCurve], loads: Sequence[Sequence[float]], units: Floats
) -> Floats:
    """(tenants, levels): utility of each tenant at each of `units`, in the mean over its true loads in an interval.

    Curves must not fall: welfare is exact on such tables."""
    rows = zip(goals, curves, loads, strict=True)
    return np.array([np.mean([goal.utility_of(curve(units, x)) for x in mine], axis=0) for goal, curve, mine in rows])


def oracle_steps(objective: str, tables: Floats, weights: Sequence[float] | None = None) -> tuple[int, ...]:
    """The steps of each tenant, with true utilities (tenants, levels) at 0, 1, 2, ... steps; `weights` of entitlements
    (None: equal ones). Raises InvalidValue for an objective that is not one of ORACLES."""
    checks.one_of("objective", objective, ORACLES)
    if objective == "sw":
        return tuple(best_sum(tables))
    if objective == "ew":
        return tuple(best_least(tables))
    count, steps = len(tables), tables.shape[1] - 1
    entitled = [1.0] * count if weights is None else list(weights)
    return to_steps(no_complaints([float(k) for k in most_needed(tables)], entitled, float(steps)), 1.0, steps)


def best_by_moves(
    latency_ms: Callable[[Sequence[float]], float], held: Sequence[float], least: float = 1.0
) -> tuple[float, list[float]]:
    """The latency (ms), and the units of each service of an application, where no move of one unit to another service
    lowers the true latency; begun at `held`. A service keeps `least`. Where services lie on several paths latency is no
    sum over them, and no exact programme is known to us."""
    low, best = latency_ms(held), list(held)
    while True:
        tries = []
        for i in range(len(best)):
            for j in range(len(best)):
                if i != j and best[i] > least:
                    trial = list(best)
                    trial[i], trial[j] = trial[i] - 1, trial[j] + 1
                    tries.append((latency_ms(trial), trial))
        if not tries or min(tries)[0] >= low - _LEAST_GAIN_MS:
            return low, best
        low, best = min(tries)
