"""Policies without a model: each looks at the last interval only. Baselines, and the fair share.

Greedy-EW, Minerva, Parties and MIAD follow their descriptions in the Cilantro chapter (thesis 3.6), with demands and
shares as they are described there, which the published code does not do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edge.core.fields import sequence
from scheduler.tenants.grid import first_steps, no_complaints, to_steps, with_floors
from scheduler.tenants.learned import allocated
from scheduler.tenants.remembered import check_count, check_each
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
    ShareReason,
    SharingFeedback,
    SharingProblem,
    SharingState,
    SharingStep,
)

#: Minerva: utilities are read as at least this, so that a tenant that got nothing done is not given everything.
LEAST_UTILITY = 0.05
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

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""
        targets = sequence(memory.get("targets"), "memory.targets")
        check_count("memory.targets", targets, len(problem.tenants), "tenant")
        check_each("memory.targets", targets, 0.0, 1e12)

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """From the mean performance of each tenant in the last interval; silent tenants keep their target."""
        seen = [measured(t, feedback.reports.get(t.id, ())) for t in problem.tenants]
        targets = np.array(state.memory["targets"], dtype=float)
        for j, tenant in enumerate(problem.tenants):
            if not tenant.feedback and tenant.claim is not None:
                targets[j] = tenant.claim.demand
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
    """One step (at least a thousandth of the resource) from each of the better half to one of the worse half.

    No tenant gives its last step: one without a share would do nothing, and have the least utility of all."""

    name = "greedy-ew"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """The best gives to the worst, the second best to the second worst, and so on."""
        size = max(1, round(problem.steps / 1000))
        known = _believed(problem, held, seen)
        order = sorted(known, key=lambda j: (known[j], j))
        steps = list(held)
        rich = [j for j in reversed(order[(len(order) + 1) // 2 :]) if steps[j] > size]
        for poor, giver in zip(order[: len(order) // 2], rich, strict=False):
            steps[giver] -= size
            steps[poor] += size
        return targets, tuple(steps)


class MinervaPolicy(MeasuredPolicy):
    """Shares in proportion to share over utility: the worse a tenant does with its share, the larger it becomes.

    Each tenant has one step first, and its share counts for one step more: a share of nothing can grow again."""

    name = "minerva"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """The new proportions at once. A tenant of which nothing is known keeps its share."""
        wanted = np.array(held, dtype=float)
        moving = np.zeros(len(held), dtype=bool)
        for j, utility in _believed(problem, held, seen).items():
            moving[j] = True
            wanted[j] = (held[j] + 1) / max(utility, LEAST_UTILITY)
        free = problem.steps - sum(steps for steps, moves in zip(held, moving, strict=True) if not moves)
        count = int(moving.sum())
        if count:
            first = min(1.0, free / count)
            wanted[moving] = first + (free - first * count) * wanted[moving] / wanted[moving].sum()
        return targets, to_steps(wanted * problem.granularity, problem.granularity, problem.steps)


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
    """Demands are a multiple of the share held under the goal, else a fixed amount less; shared without complaints."""

    name = "miad"

    def move(
        self, problem: SharingProblem, targets: Floats, held: tuple[int, ...], seen: Sequence[float | None]
    ) -> tuple[Floats, tuple[int, ...]]:
        """New demands, then the procedure."""
        demands = targets.copy()
        less = max(problem.granularity, problem.units / 1000)
        for j, value in enumerate(seen):
            if value is not None:
                units = held[j] * problem.granularity
                demands[j] = MIAD_FACTOR * units if value < 1.0 else units - less
        return _shared(problem, demands)


def measured(tenant: ProblemTenant, reports: Sequence[IntervalReport]) -> float | None:
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


def _believed(problem: SharingProblem, held: Sequence[int], seen: Sequence[float | None]) -> dict[int, float]:
    """Utility by tenant: as measured, and of a silent tenant the part of its demand by its profile, its use or its
    declaration that it holds. Without what there is neither for."""
    out: dict[int, float] = {}
    for j, (tenant, value) in enumerate(zip(problem.tenants, seen, strict=True)):
        if value is not None:
            out[j] = _utility(tenant, value)
        elif not tenant.feedback and tenant.claim is not None and tenant.claim.demand > 0:
            out[j] = min(1.0, held[j] * problem.granularity / tenant.claim.demand)
    return out


def _utility(tenant: ProblemTenant, value: float | None) -> float:
    return float(tenant.goal.utility_of(np.array([(value or 0.0) * tenant.goal.slo]))[0])


def _shared(problem: SharingProblem, demands: Floats) -> tuple[Floats, tuple[int, ...]]:
    kept = np.clip(demands, problem.granularity, problem.units)
    units = no_complaints(kept.tolist(), [t.weight for t in problem.tenants], problem.units)
    return kept, to_steps(units, problem.granularity, problem.steps)
