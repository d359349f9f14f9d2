"""Machines are paid whole, as gpu-lets are on a box: the cheapest set of whole machines for each module, with the
objective split exactly. Even arrivals are replayed through the plan; where a request is late, the cheapest plan that was
found in time takes its place. One tuple a module is always in time, so there is one wherever such a plan exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, rounded_up, too_slow
from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import CLOSE, SLACK, Allotted, Configuration, module_plan, whole_cost, worst_case
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import fastest
from scheduler.pipelines.pareto import ParetoFront, Point, cheapest_within, chosen, joined
from scheduler.pipelines.replay import FedModule
from scheduler.pipelines.search import FoundPoints
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_punctual import cheapest_in_time, in_time
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

#: Configurations looked at in all branches, for one plan (the hardest of 680 workloads takes some thousands).
MOST_STEPS = 200_000


#: The same for plans that are in time: sets of machines, ways to feed them, and requests replayed in modules.
MOST_REPLAYED = 100_000

#: Where there is no plan of one tuple a module, plans in time are looked for up to so many times the least cost.
_DEARER = 1.5

#: The plans of other policies.
Rivals = Callable[[PipelineProblem], Iterable[PipelinePlan]]


class WholePolicy:
    """The least cost of whole machines that was found in time with even arrivals; at most what those of the `rivals`
    cost that are in time, once their machines are rounded up. Where no plan in time was found, the cheapest plan that
    keeps the rules."""

    def __init__(self, rivals: Rivals) -> None:
        self._rivals = rivals

    @property
    def name(self) -> str:
        """The name that the plan carries."""
        return "whole"

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """See PipelinePolicy."""
        steps = CountedSteps(MOST_STEPS)
        graph = PipelineGraph.of(problem)
        modules = Modules(graph, [m.rate for m in problem.modules], all_configurations(problem), "POOL", problem.slo_s)
        found = cheapest_machines(modules, steps)
        if found is None:
            return planned(problem, self.name, "POOL", None, steps, too_slow(problem, graph, fastest(modules)))
        how, budgets = fed(modules, found)
        replayed = CountedSteps(MOST_REPLAYED)
        if not in_time(modules, how, replayed):
            better = self._in_time(problem, modules, _paid(how), replayed)
            if better is not None:
                how, budgets = better, [0.0] * len(better)
        plans = {}
        for module, one, budget in zip(problem.modules, how, budgets, strict=True):
            plan = module_plan(one.tuples, one.dispatch)
            plans[module.name] = replace(plan, budget_s=max(plan.budget_s, budget))
        complete = not (steps.spent or replayed.spent)
        return PipelinePlan(
            problem.name, self.name, True, _paid(how), plans, (), steps.taken + replayed.taken, complete
        )

    def _in_time(
        self, problem: PipelineProblem, modules: Modules, least: float, steps: CountedSteps
    ) -> list[FedModule] | None:
        """The cheapest plan in time that was found; `least` is the least cost of any plan."""
        best = one_tuple_each(modules)
        if best is not None and _paid(best) <= least + CLOSE:
            return best
        most = least * _DEARER if best is None else _paid(best) - 2 * CLOSE
        best = cheapest_in_time(modules, most, steps) or best
        if best is not None and _paid(best) <= least + CLOSE:
            return best
        for plan in self._rivals(problem):
            if plan.feasible and (best is None or rounded_up(problem, plan) < _paid(best) - CLOSE):
                how = as_fed(problem, plan, modules)
                if in_time(modules, how, steps):
                    best = how
        return best


def one_tuple_each(modules: Modules) -> list[FedModule] | None:
    """The cheapest plan of one tuple a module, without dummies, along the graph's tree, or None. It is in time."""
    fronts = []
    for configs, rate in zip(modules.configs, modules.rates, strict=True):
        alone = FoundPoints()
        _alone(configs, rate, alone)
        fronts.append(alone.points())
    limit = modules.objective + CLOSE
    best = cheapest_within(joined(modules.graph.tree, fronts, limit), limit)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(modules.graph.tree, best, of)
    return [
        FedModule("POOL", allotted(of[m][2].machines, [rate], rate)) for m, rate in enumerate(modules.rates)
    ]


def as_fed(problem: PipelineProblem, plan: PipelinePlan, modules: Modules) -> list[FedModule]:
    """A feasible plan of `problem` with its machines rounded up. Requests that are dealt to machines (RR) are dealt to
    tuples of one machine each."""
    how = []
    for module, configs in zip(problem.modules, modules.configs, strict=True):
        known = {(c.batch, c.hardware): c for c in configs}
        given = plan.modules[module.name]
        tuples: list[Allotted] = []
        for t in given.tuples:
            machines, c = math.ceil(t.machines - 1e-6), known[t.batch, t.hardware]
            if given.dispatch == "RR":
                tuples += [Allotted(c, 1, t.rate / machines, t.dummy_rate / machines)] * machines
            else:
                tuples.append(Allotted(c, machines, t.rate, t.dummy_rate))
        how.append(FedModule("DT" if given.dispatch == "RR" else given.dispatch, tuple(tuples)))
    return how


def _paid(how: Sequence[FedModule]) -> float:
    return sum(whole_cost(one.tuples) for one in how)


def cheapest_machines(modules: Modules, steps: CountedSteps) -> list[tuple[float, Fed]] | None:
    """Each module's worst case and its machines, the cheapest along the graph's tree, or None."""
    tree, objective = modules.graph.tree, modules.objective
    limit = objective + CLOSE
    count = len(modules.rates)
    fronts: list[ParetoFront] = [least_front(modules.configs[m], modules.rates[m]) for m in range(count)]
    known = [FoundPoints() for _ in range(count)]
    for m in range(count):
        _alone(modules.configs[m], modules.rates[m], known[m])
    best = cheapest_within(joined(tree, [found.points() for found in known], limit), limit)
    most = float("inf") if best is None else best[1] + CLOSE
    for m in sorted(range(count), key=lambda m: len(fronts[m])):
        allowed = Allowance(caps(tree, m, fronts, objective, most), most, CLOSE)
        WholeSearch(modules.configs[m], modules.rates[m], known[m], allowed, steps).run()
        fronts[m] = known[m].points()
    best = cheapest_within(joined(tree, fronts, limit, most), limit)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(tree, best, of)
    return [(of[m][0], of[m][2]) for m in range(count)]


def _alone(configs: Sequence[Configuration], rate: float, found: FoundPoints) -> None:
    """Each configuration alone, without dummies."""
    for c in configs:
        machines = Machines(c, max(1, math.ceil(rate / c.throughput * (1 - SLACK) - SLACK)))
        found.add(c.duration + c.collected / rate, machines.number * c.price, Fed((machines,), "POOL", True))


def fed(modules: Modules, found: Sequence[tuple[float, Fed]]) -> tuple[list[FedModule], list[float]]:
    """How each module is fed, and its budget in seconds. A module may take the latency that the others leave it: more
    latency, fewer dummies."""
    latencies = [latency for latency, _ in found]
    how = []
    for m, (_, choice) in enumerate(found):
        left = modules.graph.limits(latencies, modules.objective)[m]
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
