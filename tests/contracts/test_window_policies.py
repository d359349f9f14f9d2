"""The contract of every window policy: it plans every camera for the whole window within the rules, the same every
time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, check_rules, problems

from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.follow import planner
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES, WindowPolicy, window_policy
from scheduler.serving_floor import least_share
from scheduler.timeline import evaluate

DRAWN = settings(max_examples=tried(10, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
BETTER = RetrainingOption("better", 0.9, 10.0)
POINTS = (InferencePoint(InferenceConfig(4.0), 0.2, 1.0), InferencePoint(InferenceConfig(1.0), 0.05, 0.6))
POINTED = InferenceProfile("subsampling", 0.2, (1.0, 4.0), (1.0, 0.6), "", POINTS)


@pytest.fixture(params=WINDOW_POLICIES, scope="module")
def policy(request: pytest.FixtureRequest) -> WindowPolicy:
    return window_policy(request.param)


def retrained(plan: WindowPlan) -> set[str]:
    return {c for s in plan.segments for c, a in s.streams.items() if a.retrain_config or a.retraining_share}


@DRAWN
@given(problem=problems(running=True))
def test_every_plan_keeps_the_rules_and_is_the_same_every_time(policy: WindowPolicy, problem: WindowProblem) -> None:
    found = policy.plan(problem)
    check_rules(problem, found)
    assert set(found.reasons) >= {s.id for s in problem.streams}
    assert found.decision_seconds == 0.0
    assert policy.plan(problem) == found, "the same policy, asked twice"
    assert window_policy(policy.name).plan(problem) == found, "another one of that name"


@DRAWN
@given(problem=problems(running=True))
def test_a_problem_from_its_file_is_planned_alike(policy: WindowPolicy, problem: WindowProblem) -> None:
    read = WindowProblem.from_json(json.loads(json.dumps(problem.to_json())))
    assert policy.plan(read) == policy.plan(problem)


@DRAWN
@given(problem=problems())
def test_a_floor_is_called_broken_where_it_is(policy: WindowPolicy, problem: WindowProblem) -> None:
    found = policy.plan(problem)
    lowest = evaluate(problem, found.segments).lowest
    for fault in found.faults:
        assert problem.a_min is not None
        assert fault.camera in lowest
        assert fault.floor == problem.a_min
        if fault.code == "under_floor":
            assert lowest[fault.camera] < problem.a_min


@DRAWN
@given(problem=problems(), step=st.sampled_from([0.05, 0.125, 0.04]))
def test_a_known_share_step_is_planned_in(policy: WindowPolicy, problem: WindowProblem, step: float) -> None:
    for segment in policy.plan(replace(problem, share_step=step)).segments:
        for a in segment.streams.values():
            for share in (a.inference_share, a.retraining_share):
                assert share / step == pytest.approx(round(share / step), abs=1e-5)


@DRAWN
@given(problem=problems(), part=st.sampled_from([0.5, 0.9, 0.999]), devices=st.sampled_from([0.03, 0.4, 1.0]))
def test_late_in_a_window_and_with_little_the_rules_hold(
    policy: WindowPolicy, problem: WindowProblem, part: float, devices: float
) -> None:
    scarce = replace(problem, num_gpus=devices, label_delay_s=part * problem.window_s)
    check_rules(scarce, policy.plan(scarce))


@DRAWN
@given(problem=problems(running=True), step=st.sampled_from([None, 0.01, 0.1]))
def test_the_plan_that_is_followed_has_an_answer_of_every_camera(
    policy: WindowPolicy, problem: WindowProblem, step: float | None
) -> None:
    asked = replace(problem, streams=tuple(replace(s, inference_profile=POINTED) for s in problem.streams))
    found = planner(ideal_caps(step))(PlanRequest(policy.name, asked))
    check_rules(asked, found)
    least = min(least_share(asked.streams[0]), asked.num_gpus / len(asked.streams))
    assert all(a.inference_share >= least - 1e-9 for s in found.segments for a in s.streams.values())


def test_its_name_is_that_by_which_it_is_found(policy: WindowPolicy) -> None:
    problem = WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.5, LINEAR, (BETTER,)),))
    assert policy.name in WINDOW_POLICIES
    assert policy.plan(problem).policy == policy.name
    assert policy.plan(problem).problem == "w"


def test_without_any_configuration_the_cameras_only_answer(policy: WindowPolicy) -> None:
    problem = WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.5, LINEAR), StreamProblem("b", 0.0, LINEAR)))
    found = policy.plan(problem)
    check_rules(problem, found)
    assert retrained(found) == set()


def test_a_camera_without_a_configuration_is_planned_beside_one_with(policy: WindowPolicy) -> None:
    with_one = StreamProblem("with", 0.3, LINEAR, (BETTER,))
    problem = WindowProblem("w", 1.0, 100.0, (with_one, StreamProblem("without", 0.6, LINEAR)))
    found = policy.plan(problem)
    check_rules(problem, found)
    assert retrained(found) <= {"with"}
    assert all(set(s.streams) == {"with", "without"} for s in found.segments)


def test_a_running_retraining_is_not_begun_anew_as_another(policy: WindowPolicy) -> None:
    running = StreamProblem("a", 0.3, LINEAR, (BETTER,), running="better", device_seconds_done=6.0)
    problem = WindowProblem("w", 1.0, 100.0, (running,), label_delay_s=20.0)
    found = policy.plan(problem)
    check_rules(problem, found)
    assert {a.retrain_config for s in found.segments for a in s.streams.values()} <= {"better", None}
    done = evaluate(problem, found.segments).completed["a"]
    alone = evaluate(replace(problem, streams=(replace(running, device_seconds_done=0.0),)), found.segments).completed[
        "a"
    ]
    assert not done or not alone or done[0][1] < alone[0][1], "what is done counts"


def test_a_floor_that_no_plan_can_keep_is_a_fault_and_no_error(policy: WindowPolicy) -> None:
    streams = tuple(StreamProblem(n, 0.2, InferenceProfile("linear", 1.0)) for n in "ab")
    problem = WindowProblem("w", 0.5, 100.0, streams, a_min=0.9)
    found = policy.plan(problem)
    check_rules(problem, found)
    assert {f.camera for f in found.faults} == {"a", "b"}


def test_a_window_of_no_camera_is_no_problem_at_all() -> None:
    with pytest.raises(InvalidValue, match="streams"):
        WindowProblem("w", 1.0, 100.0, ())
    assert DEFAULT_POLICY in WINDOW_POLICIES
