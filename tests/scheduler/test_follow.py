"""The plan that is followed: in shares that can be granted, every camera answering, not changed for a little."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, problems
from test_granted import caps
from test_serving_floor import stream

from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.follow import LIMITS, made_again, planner
from scheduler.serving_floor import least_share


@settings(max_examples=tried(16, 40), deadline=None)
@given(
    problem=problems(running=True),
    step=st.sampled_from([None, 0.01, 0.2]),
    policy=st.sampled_from(["relay", "thief", "uniform"]),
)
def test_the_same_values_give_the_same_plan_in_grantable_shares(
    problem: WindowProblem, step: float | None, policy: str
) -> None:
    plan = planner(caps(step))
    found = plan(PlanRequest(policy, problem))
    assert found == planner(caps(step))(PlanRequest(policy, problem))
    assert found.policy == policy
    for segment in found.segments:
        shares = [x for a in segment.streams.values() for x in (a.inference_share, a.retraining_share)]
        assert sum(shares) <= problem.num_gpus + 1e-6
        for share in shares if step else ():
            assert share / step == pytest.approx(round(share / step), abs=1e-4)


def test_every_camera_answers_in_the_plan_that_is_followed() -> None:
    problem = WindowProblem("w", 0.5, 100.0, (stream("good", 0.8), stream("bad", 0.0)))
    found = planner(caps(None))(PlanRequest("no-retraining", problem))
    assert all(s.streams["bad"].inference_share >= least_share(problem.streams[1]) - 1e-9 for s in found.segments)


def problem_of(gain: float) -> WindowProblem:
    options = (RetrainingOption("only", 0.5 + gain, 10.0),)
    return WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.5, LINEAR, options=options),))


def test_a_gain_within_the_noise_is_not_retrained_for() -> None:
    plan = planner(caps(None))
    small, large = (plan(PlanRequest("relay", problem_of(g))) for g in (LIMITS.min_gain / 2, 0.3))
    assert not any(s.streams["a"].retraining_share for s in small.segments)
    assert any(s.streams["a"].retraining_share for s in large.segments)


def test_a_plan_in_force_stays_for_its_least_time() -> None:
    plan = planner(caps(None))
    first = plan(PlanRequest("relay", problem_of(0.0)))
    better = replace(problem_of(0.3), label_delay_s=10.0)
    kept = plan(PlanRequest("relay", better, first, LIMITS.dwell_s / 2))
    changed = plan(PlanRequest("relay", better, first, LIMITS.dwell_s * 2))
    assert not any(s.streams["a"].retraining_share for s in kept.segments)
    assert any(s.streams["a"].retraining_share for s in changed.segments)


def test_how_long_a_decision_took_is_measured_with_the_callers_clock() -> None:
    ticks = iter([5.0, 5.25])
    assert planner(caps(None), lambda: next(ticks))(PlanRequest("relay", problem_of(0.3))).decision_seconds == 0.25


@settings(max_examples=tried(16, 40), deadline=None)
@given(
    problem=problems(running=True),
    step=st.sampled_from([None, 0.01, 0.2]),
    policy=st.sampled_from(["relay", "thief", "uniform"]),
    age_s=st.sampled_from([0.0, 0.3, LIMITS.dwell_s, 7.0]),
)
def test_a_plan_that_was_written_down_is_made_again_exactly(
    problem: WindowProblem, step: float | None, policy: str, age_s: float
) -> None:
    """Through JSON, as the store keeps it: problem, plan in force, its age, and what the device can grant."""
    plan = planner(caps(step))
    current = plan(PlanRequest("no-retraining", problem))
    later = replace(problem, label_delay_s=problem.label_delay_s + 0.25 * (problem.window_s - problem.label_delay_s))
    request = PlanRequest(policy, later, current, age_s)
    made = plan(request)
    basis = PlanBasis.from_json(json.loads(json.dumps(PlanBasis.of(request, later, caps(step)).to_json())))
    again = made_again(WindowProblem.from_json(json.loads(json.dumps(later.to_json()))), basis)
    assert json.dumps(again.to_json()) == json.dumps(made.to_json())
