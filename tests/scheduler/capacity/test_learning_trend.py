"""Trends of accuracies that go on rising: drawn to none, surer with more windows, flatter with age."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.capacity.trend import (
    CAMERA_SLOPE_SPREAD,
    SLOPE_SPREAD,
    LearnedWindow,
    LearningTrend,
    learning_trends,
)

ACCURACIES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)
#: Levels are drawn a little to 0.
TOLERANCE = 1e-3
UNKNOWN = math.hypot(SLOPE_SPREAD, CAMERA_SLOPE_SPREAD)


def windows(values: list[float], frozen: list[float] | None = None, first: int = 2) -> list[LearnedWindow]:
    known = frozen or [None] * len(values)  # type: ignore[list-item]
    return [LearnedWindow(first + n, first + n - 1, v, f) for n, (v, f) in enumerate(zip(values, known, strict=True))]


def rising(slope: float, count: int, level: float = 0.4) -> list[float]:
    return [level + slope * math.log(1 + n) for n in range(count)]


@settings(max_examples=30, deadline=None)
@given(ACCURACIES, ACCURACIES)
def test_a_trend_is_never_surer_than_nothing_known_allows_and_is_small(a: list[float], b: list[float]) -> None:
    found = learning_trends({"gate": windows(a), "yard": windows(b)})
    for trend in found.values():
        assert 0.0 <= trend.spread <= UNKNOWN + 1e-9
        assert abs(trend.slope) <= 1.0
    other = learning_trends({"yard": windows(b), "gate": windows(a)})
    assert other == found, "the order of cameras does not matter"


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 0.9), st.integers(1, 20))
def test_what_stays_has_no_trend(level: float, count: int) -> None:
    (trend,) = learning_trends({"gate": windows([level] * count)}).values()
    assert trend.slope == pytest.approx(0.0, abs=TOLERANCE)


@settings(max_examples=20, deadline=None)
@given(st.floats(-0.2, 0.2), st.integers(2, 20))
def test_a_slope_is_drawn_to_none_and_never_turned_or_made_steeper(slope: float, count: int) -> None:
    (trend,) = learning_trends({"gate": windows(rising(slope, count, 0.6))}).values()
    assert min(0.0, slope) - TOLERANCE <= trend.slope <= max(0.0, slope) + TOLERANCE


def test_more_windows_and_more_cameras_make_surer() -> None:
    spreads = [learning_trends({"gate": windows(rising(0.1, n))})["gate"].spread for n in (1, 4, 12, 24)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] == pytest.approx(UNKNOWN)
    alone = learning_trends({"gate": windows(rising(0.1, 6))})["gate"]
    three = learning_trends({c: windows(rising(0.1, 6)) for c in ("gate", "yard", "dock")})["gate"]
    assert three.spread < alone.spread
    assert alone.slope < three.slope < 0.1


def test_a_long_record_finds_most_of_the_trend() -> None:
    found = learning_trends({c: windows(rising(0.1, 14)) for c in ("gate", "yard", "dock")})
    assert all(0.07 <= trend.slope <= 0.1 for trend in found.values())


def test_scenes_that_become_easier_are_no_learning() -> None:
    frozen = [0.3 + 0.05 * n for n in range(8)]
    easier = [0.6 + 0.3 * (f - 0.3) for f in frozen]
    seen = learning_trends({"gate": windows(easier, frozen)})["gate"].slope
    blind = learning_trends({"gate": windows(easier)})["gate"].slope
    assert abs(seen) < 0.5 * blind


@given(st.floats(0.0, 0.3), st.integers(1, 300))
def test_what_is_gained_flattens_with_age_and_is_as_unsure_as_it_is_far(slope: float, age: int) -> None:
    trend = LearningTrend(slope, 0.05)
    later = [age + n for n in range(1, 7)]
    assert 0.0 <= trend.gained(age + 100, [x + 100 for x in later]) <= trend.gained(age, later)
    assert trend.gained(age, [age]) == 0.0
    assert trend.unsure([age], later) >= trend.unsure([age + 1], later)
    assert LearningTrend().gained(age, later) == 0.0
    assert learning_trends({"gate": []}) == {}
