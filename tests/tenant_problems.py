"""Problems and feedback for the tests of tenants' policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from scheduler.tenants.policies import SharingPolicy
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
    SharingFeedback,
    SharingProblem,
    SharingStep,
    TenantGoal,
)


def two(units: float = 100.0, **first: object) -> SharingProblem:
    """Two tenants whose goal is 0.9 of requests in time; the first one has the fields `first`."""
    goal = TenantGoal("within_slo", 0.9)
    return SharingProblem("two", units, 1.0, (ProblemTenant("a", goal, **first), ProblemTenant("b", goal)))  # type: ignore[arg-type]


def saturating(units: float, scale: float) -> float:
    """Performance that is 1 - 1/e at `scale` units."""
    return 1.0 - math.exp(-units / scale)


def played(
    policy: SharingPolicy,
    problem: SharingProblem,
    performance: Mapping[str, Callable[[float], float]],
    rounds: int,
    noise: float = 0.0,
    load: float = 10.0,
) -> list[SharingStep]:
    """Answers of `rounds` intervals; tenants that are not in `performance` report nothing."""
    rng = np.random.default_rng(5)
    answers = [policy.begin(problem)]
    for round_ in range(rounds):
        held = answers[-1].allocation
        reports = {
            tenant: (IntervalReport(load, max(0.0, of(held[tenant]) + noise * rng.normal()), held[tenant]),)
            for tenant, of in performance.items()
        }
        feedback = SharingFeedback(round_, 10.0 * (round_ + 1), reports)
        answers.append(policy.step(problem, answers[-1].state, feedback))
    return answers


def services(names: Sequence[str], units: float) -> SharingProblem:
    """A pipeline whose goal is a P99 of 100 ms."""
    goal = TenantGoal("throughput", 1.0)
    return SharingProblem(
        "services", units, 1.0, tuple(ProblemTenant(n, goal) for n in names), "pipeline", p99_goal_ms=100.0
    )


@st.composite
def problems(draw: st.DrawFn) -> SharingProblem:
    """Two to five tenants with any goals, entitlements and floors that fit."""
    count = draw(st.integers(2, 5))
    units = draw(st.sampled_from([5.0, 20.0, 60.0]))
    tenants = []
    for n in range(count):
        metric = draw(st.sampled_from(["within_slo", "accuracy", "throughput"]))
        goal = TenantGoal(metric, draw(st.floats(0.1, 0.99)), draw(st.sampled_from(["linear", "sqrt", "quadratic"])))
        tenants.append(
            ProblemTenant(
                f"t{n}",
                goal,
                draw(st.floats(0.1, 4.0)),
                draw(st.booleans()),
                draw(st.booleans()),
                draw(st.none() | st.floats(0.0, 200.0)),
                draw(st.floats(0.0, units / (2 * count) - 0.5 if units > 5 else 0.0)),
            )
        )
    return SharingProblem("drawn", units, draw(st.sampled_from([0.5, 1.0])), tuple(tenants))


@st.composite
def feedbacks(draw: st.DrawFn, problem: SharingProblem, round_: int) -> SharingFeedback:
    """Any usable reports, or none."""
    reports = {}
    for tenant in problem.tenants:
        if tenant.feedback:
            of = st.builds(
                IntervalReport,
                load=st.floats(1e-3, 1e5),
                performance=st.floats(0.0, 1.0 if tenant.goal.capped else 50.0),
                allocation=st.floats(0.0, problem.units),
            )
            reports[tenant.id] = tuple(draw(st.lists(of, max_size=2)))
    return SharingFeedback(round_, 10.0 * (round_ + 1), reports)
