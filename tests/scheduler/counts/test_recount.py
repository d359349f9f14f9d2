"""Crossings counted again by labels: worked examples, and what holds for any labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Counted, CountLine, Place
from edge.core.tracks import TrackedObject
from edge.core.zones import Box
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.recount import (
    Instant,
    Passer,
    PathSample,
    Rest,
    Shown,
    ShownObject,
    at_instant,
    labelled_instant,
    own_time,
    recounted,
    samples_after,
    shown_after,
)

GATE = CountLine("gate", (0.2, 0.5), (0.8, 0.5))
FORWARD = Place("line", "gate", "forward")


def checks_of(
    instant: Instant,
    labels: Sequence[NamedBox],
    lines: Sequence[CountLine],
    samples: Sequence[PathSample],
    shown: Shown,
) -> FrameChecks:
    return recounted(labelled_instant(instant, labels), lines, samples, shown, {})[0]


def box(x: float, y: float) -> Box:
    return x - 0.05, y - 0.1, x + 0.05, y


def walk(number: int, x: float, name: str = "car") -> list[tuple[float, tuple[TrackedObject, ...]]]:
    """Down the picture over the gate, 0.2 a second: it is on the gate at 100 s."""
    out = []
    for n in range(-10, 11):
        at_s = 100.0 + 0.2 * n
        one = TrackedObject(
            number, "north", name, 0.9, box(x, 0.5 + 0.04 * n), 98.0, at_s, 0.0, 3, began_box=box(x, 0.1)
        )
        out.append((at_s, (one,)))
    return out


def crossing(number: int, at_s: float, name: str = "car") -> Counted:
    return Counted(FORWARD, name, number, at_s)


def test_an_object_is_where_it_was_between_two_answers_and_its_foot_has_a_speed() -> None:
    (one,) = at_instant(walk(1, 0.5), [], 100.1).passers
    assert abs(one.box[3] - 0.52) < 1e-6
    assert abs(one.velocity[0]) < 1e-6
    assert abs(one.velocity[1] - 0.2) < 1e-6
    assert at_instant(walk(1, 0.5), [], 90.0).passers == (), "it was not there yet"
    assert at_instant(walk(1, 0.5), [], 110.0).passers == (), "it is gone"


def test_a_label_of_an_object_that_was_counted_is_the_same_crossing() -> None:
    instant = at_instant(walk(1, 0.5), [crossing(1, 100.2)], 100.0)
    assert checks_of(instant, [NamedBox(box(0.5, 0.5), "car")], [GATE], (), {}).found == {(FORWARD, "car"): (1, 1, 1)}
    as_truck = checks_of(instant, [NamedBox(box(0.5, 0.5), "truck")], [GATE], (), {}).found
    assert as_truck == {(FORWARD, "car"): (1, 0, 0), (FORWARD, "truck"): (0, 1, 0)}
    assert checks_of(instant, [], [GATE], (), {}).found == {(FORWARD, "car"): (1, 0, 0)}, "there was none"


def test_a_label_confirms_both_crossings_of_one_that_came_back() -> None:
    back = Place("line", "gate", "backward")
    there_and_back = [crossing(1, 99.9), Counted(back, "car", 1, 100.3)]
    instant = at_instant(walk(1, 0.5), there_and_back, 100.0)
    found = checks_of(instant, [NamedBox(box(0.5, 0.5), "car")], [GATE], (), {}).found
    assert found == {(FORWARD, "car"): (1, 1, 1), (back, "car"): (1, 1, 1)}


def test_one_counted_at_another_time_is_not_counted_here() -> None:
    instant = at_instant(walk(1, 0.5), [crossing(1, 101.5)], 100.0)
    assert checks_of(instant, [NamedBox(box(0.5, 0.5), "car")], [GATE], (), {}).found == {}


def test_an_object_that_is_followed_but_was_not_counted_crosses_as_it_goes() -> None:
    instant = at_instant(walk(1, 0.5), [], 100.0)
    label = NamedBox(box(0.5, 0.51), "car")
    assert checks_of(instant, [label], [GATE], (), {}).found == {(FORWARD, "car"): (0, 1, 0)}
    assert checks_of(instant, [label], [CountLine("gate", GATE.start, GATE.end, ("bus",))], (), {}).found == {}


def test_one_that_was_found_or_lost_soon_is_where_it_came_from_or_went() -> None:
    seen = walk(1, 0.5)
    found = [(at_s, (replace(o, began_utc_s=at_s, began_box=None),)) for at_s, (o,) in seen if at_s > 100.9]
    lost = [(at_s, objects) for at_s, objects in seen if at_s < 99.1]
    for part in (found, lost):
        (one,) = at_instant(part, [], 100.0).passers
        assert abs(one.box[3] - 0.5) < 1e-6
        assert abs(one.velocity[1] - 0.2) < 1e-6
    assert at_instant(lost[:1], [], 100.0).passers == (), "it is not known how it went"
    assert at_instant(lost, [], 102.0).passers == (), "too long after"


def test_one_that_was_not_in_the_picture_yet_is_not_counted_again() -> None:
    """No label can show it."""
    one = Passer(1, box(1.02, 0.5), (0.2, 0.0))
    assert not one.in_picture
    instant = Instant(100.0, (one,), (crossing(1, 100.2),), {1: frozenset({"gate"})})
    assert checks_of(instant, [], [GATE], (), {}).found == {}
    assert checks_of(replace(instant, passers=()), [], [GATE], (), {}).found == {(FORWARD, "car"): (1, 0, 0)}


def trembling(first_s: float, last_s: float) -> list[tuple[float, tuple[TrackedObject, ...]]]:
    """A walker beside the gate, along it; at 100 s its foot comes nearer for a moment."""
    out = []
    for n in range(-10, 11):
        at_s, y = 100.0 + 0.2 * n, 0.47 + 0.01 * (n + 3 if abs(n) <= 3 else 0)
        if first_s <= at_s <= last_s:
            one = TrackedObject(1, "north", "person", 0.9, box(0.5 + 0.01 * n, y), at_s, at_s, 0.0, 3)
            out.append((at_s, (one,)))
    return out


def test_a_foot_that_trembles_beside_a_line_is_no_crossing_that_was_missed() -> None:
    """It was seen in all of the time, and where it was then it did not cross."""
    label = NamedBox(box(0.5, 0.485), "person")
    instant = at_instant(trembling(98.0, 102.0), [], 100.0)
    (one,) = instant.passers
    assert one.velocity[1] * 0.75 > 0.015, "as it went at the instant it would have crossed"
    assert checks_of(instant, [label], [GATE], (), {}).found == {}
    lost = at_instant(trembling(98.0, 100.6), [], 100.0)
    assert checks_of(lost, [label], [GATE], (), {}).found == {}, "it went along the gate"


@given(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(0.3, 0.49), st.floats(0.3, 0.49))
def test_one_that_was_seen_on_one_side_before_and_after_does_not_cross(
    vx: float, vy: float, before: float, after: float
) -> None:
    one = Passer(1, box(0.5, 0.49), (vx, vy), before=(0.5, before), after=(0.5, after))
    assert checks_of(Instant(100.0, (one,)), [NamedBox(box(0.5, 0.49), "car")], [GATE], (), {}).found == {}


def at_edge_and_inside() -> tuple[Instant, ...]:
    """An object that was lost before the frame, at the picture's edge and in mid-picture, and was counted after it."""
    return tuple(
        Instant(
            100.0, (Passer(1, box(x, 0.5), (0.2, 0.0), seen=False),), (crossing(1, 100.2),), {1: frozenset({"gate"})}
        )
        for x in (0.96, 0.5)
    )


