"""How answers go on: right where objects move, not where they stand, jump or are too seldom looked at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.accuracy import Counts, count
from edge.core.vision import Detections
from edge.core.ways import gone_on
from edge.tracking.tracker import TrackerState
from edge.tracking.ways import WaysState, with_answer

NAMES = ("car", "person")


def boxes_at(*middles: float, size: float = 0.08) -> Detections:
    boxes = [(x - size / 2, y - size / 2, x + size / 2, y + size / 2) for x, y in middles_of(middles)]
    return Detections.build(boxes, [0.9] * len(boxes), [0] * len(boxes))


def middles_of(middles: tuple[float, ...]) -> list[tuple[float, float]]:
    """Objects in lanes one below the other."""
    return [(x, 0.1 + 0.15 * n) for n, x in enumerate(middles)]


def traffic(t: float) -> Detections:
    """Four cars, each at a speed of its own, round and round."""
    return boxes_at(*(0.1 + (0.8 * ((v * t) % 1.0)) for v in (0.12, 0.15, 0.18, 0.2)))


def run(scene: Callable[[float], Detections], every_s: float, until_s: float = 30.0) -> tuple[WaysState, float, float]:
    """The state at the end, and F1 between the answers: of answers that stayed, and as the state would have them."""
    state = WaysState(TrackerState("gate"))
    held, kept = Counts(), Counts()
    for n in range(int(until_s / every_s)):
        t = n * every_s
        state = with_answer(state, scene(t), NAMES, t)
        later = scene(t + every_s / 2)
        assert state.last is not None
        held += count(state.last, later, 0.5)
        kept += count(gone_on(state.last, state.ways if state.right else None, every_s / 2), later, 0.5)
    return state, held.f1, kept.f1


@pytest.mark.parametrize("every_s", [0.2, 0.5, 1.0])
def test_moving_objects_are_where_they_are_expected(every_s: float) -> None:
    state, held, kept = run(traffic, every_s)
    assert state.right
    assert kept >= held
    if every_s >= 0.5:
        assert kept > held + 0.2


def test_objects_that_stand_stay_where_they_are() -> None:
    state, held, kept = run(lambda t: boxes_at(0.2, 0.5, 0.7), 0.5)
    assert not state.right, "nothing is gained by moving"
    assert (held, kept) == (1.0, 1.0)


def test_pictures_that_jump_keep_their_answers() -> None:
    """A slow stream of stills: other cars at near places every five seconds, and nothing moves between."""

    def stills(t: float) -> Detections:
        drawn = np.random.default_rng(int(t / 5.0))
        return boxes_at(*drawn.uniform(0.1, 0.9, 4), size=0.12)

    _, held, kept = run(stills, 0.5, 120.0)
    assert kept >= held - 0.01


def test_an_answer_that_is_not_newer_changes_nothing() -> None:
    state = with_answer(WaysState(TrackerState("gate")), traffic(0.0), NAMES, 1.0)
    assert with_answer(state, traffic(3.0), NAMES, 1.0) is state
    assert with_answer(state, traffic(3.0), NAMES, 0.5) is state


def test_after_an_outage_answers_are_not_compared() -> None:
    state, _, _ = run(traffic, 0.5)
    later = with_answer(state, boxes_at(0.3), NAMES, 1000.0)
    assert (later.held, later.moved) == (state.held, state.moved)
    assert later.right == state.right


@given(
    st.lists(
        st.tuples(st.floats(0.01, 3.0), st.lists(st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)), max_size=5)),
        min_size=1, max_size=8,
    )
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_there_is_one_way_per_object_whatever_is_answered(
    answers: list[tuple[float, list[tuple[float, float]]]],
) -> None:
    state, t = WaysState(TrackerState("gate")), 0.0
    for gap, corners in answers:
        t += gap
        boxes = [(x, y, x + 0.1, y + 0.1) for x, y in corners]
        state = with_answer(state, Detections.build(boxes, [0.5] * len(boxes), [0] * len(boxes)), NAMES, t)
        assert state.ways is not None
        assert state.ways.shape == (len(boxes), 3)
        assert np.isfinite(state.ways).all()
        assert state.last is not None
        gone_on(state.last, state.ways, 10.0)
