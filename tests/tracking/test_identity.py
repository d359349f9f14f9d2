"""One car is one event: gaps, parked cars, crossings, doubtful answers, looks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.tracks import ObjectChange, Seen, TrackerLimits
from edge.core.zones import Box
from edge.tracking import TrackerState, expire, finish, live, step

#: Box, class, score, look.
Found = tuple[Box, str, float, float]


def box(x: float, y: float = 0.5, size: float = 0.1) -> Box:
    """Centred."""
    return x - size / 2, y - size / 2, x + size / 2, y + size / 2


def found(
    x: float, y: float = 0.5, name: str = "car", score: float = 0.8, look: float = 0.5, size: float = 0.1
) -> Found:
    return box(x, y, size), name, score, look


class Camera:
    def __init__(self, sure: float = 0.0, with_looks: bool = False, **limits: Any) -> None:
        self.state, self.limits, self.next_id = TrackerState("gate"), TrackerLimits(**limits), 1
        self.sure, self.with_looks = sure, with_looks
        self.changes: list[ObjectChange] = []

    def answer(self, at_s: float, *objects: Found) -> None:
        shown = np.array([[o[3]] * 4 for o in objects], np.float32).reshape(-1, 4) if self.with_looks else None
        seen = Seen(
            at_s,
            1e9 + at_s,
            np.array([o[0] for o in objects], np.float32).reshape(-1, 4),
            np.array([o[2] for o in objects], np.float32),
            tuple(o[1] for o in objects),
            self.sure,
            shown,
        )
        done = step(self.state, seen, (), self.limits, self.next_id)
        self.state, self.next_id = done.state, done.next_id
        self.changes += done.changes

    @property
    def announced(self) -> list[int]:
        return [c.object.id for c in self.changes if c.phase == "new"]

    @property
    def ended(self) -> list[int]:
        return [c.object.id for c in self.changes if c.phase == "end"]


def test_a_parked_car_that_flickers_for_ten_minutes_is_one_object() -> None:
    rng = random.Random(7)
    camera = Camera()
    for n in range(5 * 600):
        shown = n < 60 or rng.random() < 0.35
        tremble = [rng.gauss(0, 0.006) for _ in range(2)]
        camera.answer(n * 0.2, *([found(0.5 + tremble[0], 0.5 + tremble[1])] if shown else []))
    assert (camera.announced, camera.ended) == ([1], [])


def test_cars_pass_before_a_parked_one() -> None:
    camera = Camera()
    for n in range(300):
        x = -0.1 + (n % 40) * 0.04
        passing = [found(x, 0.53)] if 0.05 < x < 0.95 else []
        hidden = bool(passing) and abs(x - 0.5) < 0.08
        camera.answer(n * 0.2, *passing, *([] if hidden else [found(0.5, 0.45)]))
    parked = [o for o in live(camera.state) if abs((o.box[0] + o.box[2]) / 2 - 0.5) < 0.03 and o.still]
    assert len(parked) == 1
    assert parked[0].age_s > 55, "it is the one that stood there at the beginning"


@pytest.mark.parametrize("look", [False, True])
def test_two_that_cross_stay_two(look: bool) -> None:
    camera = Camera(with_looks=look)
    for n in range(40):
        camera.answer(n * 0.2, found(0.1 + n * 0.02, 0.5, look=0.2), found(0.9 - n * 0.02, 0.52, look=0.8))
    assert camera.announced == [1, 2]
    there = {o.id: o.box[0] for o in live(camera.state)}
    started = {c.object.id: c.object.box[0] for c in camera.changes if c.phase == "new"}
    assert all((started[k] < 0.5) == (there[k] > 0.5) for k in (1, 2)), "each is on the other side now"


def test_names_that_change_do_not_split_an_object() -> None:
    camera = Camera()
    names = ("car", "truck", "car", "bus", "truck")
    for n in range(40):
        camera.answer(n * 0.2, found(0.1 + 0.02 * n, name=names[n % 5]))
    assert camera.announced == [1]


@pytest.mark.parametrize("gap_s", [1.0, 2.0, 3.0, 4.0, 6.0])
def test_one_that_is_not_seen_for_seconds_in_mid_picture_goes_on(gap_s: float) -> None:
    camera = Camera()
    for n in range(100):
        at_s = n * 0.2
        hidden = 7.0 < at_s <= 7.0 + gap_s
        camera.answer(at_s, *([] if hidden else [found(0.1 + 0.04 * at_s, name="person", size=0.06)]))
    assert camera.announced == [1]
    assert live(camera.state)[0].age_s > 19


def test_the_next_car_is_another_one() -> None:
    camera = Camera()
    for n in range(200):
        at_s = n * 0.2
        x = (at_s % 5.0) * 0.25
        camera.answer(at_s, *([found(x)] if 0.05 < x < 0.95 else []))
    assert len(camera.announced) == 8, "one every five seconds, on the same lane"


def test_one_that_turns_up_elsewhere_is_another_one() -> None:
    camera = Camera()
    for n in range(60):
        at_s = n * 0.2
        camera.answer(at_s, found(0.2 + 0.02 * at_s, 0.3) if at_s < 5 else found(0.9 - 0.02 * at_s, 0.8))
    assert camera.announced == [1, 2]


def test_after_a_reconnect() -> None:
    camera = Camera()
    for n in range(100):
        camera.answer(n * 0.2, found(0.7, 0.7), found(0.1 + 0.006 * n, 0.3))
    assert camera.announced == [1, 2]
    # The camera says nothing for twenty seconds, then all is as it was: the parked car is there, another passes.
    gone = expire(camera.state, 39.8, camera.limits)
    camera.state, camera.changes = gone.state, [*camera.changes, *gone.changes]
    for n in range(200, 260):
        camera.answer(n * 0.2, found(0.7, 0.7), found(0.1 + 0.006 * (n - 200), 0.3))
    assert len(camera.announced) == 3
    assert camera.ended == [next(c.object.id for c in camera.changes if c.object.box[1] < 0.5)]


def test_an_unsure_answer_goes_on_with_an_object_and_begins_none() -> None:
    camera = Camera(sure=0.4)
    for n in range(50):
        camera.answer(n * 0.2, found(0.1 + 0.015 * n, score=0.8 if n < 8 else 0.25), found(0.5, 0.9, score=0.3))
    assert camera.announced == [1]
    assert live(camera.state)[0].answers == 50


def test_a_look_decides_who_is_who_after_a_gap() -> None:
    def who(first: float, after: float) -> int:
        camera = Camera(with_looks=True)
        for n in range(20):
            camera.answer(n * 0.2, found(0.3 + 0.006 * n, look=first))
        for n in range(20, 50):
            camera.answer(n * 0.2, *([found(0.3 + 0.006 * n, look=after)] if n >= 32 else []))
        return len(camera.announced)

    assert (who(0.5, 0.5), who(0.2, 0.9)) == (1, 2)


def test_a_box_beside_a_reported_one_is_its_part_until_it_parts() -> None:
    camera = Camera()
    for n in range(20):
        camera.answer(n * 0.2, found(0.5, size=0.2), found(0.55, 0.53, size=0.09))
    assert camera.announced == [1]
    for n in range(20, 40):
        camera.answer(n * 0.2, found(0.5, size=0.2), found(0.55 + 0.015 * (n - 20), 0.53, size=0.09))
    assert camera.announced == [1, 2]


def strip(left: float, right: float, look: float = 0.5) -> Found:
    """A box of the same height as others."""
    return (left, 0.45, right, 0.55), "car", 0.7, look


def test_a_part_of_one_that_is_shown_in_parts_for_a_while_is_none_of_its_own() -> None:
    camera = Camera()
    for n in range(60):
        # A pole stands before it: it is shown whole, or both sides of the pole are.
        parts = n % 10 >= 4
        camera.answer(n * 0.2, *([strip(0.4, 0.453), strip(0.455, 0.6)] if parts else [strip(0.4, 0.6)]))
    assert camera.announced == [1]


def test_two_that_stand_side_by_side_are_two() -> None:
    camera = Camera()
    for n in range(60):
        camera.answer(n * 0.2, strip(0.4, 0.5), *([strip(0.49, 0.6)] if n >= 10 else []))
    assert camera.announced == [1, 2]


def test_the_rest_of_two_parts_is_the_object_where_it_fills_its_place() -> None:
    """Its look is another one, since a part looks otherwise than the whole."""
    camera = Camera(with_looks=True)
    for n in range(20):
        camera.answer(n * 0.2, strip(0.455 if n < 10 else 0.5, 0.6, 0.1))
    for n in range(20, 22):
        camera.answer(n * 0.2, strip(0.5, 0.6, 0.1), strip(0.455, 0.542, 0.9))
    for n in range(22, 40):
        camera.answer(n * 0.2, strip(0.468, 0.575, 0.9))
    assert camera.announced == [1]


@pytest.mark.parametrize(
    ("begins", "stops"),
    [((0.455, 0.555), (0.43, 0.53)), ((0.4685, 0.5085), (0.39, 0.48))],
    ids=["it began beside it", "it moved since"],
)
def test_one_that_stops_before_a_parked_one_and_hides_it_is_another_one(
    begins: tuple[float, float], stops: tuple[float, float]
) -> None:
    camera = Camera(with_looks=True)
    for n in range(40):
        camera.answer(n * 0.2, strip(0.4, 0.5, 0.1))
    for n in range(40, 43):
        camera.answer(n * 0.2, strip(0.4, 0.5, 0.1), strip(*begins, 0.9))
    for n in range(43, 60):
        gone = min(1.0, (n - 42) / 4)
        left, right = (a + gone * (b - a) for a, b in zip(begins, stops, strict=True))
        camera.answer(n * 0.2, strip(left, right, 0.9))
    assert camera.announced == [1, 2]


def test_a_person_in_the_place_of_a_car_that_is_seen_no_longer_is_another_one() -> None:
    camera = Camera()
    for n in range(50):
        car = [found(0.5)] if n < 25 else []
        width, height = (0.04, 0.08) if n < 25 else (0.06, 0.09)
        person: Found = ((0.5 - width / 2, 0.5 - height / 2, 0.5 + width / 2, 0.5 + height / 2), "person", 0.8, 0.5)
        camera.answer(n * 0.2, *car, *([person] if n >= 20 else []))
    assert [c.object.class_name for c in camera.changes if c.phase == "new"] == ["car", "person"]


def test_a_box_around_the_whole_picture_is_nothing() -> None:
    camera = Camera()
    for n in range(20):
        whole: Found = ((0.01, 0.02, 0.99, 0.98), "car", 0.6, 0.5)
        camera.answer(n * 0.2, whole, found(0.3))
    assert camera.announced == [1]


def test_looks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"seen\.looks"):
        Seen(0, 0, np.zeros((2, 4), np.float32), np.ones(2, np.float32), ("a", "b"), 0.0, np.zeros((1, 4), np.float32))


def test_looks_come_and_go() -> None:
    """A worker of an older release sends none, and the next one does."""
    camera = Camera()
    for n in range(30):
        camera.with_looks = 10 <= n < 20
        camera.answer(n * 0.2, *([found(0.1 + 0.02 * n)] if n % 7 else []))
    assert camera.announced == [1]


SCENE = st.lists(
    st.tuples(
        st.floats(0.05, 3),
        st.lists(
            st.builds(
                found,
                st.floats(0.05, 0.95),
                st.floats(0.05, 0.95),
                st.sampled_from(("car", "bus", "person")),
                st.floats(0.1, 1),
                st.floats(0, 1),
                st.floats(0.02, 0.3),
            ),
            max_size=5,
        ),
    ),
    max_size=20,
)


@given(SCENE, st.booleans(), st.randoms(use_true_random=False))
def test_what_holds_with_doubtful_answers_and_looks(
    scene: Sequence[tuple[float, list[Found]]], with_looks: bool, rng: random.Random
) -> None:
    one, other = Camera(0.5, with_looks), Camera(0.5, with_looks)
    at_s = 0.0
    for passed, objects in scene:
        at_s += passed
        one.answer(at_s, *objects)
        other.answer(at_s, *rng.sample(objects, len(objects)))
        assert one.state == other.state
        numbers = [t.id for t in live(one.state)]
        assert len(set(numbers)) == len(numbers), "one track per object"
        began = [t.seen_utc_s - t.age_s for t in live(one.state)]
        assert all(abs(b - t.began_utc_s) < 1e-3 for b, t in zip(began, live(one.state), strict=True))
    one.changes += finish(one.state).changes
    assert one.announced == sorted(set(one.announced)), "a number is given once, in order"
    assert sorted(one.ended) == one.announced, "each announced one ends once"
    for change in one.changes:
        assert change.object.score >= 0.5, "each has been seen for sure"


@given(SCENE)
def test_nothing_is_reported_of_unsure_objects(scene: Sequence[tuple[float, list[Found]]]) -> None:
    camera = Camera(sure=1.1)
    at_s = 0.0
    for passed, objects in scene:
        at_s += passed
        camera.answer(at_s, *objects)
    assert camera.announced == []
    assert camera.state.tracks == ()


def test_boxes_that_differ_by_their_look_alone_say_the_same_in_any_order() -> None:
    one, other = Camera(0.5, with_looks=True), Camera(0.5, with_looks=True)
    alike = [found(0.5, look=look) for look in (0.0, 1.0)]
    one.answer(1.0, *alike)
    other.answer(1.0, *reversed(alike))
    assert one.state == other.state