def test_one_that_was_lost_at_the_edge_of_the_picture_before_the_frame_may_be_gone() -> None:
    """A label need not show it there; in the middle of the picture one would."""
    at_edge, inside = at_edge_and_inside()
    assert at_edge.passers[0].may_be_gone
    assert not inside.passers[0].may_be_gone
    assert not replace(at_edge.passers[0], seen=True).may_be_gone
    assert checks_of(at_edge, [], [GATE], (), {}).found == {}
    assert checks_of(inside, [], [GATE], (), {}).found == {(FORWARD, "car"): (1, 0, 0)}


def test_one_that_was_lost_at_the_edge_and_has_a_label_is_followed() -> None:
    gate = CountLine("gate", (0.2, 0.5), (1.0, 0.5))
    for instant, x in zip(at_edge_and_inside(), (0.96, 0.5), strict=True):
        label = NamedBox(box(x, 0.5), "car")
        samples = ((x, 0.5, math.log(0.1), 0.0, 0.2),)
        assert checks_of(Instant(100.0), [label], [gate], samples, {}).found == {(FORWARD, "car"): (0, 1, 0)}
        for known in ((), samples):
            assert checks_of(instant, [label], [gate], known, {}).found == {(FORWARD, "car"): (1, 1, 1)}


def test_places_that_are_too_far_apart_in_time_say_nothing_about_the_path_between() -> None:
    """From the first place to the last one the foot crosses the gate, but nobody knows when."""
    feet = {95.0: 0.1, 99.6: 0.47, 99.8: 0.47, 100.0: 0.47, 100.2: 0.47, 104.0: 0.9}
    seen = [
        (at_s, (TrackedObject(1, "north", "car", 0.9, box(0.5, y), at_s, at_s, 0.0, 3),)) for at_s, y in feet.items()
    ]
    (one,) = at_instant(seen, [], 100.0).passers
    assert (one.before, one.after) == (None, None)
    assert at_instant(seen, [], 97.0).passers == (), "too long after one and before the other"
    (near,) = at_instant([entry for entry in seen if 99.0 < entry[0] < 101.0], [], 99.7).passers
    assert near.seen
    assert (near.before, near.after) == (None, None), "it was not seen so long"


