"""Machines are paid whole, as gpu-lets are on a box: the cheapest set of whole machines for each module, with the
objective split exactly. Even arrivals are replayed through the plan; where a request is late, the cheapest plan that
was found in time takes its place: a late answer is worth nothing, however cheap. One tuple a module without dummies is
always in time, so such a plan is found wherever there is one.
"""

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
MOST_REPLAYED = 110_000

#: Of these, the steps for plans that are narrowed.
MOST_NARROWED = 40_000

#: More ways to feed a module are looked at where the search took fewer steps.
MORE_BELOW = 40_000

#: Where there is no plan of one tuple a module, plans in time are looked for up to so many times the least cost.
_DEARER = 1.5

#: Machines of a module to which requests are dealt one by one (RR) in a plan that is compared.
_MOST_DEALT = 64

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
        search = _SearchInTime(modules, fronts, _paid(how))
        if not in_time(modules, how, search.steps):
            better = search.cheapest()
            if better is None or _paid(better) > _paid(how) + CLOSE:
                better = search.compared(better, problem, self._rivals(problem))
            if better is not None:
                how, budgets = better, [0.0] * len(better)
        plans = {}
        for module, one, budget in zip(problem.modules, how, budgets, strict=True):
            plan = module_plan(one.tuples, one.dispatch)
            plans[module.name] = replace(plan, budget_s=max(plan.budget_s, budget))
        complete = not (steps.spent or search.steps.spent)
        taken = steps.taken + search.steps.taken + search.rivals_steps.taken
        return PipelinePlan(problem.name, self.name, True, _paid(how), plans, (), taken, complete)


class _SearchInTime:
    """The search for a plan in time; `least` is the least cost of any plan, `fronts` are the modules' by the rules."""

    def __init__(self, modules: Modules, fronts: Sequence[ParetoFront], least: float) -> None:
        self._modules, self._fronts, self._least = modules, fronts, least
        self.steps, self.rivals_steps = CountedSteps(MOST_REPLAYED), CountedSteps(MOST_REPLAYED)

    def cheapest(self) -> list[FedModule] | None:
        """The cheapest plan in time that was found."""
        narrowed = CountedSteps(MOST_NARROWED)
        best = cheapest_narrowed(self._modules, self._fronts, narrowed)
        self.steps.take(narrowed.taken)
        for more in (False, True):
            if best is not None and _paid(best) <= self._least + CLOSE:
                break
            if more and self.steps.taken > MORE_BELOW:
                break
            most = self._least * _DEARER if best is None else _paid(best) - 2 * CLOSE
            best = cheapest_in_time(self._modules, most, self.steps, more) or best
        return best

    def compared(
        self, best: list[FedModule] | None, problem: PipelineProblem, rivals: Iterable[PipelinePlan]
    ) -> list[FedModule] | None:
        """`best`, or a cheaper plan of the `rivals` that is in time."""
        for plan in rivals:
            if not plan.feasible or not replayable(plan):
                continue
            if best is None or rounded_up(problem, plan) < _paid(best) - CLOSE:
                how = as_fed(problem, plan, self._modules)
                if in_time(self._modules, how, self.rivals_steps):
                    best = how
        return best


def replayable(plan: PipelinePlan) -> bool:
    """Whether `as_fed` makes few tuples of the plan: a replay takes as long as its requests times its tuples."""
    dealt = (m.tuples for m in plan.modules.values() if m.dispatch == "RR")
    return all(sum(math.ceil(t.machines - 1e-6) for t in tuples) <= _MOST_DEALT for tuples in dealt)


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
