"""The accuracy-epoch fit: right on its own model, calm on noise, and its interval means what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from microprofiler.curve import fit_curve, measurement_noise

accuracies = st.floats(0.0, 1.0)


def optimus(x: np.ndarray, start: float, gain: float, speed: float) -> np.ndarray:
    """Accuracy that goes from `start` to `start + gain`, half way after 1 / speed epochs."""
    return start + gain - gain / (1.0 + speed * x)


@settings(max_examples=60, deadline=None)
@given(st.lists(accuracies, min_size=1, max_size=8), accuracies, st.floats(0.0, 300.0), st.integers(0, 500))
def test_estimates_stay_in_range_and_in_order(ys: list[float], start: float, x: float, objects: int) -> None:
    fit = fit_curve([(n + 1, y) for n, y in enumerate(ys)], start, objects)
    estimate = fit.predict(x)
    assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
    assert fit.weights.sum() == pytest.approx(1.0)
    assert fit.median_over(((x, 1.0),)) == pytest.approx(estimate.value, abs=1e-3)


@pytest.mark.parametrize(
    ("start", "gain", "speed"), [(0.4, 0.3, 0.3), (0.6, 0.1, 1.0), (0.2, 0.5, 0.1), (0.8, -0.2, 0.5)]
)
def test_follows_its_own_model_far_beyond_the_points(start: float, gain: float, speed: float) -> None:
    x = np.arange(0, 31)
    y = optimus(x, start, gain, speed)
    fit = fit_curve([(k, y[k]) for k in range(1, 6)], start, run_noise=0.002)
    for epoch in (5, 10, 15, 30):
        assert fit.predict(epoch).value == pytest.approx(y[epoch], abs=0.035)
    kept, fitted = abs(y[5] - y[30]), abs(fit.predict(30).value - y[30])
    assert fitted < 0.5 * kept


def test_a_flat_curve_stays_flat() -> None:
    fit = fit_curve([(k, 0.7) for k in range(1, 6)], 0.7)
    assert fit.predict(100).value == pytest.approx(0.7, abs=0.02)


def test_a_fresh_layer_that_falls_first_and_then_rises_is_not_taken_for_a_decline() -> None:
    x = np.arange(0, 31)
    y = optimus(x, 0.1, 0.7, 0.5)
    fit = fit_curve([(k, y[k]) for k in range(1, 6)], 0.6)
    assert fit.predict(30).value > 0.62


def test_more_noise_or_fewer_objects_widen_the_interval() -> None:
    points = [(k, 0.5 + 0.02 * k) for k in range(1, 6)]

    def width(objects: int, run_noise: float = 0.01) -> float:
        estimate = fit_curve(points, 0.5, objects, run_noise).predict(10)
        return estimate.high - estimate.low

    assert width(30) > width(300) > width(30_000)
    assert width(0, 0.03) > width(0, 0.01)
    assert measurement_noise(0.5, 25, 0.0) == pytest.approx((0.25 * 0.25 / 25) ** 0.5)


def test_coverage_on_noisy_curves_is_near_what_is_promised() -> None:
    """Coverage of the true curve at 3 times the epochs, on 150 seeded random curves."""
    rng = np.random.default_rng(3)
    hits, fitted, kept = 0, [], []
    for _ in range(150):
        y = optimus(np.arange(0, 31), rng.uniform(0.3, 0.7), rng.uniform(0.0, 0.25), rng.uniform(0.1, 1.0))
        noisy = np.clip(y + rng.normal(0, 0.01, len(y)), 0, 1)
        estimate = fit_curve([(k, noisy[k]) for k in range(1, 6)], float(noisy[0])).predict(15)
        hits += estimate.low <= noisy[15] <= estimate.high
        fitted.append(abs(estimate.value - y[15]))
        kept.append(abs(noisy[5] - y[15]))
    assert 0.65 <= hits / 150 <= 0.95
    assert np.median(fitted) < 0.8 * np.median(kept)


def test_uncertain_epochs_give_a_wider_interval_than_either() -> None:
    y = optimus(np.arange(0, 6), 0.4, 0.4, 0.2)
    fit = fit_curve([(k, y[k]) for k in range(1, 6)], 0.4, run_noise=0.003)
    both = fit.predict_over(((2.0, 0.5), (30.0, 0.5)))
    assert both.low < fit.predict(2.0).high
    assert both.high > fit.predict(30.0).low
    assert both.high - both.low > fit.predict(2.0).high - fit.predict(2.0).low


@pytest.mark.parametrize(
    ("points", "start", "field"),
    [([], 0.5, "points"), ([(1, 1.2)], 0.5, "points[0].accuracy"), ([(0, 0.5)], 0.5, "points[0].epoch"),
     ([(1, 0.5)], -0.1, "start_accuracy"), ([(1, float("nan"))], 0.5, "points[0].accuracy")],
)  # fmt: skip
def test_bad_input_names_the_field(points: list[tuple[float, float]], start: float, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        fit_curve(points, start)
    assert caught.value.path == field


def test_beats_keeping_the_last_value_on_recorded_curves(shared_dir: Path) -> None:
    """One 10-stream instance: trial = the first 5 epochs of the 5-epoch run, target = the other runs' end."""
    problem = json.loads((shared_dir / "data/window-problems/s10g8_00.json").read_text())
    errors: dict[int, list[tuple[float, float]]] = {5: [], 15: [], 30: []}
    for stream in problem["streams"]:
        runs: dict[str, dict[int, dict]] = {}
        for config in stream["retrain_configs"]:
            runs.setdefault(config["hyp"], {})[config["epochs"]] = config
        for by_epochs in runs.values():
            y = [a for _, a in by_epochs[5]["curve"]]
            fit = fit_curve([(k, y[k]) for k in range(1, 6)], stream["start_accuracy"])
            for epochs, pairs in errors.items():
                end = by_epochs[epochs]["end_accuracy"]
                pairs.append((abs(fit.predict(epochs).value - end), abs(y[-1] - end)))
    for epochs in (15, 30):
        fitted, kept = np.median(np.array(errors[epochs]), axis=0)
        assert fitted < 0.6 * kept
    assert np.median([f for f, _ in errors[5]]) < 0.01
