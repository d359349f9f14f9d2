"""The exact optimum under TC: each module's whole front of (worst case, cost), added in series, the larger worst case
in parallel.

A greedy plan tells what may be spent at most, the fronts of an easier problem (any part of a machine is allowed, as
fast as with dummies) what every other module takes at least; each module is searched between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, too_slow
from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import CLOSE, Configuration, Tuples, cost, worst_case
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import MOST_STEPS as HARPAGON_STEPS
from scheduler.pipelines.harpagon import HarpagonOptions, best_plan, fastest
from scheduler.pipelines.pareto import ParetoFront, Point, cheapest_within, chosen, joined, pareto
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.search import FoundPoints, ModuleSearch
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps

#: Configurations looked at in all branches, for one plan (the hardest of 680 workloads takes some thousands).
MOST_STEPS = 200_000

_RULES = ModuleRules()


class FrontsPolicy:
    """The optimum where the graph is made of modules in series and in parallel; elsewhere the better of Harpagon and
    of what is found with modules of equal depth side by side."""

    @property
    def name(self) -> str:
        """The name that the plan carries."""
        return "fronts"

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """See PipelinePolicy."""
        steps = CountedSteps(MOST_STEPS)
        graph = PipelineGraph.of(problem)
        modules = Modules(graph, [m.rate for m in problem.modules], all_configurations(problem), "TC", problem.slo_s)
        found = exact(modules, steps)
        if steps.spent or not graph.exact:
            found = _improved(modules, found)
        why = () if found is not None else (too_slow(problem, graph, fastest(modules)),)
        return planned(problem, self.name, "TC", found, steps, *why)


def exact(modules: Modules, steps: CountedSteps) -> list[Tuples] | None:
    """The cheapest plan along the graph's tree, or None."""
    tree, objective = modules.graph.tree, modules.objective
    count = len(modules.rates)
    fronts: list[ParetoFront] = [_easier(modules.configs[m], modules.rates[m]) for m in range(count)]
    known = [_greedy(modules, m) for m in range(count)]
    within = joined(tree, [found.points() for found in known], objective, steps=steps)
    best = cheapest_within(within, objective + CLOSE)
    most = float("inf") if best is None else best[1] + CLOSE
    for m in sorted(range(count), key=lambda m: len(fronts[m])):
        if not steps.spent:
            allowed = Allowance(caps(tree, m, fronts, objective, most), most, CLOSE)
            ModuleSearch(modules.configs[m], modules.rates[m], known[m], allowed, steps).run()
        fronts[m] = known[m].points()
    best = cheapest_within(joined(tree, fronts, objective + CLOSE, most, steps), objective + CLOSE)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(tree, best, of)
    return [of[m][2] for m in range(count)]


def _easier(configs: Sequence[Configuration], rate: float) -> list[Point]:
    """A lower bound of the module's front: one configuration serves all with parts of machines, and waits as if dummies
    filled one machine more."""
    return pareto(
        (c.duration + c.collected / (rate + c.throughput), rate * c.unit_cost, None) for c in configs
    )  # fmt: skip


def _greedy(modules: Modules, m: int) -> FoundPoints:
    """Points that algorithm 1 finds within some budgets."""
    found = FoundPoints()
    rate, configs = modules.rates[m], modules.configs[m]
    budgets = {c.duration + c.collected / rate for c in configs} | {2 * c.duration for c in configs}
    for budget in sorted(budgets):
        if budget > modules.objective:
            break
        tuples = schedule(configs, rate, budget, _RULES)
        if tuples is not None:
            found.add(worst_case(tuples, "TC"), cost(tuples), tuples)
    return found


def _improved(modules: Modules, found: list[Tuples] | None) -> list[Tuples] | None:
    """The better of `found` and Harpagon's plan, which has steps of its own."""
    other = best_plan(modules, HarpagonOptions(), CountedSteps(HARPAGON_STEPS))
    plans = [plan for plan in (found, other) if plan is not None]
    return min(plans, key=lambda plan: sum(cost(tuples) for tuples in plan), default=None)
