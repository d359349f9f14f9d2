"""From what a planner found to its plan: the same fields, reasons and counts for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.dispatch import Configuration, Tuples, configurations, cost, module_plan
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.steps import CountedSteps


def planned(
    problem: PipelineProblem,
    policy: str,
    dispatch: str,
    modules: Sequence[Tuples] | None,
    steps: CountedSteps,
    *words: str,
) -> PipelinePlan:
    """The plan of what was found for each module, in the problem's order; None: nothing was found, and `words` say
    why."""
    if modules is None:
        return PipelinePlan(problem.name, policy, False, None, {}, words, steps.taken, not steps.spent)
    plans = {m.name: module_plan(tuples, dispatch) for m, tuples in zip(problem.modules, modules, strict=True)}
    total = sum(cost(tuples) for tuples in modules)
    return PipelinePlan(problem.name, policy, True, total, plans, words, steps.taken, not steps.spent)


def too_slow(problem: PipelineProblem, graph: PipelineGraph, latencies: Sequence[float]) -> str:
    """Why there is no plan, where `latencies` are the least that each module can have."""
    path = graph.path(latencies)
    names = " > ".join(problem.modules[m].name for m in path)
    total = sum(latencies[m] for m in path)
    if total <= problem.slo_s:
        return (
            f"slo_s: no plan within {problem.slo_s:g} s was found; the fastest path {names} alone takes {total:.6g} s"
        )
    return f"slo_s: got {problem.slo_s:g}, the path {names} takes {total:.6g} s at least"


def all_configurations(problem: PipelineProblem) -> list[tuple[Configuration, ...]]:
    """Each module's configurations, in the problem's order."""
    return [configurations(module) for module in problem.modules]


def rounded_up(problem: PipelineProblem, plan: PipelinePlan) -> float:
    """The cost of a feasible plan with each tuple's machines rounded up."""
    total = 0.0
    for module in problem.modules:
        prices = {(row.batch, row.hardware): row.price for row in module.profile}
        for part in plan.modules[module.name].tuples:
            total += prices[part.batch, part.hardware] * math.ceil(part.machines - 1e-6)
    return total
