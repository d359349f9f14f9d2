"""Intervals of forecasts: seeded, around the mean, and wider where past answers did not hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from capacity_kit import box_window, made
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.capacity import BoxChange, CameraForecast, CameraOutcome, CapacityOutcome, PastChange
from edge.core.profiles import Estimate
from scheduler.capacity.compared import outcome
from scheduler.capacity.intervals import BIAS_SHRINK, PastErrors, interval, past_errors, widened

WINDOW = BoxChange.of("window")
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


def past_of(outcomes: Sequence[CapacityOutcome], change: BoxChange = WINDOW) -> PastErrors | None:
    """Of outcomes of one change, before the same change."""
    return past_errors([PastChange(change, o) for o in outcomes], change)


def outcomes(*outside: float) -> list[CapacityOutcome]:
    cameras = tuple(CameraOutcome("gate", 0.6, 0.6 + o, o == 0.0, o) for o in outside)
    return [CapacityOutcome(9, 6, 0.0, cameras)]


def test_past_answers_that_held_widen_nothing() -> None:
    past = past_of(outcomes(*[0.0] * 9, 0.2))
    assert past is not None
    assert (past.held, past.wider) == (0.9, 0.0)
    assert widened(Estimate(0.6, 0.5, 0.7), past) == Estimate(0.6, 0.5, 0.7)
    assert past_of([]) is None


@given(st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2]), min_size=1, max_size=20))
def test_with_the_widening_four_in_five_past_values_would_have_held(outside: list[float]) -> None:
    past = past_of(outcomes(*outside))
    assert past is not None
    assert sum(o <= past.wider for o in outside) >= 0.8 * len(outside)
    wide = widened(Estimate(0.5, 0.4, 0.6), past)
    assert wide.low == pytest.approx(0.4 - past.wider)
    assert wide.high == pytest.approx(0.6 + past.wider)


def test_answers_move_by_what_past_ones_were_off_and_stay_wide_by_the_rest() -> None:
    own, came, past, found_then = Estimate(0.6, 0.55, 0.65), 0.5, [], []
    for n in range(5):
        then = widened(own, past_of(past))
        found_then.append(then)
        first = 100 * n
        asked = replace(
            made(BoxChange.of("window"), last=first), cameras=(CameraForecast("gate", 0.6, then, unchanged=0.6),),
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
def test_a_learned_bias_is_between_none_and_the_mean_of_past_of(came: list[float]) -> None:
    past = past_of(came_by(*came))
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
    a, b = past_of([one]), past_of([many])
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
    past = past_of([old])
    assert past is not None
    assert (past.answers, past.learned, past.bias, past.unsure) == (1, 0, 0.0, 0.0), (
        "it was made without trends: what it was off says nothing of later ones"
    )


def test_one_change_that_was_asked_about_often_counts_once_with_its_newest_answer() -> None:
    newest, older, other = outcomes(0.0)[0], outcomes(0.3)[0], replace(outcomes(0.0)[0], window=20)
    past = past_of([other, newest, *[older] * 8])
    assert past is not None
    assert (past.answers, past.wider) == (2, 0.0)


def test_what_more_of_the_device_brought_says_nothing_of_less_of_it() -> None:
    half, twice = BoxChange.of("device", 0.5), BoxChange.of("device", 2.0)
    low, high = came_by(0.5, 0.7)
    past = [PastChange(half, low), PastChange(twice, replace(high, window=20))]
    biases = {}
    for change in (half, twice, BoxChange.of("device", 0.25), BoxChange.of("device", 4.0)):
        found = past_errors(past, change)
        assert found is not None
        assert (found.answers, found.learned) == (2, 1), "both widen"
        biases[change.factor] = found.bias
    assert biases == pytest.approx({0.5: -0.05, 2.0: 0.05, 0.25: -0.05, 4.0: 0.05})
    assert past_errors(past, WINDOW) is None, "another kind"


def test_a_change_is_judged_by_what_the_others_were_off() -> None:
    one = past_of(came_by(0.7))
    assert one is not None
    assert one.wider == pytest.approx(0.05), "nothing was known before the only one"
    two = past_of(came_by(0.7, 0.7))
    assert two is not None
    assert two.wider == pytest.approx(0.0), "half of the other's 0.1 moves it to the edge"
    apart = past_of(came_by(0.7, 0.5))
    assert apart is not None
    assert apart.bias == pytest.approx(0.0)
    assert apart.wider == pytest.approx(0.1), "each was expected on the other side"


def test_a_bias_of_few_changes_is_unsure_and_widens() -> None:
    unsure = []
    for n in (1, 2, 8, 32):
        found = past_of(came_by(*[0.68, 0.72] * (n // 2) or [0.7]))
        assert found is not None
        unsure.append(found.unsure)
    assert unsure == sorted(unsure, reverse=True)
    assert unsure[0] == pytest.approx(0.05), "as much as the bias of the only one"
    plain = PastErrors(1, 0.1, 0.0, 0.0, 0.05, 1)
    own = Estimate(0.6, 0.55, 0.65)
    sure, wide = widened(own, plain), widened(own, replace(plain, unsure=0.05))
    assert sure.high - sure.value == pytest.approx(0.05)
    assert wide.high - wide.value == pytest.approx(math.hypot(0.05, 1.2816 * 0.05), abs=1e-5)
    assert wide.value - wide.low == pytest.approx(wide.high - wide.value)
