"""The objective split over modules, switch by switch (Harpagon, section III-D, algorithm 2): by latency-cost
efficiency, or by throughput as Scrooge and InferLine do; node merger and cost-direct on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler.pipelines.dispatch import CLOSE, NEXT_WORST_CASE, Configuration
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.steps import CountedSteps

#: The last switches that cost-direct takes back, at most.
MOST_REVERSED = 5


class Level(NamedTuple):
    """A choice of a group of modules (mostly one): its latency, its cost, the throughput per price of its
    members added up, and the worst case of each member."""

    latency: float
    cost: float
    throughput: float
    members: tuple[float, ...]


class Modules(NamedTuple):
    """A splitter's input: the graph, each module's rate and configurations, the dispatch and the objective."""

    graph: PipelineGraph
    rates: Sequence[float]
    configs: Sequence[Sequence[Configuration]]
    dispatch: str
    objective: float


#: The worth of a switch: (cost saved, latency added, new level) -> the larger, the earlier.
Worth = Callable[[float, float, Level], tuple[float, float]]


def by_efficiency(saved: float, added: float, level: Level) -> tuple[float, float]:
    """Cost saved per second; a switch that adds no latency comes before all others."""
    return (math.inf, saved) if added <= 1e-12 else (saved / added, 0.0)


def by_throughput(saved: float, added: float, level: Level) -> tuple[float, float]:
    """Throughput per price of the new level, regardless of the latency it takes."""
    return level.throughput, 0.0


def by_cost(saved: float, added: float, level: Level) -> tuple[float, float]:
    """Cost saved, regardless of the latency it takes."""
    return saved, 0.0


def splits(modules: Modules, worth: Worth, merged: bool, direct: bool, steps: CountedSteps) -> list[tuple[float, ...]]:
    """Budgets of all modules, one tuple for each way in which the last switches were made (one way without `direct`),
    none twice; empty where not even the fastest configurations keep the objective. `merged`: modules with the same
    parents and children move together."""
    count = len(modules.rates)
    groups = modules.graph.alike() if merged else tuple((m,) for m in range(count))
    levels = [_levels(modules, group) for group in groups]
    start = _start(modules, groups) if steps.take(count) else None
    if start is None:
        return []
    states = [start]
    while (state := _switched(modules, groups, levels, states[-1], worth, steps)) is not None:
        states.append(state)
    ends = [states[-1]]
    for back in range(1, min(MOST_REVERSED, len(states) - 1) + 1 if direct else 1):
        state = states[-1 - back]
        while (switched := _switched(modules, groups, levels, state, by_cost, steps)) is not None:
            state = switched
        ends.append(state)
    budgets = []
    for end in ends:
        of = [0.0] * count
        for group, level in zip(groups, end, strict=True):
            for m, latency in zip(group, level.members, strict=True):
                of[m] = latency
        budgets.append(tuple(of))
    return list(dict.fromkeys(budgets))


def _switched(
    modules: Modules,
    groups: Sequence[tuple[int, ...]],
    levels: Sequence[Sequence[Level]],
    state: Sequence[Level],
    worth: Worth,
    steps: CountedSteps,
) -> list[Level] | None:
    """The state after the switch of the largest worth that lowers the cost and keeps the objective."""
    latencies = [0.0] * len(modules.rates)
    for group, level in zip(groups, state, strict=True):
        for m in group:
            latencies[m] = level.latency
    limits = modules.graph.limits(latencies, modules.objective)
    best: tuple[tuple[float, float], int, Level] | None = None
    for n, (group, now) in enumerate(zip(groups, state, strict=True)):
        # Members of a group have the same parents and children, so the same limit.
        limit, below = limits[group[0]] + CLOSE, now.cost - CLOSE
        if not steps.take(len(levels[n])):
            return None
        for level in levels[n]:
            if level.cost < below and level.latency <= limit:
                value = worth(now.cost - level.cost, level.latency - now.latency, level)
                if best is None or value > best[0]:
                    best = value, n, level
    if best is None:
        return None
    _, n, level = best
    return [*state[:n], level, *state[n + 1 :]]


def _level(modules: Modules, group: tuple[int, ...], chosen: Sequence[Configuration]) -> Level:
    worst = NEXT_WORST_CASE[modules.dispatch]
    members = tuple(worst(c, modules.rates[m]) for m, c in zip(group, chosen, strict=True))
    return Level(
        max(members),
        sum(c.unit_cost * modules.rates[m] for m, c in zip(group, chosen, strict=True)),
        sum(1 / c.unit_cost for c in chosen),
        members,
    )


def _levels(modules: Modules, group: tuple[int, ...]) -> list[Level]:
    """The group's choices: of one module each configuration, of several at each common latency the cheapest
    configurations."""
    if len(group) == 1:
        return [_level(modules, group, (c,)) for c in modules.configs[group[0]]]
    worst = NEXT_WORST_CASE[modules.dispatch]
    # Configurations come with the cheapest first, so the first that is fast enough is the one.
    members = [[(worst(c, modules.rates[m]), c) for c in modules.configs[m]] for m in group]
    levels = []
    for common in sorted({latency for member in members for latency, _ in member}):
        chosen = [next((c for latency, c in member if latency <= common + 1e-12), None) for member in members]
        if all(c is not None for c in chosen):
            levels.append(_level(modules, group, [c for c in chosen if c is not None]))
    return levels


def _start(modules: Modules, groups: Sequence[tuple[int, ...]]) -> list[Level] | None:
    """The smallest batch on the dearest hardware; where that is too slow, the fastest configurations."""
    for pick in (_dearest, _fastest):
        state = [_level(modules, group, [pick(modules, m) for m in group]) for group in groups]
        latencies = [0.0] * len(modules.rates)
        for group, level in zip(groups, state, strict=True):
            for m in group:
                latencies[m] = level.latency
        if modules.graph.longest(latencies) <= modules.objective + CLOSE:
            return state
    return None


def _dearest(modules: Modules, m: int) -> Configuration:
    return min(modules.configs[m], key=lambda c: (-c.price, c.batch))


def _fastest(modules: Modules, m: int) -> Configuration:
    worst = NEXT_WORST_CASE[modules.dispatch]
    return min(modules.configs[m], key=lambda c: (worst(c, modules.rates[m]), c.unit_cost))
