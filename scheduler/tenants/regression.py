"""Demands from two models of performance that are not Cilantro's: Ernest (regression) and Quasar (completion).

Both share without complaints, after some rounds of random allocations that they learn their first model from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.tenants.grid import first_steps, no_complaints, to_steps, with_floors
from scheduler.tenants.learned import allocated
from scheduler.tenants.measured import measured, reasons
from scheduler.tenants.remembered import check_count, check_each, memory_from, memory_json
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import ProblemTenant, SharingFeedback, SharingProblem, SharingState, SharingStep

#: Reports kept of each tenant; random rounds at the beginning, and the width of the logarithm of their shares.
MOST_POINTS = 200
RANDOM_WIDTH = 0.5
#: Reports of a smaller part of the resource are not used: a model of load / units has no value there.
LEAST_SHARE = 1e-6
SWEEPS, RANK, BINS = 60, 2, 12


@dataclass(frozen=True)
class ModelMemory:
    """For each tenant: the last load (0: none yet), units, loads and performance over goal of its rounds."""

    last: tuple[float, ...]
    units: tuple[tuple[float, ...], ...]
    loads: tuple[tuple[float, ...], ...]
    parts: tuple[tuple[float, ...], ...]


class ModelledPolicy(ABC):
    """The part that both share. `random_rounds` allocations are drawn before the first model."""

    name = ""
    random_rounds = 0

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Entitlements."""
        held = first_steps(problem.entitlements, problem.granularity, problem.steps, problem.floors)
        count = len(problem.tenants)
        empty: tuple[tuple[float, ...], ...] = ((),) * count
        memory = ModelMemory((0.0,) * count, empty, empty, empty)
        state = SharingState(self.name, 0, 0.0, held, seed, memory_json(memory))
        return SharingStep(state, allocated(problem, held), reasons(problem, [None] * count))

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""
        known = memory_from(memory, ModelMemory)
        for name in ("last", "units", "loads", "parts"):
            check_count(f"memory.{name}", getattr(known, name), len(problem.tenants), "tenant")
        check_each("memory.last", known.last, 0.0, 1e12)
        for j, (units, loads, parts) in enumerate(zip(known.units, known.loads, known.parts, strict=True)):
            check_count(f"memory.loads[{j}]", loads, len(units), "of its units")
            check_count(f"memory.parts[{j}]", parts, len(units), "of its units")
            check_each(f"memory.units[{j}]", units, 0.0, 1e13, low_open=True)
            check_each(f"memory.loads[{j}]", loads, 0.0, 1e12, low_open=True)
            check_each(f"memory.parts[{j}]", parts, 0.0, 1e100)

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """A random allocation at first; then demands from the model."""
        memory = _seen(problem, memory_from(state.memory, ModelMemory), feedback)
        if feedback.round + 1 < self.random_rounds:
            rng = np.random.default_rng([state.seed, feedback.round])
            drawn = problem.entitlements * np.exp(rng.normal(0.0, RANDOM_WIDTH, len(problem.tenants)))
            units = drawn * problem.units / drawn.sum()
        else:
            demands = self.demands(problem, memory)
            for j, tenant in enumerate(problem.tenants):
                if not memory.parts[j]:
                    declared = tenant.declared_demand
                    demands[j] = problem.entitlements[j] if declared is None else declared
            units = no_complaints(demands, [t.weight for t in problem.tenants], problem.units)
        held = with_floors(to_steps(units, problem.granularity, problem.steps), problem.floors)
        state = SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, memory_json(memory))
        parts = [measured(t, feedback.reports.get(t.id, ())) for t in problem.tenants]
        return SharingStep(state, allocated(problem, held), reasons(problem, parts))

    @abstractmethod
    def demands(self, problem: SharingProblem, memory: ModelMemory) -> list[float]:
        """Units with which each tenant reaches its goal."""


class ErnestPolicy(ModelledPolicy):
    """Run time (1 over performance) as a sum of 1, load / units, ln units and units, no coefficient below 0."""

    name = "ernest"
    random_rounds = 10

    def demands(self, problem: SharingProblem, memory: ModelMemory) -> list[float]:
        """The least units with a modelled run time within that of the goal; all where there are none."""
        steps = np.arange(1, problem.steps + 1)
        out = []
        for j, tenant in enumerate(problem.tenants):
            if not memory.parts[j]:
                out.append(problem.units)
                continue
            units, loads = np.array(memory.units[j]), np.array(memory.loads[j])
            times = 1.0 / np.maximum(np.array(memory.parts[j]), 0.02)
            fit = nonnegative_least_squares(_ernest(units, loads, problem.units), times)
            load = np.full(len(steps), memory.last[j] if tenant.load_matters else 1.0)
            modelled = _ernest(np.asarray(problem.granularity * steps, dtype=np.float64), load, problem.units) @ fit
            enough = modelled <= 1.0
            out.append(float(problem.granularity * steps[enough.argmax()]) if enough.any() else problem.units)
        return out


