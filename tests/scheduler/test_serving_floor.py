"""Every camera keeps answering."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import InferenceConfig
from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.policies import window_policy
from scheduler.serving_floor import floor_share, keep_serving, least_share, reachable
from scheduler.timeline import evaluate

POINTS = (InferencePoint(InferenceConfig(4.0), 0.2, 1.0), InferencePoint(InferenceConfig(1.0), 0.05, 0.6))
PROFILE = InferenceProfile("subsampling", 0.2, (1.0, 4.0), (1.0, 0.6), "", POINTS)


def stream(name: str, accuracy: float) -> StreamProblem:
    return StreamProblem(name, accuracy, PROFILE, (RetrainingOption("r", 0.8, 10.0),))


def test_a_camera_with_a_worthless_model_still_answers() -> None:
    problem = WindowProblem("w", 0.5, 100.0, (stream("good", 0.8), stream("bad", 0.0)))
    plan = keep_serving(problem, window_policy("no-retraining").plan(problem))
    assert all(s.streams["bad"].inference_share >= 0.05 - 1e-9 for s in plan.segments)
    for camera, allocation in plan.segments[0].streams.items():
        told = next(r for r in plan.reasons[camera] if r.code == "inference")
        assert told.numbers["share"] == allocation.inference_share, "the reason says what the camera gets"
    assert plan.objective == pytest.approx(evaluate(problem, plan.segments).objective)


def test_what_is_missing_is_taken_from_the_largest_inference_first_then_from_retrainings() -> None:
    problem = WindowProblem("w", 0.3, 100.0, (stream("a", 0.8), stream("b", 0.5)))
    segment = Segment(0.0, {"a": StreamAllocation(0.07, 0.23, "r"), "b": StreamAllocation(0.0)})
    plan = keep_serving(problem, WindowPlan("p", "w", 0.5, (segment,)))
    a, b = plan.segments[0].streams["a"], plan.segments[0].streams["b"]
    assert b.inference_share == pytest.approx(0.05)
    assert a.inference_share == pytest.approx(0.05)
    assert a.retraining_share == pytest.approx(0.20)


def test_a_retraining_whose_share_inference_takes_is_no_longer_a_reason() -> None:
    """Both least shares are all that there is: neither of the two retrainings has anything left. With a little more
    the smaller one keeps some, and is then the first and only one."""
    problem = WindowProblem("w", 0.1, 100.0, (stream("a", 0.4), stream("b", 0.4)))
    first = [PlanReason("retrain", c, "r", {"points": 1, "device_s": 1, "place": 2, "places": 2}) for c in ("a", "b")]
    segment = Segment(0.0, {"a": StreamAllocation(0.0, 0.05, "r"), "b": StreamAllocation(0.0, 0.05, "r")})
    asked = WindowPlan("p", "w", 0.5, (segment,), reasons={r.camera or "": (r,) for r in first})
    none = keep_serving(problem, asked)
    assert none.reasons["a"] == (PlanReason("no_share", "a", "r"),)
    assert none.reasons["b"] == (PlanReason("no_share", "b", "r"),)
    more = {"a": StreamAllocation(0.0, 0.04, "r"), "b": StreamAllocation(0.0, 0.08, "r")}
    some = keep_serving(replace(problem, num_gpus=0.12), replace(asked, segments=(Segment(0.0, more),)))
    assert [some.reasons[c][0].code for c in ("a", "b")] == ["retrain", "no_share"]
    assert some.reasons["a"][0].numbers["place"] == some.reasons["a"][0].numbers["places"] == 1


@given(
    st.floats(0.02, 2.0),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.sampled_from(["relay", "exact", "uniform", "no-retraining"]),
)
def test_shares_never_add_up_to_more_than_before_and_never_fall_under_the_least(
    gpus: float, accuracies: list[float], policy: str
) -> None:
    problem = WindowProblem("w", gpus, 100.0, tuple(stream(f"s{n}", a) for n, a in enumerate(accuracies)))
    plan = keep_serving(problem, window_policy(policy).plan(problem))
    least = min(1.0, gpus / sum(least_share(s) for s in problem.streams))
    for segment in plan.segments:
        shares = segment.streams.values()
        assert sum(a.inference_share + a.retraining_share for a in shares) <= gpus + 1e-6
        assert all(a.inference_share >= 0.05 * least - 1e-9 and a.retraining_share >= -1e-12 for a in shares)


def test_floors_that_fit_in_fine_steps_are_not_lost_to_the_quantum() -> None:
    """Two cameras whose floors need 0.12 and 0.27 of 0.4 devices; quanta of 0.05 give 0.15 and 0.25."""
    linear = InferenceProfile("linear", 0.4)
    streams = (StreamProblem("good", 0.7, linear), StreamProblem("bad", 0.3, linear))
    problem = WindowProblem("w", 0.4, 100.0, streams, 0.05, 0.2, share_step=0.01)
    for policy in ("relay", "exact", "thief", "uniform"):
        plan = keep_serving(problem, window_policy(policy).plan(problem))
        outcome = evaluate(problem, plan.segments)
        assert all(lowest >= 0.2 - 1e-9 for lowest in outcome.lowest.values()), policy
        assert plan.objective == pytest.approx(outcome.objective)
        assert plan.faults == (), policy
        for segment in plan.segments:
            assert sum(a.inference_share for a in segment.streams.values()) <= 0.4 + 1e-6


def test_a_lifted_plan_keeps_the_faults_that_still_hold() -> None:
    """`a` is lifted over its floor; `b` cannot reach it. What a recorded sentence is about is not read out of it."""
    linear = InferenceProfile("linear", 0.4)
    streams = (StreamProblem("a", 0.7, linear), StreamProblem("b", 0.1, linear))
    problem = WindowProblem("w", 0.6, 100.0, streams, 0.05, 0.2, share_step=0.01)
    segment = Segment(0.0, {"a": StreamAllocation(0.05), "b": StreamAllocation(0.4)})
    gone = (PlanFault.unreachable("a", 0.2, 0.1, 0.05), PlanFault.under("a", 0.2, 0.0875))
    stays = (PlanFault.under("b", 0.2, 0.1), PlanFault.under("c", 0.2, 0.1), PlanFault.recorded("a: it was so"))
    plan = keep_serving(problem, WindowPlan("p", "w", 0.5, (segment,), faults=gone + stays))
    assert plan.segments[0].streams["a"].inference_share == pytest.approx(0.12)
    assert plan.faults == stays


def test_a_floor_that_the_devices_cannot_hold_is_left_to_the_policy() -> None:
    linear = InferenceProfile("linear", 0.4)
    streams = (StreamProblem("good", 0.7, linear), StreamProblem("bad", 0.3, linear))
    problem = WindowProblem("w", 0.2, 100.0, streams, 0.05, 0.2, share_step=0.01)
    plan = window_policy("relay").plan(problem)
    assert keep_serving(problem, plan) == plan
    hopeless = replace(problem, num_gpus=0.4, a_min=0.9)
    unreachable = window_policy("relay").plan(hopeless)
    assert keep_serving(hopeless, unreachable) == unreachable


@given(
    st.floats(0.2, 2.0),
    st.lists(st.sampled_from((0.3, 0.5, 0.8)), min_size=1, max_size=4),
    st.sampled_from((0.1, 0.2, 0.4)),
    st.sampled_from(["relay", "exact", "thief"]),
)
def test_every_floor_that_can_be_held_is_held(gpus: float, accuracies: list[float], a_min: float, policy: str) -> None:
    streams = tuple(
        StreamProblem(f"s{n}", a, InferenceProfile("linear", 0.4), (RetrainingOption("r", 0.9, 20.0),))
        for n, a in enumerate(accuracies)
    )
    problem = WindowProblem("w", gpus, 100.0, streams, 0.05, a_min, share_step=0.01)
    plan = keep_serving(problem, window_policy(policy).plan(problem))
    lowest = evaluate(problem, plan.segments).lowest
    if sum(floor_share(problem, s) for s in streams) <= gpus:
        assert all(lowest[s.id] >= a_min - 1e-6 for s in streams if reachable(problem, s))
    for segment in plan.segments:
        assert sum(a.inference_share + a.retraining_share for a in segment.streams.values()) <= gpus + 1e-6


def test_a_camera_that_falls_under_its_floor_for_the_least_share_of_another_is_reported() -> None:
    """0.2 devices hold the good camera at 0.8; the other's 0.05 leave it 0.15, which is less than its floor of 0.78."""
    problem = WindowProblem("w", 0.2, 100.0, (stream("good", 0.8), stream("bad", 0.5)), a_min=0.78)
    known = PlanFault.unreachable("bad", 0.78, 0.5, 0.2)
    segment = Segment(0.0, {"good": StreamAllocation(0.2), "bad": StreamAllocation(0.0)})
    plan = keep_serving(problem, WindowPlan("p", "w", 0.4, (segment,), faults=(known,)))
    lowest = evaluate(problem, plan.segments).lowest["good"]
    assert lowest < 0.78
    assert plan.faults == (known, PlanFault.under("good", 0.78, lowest))
