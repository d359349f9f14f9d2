"""Window problems for tests: hypothesis strategies, small hand-made ones, and the rules that every plan keeps."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.timeline import evaluate

LINEAR = InferenceProfile("linear", 0.5)
SUBSAMPLED = InferenceProfile("subsampling", 0.25, (1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 0.78, 0.6, 0.33, 0.1))
SUBLINEAR = ((0.25, 0.5), (0.5, 0.8), (1.0, 1.0))

_accuracy = st.floats(0.2, 0.95).map(lambda x: round(x, 3))


@st.composite
def options(draw: st.DrawFn, number: int) -> RetrainingOption:
    throughput = draw(st.sampled_from([(), (), SUBLINEAR]))
    return RetrainingOption(f"o{number}", draw(_accuracy), round(draw(st.floats(0.5, 150.0)), 2), throughput=throughput)


@st.composite
def streams(draw: st.DrawFn, number: int, running: bool) -> StreamProblem:
    own = tuple(draw(options(n)) for n in range(draw(st.integers(0, 4))))
    going = own[0] if own and running and draw(st.booleans()) else None
    return StreamProblem(
        f"cam{number}",
        draw(_accuracy),
        draw(st.sampled_from([LINEAR, SUBSAMPLED, InferenceProfile("linear", 1.0)])),
        own,
        running=None if going is None else going.id,
        device_seconds_done=0.0 if going is None else round(going.device_seconds * draw(st.floats(0.0, 0.95)), 2),
    )


@st.composite
def problems(draw: st.DrawFn, running: bool = False, floor: bool = True) -> WindowProblem:
    return WindowProblem(
        name="drawn",
        num_gpus=draw(st.sampled_from([0.5, 0.85, 1.0, 2.0, 3.0])),
        window_s=draw(st.sampled_from([60.0, 120.0])),
        streams=tuple(draw(streams(n, running)) for n in range(draw(st.integers(1, 4)))),
        delta=draw(st.sampled_from([0.05, 0.1, 0.25])),
        a_min=draw(st.sampled_from([None, 0.15, 0.3, 0.5])) if floor else None,
        label_delay_s=draw(st.sampled_from([0.0, 7.5])),
    )


def table21_w1() -> WindowProblem:
    """Window 1 of the worked example of the thesis (Table 2.1)."""
    profile = InferenceProfile("linear", 1.0)
    a = (RetrainingOption("Cfg1A", 0.75, 85.0), RetrainingOption("Cfg2A", 0.70, 65.0))
    b = (RetrainingOption("Cfg1B", 0.90, 80.0), RetrainingOption("Cfg2B", 0.85, 50.0))
    streams = (StreamProblem("videoA", 0.65, profile, a), StreamProblem("videoB", 0.50, profile, b))
    return WindowProblem("table21_w1", 3.0, 120.0, streams, delta=0.05, a_min=0.4)


def table21_w2(start_a: float, start_b: float) -> WindowProblem:
    """Window 2 of the same example, from the accuracies that window 1 ended with."""
    profile = InferenceProfile("linear", 1.0)
    a = (RetrainingOption("Cfg1A", 0.95, 90.0), RetrainingOption("Cfg2A", 0.90, 40.0))
    b = (RetrainingOption("Cfg1B", 0.98, 80.0), RetrainingOption("Cfg2B", 0.90, 70.0))
    streams = (StreamProblem("videoA", start_a, profile, a), StreamProblem("videoB", start_b, profile, b))
    return WindowProblem("table21_w2", 3.0, 120.0, streams, delta=0.05, a_min=0.4)


def check_rules(problem: WindowProblem, found: WindowPlan) -> None:
    """Every rule that a plan of any policy must keep."""
    assert found.segments[0].start_s == pytest.approx(problem.label_delay_s)
    starts = [s.start_s for s in found.segments]
    assert starts == sorted(starts)
    assert starts[-1] < problem.window_s
    ids = {s.id for s in problem.streams}
    for segment in found.segments:
        assert set(segment.streams) == ids
        total = 0.0
        for a in segment.streams.values():
            assert a.inference_share >= 0
            assert a.retraining_share >= 0
            assert max(a.inference_share, a.retraining_share) <= 1 + 1e-6
            assert a.retrain_config is not None or a.retraining_share == 0
            total += a.inference_share + a.retraining_share
        assert total <= problem.num_gpus + 1e-6
    outcome = evaluate(problem, found.segments)
    assert found.objective == pytest.approx(outcome.objective, abs=1e-12)
    if problem.a_min is not None:
        for stream, low in outcome.lowest.items():
            said = any(f.camera == stream for f in found.faults)
            assert said or low >= problem.a_min - 1e-6, f"{stream} is under the floor and no fault says so"
