"""Intervals of forecasts: seeded, around the mean, and wider where past answers did not hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.capacity import CameraOutcome, CapacityOutcome
from edge.core.profiles import Estimate
from scheduler.capacity.intervals import interval, past_errors, widened

ACCURACIES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


@settings(max_examples=10, deadline=None)
@given(ACCURACIES, st.integers(0, 5))
def test_an_interval_holds_its_mean_and_is_made_again_by_its_seed(values: list[float], seed: int) -> None:
    found = interval(values, seed)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.value == pytest.approx(sum(values) / len(values))
    assert interval(values, seed) == found


def test_windows_that_differ_more_give_a_wider_interval() -> None:
    calm, wild = interval([0.58, 0.6, 0.62] * 2, 0), interval([0.4, 0.6, 0.8] * 2, 0)
    assert 0.0 < calm.high - calm.low < wild.high - wild.low
    same = interval([0.6] * 6, 0)
    assert same.low == pytest.approx(0.6)
    assert same.high == pytest.approx(0.6)


def outcomes(*outside: float) -> list[CapacityOutcome]:
    cameras = tuple(CameraOutcome("gate", 0.6, 0.6 + o, o == 0.0, o) for o in outside)
    return [CapacityOutcome(9, 6, 0.0, cameras)]


def test_past_answers_that_held_widen_nothing() -> None:
    past = past_errors(outcomes(*[0.0] * 9, 0.2))
    assert past is not None
    assert (past.held, past.wider) == (0.9, 0.0)
    assert widened(Estimate(0.6, 0.5, 0.7), past) == Estimate(0.6, 0.5, 0.7)
    assert past_errors([]) is None


@given(st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2]), min_size=1, max_size=20))
def test_with_the_widening_four_in_five_past_values_would_have_held(outside: list[float]) -> None:
    past = past_errors(outcomes(*outside))
    assert past is not None
    assert sum(o <= past.wider for o in outside) >= 0.8 * len(outside)
    wide = widened(Estimate(0.5, 0.4, 0.6), past)
    assert wide.low == pytest.approx(0.4 - past.wider)
    assert wide.high == pytest.approx(0.6 + past.wider)
