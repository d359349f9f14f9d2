"""Promise and keep: a world that breaks promises in a known way is learned, and its problems are corrected."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.learning import Correction, Promise, PromiseHistory, PromiseOutcome
from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.learning.promise import (
    corrected,
    correction,
    decay_per_s,
    kept_promises,
    level,
    reliability,
    remembered,
    usual_level,
    usual_pull,
)

WINDOW_S = 90.0
INFERENCE = InferenceProfile("linear", 0.2)


def live_through(
    windows: int, *, bias: float, gain: float, noise: float, seed: int, outliers: float = 0.0
) -> PromiseHistory:
    """Four cameras whose windows are `bias` worse than measured and gain `gain` of what is planned."""
    rng = random.Random(seed)
    history = PromiseHistory()
    for window in range(2, windows + 2):
        for camera in ("a", "b", "c", "d"):
            measured = min(0.95, max(0.05, rng.gauss(0.6, 0.05)))
            planned, factor = rng.uniform(0.0, 0.2), rng.uniform(0.8, 1.0)
            c = correction(history, camera, window, WINDOW_S)
            base = level(measured, measured, c, WINDOW_S)
            predicted = factor * base + c.gain * planned
            off = rng.choice((-0.4, 0.4)) if rng.random() < outliers else rng.gauss(0.0, noise)
            realised = min(1.0, max(0.0, factor * (measured - bias) + gain * planned + off))
            usual = usual_level(history, camera)
            outcome = PromiseOutcome(window, predicted, realised, measured, factor, planned, usual, None)
            history = remembered(history, camera, outcome)
    return history


@pytest.mark.parametrize("bias", [0.0, 0.05, 0.15, -0.1])
@pytest.mark.parametrize("gain", [0.3, 0.7, 1.0])
def test_a_biased_world_is_learned(bias: float, gain: float) -> None:
    history = live_through(24, bias=bias, gain=gain, noise=0.02, seed=3)
    off, error, count = kept_promises(history, since=12)
    assert count == 4 * 14
    assert abs(off) <= 0.01
    assert error <= 0.04


def test_a_promise_that_is_never_corrected_is_not_kept_there() -> None:
    """The test above can fail: without learning the same world is 15 points off."""
    history = live_through(12, bias=0.15, gain=0.3, noise=0.02, seed=3)
    raw = [
        o.factor * o.measured + o.planned_gain - o.realised
        for found in history.cameras.values()
        for o in found
        if o.measured is not None
    ]
    assert sum(raw) / len(raw) > 0.12


def test_windows_that_are_far_off_do_not_carry_the_rest_away() -> None:
    history = live_through(24, bias=0.05, gain=0.6, noise=0.02, seed=5, outliers=0.1)
    c = correction(history, "a", 26, WINDOW_S)
    quiet = live_through(24, bias=0.05, gain=0.6, noise=0.02, seed=5)
    assert level(0.6, 0.6, c, WINDOW_S) == pytest.approx(
        level(0.6, 0.6, correction(quiet, "a", 26, WINDOW_S), WINDOW_S), abs=0.05
    )


def test_a_camera_of_its_own_kind_is_distinguished_from_the_others() -> None:
    history = PromiseHistory()
    for window in range(2, 20):
        for camera, bias in (("a", 0.2), ("b", 0.0), ("c", 0.0), ("d", 0.0)):
            outcome = PromiseOutcome(window, 0.6, 0.6 - bias, 0.6, 1.0, 0.0, None, None)
            history = remembered(history, camera, outcome)
    own = level(0.6, 0.6, correction(history, "a", 20, WINDOW_S), WINDOW_S)
    other = level(0.6, 0.6, correction(history, "b", 20, WINDOW_S), WINDOW_S)
    assert own == pytest.approx(0.4, abs=0.05)
    assert other == pytest.approx(0.6, abs=0.03)
    new = level(0.6, 0.6, correction(history, "new", 20, WINDOW_S), WINDOW_S)
    assert own < new < other + 0.02, "a camera that nothing is known of is like the mean of all"


def test_the_first_plan_is_already_modest() -> None:
    c = correction(PromiseHistory(), "a", 2, WINDOW_S)
    assert c.usual is None
    assert level(0.8, 0.6, c, WINDOW_S) < 0.8, "the best of noisy profiles is not what it says"


def test_the_decay_inside_a_window_counts_for_half_of_it() -> None:
    history = PromiseHistory()
    for window in range(1, 30):
        history = remembered(history, "a", PromiseOutcome(window, None, 0.5, None, 1.0, drift_per_s=0.001))
    decay = decay_per_s(history, "a", WINDOW_S)
    assert 0.0003 < decay <= 0.001
    c = Correction(decay_per_s=decay)
    assert level(0.6, 0.6, c, WINDOW_S) == pytest.approx(0.6 - decay * 45.0)


corrections = st.builds(
    Correction,
    offset=st.floats(-0.3, 0.3),
    gain=st.floats(0.1, 1.2),
    pull=st.floats(0, 1),
    usual=st.none() | st.floats(0, 1),
    decay_per_s=st.floats(-1e-3, 1e-3),
    reliability=st.floats(0, 1),
)


@given(corrections, st.floats(0, 1), st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_better_model_stays_a_better_one(c: Correction, measured: float, accuracies: list[float]) -> None:
    shown = [level(a, measured, c, WINDOW_S) for a in sorted(accuracies)]
    assert shown == sorted(shown)
    assert all(0 <= s <= 1 for s in shown)


def problem() -> WindowProblem:
    option = RetrainingOption("o", 0.8, 20.0, ((0.0, 0.6), (20.0, 0.8)), end_accuracy_low=0.7)
    worse = RetrainingOption("w", 0.5, 20.0)
    streams = (StreamProblem("a", 0.6, INFERENCE, (option, worse)), StreamProblem("b", 0.6, INFERENCE))
    return WindowProblem("window-2", 1.0, WINDOW_S, streams)


def test_a_problem_is_corrected_once_and_says_so() -> None:
    c = Correction(offset=-0.1, gain=0.5)
    out = corrected(problem(), {"a": Promise(0.6, c)})
    a, b = out.streams
    assert a.start_accuracy == pytest.approx(0.5)
    assert a.options[0].end_accuracy == pytest.approx(0.6)
    assert a.options[0].end_accuracy_low == pytest.approx(0.55)
    assert a.options[0].curve[-1] == (20.0, pytest.approx(0.6))
    assert a.options[1].end_accuracy == pytest.approx(0.4), "what falls is not made to fall less"
    assert a.promise == Promise(0.6, c)
    assert b == problem().streams[1]


@given(corrections, st.floats(0, 1))
@settings(max_examples=50)
def test_a_corrected_problem_survives_its_file(c: Correction, measured: float) -> None:
    made = corrected(problem(), {"a": Promise(measured, c)})
    assert WindowProblem.from_json(made.to_json()) == made


def test_a_damaged_promise_is_named() -> None:
    value = corrected(problem(), {"a": Promise(0.6, Correction())}).to_json()
    value["streams"][0]["promise"]["correction"]["gains"] = 1
    with pytest.raises(InvalidValue, match=r"streams\[0\]\.promise\.correction"):
        WindowProblem.from_json(value)
    del value["streams"][0]["promise"]["correction"]
    with pytest.raises(InvalidValue, match=r"streams\[0\]\.promise\.correction"):
        WindowProblem.from_json(value)


def test_a_window_seen_twice_counts_once() -> None:
    outcome = PromiseOutcome(3, 0.5, 0.5, 0.5, 1.0)
    history = remembered(remembered(PromiseHistory(), "a", outcome), "a", PromiseOutcome(3, 0.5, 0.4, 0.5, 1.0))
    assert [o.realised for o in history.cameras["a"]] == [0.4]
    assert PromiseHistory.from_json(history.to_json()) == history


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_score_of_fewer_frames_is_pulled_further_towards_what_is_usual(a: int, b: int) -> None:
    few, many = sorted((a, b))
    assert 0.0 < usual_pull(many) <= usual_pull(few) < 1.0


def test_a_lucky_score_of_seven_frames_promises_little_more_than_usual() -> None:
    history = PromiseHistory()
    for window in (1, 2, 3):
        history = remembered(history, "a", PromiseOutcome(window, 0.7, 0.7, 0.7, 1.0, 0.0, 0.7, None))
    few, many = (correction(history, "a", 4, WINDOW_S, frames) for frames in (7, 700))
    assert level(0.9, 0.9, few, WINDOW_S) < 0.76
    assert level(0.9, 0.9, many, WINDOW_S) > 0.85


def test_a_score_of_no_frame_is_refused() -> None:
    with pytest.raises(InvalidValue, match="frames"):
        usual_pull(0)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_gain_on_fewer_frames_is_believed_less(a: int, b: int) -> None:
    few, many = sorted((a, b))
    assert 0.0 < reliability(few) <= reliability(many) <= 1.0


@pytest.mark.parametrize("frames", [12, 15, 60, 1000])
def test_gains_on_a_dozen_frames_or_more_are_believed_as_ever(frames: int) -> None:
    assert reliability(frames) == 1.0
    as_ever = correction(PromiseHistory(), "a", 2, WINDOW_S)
    known = correction(PromiseHistory(), "a", 2, WINDOW_S, frames)
    assert (known.gain, known.reliability) == (as_ever.gain, as_ever.reliability)


def test_what_is_believed_is_what_the_best_of_several_measured_gains_is_worth() -> None:
    """True gains of a mean square of 0.1^2, measured on 5 frames that are 0.3 off each: also the best of three."""
    rng = random.Random(4)
    measured_sum, true_sum = 0.0, 0.0
    for _ in range(4000):
        gains = [rng.gauss(0.0, 0.1) for _ in range(3)]
        measured, gain = max((g + rng.gauss(0.0, 0.3 / 5**0.5), g) for g in gains)
        measured_sum, true_sum = measured_sum + measured, true_sum + gain
    whole = 0.1**2 / (0.1**2 + 0.3**2 / 12)
    assert true_sum / measured_sum == pytest.approx(reliability(5) * whole, rel=0.1)


@given(corrections, st.floats(0, 1), st.floats(0, 1), st.integers(1, 11))
def test_few_frames_never_turn_a_loss_into_a_gain_nor_a_gain_into_a_loss(
    c: Correction, measured: float, accuracy: float, frames: int
) -> None:
    few = replace(c, reliability=reliability(frames))
    whole = replace(c, reliability=1.0)
    base = level(measured, measured, few, WINDOW_S)
    now, as_ever = level(accuracy, measured, few, WINDOW_S), level(accuracy, measured, whole, WINDOW_S)
    if accuracy > measured:
        assert base <= now <= as_ever
    else:
        assert now == as_ever <= base


def test_a_correction_of_an_older_record_believes_as_ever() -> None:
    old = {k: v for k, v in Correction(gain=0.5).to_json().items() if k != "reliability"}
    assert Correction.from_json(old) == Correction(gain=0.5)
    assert level(0.8, 0.6, Correction.from_json(old), WINDOW_S) == pytest.approx(0.7)


def test_a_reliability_beyond_the_whole_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"correction\.reliability"):
        Correction(reliability=1.1)
    with pytest.raises(InvalidValue, match="frames"):
        reliability(0)
