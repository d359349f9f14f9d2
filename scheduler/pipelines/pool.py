"""All machines of a configuration share the module's whole rate, and each module has one configuration (theorem 1 of
the Harpagon paper read literally): its front is a list of configurations, and the best split is exact.

Padding: a timer that closes a batch early raises the rate w at which it is collected; the empty places are paid. Two
even streams together (requests and dummies) are not quite even, so a padded batch is given one place more: a replay of
plans without that place had late requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, too_slow
from scheduler.pipelines.dispatch import CLOSE, Allotted, Configuration
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import fastest
from scheduler.pipelines.pareto import ParetoFront, Point, cheapest_within, chosen, joined, pareto
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps

#: Configurations looked at and modules padded, for one plan.
MOST_STEPS = 200_000


class PoolPolicy:
    """One configuration a module, shared by all its machines; padded where that lets a cheaper one in."""

    @property
    def name(self) -> str:
        """The name that the plan carries."""
        return "pool"

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """See PipelinePolicy."""
        steps = CountedSteps(MOST_STEPS)
        graph = PipelineGraph.of(problem)
        modules = Modules(graph, [m.rate for m in problem.modules], all_configurations(problem), "POOL", problem.slo_s)
        steps.take(sum(len(configs) for configs in modules.configs))
        found = pooled(modules, steps)
        if found is None:
            return planned(problem, self.name, "POOL", None, steps, too_slow(problem, graph, fastest(modules)))
        tuples = padded(modules, found, steps)
        plan = planned(problem, self.name, "POOL", [(t,) for t in tuples], steps)
        budgets = {m.name: _latency(t) for m, t in zip(problem.modules, tuples, strict=True)}
        return replace(plan, modules={n: replace(m, budget_s=budgets[n]) for n, m in plan.modules.items()})


def pooled(modules: Modules, steps: CountedSteps) -> list[Allotted] | None:
    """The cheapest configuration of each module within the objective along the graph's tree, or None."""
    fronts: list[ParetoFront] = [
        pareto((c.duration + c.collected / rate, c.unit_cost * rate, c) for c in configs)
        for configs, rate in zip(modules.configs, modules.rates, strict=True)
    ]
    limit = modules.objective + CLOSE
    best = cheapest_within(joined(modules.graph.tree, fronts, limit, steps=steps), limit)
    if best is None:
        return None
    of: dict[int, Point] = {}
    chosen(modules.graph.tree, best, of)
    return [_shared(of[m][2], rate, 0.0) for m, rate in enumerate(modules.rates)]


def padded(modules: Modules, found: Sequence[Allotted], steps: CountedSteps) -> list[Allotted]:
    """The plan after modules took a cheaper configuration, or less padding, within the latency that the others leave
    them; the largest saving first, until none is left."""
    now = list(found)
    latencies = [_latency(t) for t in now]
    while steps.take(len(now)):
        limits = modules.graph.limits(latencies, modules.objective)
        best: tuple[float, int, Allotted] | None = None
        for m, tuple_now in enumerate(now):
            other = _cheapest(modules.configs[m], modules.rates[m], limits[m])
            saved = 0.0 if other is None else _cost(tuple_now) - _cost(other)
            if other is not None and saved > CLOSE and (best is None or saved > best[0]):
                best = saved, m, other
        if best is None:
            break
        _, m, now[m] = best
        latencies[m] = _latency(now[m])
    return now


def _cheapest(configs: Sequence[Configuration], rate: float, limit: float) -> Allotted | None:
    """The cheapest configuration that keeps `limit`, with as much padding as it needs."""
    best: tuple[float, Configuration, float] | None = None
    for c in configs:
        if best is not None and c.unit_cost * rate >= best[0]:
            break
        room = limit - c.duration
        if room < 0 or (room == 0 and c.collected):
            continue
        dummy = max(0.0, (c.collected + 1) / room - rate) if c.collected and c.collected / room > rate else 0.0
        cost = c.unit_cost * (rate + dummy)
        if best is None or cost < best[0]:
            best = cost, c, dummy
    return None if best is None else _shared(best[1], rate, best[2])


def _shared(c: Configuration, rate: float, dummy: float) -> Allotted:
    return Allotted(c, (rate + dummy) / c.throughput, rate + dummy, dummy)


def _latency(t: Allotted) -> float:
    """The module's latency: with padding, the spare place too."""
    spare = 1 if t.dummy > 0 and t.configuration.collected else 0
    return t.configuration.duration + (t.configuration.collected + spare) / t.rate


def _cost(t: Allotted) -> float:
    return t.configuration.price * t.machines
