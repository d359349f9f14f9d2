"""Intervals of forecasts: seeded, around the mean, and wider where past answers did not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capacity_kit import box_window, made
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.capacity import BoxChange, CameraForecast, CameraOutcome, CapacityOutcome
from edge.core.profiles import Estimate
from scheduler.capacity.compared import outcome
from scheduler.capacity.intervals import BIAS_SHRINK, interval, past_errors, widened

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


@settings(max_examples=10, deadline=None)
@given(ACCURACIES, st.floats(0.0, 0.2), st.integers(0, 5))
def test_what_is_unsure_of_all_windows_widens_and_moves_no_value(values: list[float], unsure: float, seed: int) -> None:
    found, plain = interval(values, seed, unsure), interval(values, seed)
    assert found.value == plain.value
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert interval([0.5] * 6, seed, 0.1).low < interval([0.5] * 6, seed, 0.05).low < 0.5


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


def test_answers_move_by_what_past_ones_were_off_and_stay_wide_by_the_rest() -> None:
    own, came, past, found_then = Estimate(0.6, 0.55, 0.65), 0.5, [], []
    for n in range(5):
        then = widened(own, past_errors(past))
        found_then.append(then)
        first = 100 * n
        asked = replace(
            made(BoxChange.of("window"), last=first), cameras=(CameraForecast("gate", 0.6, then),),
            unwidened={"gate": own}, last=box_window(first, {"gate": 0.6}),
        )  # fmt: skip
        found = outcome(asked, [box_window(first + 1 + k, {"gate": came}, length_s=50.0) for k in range(13)])
        assert found is not None
        assert found.cameras[0].held == (n > 0)
        assert found.cameras[0].first == own, "the answer as it was before past errors moved it"
        past = [found, *past]
    assert [t.value for t in found_then] == pytest.approx([0.6 - 0.1 * n / (n + BIAS_SHRINK) for n in range(5)])
    assert all(t.low <= came for t in found_then[1:])


def came_by(*came: float) -> list[CapacityOutcome]:
    """An outcome of each value beside a forecast of 0.6, from 0.55 to 0.65."""
    first = Estimate(0.6, 0.55, 0.65)
    return [
        CapacityOutcome(10 * n, 6, 0.0, (CameraOutcome("gate", 0.6, v, 0.55 <= v <= 0.65, 0.0, first),))
        for n, v in enumerate(came)
    ]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_a_learned_bias_is_between_none_and_the_mean_of_past_errors(came: list[float]) -> None:
    past = past_errors(came_by(*came))
    assert past is not None
    mean = sum(v - 0.6 for v in came) / len(came)
    assert past.bias == pytest.approx(mean * len(came) / (len(came) + BIAS_SHRINK))
    moved = widened(Estimate(0.6, 0.55, 0.65), past)
    assert moved.low <= moved.value <= moved.high
    inside = sum(moved.low - 1e-9 <= v <= moved.high + 1e-9 for v in came)
    assert inside >= 0.8 * len(came)


def test_cameras_of_one_change_err_alike_and_count_as_one() -> None:
    (one,) = came_by(0.7)
    many = replace(one, cameras=one.cameras * 8)
    a, b = past_errors([one]), past_errors([many])
    assert a is not None
    assert b is not None
    assert a.bias == pytest.approx(b.bias)


def test_an_outcome_of_an_earlier_version_is_read_and_counted() -> None:
    (one,) = came_by(0.7)
    value = one.to_json()
    assert CapacityOutcome.from_json(value) == one
    for camera in value["cameras"]:
        del camera["first"]
    old = CapacityOutcome.from_json(value)
    past = past_errors([old])
    assert past is not None
    assert (past.answers, past.bias) == (1, 0.0), (
        "it was made without trends: what it was off says nothing of later ones"
    )


def test_one_change_that_was_asked_about_often_counts_once_with_its_newest_answer() -> None:
    newest, older, other = outcomes(0.0)[0], outcomes(0.3)[0], replace(outcomes(0.0)[0], window=20)
    past = past_errors([other, newest, *[older] * 8])
    assert past is not None
    assert (past.answers, past.wider) == (2, 0.0)