def test_remembered_places_are_of_objects_that_were_seen() -> None:
    seen = Passer(1, box(0.5, 0.5), (0.0, 0.2))
    assert len(samples_after((), Instant(100.0, (seen, replace(seen, number=2, seen=False))))) == 1


def test_one_that_a_nearer_one_hides_is_not_counted_again() -> None:
    instant = at_instant(walk(1, 0.5), [crossing(1, 100.2)], 100.0)
    x0, y0, x1, y1 = box(0.5, 0.5)
    nearer = NamedBox((x0 - 0.1, y0 - 0.1, x1 + 0.1, y1 + 0.2), "bus")
    farther = NamedBox((x0 - 0.1, y0 - 0.3, x1 + 0.1, y1 - 0.01), "bus")
    half = NamedBox((x0 + 0.06, y0, x1 + 0.3, y1 + 0.1), "bus")
    assert checks_of(instant, [nearer], [GATE], (), {}).found.get((FORWARD, "car")) is None
    for label in (farther, half):
        assert checks_of(instant, [label], [GATE], (), {}).found[FORWARD, "car"][0] == 1


def test_one_that_is_not_followed_goes_as_others_went() -> None:
    samples = samples_after((), at_instant(walk(1, 0.5), [], 100.0))
    missed = NamedBox(box(0.5, 0.52), "car")
    assert checks_of(Instant(200.0), [missed], [GATE], samples, {}).found == {(FORWARD, "car"): (0, 1, 0)}
    assert checks_of(Instant(200.0), [missed], [GATE], (), {}).found == {}, "nobody knows how it went"
    elsewhere = NamedBox(box(0.5, 0.9), "car")
    assert checks_of(Instant(200.0), [elsewhere], [GATE], samples, {}).found == {}


