"""Machines are paid whole, as gpu-lets are on a box: the cheapest set of whole machines for each module, with the
objective split exactly. At equal cost, machines are fed in a way that keeps the worst case strictly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from edge.core.pipelines import ModulePlan, PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, too_slow
from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import CLOSE, SLACK, Allotted, Configuration, module_plan, worst_case
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import fastest
from scheduler.pipelines.pareto import ParetoFront, Point, cheapest_within, chosen, joined, pareto
from scheduler.pipelines.search import FoundPoints
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_search import Fed, Machines, WholeSearch, dealt_rates, pool_rates, strict_pool

#: Configurations looked at in all branches, for one plan (the hardest of 680 workloads takes some thousands).
MOST_STEPS = 200_000


class WholePolicy:
    """The least cost of whole machines."""

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
        plans = dict(zip([m.name for m in problem.modules], fed(modules, found), strict=True))
        cost = sum(m.number * m.configuration.price for _, choice in found for m in choice.machines)
        return PipelinePlan(problem.name, self.name, True, cost, plans, (), steps.taken, not steps.spent)


def cheapest_machines(modules: Modules, steps: CountedSteps) -> list[tuple[float, Fed]] | None:
    """Each module's worst case and its machines, the cheapest along the graph's tree, or None."""
    tree, objective = modules.graph.tree, modules.objective
    limit = objective + CLOSE
    count = len(modules.rates)
    fronts: list[ParetoFront] = [_easier(modules.configs[m], modules.rates[m]) for m in range(count)]
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


def _easier(configs: Sequence[Configuration], rate: float) -> list[Point]:
    """A lower bound of the module's front: parts of machines, at least the price of one."""
    return pareto(
        (c.duration + c.collected / (rate + c.throughput), max(rate * c.unit_cost, c.price), None) for c in configs
    )


def _alone(configs: Sequence[Configuration], rate: float, found: FoundPoints) -> None:
    """Each configuration alone, without dummies."""
    for c in configs:
        machines = Machines(c, max(1, math.ceil(rate / c.throughput * (1 - SLACK) - SLACK)))
        found.add(c.duration + c.collected / rate, machines.number * c.price, Fed((machines,), "POOL", True))


def fed(modules: Modules, found: Sequence[tuple[float, Fed]]) -> list[ModulePlan]:
    """The modules' plans. A module may take the latency that the others leave it: more latency, fewer dummies."""
    latencies = [latency for latency, _ in found]
    plans = []
    for m, (_, choice) in enumerate(found):
        left = modules.graph.limits(latencies, modules.objective)[m]
        limit = latencies[m] + (left - latencies[m]) / (len(found) - m)
        tuples, dispatch, latencies[m] = _feed(choice, modules.rates[m], limit)
        plan = module_plan(tuples, dispatch)
        plans.append(replace(plan, budget_s=max(plan.budget_s, latencies[m])))
    return plans


def _feed(choice: Fed, rate: float, limit: float) -> tuple[tuple[Allotted, ...], str, float]:
    """Tuples, dispatch and worst case within `limit`: without dummies where that holds, then with few, then with as
    many as there is room for."""
    machines = choice.machines
    close = limit + CLOSE
    rates = pool_rates(machines, rate)
    strict = strict_pool(machines, rates, False)
    dealt = dealt_rates(machines, rate, limit) if len(machines) > 1 else None
    if dealt is not None:
        return _tuples(machines, dealt, rate), "DT", limit
    if strict <= close:
        return _tuples(machines, rates, rate), "POOL", strict
    first = machines[0].configuration
    full = [m.capacity for m in machines]
    if len(machines) == 1 and first.collected and limit > first.duration:
        padded = (first.collected + 1) / (limit - first.duration)
        if rate <= padded <= full[0]:
            return _tuples(machines, [padded], rate), "POOL", limit
    if not choice.strict and len(machines) > 1 and rates[0] > 0:
        tuples = _tuples(machines, rates, rate)
        worst = worst_case(tuples, "POOL")
        if worst <= close:
            return tuples, "POOL", worst
    tuples = _tuples(machines, full, rate)
    return tuples, "POOL", strict_pool(machines, full, True) if choice.strict else worst_case(tuples, "POOL")


def _tuples(machines: Sequence[Machines], rates: Sequence[float], rate: float) -> tuple[Allotted, ...]:
    """The machines with the requests they are sent; requests above `rate` are dummies, for the last ones first."""
    dummies = max(0.0, sum(rates) - rate)
    tuples: list[Allotted] = []
    for m, sent in zip(reversed(machines), reversed(rates), strict=True):
        of_it = min(dummies, sent)
        dummies -= of_it
        tuples.insert(0, Allotted(m.configuration, m.number, sent, of_it))
    return tuple(tuples)
