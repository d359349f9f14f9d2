"""Accuracies of models in windows where a trace does not have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import RetrainingConfig
from edge.core.profiles import Estimate, RetrainingProfile
from edge.simulation.accuracies import (
    REMEMBERED,
    WITHIN,
    believed,
    carried,
    faded,
    known,
    nearest_known,
    trained_on,
    unrecorded,
)
from edge.simulation.trace import RecordedOutcome, RecordedWindow

part = st.floats(0.0, 1.0)
CONFIGS = [RetrainingConfig(epochs) for epochs in (5, 10, 20)]


def test_a_model_that_learned_nothing_moves_as_the_frozen_student() -> None:
    frozen = {1: 0.5, 2: 0.3, 3: 0.7}
    assert faded(0.8, frozen, 1, 2) == pytest.approx(0.6)
    assert faded(0.5, frozen, 2, 3) == pytest.approx(0.9)
    assert faded(0.8, frozen, 2, 2) == 0.8
    assert carried({2: 0.4}, frozen, 3) == pytest.approx(0.8)
    assert carried({}, frozen, 3) == 0.7, "of a model that was never measured the frozen student's"


def test_a_student_remembers_the_newest_windows_only() -> None:
    learned: tuple[int, ...] = ()
    for window in range(1, REMEMBERED + 3):
        learned = trained_on(learned, window)
    assert learned == tuple(range(3, REMEMBERED + 3))
    frozen = {w: 0.3 if w == 2 else 0.8 for w in range(1, 100)} | {99: 0.3}
    assert faded(0.7, frozen, 98, 99, learned) == pytest.approx(0.2), "the night of window 2 is forgotten"
    assert faded(0.7, frozen, 98, 99, (2, *learned[1:])) == pytest.approx(0.7 - WITHIN * 0.5)


def test_a_model_that_learned_as_hard_a_scene_loses_a_part_only() -> None:
    """It learned window 2, a night; windows 3 and 4 are day and night again, window 5 is darker still."""
    frozen = {1: 0.8, 2: 0.4, 3: 0.8, 4: 0.4, 5: 0.3}
    assert faded(0.7, frozen, 3, 4, learned=(2,)) == pytest.approx(0.7 - WITHIN * 0.4)
    assert faded(0.7, frozen, 3, 4, learned=(1,)) == pytest.approx(0.3), "it learned the day only"
    assert faded(0.7, frozen, 3, 5, learned=(1, 2)) == pytest.approx(0.7 - WITHIN * 0.4 - 0.1), "darker than it learned"
    assert faded(0.5, frozen, 5, 3, learned=(2,)) == pytest.approx(0.5 + 0.1 + WITHIN * 0.4), "and back"
    assert carried({3: 0.7}, frozen, 4, learned=(2,)) == pytest.approx(0.7 - WITHIN * 0.4)


@given(accuracy=part, levels=st.lists(part, min_size=2, max_size=6), more=part, most=st.floats(0.5, 1.2))
def test_it_moves_with_the_frozen_student_and_less_the_more_it_learned(
    accuracy: float, levels: list[float], more: float, most: float
) -> None:
    frozen = dict(enumerate([*levels, more], start=1))
    since, window, learned = 1, 2, list(range(3, len(levels) + 1))
    changed = frozen[window] - frozen[since]
    bare = faded(accuracy, frozen, since, window, (), most)
    little = faded(accuracy, frozen, since, window, learned, most)
    much = faded(accuracy, frozen, since, window, [*learned, len(frozen)], most)
    for found in (bare, little, much):
        assert 0.0 <= found <= most
    begun = min(accuracy, most)
    if changed >= 0:
        assert begun - 1e-9 <= much <= little + 1e-9
        assert little <= bare + 1e-9
    else:
        assert bare - 1e-9 <= little <= much + 1e-9
        assert much <= begun + 1e-9


@given(accuracy=st.floats(0.4, 0.6), before=st.floats(0.4, 0.6), after=st.floats(0.4, 0.6), hardest=part)
def test_the_way_back_is_the_same(accuracy: float, before: float, after: float, hardest: float) -> None:
    frozen = {1: before, 2: after, 3: hardest}
    there = faded(accuracy, frozen, 1, 2, (3,))
    assert faded(there, frozen, 2, 1, (3,)) == pytest.approx(accuracy)
    assert WITHIN * abs(after - before) - 1e-9 <= abs(there - accuracy) <= abs(after - before) + 1e-9


def test_the_last_known_window_comes_before_later_ones() -> None:
    assert [nearest_known({3: 0.0, 5: 0.0}, w) for w in (1, 3, 4, 6)] == [3, 3, 3, 5]
    assert known({3: 0.2, 5: 0.4}, 4) == 0.2


def record(outcomes: dict[int, RecordedOutcome]) -> RecordedWindow:
    """Profiles promise 60, 70 and 80 % from 50 %, on 12 held-out frames; `outcomes` are by the profile's number."""
    ends = (0.6, 0.7, 0.8)
    profiles = tuple(
        RetrainingProfile(c, 0.5, Estimate.exact(end), Estimate.exact(10.0 * end))
        for c, end in zip(CONFIGS, ends, strict=True)
    )
    known_ones = {CONFIGS[n].id: outcome for n, outcome in outcomes.items()}
    return RecordedWindow(0.5, profiles, known_ones, held_out_frames=12)


def test_an_unrecorded_retraining_is_like_the_nearest_that_was_measured() -> None:
    here, later, refused = RecordedOutcome(0.55, 4.0, {2: 0.5}), RecordedOutcome(0.56, 4.0, {3: 0.5}, {3: 0.4}), 0.49
    never = RecordedOutcome(refused, 4.0)
    kept = record({0: here, 1: later})
    outcome, more = unrecorded(kept, kept.profiles[2], 2)
    assert (outcome.accuracy, outcome.live, outcome.device_seconds) == (0.55, {2: 0.5}, 8.0), "measured on the window"
    assert more == pytest.approx(believed(12) * 0.2)
    kept = record({0: later, 1: never})
    outcome, more = unrecorded(kept, kept.profiles[2], 2)
    assert (outcome.accuracy, outcome.live, outcome.people) == (0.56, {3: 0.5}, {}), "measured later"
    kept = record({1: never})
    outcome, more = unrecorded(kept, kept.profiles[2], 2)
    assert (outcome.accuracy, outcome.live) == (refused, {}), "the gate refused its like"
    assert more == pytest.approx(believed(12) * 0.1)
    outcome, more = unrecorded(record({}), kept.profiles[2], 2)
    assert (outcome.accuracy, outcome.live) == (0.5, {})
    assert more == pytest.approx(believed(12) * 0.3)
    two = record({0: here, 1: RecordedOutcome(0.6, 4.0, {2: 0.6})})
    assert unrecorded(two, two.profiles[2], 2)[0].accuracy == 0.6, "the nearer promise of two"