def test_a_label_crosses_in_the_part_in_which_those_that_went_near_did() -> None:
    """Of two labels where half of the others crossed one does: a majority would say none, or both."""
    down, along = (0.5, 0.52, math.log(0.1), 0.0, 0.2), (0.5, 0.52, math.log(0.1), 0.2, 0.0)
    frame = labelled_instant(Instant(200.0), [NamedBox(box(0.5, 0.52), "car")])
    for samples, of_eight in (((down, along), 4), ((down, along, along, along), 2), ((down,), 8), ((along,), 0)):
        rest: Rest = {}
        crossed = 0
        for _ in range(8):
            checks, rest = recounted(frame, [GATE], samples, {}, rest)
            crossed += checks.found.get((FORWARD, "car"), (0, 0, 0))[1]
        assert crossed == of_eight


def shown(frames: int, **classes: int) -> Shown:
    """Object 1."""
    return {1: ShownObject(frames, classes)}


def test_one_that_labels_of_half_of_the_frames_showed_is_there_without_a_label() -> None:
    instant = at_instant(walk(1, 0.5), [crossing(1, 100.2)], 100.0)
    for enough in (shown(2, car=1), shown(4, car=2)):
        assert checks_of(instant, [], [GATE], (), enough).found == {(FORWARD, "car"): (1, 1, 1)}
    for few in (shown(3, car=1), shown(1), {2: ShownObject(2, {"car": 2})}):
        once = checks_of(instant, [], [GATE], (), few).found
        assert once == {(FORWARD, "car"): (1, 0, 0)}, "a label may be another object's that went by"
    as_bus = checks_of(instant, [], [GATE], (), shown(4, car=1, bus=2)).found
    assert as_bus == {(FORWARD, "car"): (1, 0, 0), (FORWARD, "bus"): (0, 1, 0)}


def test_an_object_that_is_followed_under_two_numbers_is_there_once() -> None:
    """Lost and counted as 1, found as 2, whose label it is."""
    one, two = Passer(1, box(0.5, 0.53), (0.0, 0.15), seen=False), Passer(2, box(0.5, 0.55), (0.0, 0.2))
    instant = Instant(100.0, (one, two), (crossing(1, 100.4),), {1: frozenset({"gate"})})
    labels = [NamedBox(box(0.5, 0.55), "car")]
    for known in ({}, shown(1, car=1), shown(9, car=9)):
        after = shown_after(known, labelled_instant(instant, labels))
        assert checks_of(instant, labels, [GATE], (), after).found == {(FORWARD, "car"): (0, 1, 0)}


def test_labels_of_earlier_frames_do_not_bring_back_one_that_was_not_in_the_picture() -> None:
    one = Passer(1, box(1.02, 0.5), (0.2, 0.0))
    instant = Instant(100.0, (one,), (crossing(1, 100.2),), {1: frozenset({"gate"})})
    assert checks_of(instant, [], [GATE], (), shown(9, car=9)).found == {}


def test_the_class_of_most_labels_of_an_object_is_its_class() -> None:
    instant = at_instant(walk(1, 0.5), [crossing(1, 100.2)], 100.0)
    label, known = NamedBox(box(0.5, 0.5), "truck"), shown_after(shown(2, car=2), labelled_instant(instant, []))
    assert known == shown(3, car=2)
    once = shown_after(known, labelled_instant(instant, [label]))
    assert once == shown(4, car=2, truck=1)
    assert checks_of(instant, [label], [GATE], (), once).found == {(FORWARD, "car"): (1, 1, 1)}
    twice = shown_after(once, labelled_instant(instant, [label]))
    assert checks_of(instant, [label], [GATE], (), twice).found == {
        (FORWARD, "car"): (1, 0, 0), (FORWARD, "truck"): (0, 1, 0)
    }, "of two that are as many that of the frame"  # fmt: skip


numbers = st.integers(1, 4)
feet = st.tuples(st.floats(0.1, 0.9), st.floats(0.2, 0.9))
passers = st.lists(st.builds(lambda n, f: Passer(n, box(*f), (0.0, 0.2)), numbers, feet), max_size=4)
labels = st.lists(st.builds(lambda f, c: NamedBox(box(*f), c), feet, st.sampled_from(["car", "bus"])), max_size=6)


