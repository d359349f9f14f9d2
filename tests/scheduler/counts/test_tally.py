"""Buckets of minutes: nothing is lost or counted twice, and what was not watched is not zero."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Count, CountLine, Place, WatchedTime, summed
from edge.core.tracks import TrackedObject
from scheduler.counts.tally import GAP_S, GONE_S, MinuteTally, answered, taken, unanswered

GATE = CountLine("gate", (0.2, 0.5), (0.8, 0.5))
MINUTE = 1_790_000_040 // 60 * 60


def tracked(number: int, y: float, still: bool = False) -> TrackedObject:
    box = (0.45, y - 0.1, 0.55, y)
    return TrackedObject(
        number, "north", "car", 0.9, box, 0.0, 0.0, 0.0, 3, zones=("yard",), still=still, began_box=box
    )


def test_a_minute_has_what_was_counted_and_how_long_it_was_watched() -> None:
    tally = MinuteTally("north")
    for at, y in ((0.0, 0.4), (1.0, 0.45), (2.0, 0.6), (58.0, 0.7), (59.0, 0.7), (61.0, 0.7)):
        tally, _ = answered(tally, [tracked(1, y, still=at > 50)], [GATE], MINUTE + at)
    tally, counts, watched = taken(tally, MINUTE + 61.0)
    assert watched == (WatchedTime("north", MINUTE, 3.0, 5),), "not the 56 s without an answer"
    by_place = {c.place: c for c in counts}
    assert by_place[Place("line", "gate", "forward")].objects == 1
    yard = by_place[Place("zone", "yard")]
    assert (yard.objects, yard.seconds, yard.standing_s, yard.most) == (1, 3.0, 1.0, 1)
    _, rest, after = taken(tally)
    assert after == (WatchedTime("north", MINUTE + 60, 2.0, 1),)
    assert [c.start_s for c in rest] == [MINUTE + 60]


def test_a_clock_that_is_set_back_watches_nothing_twice() -> None:
    tally = MinuteTally("north")
    for at in (120.0, 121.0, 1.0, 2.0):
        tally, _ = answered(tally, [], [GATE], MINUTE + at)
    _, _, watched = taken(tally)
    assert [(w.start_s - MINUTE, w.seconds, w.answers) for w in watched] == [(0, 1.0, 2), (120, 1.0, 2)]
    left, _, over = taken(tally, MINUTE + 2.0)
    assert [w.start_s - MINUTE for w in over] == [120], "a minute ahead of the clock is written, too"
    assert [w.start_s - MINUTE for w in left.watched] == [0]


def test_an_object_that_was_there_when_a_camera_went_dark_is_gone_after_a_minute() -> None:
    """It went for the line: it crossed it then, not when somebody watches again hours later."""
    tally = MinuteTally("north")
    for at, y in ((50.0, 0.40), (50.4, 0.44), (50.8, 0.48)):
        moving = replace(tracked(1, y), velocity=(0.0, 0.1), seen_utc_s=MINUTE + at)
        tally, counted = answered(tally, [moving], [GATE], MINUTE + at)
        assert [c for c in counted if c.place.kind == "line"] == []
    same, counted = unanswered(tally, [GATE], MINUTE + 50.8 + GONE_S - 1.0)
    assert (same, counted) == (tally, ())
    tally, counted = unanswered(tally, [GATE], MINUTE + 50.8 + GONE_S)
    assert [c.place for c in counted] == [Place("line", "gate", "forward")]
    assert unanswered(tally, [GATE], MINUTE + 7200.0)[1] == ()
    tally, counted = answered(tally, [], [GATE], MINUTE + 8 * 3600.0)
    assert counted == ()
    _, counts, watched = taken(tally)
    assert [(c.start_s, c.objects) for c in counts if c.place.kind == "line"] == [(MINUTE + 60, 1)]
    assert sum(w.seconds for w in watched) == pytest.approx(0.8, abs=1e-3)


def test_an_object_that_is_there_after_a_picture_stood_still_for_long_does_not_count_again() -> None:
    tally = MinuteTally("north")
    for at, y in ((0.0, 0.4), (1.0, 0.6)):
        tally, _ = answered(tally, [replace(tracked(1, y), seen_utc_s=MINUTE + at)], [GATE], MINUTE + at)
    for at in (62.0, 72.0, 200.0, 400.0):
        tally, _ = unanswered(tally, [GATE], MINUTE + at)
    again = replace(tracked(1, 0.6), seen_utc_s=MINUTE + 500.0)
    tally, counted = answered(tally, [again], [GATE], MINUTE + 500.0)
    assert counted == ()


times = st.lists(st.floats(0.0, 400.0), min_size=1, max_size=30).map(sorted)


@given(times, st.lists(st.floats(0.1, 0.9), min_size=30, max_size=30))
def test_taking_minutes_as_they_end_gives_the_same_as_taking_all_at_the_end(
    times: list[float], ys: list[float]
) -> None:
    at_once = bit_by_bit = MinuteTally("north")
    taken_counts: list[Count] = []
    taken_watched: list[WatchedTime] = []
    for at, y in zip(times, ys, strict=False):
        at_once, _ = answered(at_once, [tracked(1, y)], [GATE], MINUTE + at)
        bit_by_bit, _ = answered(bit_by_bit, [tracked(1, y)], [GATE], MINUTE + at)
        bit_by_bit, counts, watched = taken(bit_by_bit, MINUTE + at)
        taken_counts += counts
        taken_watched += watched
    _, counts, watched = taken(bit_by_bit)
    _, all_counts, all_watched = taken(at_once)
    assert summed([*taken_counts, *counts]) == all_counts
    assert tuple(sorted([*taken_watched, *watched], key=lambda w: w.start_s)) == all_watched
    assert sum(w.seconds for w in all_watched) <= times[-1] - times[0] + 1e-6
    assert all(w.seconds <= 60.0 + GAP_S for w in all_watched)
