"""The tracker: worked scenes, and what holds for any answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.tracks import ObjectChange, Seen, TrackedObject, TrackerLimits
from edge.core.zones import Zone
from edge.tracking import TrackerState, expire, finish, live, step

DRIVE = Zone("drive", ((0.4, 0.0), (0.6, 0.0), (0.6, 1.0), (0.4, 1.0)))
Found = tuple[tuple[float, float, float, float], str]


def seen(at_s: float, *objects: Found, score: float = 0.8) -> Seen:
    boxes = np.array([o[0] for o in objects], np.float32).reshape(-1, 4)
    return Seen(at_s, 1e9 + at_s, boxes, np.full(len(objects), score, np.float32), tuple(o[1] for o in objects))


def box(x: float, y: float = 0.5, size: float = 0.1) -> tuple[float, float, float, float]:
    """Centred."""
    return x - size / 2, y - size / 2, x + size / 2, y + size / 2


class Camera:
    """A tracker that gets answers."""

    def __init__(self, zones: Sequence[Zone] = (), **limits: Any) -> None:
        self.state, self.zones, self.limits, self.next_id = TrackerState("gate"), zones, TrackerLimits(**limits), 1
        self.changes: list[ObjectChange] = []

    def answer(self, at_s: float, *objects: Found) -> list[tuple[str, int]]:
        done = step(self.state, seen(at_s, *objects), self.zones, self.limits, self.next_id)
        self.state, self.next_id = done.state, done.next_id
        self.changes += done.changes
        return [(c.phase, c.object.id) for c in done.changes]

    def now(self) -> tuple[TrackedObject, ...]:
        return live(self.state)


def test_a_car_that_crosses_is_one_object() -> None:
    for every_s in (0.2, 0.4, 1.0):
        camera = Camera()
        t, x = 0.0, 0.1
        while x < 0.92:
            camera.answer(t, (box(x), "car"))
            t, x = t + every_s, x + 0.12 * every_s
        camera.answer(t + 10)
        assert [(c.phase, c.object.id) for c in camera.changes] == [("new", 1), ("end", 1)], every_s
        assert camera.changes[-1].object.ended_utc_s == pytest.approx(1e9 + t - every_s), "where it was seen last"


def test_two_that_meet_keep_their_identities() -> None:
    camera = Camera()
    for n in range(30):
        camera.answer(n * 0.2, (box(0.1 + n * 0.025), "car"), (box(0.85 - n * 0.025, 0.54), "car"))
    there = {o.id: o.box for o in camera.now()}
    assert there[1][0] > 0.7 or there[2][0] > 0.7
    assert len(there) == 2
    first = min(camera.changes[0].object, camera.changes[1].object, key=lambda o: o.box[0])
    assert there[first.id][0] > 0.5, "the one from the left is on the right now"


def test_a_parked_car_that_is_not_always_seen_is_one_object() -> None:
    rng = random.Random(4)
    camera = Camera()
    for n in range(20):
        camera.answer(n * 0.4, (box(0.5 + rng.uniform(-0.005, 0.005)), "car"))
    for n in range(20, 400):
        objects = [(box(0.5 + rng.uniform(-0.005, 0.005)), "car")] if rng.random() < 0.1 else []
        camera.answer(n * 0.4, *objects)
    assert [(c.phase, c.object.id) for c in camera.changes] == [("new", 1)]
    camera.answer(400 * 0.4 + 100)
    assert camera.changes[-1].phase == "end"


def test_one_that_is_seen_once_is_nothing() -> None:
    camera = Camera()
    assert camera.answer(0, (box(0.5), "car")) == []
    assert camera.answer(4) == []
    assert camera.state.tracks == ()


def test_one_that_most_answers_do_not_show_is_nothing() -> None:
    camera = Camera()
    for n in range(60):
        camera.answer(n * 0.2, *([(box(0.5), "car")] if n % 5 == 0 else []))
    assert camera.changes == [], "twice in twelve answers says too little"
    slow = Camera()
    for n in range(4):
        slow.answer(n * 1.0, *([(box(0.5), "car")] if n in (0, 2) else []))
    assert [c.phase for c in slow.changes] == ["new"], "where answers are rare, two must do"


def test_a_bar_of_scores() -> None:
    unsure, sure = Camera(), Camera()
    for n in range(3):
        for camera, score in ((unsure, 0.3), (sure, 0.6)):
            done = step(camera.state, seen(n * 0.4, (box(0.5), "car"), score=score), (), camera.limits)
            camera.state, camera.changes = done.state, [*camera.changes, *done.changes]
    assert unsure.changes == []
    assert [c.phase for c in sure.changes] == ["new"]


def test_a_part_of_an_object_is_no_other_object() -> None:
    camera = Camera()
    for n in range(5):
        camera.answer(n * 0.4, (box(0.5, size=0.2), "car"), (box(0.5, size=0.1), "car"))
    assert len(camera.now()) == 1
    other = Camera()
    for n in range(5):
        other.answer(n * 0.4, (box(0.5, size=0.2), "bus"), (box(0.5, size=0.1), "person"))
    assert len(other.now()) == 2, "a person in front of a bus"


def test_a_wrong_name_now_and_then_changes_nothing() -> None:
    camera = Camera()
    for n in range(20):
        camera.answer(n * 0.2, (box(0.3 + 0.01 * n), "bus" if n % 5 == 2 else "car"))
    assert [(c.phase, c.object.class_name) for c in camera.changes] == [("new", "car")]


def test_a_name_that_was_wrong_at_first_is_put_right_once() -> None:
    camera = Camera()
    for n in range(20):
        camera.answer(n * 0.2, (box(0.3 + 0.01 * n), "bus" if n < 3 else "car"))
    phases = [(c.phase, c.object.class_name) for c in camera.changes]
    assert phases == [("new", "bus"), ("update", "car")]


def test_two_names_for_one_box_are_one_object() -> None:
    camera = Camera()
    for n in range(5):
        camera.answer(n * 0.2, (box(0.5), "car"), (box(0.505), "truck"))
    assert len(camera.now()) == 1


def test_stay_in_a_zone() -> None:
    camera = Camera([DRIVE])
    phases = []
    for n in range(30):
        phases += camera.answer(n * 0.5, (box(0.2 + 0.02 * n), "car"))
    inside = camera.now()[0]
    assert phases == [("new", 1), ("update", 1), ("update", 1)], "it came in and went out"
    assert inside.zones == ()
    assert 4.5 <= inside.zone_s["drive"] <= 5.5, "0.2 of the picture at 0.04 a second"
    assert inside.dwell_s == inside.zone_s["drive"]


def test_the_zone_that_an_object_was_seen_in_last_is_the_last() -> None:
    west = Zone("west", ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0)))
    east = Zone("east", ((0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0)))
    for places, ways in (((0.3, 0.4, 0.45, 0.55), ("west", "east")), ((0.7, 0.6, 0.55, 0.45), ("east", "west"))):
        camera = Camera([west, east])
        for n, x in enumerate(places):
            camera.answer(n * 0.25, (box(x), "car"))
        assert camera.now()[0].zones == ways, "it has left the first one only when it was outside for a while"
        assert tuple(camera.now()[0].zone_s) == ways


def test_a_zone_for_other_classes_does_not_count() -> None:
    camera = Camera([Zone("drive", DRIVE.polygon, ("bus",))])
    for n in range(10):
        camera.answer(n * 0.5, (box(0.5), "car"))
    assert camera.now()[0].zone_s == {}


def test_trembling_at_a_zones_border_is_one_stay() -> None:
    camera = Camera([DRIVE])
    for n in range(40):
        camera.answer(n * 0.4, (box(0.4 + (0.004 if n % 3 else -0.004)), "car"))
    assert [c.phase for c in camera.changes] == ["new"]
    assert camera.now()[0].zone_s["drive"] > 14


def test_a_camera_that_answers_no_more_loses_its_objects_in_time() -> None:
    camera = Camera()
    for n in range(3):
        camera.answer(n * 0.2, (box(0.5 + 0.01 * n), "car"))
    assert expire(camera.state, 1.0).changes == ()
    assert [c.phase for c in expire(camera.state, 5.0).changes] == ["end"]
    assert [c.object.ended_utc_s for c in finish(camera.state).changes] == [1e9 + 0.4]


def test_old_answers_and_crowds() -> None:
    camera = Camera(max_objects=5)
    crowd: list[Found] = [(box(0.05 + 0.1 * n, size=0.05), "car") for n in range(8)]
    for n in range(4):
        camera.answer(n * 0.2, *crowd)
    assert len(camera.now()) == 5
    assert camera.state.refused == 12
    before = camera.state
    assert camera.answer(0.3, *crowd) == []
    assert camera.state is before, "an answer that is older changes nothing"


BOXES = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0.01, 0.3), st.floats(0.01, 0.3)).map(
    lambda v: (v[0], v[1], min(1.0, v[0] + v[2]), min(1.0, v[1] + v[3]))
)
ANSWERS = st.lists(
    st.tuples(st.floats(0.05, 4), st.lists(st.tuples(BOXES, st.sampled_from(("car", "bus"))), max_size=6)), max_size=15
)


@given(ANSWERS, st.randoms(use_true_random=False))
def test_what_holds_for_any_answers(answers: list[tuple[float, list[Found]]], rng: random.Random) -> None:
    one, other = Camera([DRIVE]), Camera([DRIVE])
    there: set[int] = set()
    ever: set[int] = set()
    at_s = 0.0
    for passed, objects in answers:
        at_s += passed
        shuffled = list(objects)
        rng.shuffle(shuffled)
        came = len(one.changes)
        one.answer(at_s, *objects)
        other.answer(at_s, *shuffled)
        assert one.state == other.state, "the order of an answer's objects does not matter"
        for change in one.changes[came:]:
            number = change.object.id
            if change.phase == "new":
                assert number not in ever, "a number is given once"
                there.add(number)
                ever.add(number)
            else:
                assert number in there
                if change.phase == "end":
                    there.remove(number)
        now = [o for o in one.now() if o.seen_utc_s == 1e9 + at_s]
        assert len({o.box for o in now}) == len(now), "never two objects on one box"
        given = {tuple(np.array(b, np.float32).astype(float)) for b, _ in objects}
        assert all(o.box in given for o in now), "an object that is seen is where something was answered"
        assert {o.id for o in one.now()} == there
        for tracked in one.now():
            assert tracked.age_s <= at_s
            assert all(0 <= s <= tracked.age_s + 1e-6 for s in tracked.zone_s.values())
    assert {c.object.id for c in finish(one.state).changes} == there
