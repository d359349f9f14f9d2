"""Budgets that are multiples of a step: the best split among them, by fronts (Nexus, section 6.2; Harp-q)."""

from __future__ import annotations

from scheduler.pipelines.dispatch import CLOSE, Tuples, cost
from scheduler.pipelines.pareto import Point, chosen, joined, pareto
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import Steps

#: More multiples of the step than these are not looked at: the plan is then not complete.
MOST_LEVELS = 5_000


def quantised(modules: Modules, rules: ModuleRules, step_s: float, steps: Steps) -> list[Tuples] | None:
    """The cheapest plan whose budgets are multiples of `step_s`, or None. Fronts are in steps."""
    steps.take()
    count = int(modules.objective / step_s + CLOSE)
    if count > MOST_LEVELS:
        count = MOST_LEVELS
        steps.take(steps.limit)
    fronts = []
    for configs, rate in zip(modules.configs, modules.rates, strict=True):
        points = []
        for level in range(1, count + 1):
            if not steps.take():
                break
            tuples = schedule(configs, rate, level * step_s, rules)
            if tuples is not None:
                points.append(Point(level, cost(tuples), tuples))
        fronts.append(pareto(points))
    front = joined(modules.graph.tree, fronts, count)
    if not front or front[-1].latency > count:
        front = [point for point in front if point.latency <= count]
        if not front:
            return None
    of: dict[int, Point] = {}
    chosen(modules.graph.tree, front[-1], of)
    return [of[m].choice for m in range(len(fronts))]
