"""Slopes with their intervals: what rises is found, what does not is not."""

from __future__ import annotations

import random

import pytest

from benchmarks.soak.slopes import LEAST_MINUTES, minute_medians, slope, verdict


def line(per_hour: float, noise: float, minutes: int = 50, seed: int = 3) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(n / 60.0, 200.0 + per_hour * n / 60.0 + rng.gauss(0.0, noise)) for n in range(minutes)]


def test_a_line_without_noise_is_found_exactly_and_outliers_do_not_move_it() -> None:
    points = line(6.0, 0.0)
    found = slope(points)
    assert found is not None
    assert found.per_hour == pytest.approx(6.0)
    assert (found.low, found.high) == (pytest.approx(6.0), pytest.approx(6.0))
    points[10] = (points[10][0], 900.0)
    points[40] = (points[40][0], 0.0)
    moved = slope(points)
    assert moved is not None
    assert moved.per_hour == pytest.approx(6.0)


def test_the_interval_covers_the_true_slope_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(100):
        found = slope(line(2.0, 1.0, seed=seed))
        assert found is not None
        hits += found.low <= 2.0 <= found.high
    assert 88 <= hits <= 100


@pytest.mark.parametrize(
    ("per_hour", "noise", "limit", "said"),
    [(0.0, 0.05, 1.0, "flat"), (5.0, 0.1, 1.0, "rising"), (-5.0, 0.1, 1.0, "falling"), (0.0, 20.0, 1.0, "undecided")],
)
def test_verdicts(per_hour: float, noise: float, limit: float, said: str) -> None:
    assert verdict(slope(line(per_hour, noise)), limit) == said


def test_too_little_says_nothing() -> None:
    assert slope(line(1.0, 0.0, minutes=LEAST_MINUTES - 1)) is None
    assert verdict(None, 1.0) == "short"


def test_minutes_are_medians_without_the_warming_up() -> None:
    samples = [(t, 500.0 if t < 300 else 100.0 + t // 60) for t in range(0, 480, 5)]
    samples[70] = (350.0, 9000.0)
    assert minute_medians([(float(t), v) for t, v in samples]) == [
        (pytest.approx(0.5 / 60), 105.0), (pytest.approx(1.5 / 60), 106.0), (pytest.approx(2.5 / 60), 107.0)
    ]  # fmt: skip
    assert minute_medians([]) == []
