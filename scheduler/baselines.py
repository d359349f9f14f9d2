"""Baselines for comparison, and ablations of the thief scheduler (thesis sections 2.6.1 and 2.6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from edge.core.window import RetrainingOption, WindowPlan, WindowProblem
from scheduler.grid import as_share, build_grid, coarse_quantum, split_capacity
from scheduler.static import StreamChoice, make_plan, static_segments
from scheduler.thief import play

Weight = Literal["light", "heavy"]


def cost_front(points: Sequence[tuple[float, float, str]]) -> list[tuple[float, str]]:
    """The Pareto front of (cost, accuracy, name) points as (cost, name), the cheapest first."""
    front: list[tuple[float, str]] = []
    best = -1.0
    for cost, accuracy, name in sorted(points, key=lambda p: (p[0], -p[1], p[2])):
        if accuracy > best:
            best = accuracy
            front.append((cost, name))
    return front


def fixed_configuration(problem: WindowProblem, weight: Weight) -> str | None:
    """The id of the fixed configuration of the uniform baselines: one for all streams, picked by cost alone.

    The thesis picks a low-cost and a high-cost point of the Pareto front on hold-out streams. Here the candidates are
    the Pareto front of (mean device seconds, mean end accuracy) over the ids that most streams have; "light" is its
    cheapest point, "heavy" the dearest whose mean cost a stream could pay in half the window from its fair training
    share (or the cheapest, if none). None when no stream has an option.
    """
    costs: dict[str, list[float]] = {}
    ends: dict[str, list[float]] = {}
    for stream in problem.streams:
        for option in stream.options:
            costs.setdefault(option.id, []).append(option.device_seconds)
            ends.setdefault(option.id, []).append(option.end_accuracy)
    if not costs:
        return None
    most = max(len(c) for c in costs.values())
    front = cost_front([(sum(c) / len(c), sum(ends[i]) / len(c), i) for i, c in costs.items() if len(c) == most])
    if weight == "light":
        return front[0][1]
    fair = min(1.0, problem.num_gpus / (2 * len(problem.streams)))
    payable = [name for cost, name in front if cost <= fair * problem.window_s / 2]
    return payable[-1] if payable else front[0][1]


def fixed_options(problem: WindowProblem, name: str | None) -> dict[str, tuple[RetrainingOption, ...]]:
    """Per stream the option called `name`; where it is absent, the one of the nearest cost."""
    costs = [o.device_seconds for s in problem.streams for o in s.options if o.id == name]
    if not costs:
        return {s.id: () for s in problem.streams}
    usual = sum(costs) / len(costs)
    out: dict[str, tuple[RetrainingOption, ...]] = {}
    for stream in problem.streams:
        ranked = sorted(stream.options, key=lambda o: (o.id != name, abs(o.device_seconds - usual)))
        out[stream.id] = tuple(ranked[:1])
    return out


class UniformPolicy:
    """One fixed configuration for every stream, shares even over all jobs; a freed share is spread evenly.

    `fixed` names the configuration; without it `fixed_configuration` picks one by `weight`.
    """

    def __init__(self, weight: Weight = "light", fixed: str | None = None) -> None:
        self.name = "uniform" if weight == "light" else "uniform-heavy"
        self._weight: Weight = weight
        self._fixed = fixed

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The uniform plan. It retrains whether that pays off or not; only the floor is kept."""
        name = self._fixed if self._fixed is not None else fixed_configuration(problem, self._weight)
        return play(self.name, problem, fixed_options(problem, name), stealing=False, picking=False)


class NoRetrainingPolicy:
    """All devices to inference, split exactly (in multiples of `delta`); nothing is retrained."""

    name = "no-retraining"

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The best split of the devices over the streams for the models in force."""
        grid = build_grid(problem, coarse_quantum(problem))
        values = [grid.value(i, s.start_accuracy) for i, s in enumerate(problem.streams)]
        _, chosen = split_capacity(values, grid.total)
        choices = {s.id: StreamChoice(as_share(chosen[i], grid.quantum)) for i, s in enumerate(problem.streams)}
        return make_plan(self.name, problem, static_segments(problem, choices), grid.floors.faults)


class FixedResourcesPolicy:
    """Ablation: the fair allocation is kept, configurations are picked as the thief scheduler does (Algorithm 2)."""

    name = "fixed-resources"

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The plan without stealing."""
        return play(self.name, problem, {s.id: s.options for s in problem.streams}, stealing=False)


class FixedConfigPolicy:
    """Ablation: shares are stolen as the thief scheduler does (Algorithm 1), with one fixed configuration."""

    name = "fixed-config"

    def __init__(self, fixed: str | None = None) -> None:
        self._fixed = fixed

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The plan with one candidate per stream."""
        name = self._fixed if self._fixed is not None else fixed_configuration(problem, "light")
        return play(self.name, problem, fixed_options(problem, name), stealing=True)
