"""The cheapest whole machines of all modules by a bound of each: fronts of sets of machines, joined along the graph,
and the way in which each chosen set is fed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import CLOSE, SLACK, Allotted, Configuration, worst_case
from scheduler.pipelines.pareto import ParetoFront, Point, cheapest_within, chosen, joined
from scheduler.pipelines.replay import FedModule
from scheduler.pipelines.search import FoundPoints
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_search import (
    Fed,
    Machines,
    WholeSearch,
    dealt_rates,
    least_front,
    pool_rates,
    strict_pool,
)
from scheduler.pipelines.whole_ways import allotted

#: Each module's worst case in seconds and its machines.
Found = list[tuple[float, Fed]]


def whole_fronts(modules: Modules, steps: CountedSteps, strict: bool = False) -> list[ParetoFront]:
    """Each module's sets of machines, as far as a plan with them may be the cheapest. `strict`: only those that keep
    their worst case with even arrivals."""
    tree, objective = modules.graph.tree, modules.objective
    count = len(modules.rates)
    fronts: list[ParetoFront] = [least_front(modules.configs[m], modules.rates[m]) for m in range(count)]
    known = [_one_tuple(configs, rate) for configs, rate in zip(modules.configs, modules.rates, strict=True)]
    limit = objective + CLOSE
    best = cheapest_within(joined(tree, [found.points() for found in known], limit, steps=steps), limit)
    most = math.inf if best is None else best[1] + CLOSE
    for m in sorted(range(count), key=lambda m: len(fronts[m])):
        if not steps.spent:
            allowed = Allowance(caps(tree, m, fronts, objective, most), most, CLOSE)
            WholeSearch(modules.configs[m], modules.rates[m], known[m], allowed, steps, strict).run()
        fronts[m] = known[m].points()
    return fronts


def one_tuple_fronts(modules: Modules) -> list[ParetoFront]:
    """Each module's sets of one configuration, without dummies."""
    return [_one_tuple(c, rate).points() for c, rate in zip(modules.configs, modules.rates, strict=True)]


def cheapest_of(modules: Modules, fronts: Sequence[ParetoFront], objective: float) -> Found | None:
    """Each module's point in the cheapest plan within `objective` seconds along the graph's tree, or None."""
    limit = objective + CLOSE
    best = cheapest_within(joined(modules.graph.tree, fronts, limit), limit)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(modules.graph.tree, best, of)
    return [(of[m][0], of[m][2]) for m in range(len(fronts))]


def _one_tuple(configs: Sequence[Configuration], rate: float) -> FoundPoints:
    found = FoundPoints()
    for c in configs:
        machines = Machines(c, max(1, math.ceil(rate / c.throughput * (1 - SLACK) - SLACK)))
        found.add(c.duration + c.collected / rate, machines.number * c.price, Fed((machines,), "POOL", True))
    return found


def fed(modules: Modules, found: Found, objective: float) -> tuple[list[FedModule], list[float]]:
    """How each module is fed within `objective` seconds, and its budget in seconds. A module may take the latency that
    the others leave it: more latency, fewer dummies."""
    latencies = [latency for latency, _ in found]
    how = []
    for m, (_, choice) in enumerate(found):
        left = modules.graph.limits(latencies, objective)[m]
        limit = latencies[m] + (left - latencies[m]) / (len(found) - m)
        tuples, dispatch, latencies[m] = _feed(choice, modules.rates[m], limit)
        how.append(FedModule(dispatch, tuples))
    return how, latencies


def _feed(choice: Fed, rate: float, limit: float) -> tuple[tuple[Allotted, ...], str, float]:
    """Tuples, dispatch and worst case within `limit`: without dummies where that holds, then with few, then with as
    many as there is room for."""
    machines = choice.machines
    close = limit + CLOSE
    rates = pool_rates(machines, rate)
    strict = strict_pool(machines, rates, False)
    dealt = dealt_rates(machines, rate, limit) if len(machines) > 1 else None
    if dealt is not None:
        return allotted(machines, dealt, rate), "DT", limit
    if strict <= close:
        return allotted(machines, rates, rate), "POOL", strict
    first = machines[0].configuration
    full = [m.capacity for m in machines]
    if len(machines) == 1 and first.collected and limit > first.duration:
        padded = (first.collected + 1) / (limit - first.duration)
        if rate <= padded <= full[0]:
            return allotted(machines, [padded], rate), "POOL", limit
    if not choice.strict and len(machines) > 1 and rates[0] > 0:
        tuples = allotted(machines, rates, rate)
        worst = worst_case(tuples, "POOL")
        if worst <= close:
            return tuples, "POOL", worst
    tuples = allotted(machines, full, rate)
    return tuples, "POOL", strict_pool(machines, full, True) if choice.strict else worst_case(tuples, "POOL")
