"""Objects at lines, in zones and from zone to zone: worked examples, and what holds on any path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Counted, CountLine, Place
from edge.core.tracks import TrackedObject
from edge.core.zones import Point, Zone, zones_at
from scheduler.counts.passing import FORGET_S, CountingState, step

#: From left to right across the middle: who goes down the picture crosses to its right.
ACROSS = CountLine("gate", (0.2, 0.5), (0.8, 0.5))
LEFT = Zone("left", ((0.0, 0.0), (0.3, 0.0), (0.3, 1.0), (0.0, 1.0)))
RIGHT = Zone("right", ((0.7, 0.0), (1.0, 0.0), (1.0, 1.0), (0.7, 1.0)))


def tracked(number: int, foot: Point, name: str = "car", zones: Sequence[Zone] = ()) -> TrackedObject:
    """An object of a tenth of the picture that stands at `foot`."""
    box = (foot[0] - 0.05, foot[1] - 0.1, foot[0] + 0.05, foot[1])
    there = zones_at(zones, box, name)
    return TrackedObject(number, "north", name, 0.9, box, 0.0, 0.0, 0.0, 3, zones=there, began_box=box)


def walk(path: Sequence[Sequence[TrackedObject]], *lines: CountLine, every_s: float = 0.2) -> list[Counted]:
    """What is counted over some answers."""
    state, found = CountingState(), []
    for n, objects in enumerate(path):
        at_s = 1000.0 + n * every_s
        state, counted = step(state, [replace(o, seen_utc_s=at_s) for o in objects], lines, at_s)
        found += counted
    return found


def places(found: Sequence[Counted]) -> list[tuple[str, str, str, int]]:
    return [(c.place.kind, c.place.name, c.place.way, c.object) for c in found]


def down(number: int, *ys: float, x: float = 0.5, name: str = "car") -> list[list[TrackedObject]]:
    return [[tracked(number, (x, y), name)] for y in ys]


def test_who_crosses_to_the_right_of_the_line_goes_forward() -> None:
    assert places(walk(down(1, 0.3, 0.45, 0.55, 0.7), ACROSS)) == [("line", "gate", "forward", 1)]
    assert places(walk(down(1, 0.7, 0.55, 0.45, 0.3), ACROSS)) == [("line", "gate", "backward", 1)]


def test_a_foot_that_trembles_on_the_line_crosses_once() -> None:
    assert places(walk(down(1, 0.4, 0.498, 0.502, 0.499, 0.503, 0.501, 0.6), ACROSS)) == [
        ("line", "gate", "forward", 1)
    ]
    assert walk(down(1, 0.4, 0.502, 0.499, 0.503, 0.42), ACROSS) == [], "it turned back"


def test_one_answer_that_shows_an_object_just_beyond_a_line_is_no_crossing() -> None:
    assert walk(down(1, 0.4, 0.46, 0.53, 0.47, 0.46), ACROSS) == [], "its box trembled"
    assert places(walk(down(1, 0.4, 0.46, 0.53, 0.53), ACROSS)) == [("line", "gate", "forward", 1)]
    assert places(walk(down(1, 0.4, 0.46, 0.53, 0.5, 0.53), ACROSS)) == [("line", "gate", "forward", 1)]
    assert places(walk(down(1, 0.4, 0.46, 0.56), ACROSS)) == [("line", "gate", "forward", 1)], "half its size beyond"
    lost = [*down(1, 0.4, 0.46, 0.53), *[[]] * 4]
    assert walk(lost, ACROSS) == [], "it may be seen again"
    assert places(walk([*lost, [], []], ACROSS)) == [("line", "gate", "forward", 1)]


def test_one_that_is_seen_beyond_a_line_twice_crossed_it_also_where_it_passes_the_ends_extension_then() -> None:
    path = [[tracked(1, p)] for p in ((0.74, 0.46), (0.78, 0.53), (0.87, 0.53))]
    assert places(walk(path, ACROSS)) == [("line", "gate", "forward", 1)], "it cut the line before the first place"


def test_one_that_stands_and_whose_box_trembled_before_it_was_hidden_crosses_nothing() -> None:
    stands, trembled = tracked(1, (0.5, 0.47)), tracked(1, (0.5, 0.53))

    def counted(then: Sequence[Sequence[float]], moves: float = 0.0) -> list[tuple[str, str, str, int]]:
        """Hidden for the times of the first, seen where it stood for those of the second, and gone."""
        state, out = CountingState(), []
        last = replace(trembled, velocity=(0.0, moves), seen_utc_s=1000.2)
        state, _ = step(state, [replace(stands, seen_utc_s=1000.0)], [ACROSS], 1000.0)
        for at_s in (1000.2, *then[0]):
            state, more = step(state, [last], [ACROSS], at_s)
            out += more
        for at_s in then[1]:
            state, more = step(state, [replace(stands, seen_utc_s=at_s)], [ACROSS], at_s)
            out += more
        return places(out + list(step(state, [], [ACROSS], 1010.0)[1]))

    hidden, again = (1000.4, 1001.0, 1001.4), (1001.6, 1001.8)
    assert counted((hidden, again)) == []
    assert counted((hidden, ())) == [("line", "gate", "forward", 1)], "the last that was seen of it is beyond"
    assert counted((hidden, ()), 0.3) == [("line", "gate", "forward", 1)], "once"


@given(st.lists(st.tuples(st.floats(0.3, 0.48), st.floats(0.3, 0.54)), min_size=1, max_size=10))
def test_single_answers_just_beyond_a_line_never_count(pairs: list[tuple[float, float]]) -> None:
    assert walk(down(1, *(y for pair in pairs for y in pair), 0.4), ACROSS) == []


def test_one_that_goes_along_a_line_is_not_taken_to_have_crossed_it_where_it_was_found() -> None:
    found = replace(tracked(1, (0.5, 0.52)), velocity=(0.3, 0.03))
    assert walk([[found]], ACROSS) == []
    assert places(walk([[replace(found, velocity=(0.3, 0.06))]], ACROSS)) == [("line", "gate", "forward", 1)]


def test_an_object_counts_once_in_each_direction() -> None:
    there_and_back = down(1, 0.4, 0.6, 0.4, 0.6, 0.4)
    assert places(walk(there_and_back, ACROSS)) == [("line", "gate", "forward", 1), ("line", "gate", "backward", 1)]


def test_who_walks_around_the_end_of_a_line_does_not_cross_it() -> None:
    around = [[tracked(1, p)] for p in ((0.9, 0.4), (0.95, 0.5), (0.9, 0.6), (0.5, 0.7))]
    assert walk(around, ACROSS) == []


def test_an_object_that_crossed_before_it_was_sure_to_be_one_counts() -> None:
    late = replace(tracked(1, (0.5, 0.6)), began_box=tracked(1, (0.5, 0.4)).box)
    assert places(walk([[late]], ACROSS)) == [("line", "gate", "forward", 1)]
    assert walk([[replace(late, began_box=None)]], ACROSS) == []


def test_only_the_classes_of_a_line_count_at_it() -> None:
    cars = CountLine("cars", ACROSS.start, ACROSS.end, ("car",))
    assert walk(down(1, 0.4, 0.6, name="person"), cars) == []
    assert [c.class_name for c in walk(down(1, 0.4, 0.6), cars, ACROSS)] == ["car", "car"]


def test_a_movement_is_from_the_first_zone_to_the_last_and_counts_when_the_object_is_gone() -> None:
    zones = (LEFT, RIGHT)
    path = [[tracked(1, (x, 0.5), zones=zones)] for x in (0.1, 0.2, 0.5, 0.8, 0.9)]
    assert places(walk(path)) == [("zone", "left", "", 1), ("zone", "right", "", 1)]
    assert places(walk([*path, []]))[-1] == ("movement", "left", "right", 1)
    assert len(walk([*path, [], [], []])) == 3, "once"
    back = [*path, *[[tracked(1, (0.9, 0.5), zones=zones)]] * 30, [tracked(1, (0.1, 0.5), zones=zones)], []]
    assert [p for p in places(walk(back)) if p[0] == "movement"] == [], "it came back to where it came from"


def test_a_movement_ends_in_the_zone_that_the_object_was_seen_in_last() -> None:
    # The tracker says for a while that an object is in a zone which it has left.
    at = replace(tracked(1, (0.1, 0.5)), zones=("right", "left"), zone_s={"right": 1.0, "left": 0.2})
    assert places(walk([[at], []]))[-1] == ("movement", "right", "left", 1)
    left = replace(at, zones=("left",), zone_s={"gate": 0.2, "right": 0.4, "left": 0.2})
    assert places(walk([[left], []]))[-1] == ("movement", "gate", "left", 1), "it was in one before it was an object"


def test_a_box_that_the_lower_edge_cuts_off_shows_no_foot_and_says_no_zone() -> None:
    whole = [[tracked(1, p, zones=(LEFT, RIGHT))] for p in ((0.9, 0.4), (0.6, 0.6), (0.25, 0.9))]
    assert places(walk([*whole, []]))[-1] == ("movement", "right", "left", 1)
    cut = [[tracked(1, p, zones=(LEFT, RIGHT))] for p in ((0.9, 0.4), (0.6, 0.6), (0.25, 1.0 - 1e-9))]
    assert [p[0] for p in places(walk([*cut, []]))] == ["zone", "zone"]


def test_one_that_turns_back_at_speed_is_two_that_met() -> None:
    zones, there = (LEFT, RIGHT), [0.05 * n for n in range(1, 20)]
    path = [[tracked(1, (x, 0.5), zones=zones)] for x in (*there, *reversed(there))]
    moves = [c.place for c in walk([*path, []]) if c.place.kind == "movement"]
    assert moves == [Place("movement", "left", "right"), Place("movement", "right", "left")]
    slowly = [[tracked(1, (x, 0.5), zones=zones)] for x in (*there, *[0.96] * 30, *reversed(there))]
    assert [c for c in walk([*slowly, []]) if c.place.kind == "movement"] == [], "it stood, and came back"


WHOLE = [0.05 * n for n in range(1, 20)]


def paced(low: float, high: float, by: float, times: int) -> list[float]:
    steps = round((high - low) / by)
    leg = [low + by * n for n in range(steps)]
    return [x for n in range(times) for x in (leg if n % 2 == 0 else [high + low - x for x in leg])]


def six_went_both_ways() -> list[list[TrackedObject]]:
    """One after the other, three from each of the zones LEFT and RIGHT to the other one."""
    paths = [WHOLE if number % 2 else WHOLE[::-1] for number in range(6)]
    return [
        answer
        for number, path in enumerate(paths)
        for answer in (*([tracked(number, (x, 0.5), zones=(LEFT, RIGHT))] for x in path), [])
    ]


def test_one_that_paces_makes_no_movement_after_the_other() -> None:
    """Others went both ways before it; it goes to and fro, and is seen in no zone, in one, or in both."""
    zones, others = (LEFT, RIGHT), six_went_both_ways()
    before = len([c for c in walk(others) if c.place.kind == "movement"])
    for low, high in ((0.44, 0.58), (0.35, 0.65), (0.2, 0.6)):
        for by in (0.03, 0.02, 0.01):
            pacing = [[tracked(99, (x, 0.5), zones=zones)] for x in paced(low, high, by, 20)]
            moves = [c for c in walk([*others, *pacing, []]) if c.place.kind == "movement"]
            assert len(moves) - before <= 1
    across = [[tracked(99, (x, 0.5), zones=zones)] for x in paced(0.2, 0.8, 0.05, 20)]
    moves = [c for c in walk([*others, *across, []]) if c.place.kind == "movement"]
    assert len(moves) - before <= 2, "there and back"


def test_a_car_that_shunts_to_park_makes_one_movement() -> None:
    zones, others = (LEFT, RIGHT), six_went_both_ways()
    before = len([c for c in walk(others) if c.place.kind == "movement"])
    shunts = [*WHOLE[:16], *paced(0.7, 0.82, 0.03, 6)[::-1], *[0.75] * 40]
    path = [[tracked(99, (x, 0.5), zones=zones)] for x in shunts]
    moves = [c.place for c in walk([*others, *path, []]) if c.place.kind == "movement"][before:]
    assert moves in ([], [Place("movement", "left", "right")])


def test_the_zones_of_two_that_met_are_each_ones_own() -> None:
    zones = (LEFT, RIGHT)
    there = [0.5, 0.55, 0.6, 0.65, 0.75, 0.85]
    one = [[tracked(1, (x, 0.5), zones=zones)] for x in (*there, *there[::-1], 0.4, 0.3, 0.2)]
    state = CountingState()
    for n, objects in enumerate([*one, []]):
        at_s = 1000.0 + 0.2 * n
        state, _ = step(state, [replace(o, seen_utc_s=at_s) for o in objects], (), at_s)
    assert "" not in state.paths.zones


def test_what_was_before_the_clock_was_set_back_is_no_path() -> None:
    zones, there = (LEFT, RIGHT), [0.05 * n for n in range(1, 20)]
    state, out = CountingState(), []
    times = [1000.0 + 0.2 * n for n in range(19 + 60)]
    times += [times[-1] - 3600.0 + 0.2 * n for n in range(1, 20)]
    for at_s, x in zip(times, (*there, *[0.96] * 60, *reversed(there)), strict=True):
        state, more = step(state, [replace(tracked(1, (x, 0.5), zones=zones), seen_utc_s=at_s)], (), at_s)
        out += more
    assert all(
        a.utc_s <= b.utc_s for a, b in zip(state.objects[1].footprints, state.objects[1].footprints[1:], strict=False)
    )
    assert [c for c in out if c.place.kind == "movement"] == []


def test_one_that_is_lost_early_goes_as_others_went() -> None:
    zones = (LEFT, RIGHT)
    whole = [0.05 * n for n in range(1, 20)]
    path: list[list[TrackedObject]] = []
    for number in (1, 2, 3):
        path += [*([tracked(number, (x, 0.5), zones=zones)] for x in whole), []]
    lost = [*([tracked(4, (x, 0.5), zones=zones)] for x in whole[:8]), [], []]
    moves = [c for c in walk([*path, *lost]) if c.place.kind == "movement"]
    assert [(c.object, c.place) for c in moves] == [(n, Place("movement", "left", "right")) for n in (1, 2, 3, 4)]
    assert [c for c in walk(lost) if c.place.kind == "movement"] == [], "nobody went there before"


def test_an_object_that_is_lost_before_a_line_and_one_that_is_found_beyond_are_one_crossing() -> None:
    lost = replace(tracked(1, (0.5, 0.42)), velocity=(0.0, 0.4))
    found = replace(tracked(2, (0.5, 0.62)), velocity=(0.0, 0.4))

    def counted(*answers: tuple[float, TrackedObject | None]) -> list[tuple[str, str, str, int]]:
        state, out = CountingState(), []
        for at_s, one in answers:
            seen = [] if one is None else [replace(one, seen_utc_s=1000.0 + at_s)]
            state, more = step(state, seen, [ACROSS], 1000.0 + at_s)
            out += more
        return places(out)

    forward = [("line", "gate", "forward")]
    assert [p[:3] for p in counted((0.0, lost), (0.5, None))] == [], "it may be seen again"
    assert [p[:3] for p in counted((0.0, lost), (1.1, None), (2.0, None))] == forward
    assert [p[:3] for p in counted((0.0, found), (0.5, found))] == forward
    assert counted((0.0, lost), (0.6, found), (1.7, None)) == [("line", "gate", "forward", 2)]
    assert counted((0.0, lost), (1.1, None), (1.8, found)) == [("line", "gate", "forward", 1)]
    assert len(counted((0.0, lost), (1.1, None), (9.0, found))) == 2, "too late to be the same"
    back = replace(lost, velocity=(0.0, -0.4))
    assert counted((0.0, back), (1.1, None)) == [("line", "gate", "backward", 1)], "it came over the line"


def test_what_is_gone_is_forgotten() -> None:
    state, _ = step(CountingState(), [replace(tracked(1, (0.5, 0.4)), seen_utc_s=0.0)], [ACROSS], 0.0)
    state, _ = step(state, [], [ACROSS], FORGET_S)
    assert 1 in state.objects
    state, _ = step(state, [], [ACROSS], FORGET_S + 0.1)
    assert not state.objects


points = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
lines = st.tuples(points, points).filter(lambda ends: math.dist(*ends) > 0.05).map(lambda ends: CountLine("l", *ends))


@given(lines, st.lists(points, min_size=2, max_size=12))
def test_no_path_counts_more_than_once_in_a_direction_and_directions_take_turns(
    line: CountLine, path: list[Point]
) -> None:
    found = walk([[tracked(1, p)] for p in path], line)
    assert len({c.place for c in found}) == len(found) <= 2


@given(lines, st.lists(points, min_size=2, max_size=8))
def test_the_other_way_round_counts_the_other_direction(line: CountLine, path: list[Point]) -> None:
    """A line drawn from its other end has its directions exchanged."""
    turned = CountLine("l", line.end, line.start)
    other = {"forward": "backward", "backward": "forward"}
    mine = [c.place.way for c in walk([[tracked(1, p)] for p in path], line)]
    assert [other[c.place.way] for c in walk([[tracked(1, p)] for p in path], turned)] == mine


@given(lines, st.lists(st.lists(points, min_size=3, max_size=3), min_size=2, max_size=6), st.randoms())
def test_the_order_of_objects_does_not_matter(line: CountLine, paths: list[list[Point]], rng: object) -> None:
    answers = [[tracked(n, p) for n, p in enumerate(row)] for row in paths]
    shuffled = [sorted(row, key=lambda o: (o.id * 7 + len(paths)) % 3) for row in answers]
    assert walk(answers, line) == walk(shuffled, line)


@given(lines, points, points)
def test_a_straight_path_far_from_its_ends_counts_exactly_where_it_cuts(line: CountLine, a: Point, b: Point) -> None:
    def side(p: Point) -> float:
        ax, ay = line.end[0] - line.start[0], line.end[1] - line.start[1]
        return (ax * (p[1] - line.start[1]) - ay * (p[0] - line.start[0])) / line.length

    clear = min(abs(side(a)), abs(side(b))) > 0.02
    where = [0.0, 0.0]
    if clear and side(a) * side(b) < 0:
        part = side(a) / (side(a) - side(b))
        cut = (a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]))
        along = (line.end[0] - line.start[0], line.end[1] - line.start[1])
        where[0] = sum((c - s) * d for c, s, d in zip(cut, line.start, along, strict=True)) / line.length**2
        if not 0.01 < where[0] < 0.99 and -0.01 < where[0] < 1.01:
            return  # too near an end to say
        expected = 0.0 < where[0] < 1.0
    elif clear:
        expected = False
    else:
        return
    found = walk([[tracked(1, a)], *[[tracked(1, b)]] * 2], line)
    assert bool(found) == expected
    if found:
        assert found[0].place == Place("line", "l", "forward" if side(b) > 0 else "backward")
