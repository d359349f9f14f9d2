"""Evolutionary search on the real system: allocations are changed at random, tried for a round and scored by what was
measured. A baseline (EvoAlg): it needs no model, and pays for each try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.tenants.grid import first_steps, to_steps, with_floors
from scheduler.tenants.learned import allocated
from scheduler.tenants.measured import measured, reasons
from scheduler.tenants.remembered import check_count, check_each, memory_from, memory_json
from scheduler.tenants.values import SharingFeedback, SharingProblem, SharingState, SharingStep

#: Allocations kept as parents, and those drawn at random, around the entitlements, before the first mutation.
PARENTS, FIRST = 8, 6
#: A mutation multiplies each share by exp(Gaussian of this width).
MUTATION = 0.2


@dataclass(frozen=True)
class EvolutionMemory:
    """Allocations in steps, with the scores that they had when they were tried."""

    tried: tuple[tuple[int, ...], ...] = ()
    scores: tuple[float, ...] = ()


class EvolutionPolicy:
    """EvoAlg for `objective`: "sw" (mean utility), "ew" (least utility), "e2e" (latency)."""

    def __init__(self, objective: str) -> None:
        self.objective = objective
        self.name = f"evo-{objective}"

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Entitlements."""
        held = first_steps(problem.entitlements, problem.granularity, problem.steps, problem.floors)
        state = SharingState(self.name, 0, 0.0, held, seed, memory_json(EvolutionMemory()))
        return SharingStep(state, allocated(problem, held), reasons(problem, [None] * len(problem.tenants)))

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""
        known = memory_from(memory, EvolutionMemory)
        check_count("memory.scores", known.scores, len(known.tried), "of those tried")
        for n, tried in enumerate(known.tried):
            check_count(f"memory.tried[{n}]", tried, len(problem.tenants), "tenant")
            check_each(f"memory.tried[{n}]", tried, 0, problem.steps)

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Score what was held, then try a mutation of a good parent."""
        memory = memory_from(state.memory, EvolutionMemory)
        seen = [measured(t, feedback.reports.get(t.id, ())) for t in problem.tenants]
        score = self._score(problem, seen, feedback)
        if score is not None:
            ranked = sorted(
                zip((*memory.scores, score), (*memory.tried, state.held), strict=True), key=lambda pair: -pair[0]
            )[:PARENTS]
            memory = EvolutionMemory(tuple(t for _, t in ranked), tuple(s for s, _ in ranked))
        rng = np.random.default_rng([state.seed, feedback.round])
        base = problem.entitlements / problem.granularity
        if feedback.round >= FIRST and memory.tried:
            # The better the parent, the likelier it is chosen.
            odds = np.arange(len(memory.tried), 0, -1.0)
            base = np.maximum(np.array(memory.tried[rng.choice(len(odds), p=odds / odds.sum())], dtype=float), 0.5)
        drawn = base * np.exp(rng.normal(0.0, MUTATION, len(base)))
        held = with_floors(
            to_steps(drawn * problem.units / drawn.sum(), problem.granularity, problem.steps), problem.floors
        )
        state = SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, memory_json(memory))
        return SharingStep(state, allocated(problem, held), reasons(problem, seen))

    def _score(self, problem: SharingProblem, seen: list[float | None], feedback: SharingFeedback) -> float | None:
        if problem.kind == "pipeline":
            values = [report.performance for report in feedback.reports.get("", ())]
            return -math.log(sum(values) / len(values)) if values else None
        known = [
            float(tenant.goal.utility_of(np.array([value * tenant.goal.slo]))[0])
            for tenant, value in zip(problem.tenants, seen, strict=True)
            if value is not None
        ]
        if not known:
            return None
        return min(known) if self.objective == "ew" else sum(known) / len(known)
