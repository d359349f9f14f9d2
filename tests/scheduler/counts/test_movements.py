"""Movements of objects that were found late or lost early, by those that went as they did: worked examples."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Place
from edge.core.zones import Box
from scheduler.counts.movements import Footprint, ObjectPath, PathMemory, footprint, moved, turned_back, went_on

EVERY_S = 0.2


def feet(*xs: float, y: float = 0.5, began_s: float = 0.0) -> tuple[Footprint, ...]:
    """An object of a tenth of the picture at these places, one after the other."""
    return tuple(Footprint(began_s + n * EVERY_S, (x, y), 0.1) for n, x in enumerate(xs))


def path(footprints: tuple[Footprint, ...], first: str = "", last: str = "", name: str = "car") -> ObjectPath:
    return ObjectPath(footprints, first, last, name)


def taken(memory: PathMemory, *some: ObjectPath) -> tuple[PathMemory, list[tuple[str, str] | None]]:
    """After some objects that are gone, one after the other: what is remembered, and their movements."""
    found: list[tuple[str, str] | None] = []
    at_s = 0.0
    for one in some:
        at_s = max(at_s, one.footprints[-1].utc_s + 1.0)
        memory, movement = moved(memory, one, at_s)
        found.append(None if movement is None else (movement.place.name, movement.place.way))
    return memory, found


def across(began_s: float, y: float = 0.5, name: str = "car") -> ObjectPath:
    """One that was seen from the left to the right."""
    return path(feet(*(0.05 * n for n in range(1, 20)), y=y, began_s=began_s), "left", "right", name)


def remembered(*names: str, y: float = 0.5) -> PathMemory:
    return taken(PathMemory(), *(across(100.0 * n, y, name) for n, name in enumerate(names or ("car",) * 3)))[0]


def test_a_movement_is_from_the_first_zone_to_the_last() -> None:
    walked = feet(0.1, 0.5, 0.9)
    ends = [("left", "right"), ("left", "left"), ("left", ""), ("", "")]
    found = [taken(PathMemory(), path(walked, *zones))[1] for zones in ends]
    assert found == [[("left", "right")], [None], [None], [None]]


def test_one_found_late_and_one_lost_early_went_as_others_did() -> None:
    late, early = feet(0.5, 0.55, 0.6, 0.65, began_s=900.0), feet(0.1, 0.15, 0.2, 0.25, began_s=900.0)
    assert taken(remembered(), path(late, "", "right"))[1] == [("left", "right")]
    assert taken(remembered(), path(early, "left", ""))[1] == [("left", "right")]
    assert taken(remembered(), path(late))[1] == [("left", "right")], "it was seen in no zone at all"


def test_too_few_others_say_nothing() -> None:
    late = path(feet(0.5, 0.55, 0.6, 0.65, began_s=900.0), "", "right")
    assert taken(PathMemory(), late)[1] == [None]
    elsewhere = remembered(y=0.9)
    assert taken(elsewhere, late)[1] == [None]


def test_one_that_goes_back_is_not_asked_of_those_that_go_there() -> None:
    back = path(feet(0.65, 0.6, 0.55, 0.5, began_s=900.0), "right", "")
    assert taken(remembered(), back)[1] == [None]


def test_one_that_stands_neither_came_nor_goes_on() -> None:
    stood = path(feet(0.5, 0.5, 0.501, 0.5, 0.5, began_s=900.0), "", "right")
    assert taken(remembered(), stood)[1] == [None]


def test_where_others_do_not_agree_it_is_not_known() -> None:
    memory = PathMemory()
    for n, zone in enumerate(("a", "b", "c", "a", "b", "c")):
        memory, _ = taken(memory, path(feet(*(0.05 * k for k in range(1, 20)), began_s=100.0 * n), "left", zone))
    early = path(feet(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    assert taken(memory, early)[1] == [None]


def test_others_do_not_undo_a_movement_that_was_seen() -> None:
    """By its first places it came from the right, as those that went there did; it was seen on the left."""
    back = path(feet(*(1.0 - 0.05 * n for n in range(1, 20)), began_s=100.0), "right", "middle")
    memory = taken(PathMemory(), back, back, back)[0]
    assert taken(memory, path(feet(0.65, 0.6, 0.55, 0.5, began_s=900.0), "right", "left"))[1] == [("right", "middle")]
    assert taken(memory, path(feet(0.65, 0.6, 0.55, 0.5, began_s=900.0), "middle", "right"))[1] == [("right", "middle")]
    there = taken(PathMemory(), *(path(feet(0.1, 0.3, 0.5, 0.7, 0.9, began_s=100.0), "left", "right"),) * 3)[0]
    pacing = feet(0.1, 0.3, 0.5, 0.7, 0.7, 0.5, 0.3, 0.1, began_s=900.0)
    assert taken(there, path(pacing, "left", "right"))[1] == [("left", "right")]


def test_a_zone_in_which_no_object_of_its_class_was_seen_is_not_taken() -> None:
    late = feet(0.5, 0.55, 0.6, 0.65, began_s=900.0)
    assert taken(remembered("car", "car", "car"), path(late, "", "right", "person"))[1] == [None]
    known = remembered("car", "car", "person")
    assert taken(known, path(late, "", "right", "person"))[1] == [("left", "right")]


def test_one_lost_and_one_found_ahead_of_it_are_one() -> None:
    lost = path(feet(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    found = path(feet(0.5, 0.55, 0.6, 0.65, began_s=901.6), "", "right")
    assert taken(remembered(), lost, found)[1] == [("left", "right"), None]
    assert taken(remembered(), found, lost)[1] == [("left", "right"), None], "in whatever order they are over"


def test_the_rest_of_one_may_wait_at_a_light() -> None:
    lost = path(feet(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    waited = (*feet(0.5, 0.55, 0.6, 0.65, began_s=901.6), *feet(0.7, 0.8, 0.9, began_s=980.0))
    assert taken(remembered(), lost, path(waited, "", "right"))[1] == [("left", "right"), None]


def test_three_parts_of_one_path_are_one() -> None:
    parts = (
        path(feet(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", ""),
        path(feet(0.4, 0.45, 0.5, 0.55, began_s=901.2), "", ""),
        path(feet(0.7, 0.75, 0.8, 0.85, began_s=902.4), "", "right"),
    )
    assert taken(remembered(), *parts)[1] == [("left", "right"), None, None]


def test_one_found_behind_or_much_later_is_another_one() -> None:
    lost = path(feet(0.4, 0.45, 0.5, 0.55, began_s=900.0), "left", "")
    behind = path(feet(0.2, 0.25, 0.3, 0.35, began_s=900.8), "", "right")
    later = path(feet(0.6, 0.65, 0.7, 0.75, began_s=910.0), "", "right")
    for other in (behind, later):
        assert taken(remembered(), lost, other)[1] == [("left", "right")] * 2


def test_a_path_keeps_places_that_are_apart_and_is_never_too_long() -> None:
    walked: tuple[Footprint, ...] = ()
    for n in range(1000):
        walked = went_on(walked, Footprint(0.2 * n, (0.001 * n, 0.5), 0.01))
    assert len(walked) <= 64
    assert walked[0].utc_s == 0.0
    assert went_on(walked, walked[-1]) == walked


def test_an_object_stands_at_the_middle_of_its_lower_edge() -> None:
    box: Box = (0.0, 0.25, 0.5, 0.75)
    assert footprint(box, 5.0) == Footprint(5.0, (0.25, 0.75), 0.5)


_PLACES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5)), min_size=1, max_size=6)
_ZONES = st.sampled_from(("", "left", "right"))


@given(st.lists(st.tuples(_PLACES, _ZONES, _ZONES), max_size=8))
def test_any_paths_give_movements_between_zones_that_were_seen(
    some: Sequence[tuple[Sequence[tuple[float, float, float]], str, str]],
) -> None:
    memory = PathMemory()
    for n, (places, first, last) in enumerate(some):
        walked = tuple(Footprint(10.0 * n + 0.2 * k, (x, y), max(1e-3, size)) for k, (x, y, size) in enumerate(places))
        memory, movement = moved(memory, path(walked, first, last), 10.0 * n + 2.0)
        if movement is not None:
            assert movement.place.kind == "movement"
            assert movement.place.name != movement.place.way
            assert {movement.place.name, movement.place.way} == {"left", "right"}
        assert {m.place for m in memory.recent} <= {
            Place("movement", "left", "right"), Place("movement", "right", "left")
        }  # fmt: skip


def test_a_path_turns_back_where_it_goes_there_and_back_at_speed() -> None:
    there, back = (0.1, 0.2, 0.3, 0.4, 0.5), (0.4, 0.3)
    assert turned_back(feet(*there, *back)) == 4
    assert turned_back(feet(*there, 0.45)) is None, "not far enough yet"
    assert turned_back(feet(0.45, 0.5, 0.4, 0.3)) is None, "it did not come from afar"
    slow = (*feet(*there), *feet(*back, began_s=8.0))
    assert turned_back(slow) is None


# Two places are at most 0.09 aside of each other, below the 0.092 that counts as a turn at a size of 0.1.
@given(st.lists(st.floats(0.0, 0.2), min_size=1, max_size=30), st.lists(st.floats(-0.045, 0.045), min_size=30))
def test_one_that_goes_on_does_not_turn_back(steps: list[float], aside: list[float]) -> None:
    x, walked = 0.0, []
    for n, step in enumerate(steps):
        x += step
        walked.append(Footprint(n * EVERY_S, (x, 0.5 + aside[n]), 0.1))
    assert turned_back(walked) is None
