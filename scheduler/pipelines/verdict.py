"""Whether a pipeline plan keeps the rules: rates, capacity, order of dispatch, worst cases, paths, cost. It looks at
plan and problem only, so it judges every planner alike (docs/pipelines.md has the rules)."""

from __future__ import annotations

import math
from itertools import pairwise

from edge.core.pipelines import ModulePlan, PipelineModule, PipelinePlan, PipelineProblem
from scheduler.pipelines.dispatch import Allotted, configurations, cost, worst_case
from scheduler.pipelines.graph import PipelineGraph

_TOLERANCE = 1e-6


def faults(problem: PipelineProblem, plan: PipelinePlan) -> tuple[str, ...]:
    """Every rule that the plan breaks, in words that begin with the module; none for a plan without an answer."""
    if not plan.feasible:
        return ()
    found: list[str] = []
    total = 0.0
    for module in problem.modules:
        given = plan.modules.get(module.name)
        if given is None:
            found.append(f"{module.name}: not in the plan")
            continue
        tuples = _read(module, given, found)
        if tuples:
            found += _module_faults(module, given, tuples)
            total += cost(tuples)
    if found:
        return tuple(found)
    budgets = [plan.modules[m.name].budget_s for m in problem.modules]
    longest = PipelineGraph.of(problem).longest(budgets)
    if _over(longest, problem.slo_s):
        found.append(f"slo_s: budgets of a path add up to {longest:.6f} s, the objective is {problem.slo_s:.6f} s")
    if plan.cost is None or abs(plan.cost - total) > _TOLERANCE * max(1.0, total):
        found.append(f"cost: it is {total:.6f}, not {plan.cost}")
    return tuple(found)


def _over(value: float, limit: float) -> bool:
    return value > limit + _TOLERANCE * max(1.0, abs(limit))


def _read(module: PipelineModule, given: ModulePlan, found: list[str]) -> list[Allotted]:
    """The module's tuples with their configurations; unreadable ones are added to `found`."""
    known = {(c.batch, c.hardware): c for c in configurations(module)}
    tuples = []
    for n, t in enumerate(given.tuples):
        config = known.get((t.batch, t.hardware))
        if config is None:
            found.append(f"{module.name}: tuple {n} has batch {t.batch} on {t.hardware}, which the profile lacks")
        elif t.machines <= 0 or t.rate <= 0 or t.dummy_rate < 0 or _over(t.dummy_rate, t.rate):
            found.append(f"{module.name}: tuple {n} has no machines, no rate, or more dummies than its rate")
        else:
            tuples.append(Allotted(config, t.machines, t.rate, t.dummy_rate))
    if not given.tuples:
        found.append(f"{module.name}: no tuples")
    return tuples if len(tuples) == len(given.tuples) else []


def _module_faults(module: PipelineModule, given: ModulePlan, tuples: list[Allotted]) -> list[str]:
    found = []
    served = sum(t.rate - t.dummy for t in tuples)
    if abs(served - module.rate) > _TOLERANCE * max(1.0, module.rate):
        found.append(f"{module.name}: tuples take {served:.6g} of {module.rate:.6g} requests/s")
    for n, t in enumerate(tuples):
        if _over(t.rate, t.machines * t.configuration.throughput):
            found.append(f"{module.name}: tuple {n} is sent {t.rate:.6g} requests/s, more than its machines can do")
        if given.dispatch == "TC" and t.machines > 1 + 1e-6 and abs(t.machines - round(t.machines)) > 1e-6:
            found.append(f"{module.name}: tuple {n} has {t.machines:.6g} machines; its part machine is its own tuple")
    costs = [t.configuration.unit_cost for t in tuples]
    if given.dispatch in ("TC", "POOL") and any(b < a * (1 - _TOLERANCE) for a, b in pairwise(costs)):
        found.append(f"{module.name}: tuples are not in the order of price per request")
    worst = worst_case(tuples, given.dispatch)
    if _over(worst, given.budget_s):
        found.append(f"{module.name}: its worst case of {worst:.6f} s is over its budget of {given.budget_s:.6f} s")
    if not math.isclose(worst, given.worst_case_s, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        found.append(f"{module.name}: its worst case is {worst:.6f} s, not {given.worst_case_s:.6f} s")
    return found
