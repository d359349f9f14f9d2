"""The planner of the Harpagon paper, with its ablations as options (Zhao et al.; docs/pipelines.md tells how the places
that the paper leaves open are read)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned, too_slow
from scheduler.pipelines.dispatch import CLOSE, NEXT_WORST_CASE, Configuration, Tuples, cost
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.quantised import quantised
from scheduler.pipelines.reassigning import reassigned
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.splitting import Modules, Worth, by_efficiency, by_throughput, splits
from scheduler.pipelines.steps import CountedSteps

#: Levels and modules looked at, for one plan (a workload of five modules takes some thousands).
MOST_STEPS = 2_000_000

Hardware = Literal["any", "cheapest", "dearest"]


@dataclass(frozen=True)
class HarpagonOptions:
    """The options. `most` configurations per module (None: any number); `reassign` modules at most (None: any
    number, 0: none); `step_s`: budgets are multiples of it (None: split switch by switch, by latency-cost efficiency
    or, with `by_throughput`, by throughput)."""

    dispatch: str = "TC"
    most: int | None = None
    batching: bool = True
    hardware: Hardware = "any"
    dummies: bool = True
    reassign: int | None = None
    by_throughput: bool = False
    step_s: float | None = None
    merge: bool = True
    direct: bool = True

    @property
    def rules(self) -> ModuleRules:
        """How one module is scheduled."""
        return ModuleRules(self.dispatch, self.most, self.dummies)


class HarpagonPolicy:
    """Harpagon, or one of its ablations under its own name."""

    def __init__(self, name: str = "harpagon", options: HarpagonOptions | None = None) -> None:
        self._name, self._options = name, options or HarpagonOptions()

    @property
    def name(self) -> str:
        """The name that the plan carries."""
        return self._name

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """See PipelinePolicy."""
        options, steps = self._options, CountedSteps(MOST_STEPS)
        configs = [usable(found, options.batching, options.hardware) for found in all_configurations(problem)]
        for module, left in zip(problem.modules, configs, strict=True):
            if not left:
                words = f"modules.{module.name}.profile: no batch 1, and {self.name} runs no other"
                return planned(problem, self.name, options.dispatch, None, steps, words)
        graph = PipelineGraph.of(problem)
        modules = Modules(graph, [m.rate for m in problem.modules], configs, options.dispatch, problem.slo_s)
        found = best_plan(modules, options, steps)
        why = () if found is not None else (too_slow(problem, graph, fastest(modules)),)
        return planned(problem, self.name, options.dispatch, found, steps, *why)


def usable(configs: Sequence[Configuration], batching: bool, hardware: Hardware) -> list[Configuration]:
    """The configurations that a planner without batching, or for one kind of hardware, has."""
    left = [c for c in configs if batching or c.batch == 1]
    if hardware != "any" and left:
        price = (min if hardware == "cheapest" else max)(c.price for c in left)
        left = [c for c in left if c.price == price]
    return left


def fastest(modules: Modules) -> list[float]:
    """The least worst case that each module can have with its whole rate."""
    worst = NEXT_WORST_CASE[modules.dispatch]
    return [min(worst(c, rate) for c in configs) for rate, configs in zip(modules.rates, modules.configs, strict=True)]


def best_plan(modules: Modules, options: HarpagonOptions, steps: CountedSteps) -> list[Tuples] | None:
    """The cheapest plan over all splits that the options ask for, or None."""
    if options.step_s is not None:
        found = quantised(modules, options.rules, options.step_s, steps)
        return None if found is None else reassigned(modules, found, options.rules, options.reassign, steps)
    worth: Worth = by_throughput if options.by_throughput else by_efficiency
    budgets = splits(modules, worth, False, options.direct, steps)
    if options.merge and len(modules.graph.alike()) < len(modules.rates):
        budgets += splits(modules, worth, True, options.direct, steps)
    best: tuple[float, list[Tuples]] | None = None
    scheduled: dict[tuple[int, float], Tuples | None] = {}
    for split in dict.fromkeys(budgets):
        plan = []
        for m, budget in enumerate(split):
            if (m, budget) not in scheduled:
                scheduled[m, budget] = schedule(modules.configs[m], modules.rates[m], budget, options.rules)
            tuples = scheduled[m, budget]
            if tuples is not None:
                plan.append(tuples)
        if len(plan) < len(split):
            continue
        plan = reassigned(modules, plan, options.rules, options.reassign, steps)
        total = sum(cost(tuples) for tuples in plan)
        if best is None or total < best[0] - CLOSE:
            best = total, plan
    return None if best is None else best[1]
