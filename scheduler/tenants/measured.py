"""Policies without a model: each looks at the last interval only. Baselines, and the fair share.

Greedy-EW, Minerva, Parties and MIAD follow their descriptions in the Cilantro chapter (thesis 3.6), with demands and
shares as they are described there, which the published code does not do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.tenants.grid import first_steps, no_complaints, to_steps, with_floors
from scheduler.tenants.learned import allocated
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import (
    IntervalReport,
    Party,
    ShareReason,
    SharingFeedback,
    SharingProblem,
    SharingState,
    SharingStep,
)

#: Minerva: utilities are read as at least this, so that a tenant that got nothing done is not given everything.
LEAST_UTILITY = 0.05
#: Minerva moves this part of the way in one round, so that noise is not followed.
MINERVA_RATE = 0.5
#: Parties: units per 1000 that a demand rises by when the goal is missed, and falls by when it is exceeded.
PARTIES_RISE, PARTIES_FALL = 20.0, 5.0
#: Parties: performance this far above the goal (its part) is comfortable.
COMFORT = 0.05
#: MIAD: a demand grows by this factor below the goal, else falls by one step, or a thousandth of the resource
#: where that is more.
MIAD_FACTOR = 1.5


class MeasuredPolicy(ABC):
    """The part that policies without a model share. `targets` are the numbers that a policy keeps between rounds."""

    name = ""

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Entitlements."""
        targets = problem.entitlements
        held = first_steps(targets, problem.granularity, problem.steps, problem.floors)
        return self._answer(problem, 0, 0.0, held, seed, targets, [None] * len(problem.tenants))

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """From the mean performance of each tenant in the last interval; silent tenants keep their target."""
        seen = [measured(t, feedback.reports.get(t.id, ())) for t in problem.tenants]
        targets = np.array(state.memory["targets"], dtype=float)
        for j, tenant in enumerate(problem.tenants):
            if not tenant.feedback and tenant.declared_demand is not None:
                targets[j] = tenant.declared_demand
        targets, held = self.move(problem, targets, state.held, seen)
        return self._answer(problem, feedback.round + 1, feedback.elapsed_s, held, state.seed, targets, seen)

    @abstractmethod
    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """The next targets and steps. `seen`: performance over goal of each tenant, None where nothing was measured."""

    def _answer(
        self,
        problem: SharingProblem,
        round_: int,
        elapsed_s: float,
        held: tuple[int, ...],
        seed: int,
        targets: Floats,
        seen: Sequence[float | None],
    ) -> SharingStep:
        held = with_floors(held, problem.floors)
        state = SharingState(self.name, round_, elapsed_s, held, seed, {"targets": [float(t) for t in targets]})
        return SharingStep(state, allocated(problem, held), reasons(problem, seen))


class FairPolicy(MeasuredPolicy):
    """Entitlements, always."""

    name = "fair"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """No move."""
        return targets, held


class GreedyPolicy(MeasuredPolicy):
    """One step (at least a thousandth of the resource) from each of the better half to one of the worse half."""

    name = "greedy-ew"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """The best gives to the worst, the second best to the second worst, and so on."""
        size = max(1, round(problem.steps / 1000))
        order = sorted(
            (j for j, value in enumerate(seen) if value is not None),
            key=lambda j: (_utility(problem.tenants[j], seen[j]), j),
        )
        steps = list(held)
        for poor, rich in zip(order[: len(order) // 2], reversed(order[(len(order) + 1) // 2 :]), strict=True):
            given = min(size, steps[rich])
            steps[rich] -= given
            steps[poor] += given
        return targets, tuple(steps)


class MinervaPolicy(MeasuredPolicy):
    """Shares in proportion to share over utility: the worse a tenant does with its share, the larger it becomes."""

    name = "minerva"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """Part of the way to the new proportions."""
        wanted = targets.copy()
        known = [j for j, value in enumerate(seen) if value is not None]
        for j in known:
            wanted[j] = targets[j] / max(_utility(problem.tenants[j], seen[j]), LEAST_UTILITY)
        fixed = [j for j in range(len(wanted)) if j not in known]
        free = max(0.0, problem.units - float(targets[fixed].sum()))
        total = float(wanted[known].sum())
        if known and total > 0:
            goal = wanted[known] * free / total
            targets = targets.copy()
            targets[known] = (1 - MINERVA_RATE) * targets[known] + MINERVA_RATE * goal
        return targets, to_steps(targets, problem.granularity, problem.steps)


class PartiesPolicy(MeasuredPolicy):
    """Demands rise by a fixed amount at or under the goal and fall slowly above it; shared without complaints."""

    name = "parties"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """New demands, then the procedure."""
        unit = problem.units / 1000
        demands = targets.copy()
        for j, value in enumerate(seen):
            if value is not None and value <= 1.0:
                demands[j] += PARTIES_RISE * unit
            elif value is not None and value > 1.0 + COMFORT:
                demands[j] -= PARTIES_FALL * unit
        return _shared(problem, demands)


class MiadPolicy(MeasuredPolicy):
    """Demands grow by a factor under the goal, else fall by a fixed amount; shared without complaints."""

    name = "miad"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """New demands, then the procedure."""
        demands = targets.copy()
        for j, value in enumerate(seen):
            if value is not None:
                demands[j] = (
                    demands[j] * MIAD_FACTOR
                    if value < 1.0
                    else demands[j] - max(problem.granularity, problem.units / 1000)
                )
        return _shared(problem, demands)


def measured(tenant: Party, reports: Sequence[IntervalReport]) -> float | None:
    """Mean performance over the goal in an interval; None where nothing was measured."""
    values = [report.performance for report in reports]
    return sum(values) / len(values) / tenant.goal.slo if values else None


def reasons(problem: SharingProblem, seen: Sequence[float | None]) -> Mapping[str, ShareReason]:
    """The last measured utility of each tenant."""
    return {
        tenant.id: ShareReason(
            "learned" if value is not None else "declared" if tenant.declared_demand is not None else "entitlement",
            None if value is None else round(_utility(tenant, value), 4),
            tenant.declared_demand if value is None else None,
        )
        for tenant, value in zip(problem.tenants, seen, strict=True)
    }


def _utility(tenant: Party, value: float | None) -> float:
    return float(tenant.goal.utility_of(np.array([(value or 0.0) * tenant.goal.slo]))[0])


def _shared(problem: SharingProblem, demands: Floats) -> tuple[Floats, tuple[int, ...]]:
    kept = np.clip(demands, problem.granularity, problem.units)
    units = no_complaints(kept.tolist(), [t.weight for t in problem.tenants], problem.units)
    return kept, to_steps(units, problem.granularity, problem.steps)
