"""Moves between replays: what answers bring counts whole, what retrainings bring as far as windows showed it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.capacity.moves import MOST_TRUE, ReplayedWindow, move, true_part

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


@given(GAINS, GAINS)
def test_a_true_part_is_bounded_and_rises_with_what_was_measured(replayed: list[float], gains: list[float]) -> None:
    measured = [(g, (20, 20)) for g in gains]
    part = true_part(replayed, measured)
    assert 0.0 <= part <= MOST_TRUE
    if sum(replayed) > 1e-6 * len(replayed):
        assert true_part(replayed, [(g + 0.1, f) for g, f in measured]) >= part


def test_where_nothing_was_measured_a_replay_is_believed() -> None:
    assert true_part([0.1, 0.05], []) == 1.0
    assert true_part([], [(0.1, (10, 10))]) == 1.0
    assert true_part([-0.1], [(0.1, (10, 10))]) == 1.0


def test_gains_that_no_window_shows_are_noise_the_surer_the_more_frames() -> None:
    few, many = (true_part([0.06], [(0.0, (n, n))] * 12) for n in (4, 40))
    assert 0.0 < many < few < 1.0
    same = true_part([0.06], [(0.06, (10, 10))] * 12)
    assert same == pytest.approx(1.0)
