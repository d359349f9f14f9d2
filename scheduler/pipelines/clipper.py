"""Clipper as the Harpagon paper compares with it: the objective split evenly, two times the duration, one
configuration, one kind of hardware (Crankshaw et al., 2017)."""

from __future__ import annotations

from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.answer import all_configurations, planned
from scheduler.pipelines.dispatch import Tuples
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import Hardware, usable
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.steps import CountedSteps

_RULES = ModuleRules("RR", most=1, dummies=False)


class ClipperPolicy:
    """Clipper on the dearest hardware, or under the name `clipper-cheapest` on the cheapest."""

    def __init__(self, hardware: Hardware = "dearest") -> None:
        self._hardware: Hardware = hardware

    @property
    def name(self) -> str:
        """The name that the plan carries."""
        return "clipper" if self._hardware == "dearest" else f"clipper-{self._hardware}"

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """See PipelinePolicy. A module's budget is the objective over the modules of the longest way through it."""
        steps = CountedSteps(len(problem.modules))
        modules: list[Tuples] = []
        depths = PipelineGraph.of(problem).depths()
        for module, configs, depth in zip(problem.modules, all_configurations(problem), depths, strict=True):
            steps.take()
            budget = problem.slo_s / depth
            tuples = schedule(usable(configs, True, self._hardware), module.rate, budget, _RULES)
            if tuples is None:
                words = (
                    f"slo_s: got {problem.slo_s:g}, split evenly module {module.name} has {budget:.6g} s: too little"
                )
                return planned(problem, self.name, "RR", None, steps, words)
            modules.append(tuples)
        return planned(problem, self.name, "RR", modules, steps)
