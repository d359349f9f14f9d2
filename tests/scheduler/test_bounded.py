"""Bounds, hysteresis and dwell around a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, problems

from edge.core.errors import InvalidValue
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.bounded import BoundedPolicy, Limits, remaining_segments
from scheduler.policies import window_policy
from scheduler.timeline import evaluate


def problem_with(*options: RetrainingOption, **changes: object) -> WindowProblem:
    stream = StreamProblem("a", 0.4, LINEAR, options)
    return replace(WindowProblem("b", 1.0, 100.0, (stream,)), **changes)  # type: ignore[arg-type]


def bounded(**limits: object) -> BoundedPolicy:
    return BoundedPolicy(window_policy("relay"), Limits(**limits))  # type: ignore[arg-type]


GOOD = RetrainingOption("good", 0.8, 20.0)
SMALL = RetrainingOption("small", 0.41, 1.0, end_accuracy_low=0.405)
DEAR = RetrainingOption("dear", 0.9, 40.0, end_accuracy_low=0.5)


def test_bounds_limit_what_is_offered_and_given() -> None:
    problem = problem_with(GOOD, SMALL, DEAR)
    ids = [o.id for o in bounded(min_gain=0.05).bounded(problem).streams[0].options]
    assert ids == ["good", "dear"]
    assert [o.id for o in bounded(max_device_seconds=30.0).bounded(problem).streams[0].options] == ["good", "small"]
    assert bounded(cautious=True).plan(problem).chosen() == {"a": "good"}
    for segment in bounded(headroom=0.3).plan(problem).segments:
        assert sum(a.inference_share + a.retraining_share for a in segment.streams.values()) <= 0.7 + 1e-9


def test_a_headroom_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InvalidValue, match="num_gpus"):
        bounded(headroom=1.0).plan(problem_with(GOOD))


def test_hysteresis_keeps_a_plan_that_is_nearly_as_good() -> None:
    problem = problem_with(GOOD)
    policy = bounded(improve_by=0.01)
    first = policy.replan(problem, None, 0.0)
    assert first.changed
    again = policy.replan(problem, first.plan, 50.0)
    assert not again.changed
    assert again.reason == "a new plan is better by 0.00 points only"
    better = problem_with(GOOD, RetrainingOption("much", 0.95, 5.0))
    changed = policy.replan(better, first.plan, 50.0)
    assert changed.changed
    assert changed.plan.chosen() == {"a": "much"}


def test_dwell_is_elapsed_time() -> None:
    policy = bounded(dwell_s=30.0)
    first = policy.replan(problem_with(GOOD), None, 0.0).plan
    better = problem_with(GOOD, RetrainingOption("much", 0.95, 5.0))
    assert not policy.replan(better, first, 29.9).changed
    assert policy.replan(better, first, 30.0).changed


def test_a_plan_that_no_longer_fits_is_replaced_whatever_its_age() -> None:
    policy = bounded(dwell_s=1000.0)
    problem = problem_with(GOOD)
    current = policy.replan(problem, None, 0.0).plan
    assert "needs" in policy.replan(replace(problem, num_gpus=0.3), current, 1.0).reason
    gone = replace(problem, streams=(replace(problem.streams[0], options=()),))
    assert "no longer offered" in policy.replan(gone, current, 1.0).reason
    joined = replace(problem, streams=(*problem.streams, StreamProblem("b", 0.5, LINEAR)))
    assert policy.replan(joined, current, 1.0).reason == "the cameras have changed"


def test_the_kept_plan_is_valued_from_now_on() -> None:
    problem = problem_with(GOOD)
    policy = bounded(improve_by=0.5)
    current = policy.replan(problem, None, 0.0).plan
    share = current.segments[0].streams["a"].retraining_share
    later = replace(
        problem,
        label_delay_s=5.0,
        streams=(replace(problem.streams[0], running="good", device_seconds_done=5.0 * share),),
    )
    kept = policy.replan(later, current, 5.0)
    assert not kept.changed
    assert kept.plan.segments[0].start_s == 5.0
    ends = evaluate(later, kept.plan.segments).completed["a"]
    assert ends[0][1] == pytest.approx(evaluate(problem, current.segments).completed["a"][0][1])


@settings(max_examples=25, deadline=None)
@given(problem=problems(floor=False), at=st.floats(0.0, 50.0))
def test_what_is_left_of_a_plan_starts_now(problem: WindowProblem, at: float) -> None:
    plan = window_policy("exact").plan(problem)
    now = max(at, problem.label_delay_s)
    rest = remaining_segments(replace(problem, label_delay_s=now), plan)
    assert rest[0].start_s == now
    assert all(s.start_s > now for s in rest[1:])
