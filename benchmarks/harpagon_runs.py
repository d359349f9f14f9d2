"""Plans of Harpagon, its ablations and other policies over many workloads, and what they cost against Harpagon's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.reproduction import spread as over_seeds
from edge.core.pipelines import PipelinePlan, PipelineProblem

CLOSE = 1e-6
WORKLOADS = "the workloads of Figure 5(a)"


@dataclass(frozen=True)
class Runs:
    """Policy -> its plans, and its CPU milliseconds for each; workloads of all seeds, one seed after the other."""

    problems: tuple[PipelineProblem, ...]
    seeds: int
    plans: Mapping[str, tuple[PipelinePlan, ...]]
    cpu_ms: Mapping[str, float]

    def ratios(self, name: str) -> list[list[float]]:
        """Of each seed the costs against Harpagon's, of workloads for which both have a plan."""
        pairs = list(zip(self.plans[name], self.plans["harpagon"], strict=True))
        each = len(pairs) // self.seeds
        return [
            [a.cost / b.cost for a, b in pairs[s * each : (s + 1) * each] if a.cost is not None and b.cost is not None]
            for s in range(self.seeds)
        ]

    def all_ratios(self, name: str) -> list[float]:
        """The same of all seeds."""
        return [r for ratios in self.ratios(name) for r in ratios]

    def extra(self, name: str) -> float:
        """The mean extra cost against Harpagon's, in percent."""
        return 100 * (statistics.fmean(self.all_ratios(name)) - 1)

    def extra_by_seed(self, name: str) -> str:
        """The same with its spread over seeds."""
        return over_seeds([100 * (statistics.fmean(r) - 1) for r in self.ratios(name)])


def of_shape(name: str) -> Callable[[PipelineProblem], bool]:
    return lambda problem: problem.name.startswith(f"{name}-")
