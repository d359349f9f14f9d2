"""One application of many services with one latency: a model that adds up, and an exact division.

Latency adds over services, and that of each falls with its share under load, steeply where it is overloaded and
less and less beyond. An ensemble of queueing models (`scheduler.tenants.queues`) explains the reports. In the mean over
members the latency is still a sum over services, so the best division is found by the dynamic programme of
`scheduler.tenants.welfare`. At first one member drawn at random is planned with, so that what members disagree about is
tried (Thompson sampling); with more reports the mean of more and more members is. In that mean a share with which some
member takes a service for overloaded is expensive: services are then no longer tried below what they need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edge.core import checks
from scheduler.tenants.grid import to_steps
from scheduler.tenants.learned import allocated
from scheduler.tenants.load import LoadForecast, nodes
from scheduler.tenants.queues import MEMBERS, first_members, refitted, service_latency
from scheduler.tenants.remembered import check_count, check_each, memory_from, memory_json
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import ShareReason, SharingFeedback, SharingProblem, SharingState, SharingStep
from scheduler.tenants.welfare import best_sum

#: Reports kept.
MOST_REPORTS = 300
#: One more member is planned with for so many reports of each service.
REPORTS_PER_MEMBER = 1.0
#: A service keeps at least this part of its share from one round to the next.
KEEP = 0.6
#: Loads that are planned for: so many standard deviations from the forecast, as overload costs most.
LOAD_BOUNDS = (0.0, 1.0)
#: A step that brings nothing by the model is still worth this part of the goal: nothing is left free.
WORTH = 1e-7
#: A share is read as at least this part of the resource.
LEAST_SHARE = 1e-6
#: Parameters of members are logarithms, within this of 0.
MOST_PARAMETER = 100.0


@dataclass(frozen=True)
class EndToEndMemory:
    """Reports as rows of units per load (relative) and latency over its goal; the members of the ensemble."""

    rows: tuple[tuple[float, ...], ...] = ()
    latencies: tuple[float, ...] = ()
    members: tuple[tuple[float, ...], ...] = ()
    load: LoadForecast = field(default_factory=LoadForecast)
    origin: float | None = None
    seen: int = 0


class EndToEndPolicy:
    """The least latency of the whole application by the model of this module."""

    name = "e2e"

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Equal shares."""
        held = to_steps(problem.entitlements, problem.granularity, problem.steps)
        return _answer(problem, SharingState(self.name, 0, 0.0, held, seed, memory_json(EndToEndMemory())))

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""
        known, services = memory_from(memory, EndToEndMemory), len(problem.tenants)
        check_count("memory.rows", known.rows, len(known.latencies), "of the latencies")
        for n, row in enumerate(known.rows):
            check_count(f"memory.rows[{n}]", row, services, "service")
            check_each(f"memory.rows[{n}]", row, 0.0, 1e50, low_open=True)
        check_each("memory.latencies", known.latencies, 0.0, 1e50, low_open=True)
        if known.members:
            check_count("memory.members", known.members, MEMBERS, "chain")
        for n, member in enumerate(known.members):
            check_count(f"memory.members[{n}]", member, 2 * services + 2, "parameter")
            check_each(f"memory.members[{n}]", member, -MOST_PARAMETER, MOST_PARAMETER)
        known.load.check("memory.load")
        if known.origin is not None:
            checks.in_range("memory.origin", known.origin, 0.0, 1e12, low_open=True)
        checks.in_range("memory.seen", known.seen, len(known.latencies), 1e12)

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Draw the members anew under what was seen and divide."""
        before = memory_from(state.memory, EndToEndMemory)
        memory, held = _with_reports(problem, before, feedback), state.held
        if memory.seen > before.seen:
            rng = np.random.default_rng([state.seed, feedback.round])
            members = memory.members or first_members(len(problem.tenants), rng)
            memory = replace(memory, members=refitted(members, np.array(memory.rows), np.array(memory.latencies), rng))
            held = _divided(problem, memory, held, rng)
        return _answer(
            problem,
            SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, memory_json(memory)),
        )


def _with_reports(problem: SharingProblem, memory: EndToEndMemory, feedback: SharingFeedback) -> EndToEndMemory:
    rows, latencies, load, origin = list(memory.rows), list(memory.latencies), memory.load, memory.origin
    goal = problem.p99_goal_ms or 1.0
    for report, services in zip(feedback.reports.get("", ()), feedback.services, strict=False):
        if report.load <= 0 or set(services) != set(problem.ids):
            continue
        load = load.seen(report.load)
        origin = report.load if origin is None else origin
        # A service without a share is overloaded without measure; its logarithm must be finite.
        units = np.maximum([services[i] for i in problem.ids], LEAST_SHARE * problem.units)
        rows.append(tuple((units / problem.entitlements * origin / report.load).tolist()))
        latencies.append(report.performance / goal)
    added = len(latencies) - len(memory.latencies)
    kept_rows, kept = tuple(rows[-MOST_REPORTS:]), tuple(latencies[-MOST_REPORTS:])
    return EndToEndMemory(kept_rows, kept, memory.members, load, origin, memory.seen + added)


def _divided(
    problem: SharingProblem, memory: EndToEndMemory, held: tuple[int, ...], rng: np.random.Generator
) -> tuple[int, ...]:
    """The steps with the least modelled latency."""
    services = len(problem.tenants)
    count = min(MEMBERS, 1 + int(memory.seen / (REPORTS_PER_MEMBER * services)))
    members = np.array(memory.members)[rng.choice(MEMBERS, count, replace=False)]
    units = problem.granularity * np.arange(problem.steps + 1)
    tables: Floats = np.zeros((services, len(units)))
    least = []
    for j, entitled in enumerate(problem.entitlements.tolist()):
        for load in nodes(memory.load.ahead(problem.reports_per_interval), LOAD_BOUNDS):
            tables[j] -= service_latency(members, j, units / entitled * (memory.origin or 1.0) / load)
        least.append(max(min(1, problem.steps // services), math.floor(KEEP * held[j])))
    rest = np.arange(problem.steps + 1 - sum(least))
    rows = np.take_along_axis(tables, np.minimum(np.array(least)[:, None] + rest, problem.steps), axis=1)
    rows = rows + WORTH * rest
    return tuple(low + more for low, more in zip(least, best_sum(rows - rows[:, :1]), strict=True))


def _answer(problem: SharingProblem, state: SharingState) -> SharingStep:
    seen = len(state.memory["latencies"])
    reason = ShareReason("learned" if seen else "entitlement", reports=seen)
    return SharingStep(state, allocated(problem, state.held), dict.fromkeys(problem.ids, reason))
