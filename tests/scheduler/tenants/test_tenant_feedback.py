"""Problems and feedback as they are read: clear errors, and reports that nothing is learned from."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tenant_problems import services, two

from edge.core.errors import InvalidValue
from scheduler.tenants.curve import CurveMemory
from scheduler.tenants.feedback import MOST_LEFT_OUT, ClockPutBack, feedback_from
from scheduler.tenants.learned import TenantMemory
from scheduler.tenants.policies import sharing_policy
from scheduler.tenants.remembered import memory_from, memory_json
from scheduler.tenants.values import SharingProblem, SharingState

PROBLEM: dict[str, Any] = {
    "units": 100,
    "granularity": 1,
    "tenants": [
        {"id": "a", "goal": {"metric": "within_slo", "slo": 0.9, "utility": "linear"}},
        {"id": "b", "goal": {"metric": "throughput", "slo": 400, "utility": "sqrt"}, "load_unit": "none"},
    ],
}


def with_first(**fields: Any) -> dict[str, Any]:
    return {**PROBLEM, "tenants": [{**PROBLEM["tenants"][0], **fields}, PROBLEM["tenants"][1]]}


def test_a_problem_is_read() -> None:
    problem = SharingProblem.from_json(with_first(weight=3, floor=2.5, declared_demand=4, feedback=False))
    first, second = problem.tenants
    assert (first.weight, first.floor, first.declared_demand, first.feedback) == (3.0, 2.5, 4.0, False)
    assert (second.load_matters, second.goal.capped, problem.floors) == (False, False, (3, 0))
    assert SharingProblem.from_json({**PROBLEM, "granularity": None}).granularity == 0.1


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([], "problem"),
        ({**PROBLEM, "protocol": "other/2"}, "protocol"),
        ({**PROBLEM, "units": 0}, "units"),
        ({**PROBLEM, "units": "many"}, "units"),
        ({**PROBLEM, "granularity": 1e-9}, "granularity"),
        ({**PROBLEM, "granularity": 1000}, "granularity"),
        ({**PROBLEM, "kind": "zoo"}, "kind"),
        ({**PROBLEM, "tenants": []}, "tenants"),
        ({**PROBLEM, "tenants": [PROBLEM["tenants"][0]] * 2}, "tenants"),
        ({**PROBLEM, "tenants": [{**t, "weight": 0} for t in PROBLEM["tenants"]]}, "tenants"),
        (with_first(floor=101), "tenants"),
        (with_first(weight=-1), "tenants.a.weight"),
        (with_first(declared_demand=float("nan")), "tenants[0].declared_demand"),
        (with_first(feedback="no"), "tenants[0].feedback"),
        (with_first(id=7), "tenants[0].id"),
        (with_first(goal={"metric": "luck", "slo": 1}), "goal.metric"),
        (with_first(goal={"metric": "accuracy", "slo": 0}), "goal.slo"),
        (with_first(goal={"metric": "accuracy"}), "tenants[0].goal.slo"),
    ],
)
def test_a_bad_problem_names_its_field(value: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        SharingProblem.from_json(value)
    assert caught.value.path == path


def message(**fields: Any) -> dict[str, Any]:
    return {"type": "feedback", "round": 0, "elapsed_s": 10.0, "tenants": {}, **fields}


def state_at(round_: int, elapsed_s: float) -> SharingState:
    return SharingState("ew", round_, elapsed_s, (50, 50), 0, {})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (None, "feedback"),
        (message(type="gossip"), "type"),
        (message(round=2), "round"),
        (message(round=3.5), "round"),
        (message(round=None), "round"),
        (message(round=3, elapsed_s=5.0), "elapsed_s"),
        (message(round=3, elapsed_s=40.0, tenants=[]), "tenants"),
        (message(round=3, elapsed_s=40.0, tenants={"a": []}), "tenants.a"),
    ],
)
def test_feedback_that_is_late_doubled_or_no_feedback_is_refused(value: Any, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        feedback_from(two(), state_at(3, 30.0), value)
    assert caught.value.path == path


def test_a_round_that_was_left_out_is_accepted() -> None:
    assert feedback_from(two(), state_at(3, 30.0), message(round=5, elapsed_s=60.0)).round == 5


GOOD = {"load": 3.0, "performance": 0.5, "allocation": 50.0, "seconds": 5.0}


@pytest.mark.parametrize(
    "bad",
    [
        {**GOOD, "performance": float("nan")},
        {**GOOD, "performance": -0.1},
        {**GOOD, "performance": None},
        {**GOOD, "performance": True},
        {**GOOD, "performance": 1.01},
        {**GOOD, "performance": 1e12},
        {**GOOD, "allocation": 100.1},
        {**GOOD, "allocation": 1e12},
        {**GOOD, "load": float("inf")},
        {**GOOD, "load": 0},
        {**GOOD, "allocation": "half"},
        "fine",
    ],
)
def test_reports_that_teach_nothing_are_dropped_and_counted(bad: Any) -> None:
    value = message(tenants={"a": {"reports": [bad, GOOD]}, "stranger": {"reports": [GOOD]}})
    feedback = feedback_from(two(), state_at(0, 0.0), value)
    assert [r.performance for r in feedback.reports["a"]] == [0.5]
    assert dict(feedback.dropped) == {"a": 1, "stranger": 1}


@pytest.mark.parametrize(("metric", "performance", "used"), [
    ("within_slo", 1.0, 1), ("within_slo", 1.0 + 1e-9, 1), ("within_slo", 1.2, 0), ("accuracy", 1.2, 0),
    ("throughput", 450.0, 1),
])  # fmt: skip
def test_only_a_rate_can_be_above_1_and_all_units_can_be_held(metric: str, performance: float, used: int) -> None:
    goal = {"metric": metric, "slo": 0.5}
    problem = SharingProblem.from_json({**PROBLEM, "tenants": [{"id": "a", "goal": goal}]})
    report = {**GOOD, "performance": performance, "allocation": problem.units}
    feedback = feedback_from(problem, state_at(0, 0.0), message(tenants={"a": {"reports": [report]}}))
    assert len(feedback.reports["a"]) == used
    assert dict(feedback.dropped) == ({} if used else {"a": 1})


def test_a_clock_that_was_put_back_is_refused_once_and_then_counts() -> None:
    state = state_at(3, 30.0)
    with pytest.raises(ClockPutBack, match=r"elapsed_s: got 4\.0, allowed: at least 30\.0") as caught:
        feedback_from(two(), state, message(round=3, elapsed_s=4.0))
    after = caught.value.state
    assert (after.round, after.held, after.elapsed_s) == (3, state.held, 4.0)
    assert feedback_from(two(), after, message(round=4, elapsed_s=14.0)).round == 4
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.state, str(again)) == (after, str(caught.value))


def test_a_round_that_is_far_ahead_is_refused_and_those_after_it_are_heard() -> None:
    state = state_at(3, 30.0)
    assert feedback_from(two(), state, message(round=3 + MOST_LEFT_OUT, elapsed_s=40.0)).round == 3 + MOST_LEFT_OUT
    with pytest.raises(InvalidValue, match=rf"round: got 1000000000, allowed: .* to {3 + MOST_LEFT_OUT}"):
        feedback_from(two(), state, message(round=10**9, elapsed_s=40.0))
    assert feedback_from(two(), state, message(round=4, elapsed_s=50.0)).round == 4


def test_reports_of_a_tenant_without_feedback_are_not_used() -> None:
    value = message(tenants={"a": {"reports": [GOOD]}})
    feedback = feedback_from(two(feedback=False, declared_demand=3.0), state_at(0, 0.0), value)
    assert feedback.reports["a"] == ()


def test_reports_of_services_need_every_service() -> None:
    problem = services(("find", "read"), 10.0)
    good = {"load": 5.0, "performance": 80.0, "allocation": {"find": 5, "read": 5}}
    bad = [{**good, "allocation": {"find": 5}}, {**good, "performance": 0.0}, {**good, "load": -1}, 3]
    bad.append({**good, "allocation": {"find": 5, "read": float("nan")}})
    bad.append({**good, "allocation": {"find": 5, "read": 10.5}})
    bad.append({**good, "allocation": {"find": 10, "read": 10}})
    bad.append({**good, "allocation": {"find": 5, "read": 5.1}})
    feedback = feedback_from(problem, state_at(0, 0.0), message(reports=[good, *bad]))
    assert feedback.services == ({"find": 5.0, "read": 5.0},)
    assert dict(feedback.dropped) == {"": 8}


def test_a_memory_comes_back_and_a_damaged_one_names_its_field() -> None:
    memory = TenantMemory(CurveMemory(bins=(3, 4), weights=(0.5, 1.0), sums=(0.1, 0.2), recent=((0.1, 0.2),)))
    value = memory_json(memory)
    assert memory_from(value, TenantMemory) == memory
    with pytest.raises(InvalidValue, match=r"memory\.curve\.pairs"):
        memory_from({**value, "curve": {**value["curve"], "pairs": "many"}}, TenantMemory)
    for odd in (float("inf"), float("nan"), 10**400, True, None):
        with pytest.raises(InvalidValue, match=r"memory\.curve\.pairs.*a finite number"):
            memory_from({**value, "curve": {**value["curve"], "pairs": odd}}, TenantMemory)
    with pytest.raises(InvalidValue, match=r"memory\.curve\.reports.*a whole number"):
        memory_from({**value, "curve": {**value["curve"], "reports": 1.5}}, TenantMemory)
    with pytest.raises(InvalidValue, match="memory"):
        memory_from({"curve": value["curve"]}, TenantMemory)


def test_a_state_of_another_format_is_refused() -> None:
    state = sharing_policy("ew").begin(two()).state.to_json()
    assert SharingState.from_json(state).to_json() == state
    with pytest.raises(InvalidValue, match="format"):
        SharingState.from_json({**state, "format": "sharing-state/9"})
