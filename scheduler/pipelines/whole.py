"""Machines are paid whole, as gpu-lets are on a box: the cheapest set of whole machines for each module, with the
objective split exactly. Even arrivals are replayed through the plan; where a request is late, the cheapest plan that was
found in time takes its place. One tuple a module is always in time, so there is one wherever such a plan exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, rounded_up, too_slow
from scheduler.pipelines.dispatch import CLOSE, Allotted, module_plan, whole_cost
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import fastest
from scheduler.pipelines.pareto import ParetoFront
from scheduler.pipelines.replay import FedModule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_machines import cheapest_of, fed, whole_fronts
from scheduler.pipelines.whole_narrowed import cheapest_narrowed
from scheduler.pipelines.whole_punctual import cheapest_in_time, in_time

#: Configurations looked at in all branches, for one plan (the hardest of 680 workloads takes some thousands).
MOST_STEPS = 200_000


#: The same for plans that are in time: sets of machines, ways to feed them, and requests replayed in modules.
MOST_REPLAYED = 130_000

#: Of these, steps for plans that are narrowed.
MOST_NARROWED = 20_000

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
        fronts = whole_fronts(modules, steps)
        found = cheapest_of(modules, fronts, problem.slo_s)
        if found is None:
            return planned(problem, self.name, "POOL", None, steps, too_slow(problem, graph, fastest(modules)))
        how, budgets = fed(modules, found, problem.slo_s)
        replayed = CountedSteps(MOST_REPLAYED)
        if not in_time(modules, how, replayed):
            better = self._in_time(problem, modules, fronts, _paid(how), replayed)
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
        self,
        problem: PipelineProblem,
        modules: Modules,
        fronts: Sequence[ParetoFront],
        least: float,
        steps: CountedSteps,
    ) -> list[FedModule] | None:
        """The cheapest plan in time that was found; `least` is the least cost of any plan."""
        narrowed = CountedSteps(MOST_NARROWED)
        best = cheapest_narrowed(modules, fronts, narrowed)
        steps.take(narrowed.taken)
        for more in (False, True):
            if best is not None and _paid(best) <= least + CLOSE:
                return best
            most = least * _DEARER if best is None else _paid(best) - 2 * CLOSE
            best = cheapest_in_time(modules, most, steps, more) or best
        for plan in self._rivals(problem):
            if plan.feasible and (best is None or rounded_up(problem, plan) < _paid(best) - CLOSE):
                how = as_fed(problem, plan, modules)
                if in_time(modules, how, steps):
                    best = how
        return best


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