classes = st.dictionaries(st.sampled_from(["car", "bus"]), st.integers(1, 3))
objects = st.dictionaries(numbers, st.builds(ShownObject, st.integers(6, 9), classes))


@given(passers, labels, objects)
def test_each_label_of_a_followed_object_is_remembered_once(
    followed: list[Passer], labelled: list[NamedBox], known: Shown
) -> None:
    instant = Instant(100.0, tuple({p.number: p for p in followed}.values()))
    after = shown_after(known, labelled_instant(instant, labelled))
    more = sum(sum(v.classes.values()) for v in after.values()) - sum(sum(v.classes.values()) for v in known.values())
    assert 0 <= more <= min(len(labelled), len(instant.passers))
    assert all(after[n].classes.get(name, 0) >= votes for n, of in known.items() for name, votes in of.classes.items())
    assert all(0 <= after[n].frames - known.get(n, ShownObject()).frames <= 1 for n in after)
    assert all(sum(of.classes.values()) <= of.frames for of in after.values())


@given(passers, st.lists(numbers, max_size=4, unique=True), labels, objects)
def test_no_more_are_the_same_than_there_are_of_either(
    followed: list[Passer], counted: list[int], labelled: list[NamedBox], known: Shown
) -> None:
    by_number = {p.number: p for p in followed}
    at_gate = tuple(crossing(n, 100.0) for n in counted)
    instant = Instant(100.0, tuple(by_number.values()), at_gate, {n: frozenset({"gate"}) for n in counted})
    for mine, theirs, same in checks_of(instant, labelled, [GATE], (), known).found.values():
        assert 0 <= same <= min(mine, theirs)


def test_each_crossing_belongs_to_the_frame_that_is_nearest_in_time() -> None:
    assert own_time(100.0, None, None) == (1.0, 1.0)
    assert own_time(100.0, 99.0, 101.5) == (0.5, 0.75)
    assert own_time(100.0, 90.0, 110.0) == (1.0, 1.0), "no longer than a lost object is taken on"
    assert own_time(100.0, 101.0, 99.0) == (0.0, 0.0), "the clock was set back"


@given(st.lists(st.floats(0.05, 1.9), min_size=2, max_size=20), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_of_frames_that_are_near_each_crossing_is_counted_again_once(gaps: list[float], at: list[float]) -> None:
    times = [100.0 + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    crossings = [crossing(n, times[0] + part * (times[-1] - times[0])) for n, part in enumerate(at)]
    found: list[int] = []
    for n, at_s in enumerate(times):
        own_s = own_time(at_s, times[n - 1] if n else None, times[n + 1] if n < len(gaps) else None)
        found += [c.object for c in at_instant([], crossings, at_s, own_s).counted]
    assert sorted(found) == list(range(len(at)))


def test_a_foot_that_is_not_clear_of_the_line_on_both_sides_crosses_nothing() -> None:
    """A walker along the gate: half a second before it stood just above it, half a second after just below."""
    label = [NamedBox(box(0.5, 0.5), "person")]
    for off, crosses in ((0.005, False), (0.05, True)):
        one = Passer(1, box(0.5, 0.5), (0.1, 0.01), before=(0.45, 0.5 - off), after=(0.55, 0.5 + off))
        assert bool(checks_of(Instant(100.0, (one,)), label, [GATE], (), {}).found) is crosses


def test_one_that_goes_along_a_line_and_is_lost_does_not_cross_it() -> None:
    label = [NamedBox(box(0.5, 0.49), "person")]
    for speed, crosses in ((0.02, False), (0.1, True)):
        one = Passer(1, box(0.5, 0.49), (0.1, speed), before=(0.4, 0.49 - speed))
        assert bool(checks_of(Instant(100.0, (one,)), label, [GATE], (), {}).found) is crosses
