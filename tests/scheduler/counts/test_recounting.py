"""Labelled frames of a camera, one after the other: which of them wait, and what later ones say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Counted, CountLine, Place
from edge.core.zones import Box
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.recount import Instant, LabelledInstant, Passer, labelled_instant
from scheduler.counts.recounting import Recounting, no_more_frames, taken_frame

GATE = CountLine("gate", (0.2, 0.5), (0.8, 0.5))
FORWARD = Place("line", "gate", "forward")
BOX: Box = (0.45, 0.4, 0.55, 0.5)


def frame(at_s: float, labelled: bool, crosses: bool = False) -> LabelledInstant:
    """Object 1 is there and seen, with a label or without."""
    counted = (Counted(FORWARD, "car", 1, at_s),) if crosses else ()
    lines = {1: frozenset({"gate"})}
    instant = Instant(at_s, (Passer(1, BOX, (0.0, 0.2)),), counted, lines)
    return labelled_instant(instant, [NamedBox(BOX, "car")] if labelled else [])


def checks(*frames: LabelledInstant) -> list[FrameChecks]:
    state, found = Recounting(), []
    for one in frames:
        state, more = taken_frame(state, one, [GATE], ())
        found += more
    state, more = no_more_frames(state, [GATE], ())
    assert not state.waiting
    return [*found, *more]


def test_labels_of_the_next_frames_show_an_object_that_the_teacher_missed() -> None:
    missed, later, never = frame(100.0, False, crosses=True), frame(101.5, True), frame(101.5, False)
    assert checks(missed, later)[0].found == {(FORWARD, "car"): (1, 1, 1)}
    assert checks(missed, never, never)[0].found == {(FORWARD, "car"): (1, 0, 0)}
    assert checks(missed, never, never, later, later, later)[0].found == {(FORWARD, "car"): (1, 0, 0)}, "too late"


@given(st.permutations(range(6)))
def test_labels_may_come_in_any_order(order: list[int]) -> None:
    frames = [frame(100.0 + n, labelled=n > 2, crosses=True) for n in range(6)]
    found = checks(*(frames[n] for n in order))
    assert sorted(c.utc_s for c in found) == [one.instant.utc_s for one in frames]


def test_two_later_frames_release_one_and_earlier_ones_do_not() -> None:
    state, now = taken_frame(Recounting(), frame(110.0, True), [GATE], ())
    for at_s in (100.0, 101.0):
        assert now == ()
        state, now = taken_frame(state, frame(at_s, True), [GATE], ())
    assert [c.utc_s for c in now] == [100.0]
    assert [f.instant.utc_s for f in state.waiting] == [101.0, 110.0]


@given(st.lists(st.booleans(), max_size=8))
def test_every_frame_is_counted_again_once_and_in_order(labelled: list[bool]) -> None:
    frames = [frame(100.0 + n, one, crosses=True) for n, one in enumerate(labelled)]
    assert [c.utc_s for c in checks(*frames)] == [one.instant.utc_s for one in frames]
