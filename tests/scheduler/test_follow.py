"""The plan that is followed: in shares that can be granted, every camera answering, not changed for a little."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, problems
from test_granted import caps
from test_serving_floor import stream

from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.follow import LIMITS, planner
from scheduler.serving_floor import least_share


@settings(max_examples=40, deadline=None)
@given(
    problem=problems(running=True),
    step=st.sampled_from([None, 0.01, 0.2]),
    policy=st.sampled_from(["relay", "thief", "uniform"]),
)
def test_the_same_values_give_the_same_plan_in_grantable_shares(
    problem: WindowProblem, step: float | None, policy: str
) -> None:
    plan = planner(caps(step))
    found = plan(policy, problem, None, 0.0)
    assert found == planner(caps(step))(policy, problem, None, 0.0)
    assert found.policy == policy
    for segment in found.segments:
        shares = [x for a in segment.streams.values() for x in (a.inference_share, a.retraining_share)]
        assert sum(shares) <= problem.num_gpus + 1e-6
        for share in shares if step else ():
            assert share / step == pytest.approx(round(share / step), abs=1e-4)


def test_every_camera_answers_in_the_plan_that_is_followed() -> None:
    problem = WindowProblem("w", 0.5, 100.0, (stream("good", 0.8), stream("bad", 0.0)))
    found = planner(caps(None))("no-retraining", problem, None, 0.0)
    assert all(s.streams["bad"].inference_share >= least_share(problem.streams[1]) - 1e-9 for s in found.segments)


def problem_of(gain: float) -> WindowProblem:
    options = (RetrainingOption("only", 0.5 + gain, 10.0),)
    return WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.5, LINEAR, options=options),))


def test_a_gain_within_the_noise_is_not_retrained_for() -> None:
    plan = planner(caps(None))
    small, large = (plan("relay", problem_of(g), None, 0.0) for g in (LIMITS.min_gain / 2, 0.3))
    assert not any(s.streams["a"].retraining_share for s in small.segments)
    assert any(s.streams["a"].retraining_share for s in large.segments)


def test_a_plan_in_force_stays_for_its_least_time() -> None:
    plan = planner(caps(None))
    first = plan("relay", problem_of(0.0), None, 0.0)
    better = replace(problem_of(0.3), label_delay_s=10.0)
    kept = plan("relay", better, first, LIMITS.dwell_s / 2)
    changed = plan("relay", better, first, LIMITS.dwell_s * 2)
    assert not any(s.streams["a"].retraining_share for s in kept.segments)
    assert any(s.streams["a"].retraining_share for s in changed.segments)


def test_how_long_a_decision_took_is_measured_with_the_callers_clock() -> None:
    ticks = iter([5.0, 5.25])
    assert planner(caps(None), lambda: next(ticks))("relay", problem_of(0.3), None, 0.0).decision_seconds == 0.25
