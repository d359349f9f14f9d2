"""The rules that every plan keeps: each broken one is found and named. And how whole machines are fed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_problems import GRAPHS, M3, profile, single

from edge.core.errors import InvalidValue
from edge.core.pipelines import ModulePlan, PipelineModule, PipelinePlan, PipelineProblem, PipelineTuple
from scheduler.pipelines.dispatch import Allotted, Configuration, worst_case
from scheduler.pipelines.policies import pipeline_policy
from scheduler.pipelines.verdict import faults
from scheduler.pipelines.whole_search import Machines, dealt_rates, pool_rates, strict_pool

PROBLEM = single(198, 1.0, M3)


def plan(*tuples: PipelineTuple, dispatch: str = "TC", budget: float = 1.0, worst: float, cost: float) -> PipelinePlan:
    return PipelinePlan("single", "hand", True, cost, {"m": ModulePlan(dispatch, budget, worst, tuples)})


def tuples_of(*given: tuple[Any, ...]) -> tuple[PipelineTuple, ...]:
    return tuple(PipelineTuple(batch, "gpu", machines, rate, *rest) for batch, machines, rate, *rest in given)


S4 = plan(*tuples_of((32, 5, 200.0, 2.0)), worst=0.96, cost=5.0)


def test_the_paper_s_plan_keeps_all_rules() -> None:
    assert faults(PROBLEM, S4) == ()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (plan(*tuples_of((32, 4.95, 198.0)), worst=0.9616162, cost=4.95), "its part machine is its own tuple"),
        (
            plan(*tuples_of((32, 4, 160.0), (32, 0.95, 38.0)), worst=1.6421053, cost=4.95),
            "its worst case of 1.642105 s is over its budget of 1.000000 s",
        ),
        (plan(*tuples_of((32, 5, 200.0, 3.0)), worst=0.96, cost=5.0), "tuples take 197 of 198 requests/s"),
        (plan(*tuples_of((32, 4, 200.0, 2.0)), worst=0.96, cost=4.0), "more than its machines can do"),
        (plan(*tuples_of((16, 5, 200.0, 2.0)), worst=0.96, cost=5.0), "which the profile lacks"),
        (plan(*tuples_of((32, 5, 200.0, 201.0)), worst=0.96, cost=5.0), "more dummies than its rate"),
        (plan(worst=0.96, cost=5.0), "no tuples"),
        (plan(*tuples_of((2, 1, 20.0), (32, 5, 178.0)), worst=0.98, cost=6.0), "not in the order of price per request"),
        (plan(*tuples_of((32, 5, 200.0, 2.0)), worst=0.9, cost=5.0), "its worst case is 0.960000 s, not 0.9"),
        (plan(*tuples_of((32, 5, 200.0, 2.0)), worst=0.96, cost=4.5), "cost: it is 5.000000, not 4.5"),
        (plan(*tuples_of((32, 5, 200.0, 2.0)), worst=0.96, cost=5.0, budget=1.1), "slo_s: budgets of a path"),
        (replace(S4, modules={}), "m: not in the plan"),
    ],
)
def test_every_broken_rule_is_named(bad: PipelinePlan, words: str) -> None:
    assert any(words in fault for fault in faults(PROBLEM, bad)), faults(PROBLEM, bad)


def test_budgets_add_up_along_paths_only() -> None:
    names, edges = GRAPHS["fork"]
    problem = PipelineProblem("fork", 0.5, tuple(PipelineModule(n, 40.0, profile(0.01, 0.002)) for n in names), edges)
    found = pipeline_policy("fronts").plan(problem)
    assert faults(problem, found) == ()
    room = 0.5 - found.modules["a"].budget_s
    wide = {n: replace(m, budget_s=room) if n != "a" else m for n, m in found.modules.items()}
    assert faults(problem, replace(found, modules=wide)) == ()
    wide["b"] = replace(wide["b"], budget_s=room + 0.01)
    assert faults(problem, replace(found, modules=wide)) == (
        "slo_s: budgets of a path add up to 0.510000 s, the objective is 0.500000 s",
    )


def test_a_dispatch_has_a_known_name() -> None:
    with pytest.raises(InvalidValue, match="dispatch: got 'LIFO'"):
        ModulePlan("LIFO", 1.0, 1.0, ())


def machine(batch: int, duration: float, number: int) -> Machines:
    collected = batch if batch > 1 else 0
    return Machines(Configuration(batch, duration, "gpu", 1.0, batch / duration, duration / batch, collected), number)


@st.composite
def sets_of_machines(draw: st.DrawFn) -> tuple[tuple[Machines, ...], float]:
    machines = tuple(
        machine(draw(st.sampled_from((1, 4, 16))), draw(st.floats(0.02, 0.3)), draw(st.integers(1, 4)))
        for _ in range(draw(st.integers(1, 3)))
    )
    return machines, draw(st.floats(0.5, 0.999)) * sum(m.capacity for m in machines)


@given(drawn=sets_of_machines())
def test_whole_machines_are_fed_the_whole_rate_and_no_more_than_they_can_do(
    drawn: tuple[tuple[Machines, ...], float],
) -> None:
    machines, rate = drawn
    rates = pool_rates(machines, rate)
    assert sum(rates) == pytest.approx(rate)
    assert all(r <= m.capacity * (1 + 1e-9) for m, r in zip(machines, rates, strict=True))
    strict = strict_pool(machines, rates, False)
    if strict < math.inf:
        tuples = [Allotted(m.configuration, m.number, r) for m, r in zip(machines, rates, strict=True)]
        assert strict >= worst_case(tuples, "POOL") - 1e-12
        assert strict_pool(machines, rates, True) >= strict


@given(drawn=sets_of_machines(), worst=st.floats(0.05, 3.0))
def test_dealt_requests_keep_the_worst_case_or_are_refused(
    drawn: tuple[tuple[Machines, ...], float], worst: float
) -> None:
    machines, rate = drawn
    rates = dealt_rates(machines, rate, worst)
    least = sum(m.configuration.collected / max(worst - m.configuration.duration, 1e-9) for m in machines)
    if rates is None:
        assert least > rate * (1 - 1e-6) or any(
            worst <= m.configuration.duration + m.configuration.collected / m.capacity for m in machines
        )
        return
    assert sum(rates) == pytest.approx(rate)
    for m, r in zip(machines, rates, strict=True):
        assert r <= m.capacity * (1 + 1e-6)
        if m.configuration.collected:
            assert m.configuration.duration + m.configuration.collected / r <= worst * (1 + 1e-6)
