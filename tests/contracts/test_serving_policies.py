"""The contract of every serving policy: a plan that it calls schedulable holds, any other is within the limits and says
why, the same every time."""

from __future__ import annotations

import json

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from serving_problems import problems, tables

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.policies import (
    DEFAULT_SERVING_POLICY,
    SERVING_POLICIES,
    ServingPolicy,
    serving_policy,
    smallest_plan,
)
from scheduler.gpulets.verdict import verdict

DRAWN = settings(max_examples=tried(10, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: The rules that hold for the closest plan, too: capacity, memory, the count of gpu-lets, measured shares.
LIMITS = ("add up", "gpu-lets of at most", "memory used", "devices used", "was measured", "is not asked for")
SHARES = (20, 40, 60, 80, 100)
TABLE = DeviceTable(
    "linear", {m: {p: tuple(1.0 + b * 100 / p for b in range(1, 33)) for p in SHARES} for m in ("a", "b")}, {}
)


@pytest.fixture(params=SERVING_POLICIES, scope="module")
def policy(request: pytest.FixtureRequest) -> ServingPolicy:
    return serving_policy(request.param)


@DRAWN
@given(asked=problems(), table=tables())
def test_what_is_called_schedulable_has_no_fault_at_all(
    policy: ServingPolicy, asked: ServingProblem, table: DeviceTable
) -> None:
    plan = policy.plan(asked, table)
    found = verdict(asked, table, plan, slack=0.0)
    assert plan.policy == policy.name
    assert plan.decision_seconds is None
    if plan.schedulable:
        assert found.faults == ()
        assert plan.unplaced == ()
    else:
        assert plan.reasons
    assert set(plan.unplaced) <= {m.name for m in asked.models if m.rate > 0}
    assert [f for f in found.faults if any(words in f for words in LIMITS)] == []
    assert policy.plan(asked, table) == plan, "the same policy, asked twice"
    assert serving_policy(policy.name).plan(asked, table) == plan, "another one of that name"


@DRAWN
@given(asked=problems(), table=tables())
def test_a_problem_from_its_file_is_planned_alike_and_the_plan_survives_its_own(
    policy: ServingPolicy, asked: ServingProblem, table: DeviceTable
) -> None:
    plan = policy.plan(asked, table)
    read = ServingProblem.from_json(json.loads(json.dumps(asked.to_json())))
    assert policy.plan(read, DeviceTable.from_json(json.loads(json.dumps(table.to_json())))) == plan
    assert ServingPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_its_name_is_that_by_which_it_is_found(policy: ServingPolicy) -> None:
    assert policy.name in SERVING_POLICIES
    assert DEFAULT_SERVING_POLICY in SERVING_POLICIES


@pytest.mark.parametrize("models", [(), (ServedModel("a", 0.0, 9.0),)])
def test_where_nothing_is_asked_for_nothing_is_planned(policy: ServingPolicy, models: tuple[ServedModel, ...]) -> None:
    plan = policy.plan(ServingProblem(models), TABLE)
    assert plan.schedulable
    assert plan.gpulets == ()


def test_a_model_without_requests_gets_nothing_beside_one_with(policy: ServingPolicy) -> None:
    plan = policy.plan(ServingProblem((ServedModel("a", 5.0, 100.0), ServedModel("b", 0.0, 100.0))), TABLE)
    assert plan.schedulable
    assert {part.model for g in plan.gpulets for part in g.models} == {"a"}


def test_without_any_capacity_nothing_is_schedulable_and_it_says_why(policy: ServingPolicy) -> None:
    plan = policy.plan(ServingProblem((ServedModel("a", 5.0, 100.0),), capacity=0.0), TABLE)
    assert not plan.schedulable
    assert plan.gpulets == ()
    assert plan.reasons


def test_an_objective_that_no_share_can_keep_is_no_error(policy: ServingPolicy) -> None:
    plan = policy.plan(ServingProblem((ServedModel("a", 5.0, 0.001),), devices=2), TABLE)
    assert not plan.schedulable
    assert any("a" in reason for reason in plan.reasons)


def test_a_model_that_was_not_measured_is_refused(policy: ServingPolicy) -> None:
    with pytest.raises(InvalidValue, match=r"models\[0\].name: got 'x'"):
        policy.plan(ServingProblem((ServedModel("x", 1.0, 9.0),)), TABLE)


@pytest.mark.parametrize("rates", [(5e-324, 1e-310), (1e-9, 20.0), (1e9, 5e-324)])
def test_rates_that_are_all_but_nothing_or_all_but_endless(policy: ServingPolicy, rates: tuple[float, float]) -> None:
    asked = ServingProblem((ServedModel("a", rates[0], 100.0), ServedModel("b", rates[1], 100.0)), 2)
    plan = policy.plan(asked, TABLE)
    assert plan.schedulable == (rates[0] < 1e9)
    if plan.schedulable:
        assert verdict(asked, TABLE, plan, slack=0.0).faults == ()
    assert smallest_plan(asked, TABLE, policy).schedulable == plan.schedulable
