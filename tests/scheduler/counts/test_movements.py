"""Movements of objects that were found late or lost early, by those that went as they did: worked examples."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Place
from edge.core.zones import Box
from scheduler.counts.movements import Footprint, Journey, Journeys, footprint, moved, turned_back, went_on

EVERY_S = 0.2


def path(*xs: float, y: float = 0.5, began_s: float = 0.0) -> tuple[Footprint, ...]:
    """An object of a tenth of the picture at these places, one after the other."""
    return tuple(Footprint(began_s + n * EVERY_S, (x, y), 0.1) for n, x in enumerate(xs))


def journey(way: tuple[Footprint, ...], first: str = "", last: str = "", name: str = "car") -> Journey:
    return Journey(way, first, last, name)


def taken(journeys: Journeys, *some: Journey) -> tuple[Journeys, list[tuple[str, str] | None]]:
    """After some objects that are gone, one after the other: what is remembered, and their movements."""
    found: list[tuple[str, str] | None] = []
    at_s = 0.0
    for one in some:
        at_s = max(at_s, one.path[-1].utc_s + 1.0)
        journeys, movement = moved(journeys, one, at_s)
        found.append(None if movement is None else (movement.place.name, movement.place.way))
    return journeys, found


def across(began_s: float, y: float = 0.5, name: str = "car") -> Journey:
    """One that was seen from the left to the right."""
    return journey(path(*(0.05 * n for n in range(1, 20)), y=y, began_s=began_s), "left", "right", name)


def remembered(*names: str, y: float = 0.5) -> Journeys:
    return taken(Journeys(), *(across(100.0 * n, y, name) for n, name in enumerate(names or ("car",) * 3)))[0]


def test_a_movement_is_from_the_first_zone_to_the_last() -> None:
    way = path(0.1, 0.5, 0.9)
    ends = [("left", "right"), ("left", "left"), ("left", ""), ("", "")]
    found = [taken(Journeys(), journey(way, *zones))[1] for zones in ends]
    assert found == [[("left", "right")], [None], [None], [None]]


def test_one_found_late_and_one_lost_early_went_as_others_did() -> None:
    late, early = path(0.5, 0.55, 0.6, 0.65, began_s=900.0), path(0.1, 0.15, 0.2, 0.25, began_s=900.0)
    assert taken(remembered(), journey(late, "", "right"))[1] == [("left", "right")]
    assert taken(remembered(), journey(early, "left", ""))[1] == [("left", "right")]
    assert taken(remembered(), journey(late))[1] == [("left", "right")], "it was seen in no zone at all"


def test_too_few_others_say_nothing() -> None:
    late = journey(path(0.5, 0.55, 0.6, 0.65, began_s=900.0), "", "right")
    assert taken(Journeys(), late)[1] == [None]
    elsewhere = remembered(y=0.9)
    assert taken(elsewhere, late)[1] == [None]


def test_one_that_goes_back_is_not_asked_of_those_that_go_there() -> None:
    back = journey(path(0.65, 0.6, 0.55, 0.5, began_s=900.0), "right", "")
    assert taken(remembered(), back)[1] == [None]


def test_one_that_stands_neither_came_nor_goes_on() -> None:
    stood = journey(path(0.5, 0.5, 0.501, 0.5, 0.5, began_s=900.0), "", "right")
    assert taken(remembered(), stood)[1] == [None]


def test_where_others_do_not_agree_it_is_not_known() -> None:
    ways = Journeys()
    for n, zone in enumerate(("a", "b", "c", "a", "b", "c")):
        ways, _ = taken(ways, journey(path(*(0.05 * k for k in range(1, 20)), began_s=100.0 * n), "left", zone))
    early = journey(path(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    assert taken(ways, early)[1] == [None]


def test_a_zone_in_which_no_object_of_its_class_was_seen_is_not_taken() -> None:
    late = path(0.5, 0.55, 0.6, 0.65, began_s=900.0)
    assert taken(remembered("car", "car", "car"), journey(late, "", "right", "person"))[1] == [None]
    known = remembered("car", "car", "person")
    assert taken(known, journey(late, "", "right", "person"))[1] == [("left", "right")]


def test_one_lost_and_one_found_ahead_of_it_are_one() -> None:
    lost = journey(path(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    found = journey(path(0.5, 0.55, 0.6, 0.65, began_s=901.6), "", "right")
    assert taken(remembered(), lost, found)[1] == [("left", "right"), None]
    assert taken(remembered(), found, lost)[1] == [("left", "right"), None], "in whatever order they are over"


def test_the_rest_of_one_may_wait_at_a_light() -> None:
    lost = journey(path(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", "")
    waited = (*path(0.5, 0.55, 0.6, 0.65, began_s=901.6), *path(0.7, 0.8, 0.9, began_s=980.0))
    assert taken(remembered(), lost, journey(waited, "", "right"))[1] == [("left", "right"), None]


def test_three_parts_of_one_way_are_one() -> None:
    parts = (
        journey(path(0.1, 0.15, 0.2, 0.25, began_s=900.0), "left", ""),
        journey(path(0.4, 0.45, 0.5, 0.55, began_s=901.2), "", ""),
        journey(path(0.7, 0.75, 0.8, 0.85, began_s=902.4), "", "right"),
    )
    assert taken(remembered(), *parts)[1] == [("left", "right"), None, None]


def test_one_found_behind_or_much_later_is_another_one() -> None:
    lost = journey(path(0.4, 0.45, 0.5, 0.55, began_s=900.0), "left", "")
    behind = journey(path(0.2, 0.25, 0.3, 0.35, began_s=900.8), "", "right")
    later = journey(path(0.6, 0.65, 0.7, 0.75, began_s=910.0), "", "right")
    for other in (behind, later):
        assert taken(remembered(), lost, other)[1] == [("left", "right")] * 2


def test_a_path_keeps_places_that_are_apart_and_is_never_too_long() -> None:
    way: tuple[Footprint, ...] = ()
    for n in range(1000):
        way = went_on(way, Footprint(0.2 * n, (0.001 * n, 0.5), 0.01))
    assert len(way) <= 64
    assert way[0].utc_s == 0.0
    assert went_on(way, way[-1]) == way


def test_an_object_stands_at_the_middle_of_its_lower_edge() -> None:
    box: Box = (0.0, 0.25, 0.5, 0.75)
    assert footprint(box, 5.0) == Footprint(5.0, (0.25, 0.75), 0.5)


_PLACES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5)), min_size=1, max_size=6)
_ZONES = st.sampled_from(("", "left", "right"))


@given(st.lists(st.tuples(_PLACES, _ZONES, _ZONES), max_size=8))
def test_any_journeys_give_movements_between_zones_that_were_seen(
    some: Sequence[tuple[Sequence[tuple[float, float, float]], str, str]],
) -> None:
    journeys = Journeys()
    for n, (places, first, last) in enumerate(some):
        way = tuple(Footprint(10.0 * n + 0.2 * k, (x, y), max(1e-3, size)) for k, (x, y, size) in enumerate(places))
        journeys, movement = moved(journeys, journey(way, first, last), 10.0 * n + 2.0)
        if movement is not None:
            assert movement.place.kind == "movement"
            assert movement.place.name != movement.place.way
            assert {movement.place.name, movement.place.way} == {"left", "right"}
        assert {m.place for m in journeys.recent} <= {
            Place("movement", "left", "right"), Place("movement", "right", "left")
        }  # fmt: skip


def test_a_path_turns_back_where_it_goes_there_and_back_at_speed() -> None:
    there, back = (0.1, 0.2, 0.3, 0.4, 0.5), (0.4, 0.3)
    assert turned_back(path(*there, *back)) == 4
    assert turned_back(path(*there, 0.45)) is None, "not far enough yet"
    assert turned_back(path(0.45, 0.5, 0.4, 0.3)) is None, "it did not come from afar"
    slow = (*path(*there), *path(*back, began_s=8.0))
    assert turned_back(slow) is None


@given(st.lists(st.floats(0.0, 0.2), min_size=1, max_size=30), st.lists(st.floats(-0.05, 0.05), min_size=30))
def test_one_that_goes_on_does_not_turn_back(steps: list[float], aside: list[float]) -> None:
    x, way = 0.0, []
    for n, step in enumerate(steps):
        x += step
        way.append(Footprint(n * EVERY_S, (x, 0.5 + aside[n]), 0.1))
    assert turned_back(way) is None
