"""Moves between replays: what answers bring counts whole, what retrainings bring as far as windows showed it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.capacity.moves import (
    MOST_TRUE,
    PART_SPREAD,
    ReplayedWindow,
    TruePart,
    by_retraining,
    move,
    true_part,
)

PART = st.floats(0.05, 1.0)
GAINS = st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=20)


@given(PART, PART, st.floats(0.0, MOST_TRUE))
def test_the_same_replay_twice_moves_nothing(accuracy: float, frozen: float, part: float) -> None:
    window = ReplayedWindow(accuracy, frozen)
    assert move(window, window, part) == pytest.approx(0.0, abs=1e-12)


@given(PART, PART, PART, PART)
def test_with_all_of_retrainings_a_move_is_the_difference(a: float, b: float, c: float, d: float) -> None:
    assert move(ReplayedWindow(a, b), ReplayedWindow(c, d), 1.0) == pytest.approx(c - a)


def test_what_answers_bring_counts_whole() -> None:
    was = ReplayedWindow(0.6, 0.4)
    assert move(was, ReplayedWindow(0.54, 0.36), 0.0) == pytest.approx(-0.06), "as for the frozen student"
    assert move(was, ReplayedWindow(0.5, 0.4), 0.0) == pytest.approx(0.0)
    assert move(was, ReplayedWindow(0.5, 0.4), 0.5) == pytest.approx(-0.05)
    assert move(ReplayedWindow(0.6, 0.0), ReplayedWindow(0.5, 0.0), 0.5) == pytest.approx(-0.05)


@given(PART, PART, PART, PART, st.floats(0.0, MOST_TRUE))
def test_a_move_grows_with_the_true_part_by_what_retrainings_bring(
    a: float, b: float, c: float, d: float, part: float
) -> None:
    was, then = ReplayedWindow(a, b), ReplayedWindow(c, d)
    assert move(was, then, part) - move(was, then, 0.0) == pytest.approx(part * by_retraining(was, then))


@given(GAINS, GAINS)
def test_a_true_part_is_bounded_and_rises_with_what_was_measured(replayed: list[float], gains: list[float]) -> None:
    measured = [(g, (20, 20)) for g in gains]
    part = true_part(replayed, measured)
    assert 0.0 <= part.value <= MOST_TRUE
    assert 0.0 < part.spread <= PART_SPREAD
    if sum(replayed) > 1e-6 * len(replayed):
        assert true_part(replayed, [(g + 0.1, f) for g, f in measured]).value >= part.value
        assert true_part(replayed, measured * 2).spread < part.spread


def test_where_nothing_was_measured_a_replay_is_believed() -> None:
    for found in (true_part([0.1, 0.05], []), true_part([], [(0.1, (10, 10))]), true_part([-0.1], [(0.1, (10, 10))])):
        assert found.value == 1.0
        assert found.spread > 0.0
    assert TruePart() == TruePart(1.0, 0.0)


def test_gains_that_no_window_shows_are_noise_the_surer_the_more_frames() -> None:
    few, many = (true_part([0.06], [(0.0, (n, n))] * 12) for n in (4, 40))
    assert 0.0 < many.value < few.value < 1.0
    assert many.spread < few.spread
    same = true_part([0.06], [(0.06, (10, 10))] * 12)
    assert same.value == pytest.approx(1.0)


def test_a_small_gain_of_a_replay_says_little_of_the_true_part() -> None:
    """Its ratio to a measured gain, which is noise mostly, may be anything."""
    for gain in (-0.05, 0.05):
        assert true_part([0.002], [(gain, (10, 10))] * 12).value == pytest.approx(1.0, abs=0.1)
        assert abs(true_part([0.1], [(gain, (10, 10))] * 12).value - 1.0) > 0.2
