"""Labels beside followed objects, near the places where counts are made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import CountLine, Place
from edge.core.zones import Zone
from scheduler.counts.near import NEAR, NamedBox, as_checks, checked, checked_place, places_near

GATE = CountLine("gate", (0.2, 0.5), (0.8, 0.5))
YARD = Zone("yard", ((0.0, 0.6), (1.0, 0.6), (1.0, 1.0), (0.0, 1.0)))


def at(x: float, y: float, name: str = "car") -> NamedBox:
    return NamedBox((x - 0.05, y - 0.1, x + 0.05, y), name)


def test_an_object_is_near_a_line_beside_it_only() -> None:
    assert places_near(at(0.5, 0.5 + 0.9 * NEAR), [GATE], ()) == (Place("line", "gate"),)
    assert places_near(at(0.5, 0.5 + 1.1 * NEAR), [GATE], ()) == ()
    assert places_near(at(0.9, 0.5), [GATE], ()) == (), "beyond its end"
    assert places_near(at(0.5, 0.5, "person"), [CountLine("gate", GATE.start, GATE.end, ("car",))], ()) == ()


def test_misses_false_objects_and_other_classes_are_told_apart() -> None:
    followed = [at(0.3, 0.5), at(0.5, 0.5), at(0.7, 0.5, "bus")]
    labels = [at(0.31, 0.5), at(0.7, 0.5, "truck"), at(0.6, 0.55)]
    found = checked(followed, labels, [GATE], (), 61.0).found
    line = Place("line", "gate")
    assert found == {(line, "car"): (2, 2, 1), (line, "bus"): (1, 0, 0), (line, "truck"): (0, 1, 0)}


def test_frames_of_a_minute_are_added_up() -> None:
    frames = [checked([at(0.5, 0.7)], [at(0.5, 0.7)], (), [YARD], t) for t in (61.0, 119.0, 121.0)]
    rows = as_checks("north", frames)
    assert [(c.start_s, c.frames, c.followed, c.there, c.same) for c in rows] == [(60, 2, 2, 2, 2), (120, 1, 1, 1, 1)]


def test_the_checks_of_a_place() -> None:
    assert checked_place(Place("line", "gate", "forward")) == checked_place(Place("line", "gate", "backward"))
    assert checked_place(Place("movement", "left", "right")) == Place("zone", "right")


boxes = st.lists(st.builds(at, st.floats(0.1, 0.9), st.floats(0.2, 0.9), st.sampled_from(["car", "bus"])), max_size=8)


@given(boxes, boxes)
def test_no_more_are_the_same_than_there_are_of_either(followed: list[NamedBox], labels: list[NamedBox]) -> None:
    found = checked(followed, labels, [GATE], [YARD], 0.0).found
    for mine, theirs, same in found.values():
        assert 0 <= same <= min(mine, theirs)
    itself = checked(followed, followed, [GATE], [YARD], 0.0).found
    for mine, theirs, _ in itself.values():
        assert mine == theirs
