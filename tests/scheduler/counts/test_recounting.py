"""Labelled frames of a camera, one after the other: which of them wait, and what later ones say."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Counted, CountLine, Place
from edge.core.zones import Box, Point
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.recount import AROUND_S, Instant, LabelledInstant, Passer, labelled_instant, own_time
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


def passing_by(
    at_s: float,
    y: float,
    before: Point | None = None,
    after: Point | None = None,
    counted: bool = False,
    speed: float = 0.0,
    own_s: tuple[float, float] = (AROUND_S, AROUND_S),
) -> LabelledInstant:
    """Object 1 has a label with its foot at a height of the picture."""
    lines = {1: frozenset({"gate"})} if counted else {}
    box = 0.45, y - 0.1, 0.55, y
    passer = Passer(1, box, (0.0, speed), before, after)
    return labelled_instant(Instant(at_s, (passer,), (), lines, own_s), [NamedBox(box, "car")])


def crossings(*frames: LabelledInstant) -> list[tuple[float, int]]:
    """The instants of frames around which labels show that the object went forward, and how often."""
    found = [(c.utc_s, c.found.get((FORWARD, "car"), (0, 0, 0))) for c in checks(*frames)]
    return [(utc_s, there) for utc_s, (_, there, _) in found if there]


def test_an_object_that_labels_show_before_and_behind_a_line_crossed_it() -> None:
    assert crossings(passing_by(100.0, 0.3), passing_by(101.5, 0.7)) == [(101.5, 1)]
    assert crossings(passing_by(100.0, 0.3), passing_by(101.5, 0.4)) == []
    assert crossings(passing_by(100.0, 0.3, counted=True), passing_by(101.5, 0.7, counted=True)) == [], "known already"


def test_labels_beyond_each_others_time_say_nothing_about_what_is_between() -> None:
    """Where labels are rare, a crossing that no frame is near must not be taken into the sample."""
    assert crossings(passing_by(100.0, 0.3), passing_by(102.5, 0.7)) == []


def test_the_time_of_a_sampled_frame_without_labels_is_not_that_of_the_frames_around_it() -> None:
    """A crossing in it is left out, whether it was counted or missed."""
    for between, found in ((101.0, []), (None, [(101.9, 1)])):
        first = passing_by(100.0, 0.3, own_s=own_time(100.0, None, between or 101.9))
        second = passing_by(101.9, 0.7, own_s=own_time(101.9, between or 100.0, None))
        assert crossings(first, second) == found


def test_one_that_the_first_label_shows_on_a_line_comes_from_where_it_was_seen() -> None:
    above, below, hardly = (0.5, 0.4), (0.5, 0.6), (0.5, 0.495)
    on_it = passing_by(100.0, 0.5, before=above, after=below)
    assert crossings(on_it) == [(100.0, 1)]
    beyond = passing_by(101.5, 0.7, before=below)
    assert crossings(on_it, beyond) == [(101.5, 1)], "not lost where the next frame shows it"
    still = passing_by(101.5, 0.505, before=below)
    assert crossings(on_it, still, passing_by(103.0, 0.7, before=below)) == [(103.0, 1)]
    assert crossings(on_it, passing_by(101.5, 0.4, before=above)) == [], "it went back"
    assert crossings(passing_by(100.0, 0.5, before=hardly, after=below), beyond) == [], "on no side before"


def test_one_that_stays_on_a_line_after_it_was_counted_is_not_found_again() -> None:
    """Seconds later the counted crossing is no longer known, but its label is beyond the line only now."""
    above, there = (0.5, 0.4), [passing_by(100.0, 0.3, counted=True)]
    on_it = [passing_by(100.0 + 1.5 * n, 0.5, before=above, counted=True) for n in range(3)]
    for first in (there, on_it[:1]):
        assert crossings(*first, *on_it[1:3], passing_by(104.5, 0.505), passing_by(106.0, 0.7)) == []


def test_the_way_from_an_earlier_label_is_that_of_all_the_time_since() -> None:
    """One that is lost on the line goes straight on; it must be fast enough in the 2.9 s since the label above it."""
    above = passing_by(100.0, 0.45)
    for speed, found in ((0.045, []), (0.08, [(101.9, 1)])):
        assert crossings(above, passing_by(101.9, 0.5, speed=speed)) == found
    beyond = passing_by(101.9, 0.52)
    assert crossings(above, beyond) == [(101.9, 1)], "labels on either side say enough, however slow it is"


def test_a_frame_that_comes_when_no_more_were_awaited_does_not_find_a_crossing_again() -> None:
    state, _ = taken_frame(Recounting(), passing_by(100.0, 0.4, before=(0.5, 0.3), after=(0.5, 0.6)), [GATE], ())
    state, first = no_more_frames(state, [GATE], ())
    state, _ = taken_frame(state, passing_by(101.5, 0.8), [GATE], ())
    _, second = no_more_frames(state, [GATE], ())
    assert [len(c.found) for c in (*first, *second)] == [1, 0]


def test_a_label_on_a_line_is_on_no_side_of_it() -> None:
    on_it = passing_by(101.0, 0.5)
    assert crossings(passing_by(100.0, 0.3), on_it, passing_by(102.0, 0.7)) == [(102.0, 1)]
    assert crossings(passing_by(100.0, 0.3), on_it, passing_by(102.0, 0.3)) == []
    assert crossings(passing_by(100.0, 0.3), on_it, passing_by(102.0, 0.505), passing_by(103.5, 0.3)) == [], "trembles"


def test_a_crossing_that_labels_show_is_not_found_again_where_the_object_went_on() -> None:
    """The answers show the object beyond the line, too, half of the way to the next frame."""
    begins = passing_by(100.0, 0.3, after=(0.5, 0.6))
    assert crossings(begins, passing_by(101.5, 0.8), passing_by(103.0, 0.9)) == [(101.5, 1)]


@given(st.lists(st.sampled_from((0.3, 0.5, 0.7)), max_size=9))
def test_labels_count_a_crossing_for_each_change_of_sides(feet: list[float]) -> None:
    frames = [passing_by(100.0 + 1.5 * n, y) for n, y in enumerate(feet)]
    sides = [y for y in feet if y != 0.5]
    changes = sum(a < b for a, b in pairwise(sides))
    assert sum(there for _, there in crossings(*frames)) == changes
