"""Labels beside followed objects, in zones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Place
from edge.core.zones import Zone
from scheduler.counts.near import NamedBox, as_checks, checked, checked_place, places_at

YARD = Zone("yard", ((0.0, 0.6), (1.0, 0.6), (1.0, 1.0), (0.0, 1.0)))


def at(x: float, y: float, name: str = "car") -> NamedBox:
    return NamedBox((x - 0.05, y - 0.1, x + 0.05, y), name)


def test_an_object_is_in_the_zones_of_its_class_that_it_stands_in() -> None:
    assert places_at(at(0.5, 0.7), [YARD]) == (Place("zone", "yard"),)
    assert places_at(at(0.5, 0.5), [YARD]) == ()
    assert places_at(at(0.5, 0.7, "person"), [Zone("yard", YARD.polygon, ("car",))]) == ()


def test_misses_false_objects_and_other_classes_are_distinguished() -> None:
    followed = [at(0.3, 0.7), at(0.5, 0.7), at(0.7, 0.7, "bus")]
    labels = [at(0.31, 0.7), at(0.7, 0.7, "truck"), at(0.6, 0.75)]
    found = checked(followed, labels, [YARD], 61.0).found
    yard = Place("zone", "yard")
    assert found == {(yard, "car"): (2, 2, 1), (yard, "bus"): (1, 0, 0), (yard, "truck"): (0, 1, 0)}


def test_frames_of_a_minute_are_added_up() -> None:
    frames = [checked([at(0.5, 0.7)], [at(0.5, 0.7)], [YARD], t) for t in (61.0, 119.0, 121.0)]
    rows = as_checks("north", frames)
    assert [(c.start_s, c.frames, c.followed, c.there, c.same) for c in rows] == [(60, 2, 2, 2, 2), (120, 1, 1, 1, 1)]


def test_the_checks_of_a_place() -> None:
    assert checked_place(Place("line", "gate", "forward")) == Place("line", "gate", "forward")
    assert checked_place(Place("movement", "left", "right")) == Place("zone", "right")


boxes = st.lists(st.builds(at, st.floats(0.1, 0.9), st.floats(0.2, 0.9), st.sampled_from(["car", "bus"])), max_size=8)


@given(boxes, boxes)
def test_no_more_are_the_same_than_there_are_of_either(followed: list[NamedBox], labels: list[NamedBox]) -> None:
    found = checked(followed, labels, [YARD], 0.0).found
    for mine, theirs, same in found.values():
        assert 0 <= same <= min(mine, theirs)
    itself = checked(followed, followed, [YARD], 0.0).found
    for mine, theirs, _ in itself.values():
        assert mine == theirs