class QuasarPolicy(ModelledPolicy):
    """Performance over bins of units per load, filled in from other tenants by a completion of low rank."""

    name = "quasar"
    random_rounds = 6

    def demands(self, problem: SharingProblem, memory: ModelMemory) -> list[float]:
        """The least bin whose completed performance reaches the goal; all units where none does."""
        edges = np.exp(np.linspace(-2.5, 1.5, BINS))
        table, known = np.zeros((len(problem.tenants), BINS)), np.zeros((len(problem.tenants), BINS), dtype=bool)
        for j in range(len(problem.tenants)):
            shares = [
                _relative(problem, memory, j, u, load) for u, load in zip(memory.units[j], memory.loads[j], strict=True)
            ]
            bins = np.abs(np.log(edges)[None, :] - np.log(np.maximum(shares, 1e-6))[:, None]).argmin(1)
            for b in set(bins.tolist()):
                table[j, b] = np.mean(np.array(memory.parts[j])[bins == b])
                known[j, b] = True
        filled = np.maximum.accumulate(completed(table, known), axis=1)
        out = []
        for j in range(len(problem.tenants)):
            enough = filled[j] >= 1.0
            now = memory.last[j] or 1.0
            unit = _relative(problem, memory, j, 1.0, now)
            out.append(min(problem.units, float(edges[enough.argmax()] / unit)) if enough.any() else problem.units)
        return out


def nonnegative_least_squares(features: Floats, values: Floats) -> Floats:
    """Coefficients, none below 0, with the least squared error: coordinate descent."""
    gram, right = features.T @ features, features.T @ values
    at = np.zeros(len(right))
    for _ in range(SWEEPS):
        for k in range(len(at)):
            at[k] = max(0.0, at[k] + (right[k] - gram[k] @ at) / (gram[k, k] + 1e-9))
    return at


def completed(table: Floats, known: npt.NDArray[np.bool_]) -> Floats:
    """`table` with its unknown entries from a factorisation of rank RANK, fitted by alternating ridge regressions."""
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(table.shape[1]), rng.normal(0.0, 0.1, (table.shape[1], RANK - 1))])
    rows = np.zeros((table.shape[0], RANK))
    ridge = 0.05 * np.eye(RANK)
    for _ in range(15):
        for j in range(len(rows)):
            at = columns[known[j]]
            rows[j] = np.linalg.solve(at.T @ at + ridge, at.T @ table[j, known[j]])
        for b in range(len(columns)):
            at = rows[known[:, b]]
            columns[b] = np.linalg.solve(at.T @ at + ridge, at.T @ table[known[:, b], b])
    return np.where(known, table, rows @ columns.T)


def _ernest(units: Floats, loads: Floats, total: float) -> Floats:
    return np.column_stack([np.ones(len(units)), loads / units, np.log1p(units), units / total])


def _relative(problem: SharingProblem, memory: ModelMemory, j: int, units: float, load: float) -> float:
    """Units per load, relative to the entitlement under the tenant's first load."""
    first = memory.loads[j][0] if memory.loads[j] else 1.0
    return units / float(problem.entitlements[j] or 1.0) * first / load


def _seen(problem: SharingProblem, memory: ModelMemory, feedback: SharingFeedback) -> ModelMemory:
    last, units, loads, parts = list(memory.last), list(memory.units), list(memory.loads), list(memory.parts)
    for j, tenant in enumerate(problem.tenants):
        for report in feedback.reports.get(tenant.id, ()):
            if report.allocation < LEAST_SHARE * problem.units:
                continue
            load = report.load if tenant.load_matters else 1.0
            last[j] = load
            units[j] = (*units[j], report.allocation)[-MOST_POINTS:]
            loads[j] = (*loads[j], load)[-MOST_POINTS:]
            parts[j] = (*parts[j], _part(tenant, report.performance))[-MOST_POINTS:]
    return ModelMemory(tuple(last), tuple(units), tuple(loads), tuple(parts))


def _part(tenant: ProblemTenant, performance: float) -> float:
    return performance / tenant.goal.slo
