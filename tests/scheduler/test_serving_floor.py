"""Every camera keeps answering."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import InferenceConfig
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.policies import window_policy
from scheduler.serving_floor import keep_serving, least_share
from scheduler.timeline import evaluate

POINTS = (InferencePoint(InferenceConfig(4.0), 0.2, 1.0), InferencePoint(InferenceConfig(1.0), 0.05, 0.6))
PROFILE = InferenceProfile("subsampling", 0.2, (1.0, 4.0), (1.0, 0.6), "", POINTS)


def stream(name: str, accuracy: float) -> StreamProblem:
    return StreamProblem(name, accuracy, PROFILE, (RetrainingOption("r", 0.8, 10.0),))


def test_a_camera_with_a_worthless_model_still_answers() -> None:
    problem = WindowProblem("w", 0.5, 100.0, (stream("good", 0.8), stream("bad", 0.0)))
    plan = keep_serving(problem, window_policy("no-retraining").plan(problem))
    assert all(s.streams["bad"].inference_share >= 0.05 - 1e-9 for s in plan.segments)
    assert plan.objective == pytest.approx(evaluate(problem, plan.segments).objective)


def test_what_is_missing_is_taken_from_the_largest_inference_first_then_from_retrainings() -> None:
    problem = WindowProblem("w", 0.3, 100.0, (stream("a", 0.8), stream("b", 0.5)))
    segment = Segment(0.0, {"a": StreamAllocation(0.07, 0.23, "r"), "b": StreamAllocation(0.0)})
    plan = keep_serving(problem, WindowPlan("p", "w", 0.5, (segment,)))
    a, b = plan.segments[0].streams["a"], plan.segments[0].streams["b"]
    assert b.inference_share == pytest.approx(0.05)
    assert a.inference_share == pytest.approx(0.05)
    assert a.retraining_share == pytest.approx(0.20)


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
