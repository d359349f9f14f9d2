"""Budgets that are multiples of a step: the best split among them, by fronts (Nexus, section 6.2; Harp-q)."""

from __future__ import annotations

from scheduler.pipelines.dispatch import CLOSE, Tuples, cost
from scheduler.pipelines.pareto import Point, cheapest_within, chosen, joined, pareto
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps

#: More multiples of the step than these are not looked at: the plan is then not complete.
MOST_LEVELS = 5_000


def quantised(modules: Modules, rules: ModuleRules, step_s: float, steps: CountedSteps) -> list[Tuples] | None:
    """The cheapest plan whose budgets are multiples of `step_s`, or None. Fronts are in steps."""
    steps.take()
    asked = int(modules.objective / step_s + CLOSE)
    count = min(asked, MOST_LEVELS)
    fronts = []
    for configs, rate in zip(modules.configs, modules.rates, strict=True):
        points: list[Point] = []
        for level in range(1, count + 1):
            if not steps.take():
                break
            tuples = schedule(configs, rate, level * step_s, rules)
            if tuples is not None:
                points.append((level, cost(tuples), tuples))
        fronts.append(pareto(points))
    if count < asked:
        steps.take(steps.limit)
    front = joined(modules.graph.tree, fronts, count)
    best = cheapest_within(front, count)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(modules.graph.tree, best, of)
    return [of[m][2] for m in range(len(fronts))]
