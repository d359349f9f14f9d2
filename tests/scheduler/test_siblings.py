"""Which sibling a new camera begins with, and which student a retraining begins with."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.accuracy import Counts
from edge.core.camera_look import CameraLook
from edge.core.errors import InvalidValue
from scheduler.siblings import NOT_ALIKE, KnownCamera, Start, choose_sibling, choose_start, distance

LOOK = CameraLook("yolox", 4, (1.0, 2.0, 3.0), (0.5, 0.5, 0.5), -2.0, 0.4, 2.0, (0.5, 0.6), 0.4, 1.78)
unit = st.floats(0.0, 1.0)
features = st.tuples(*[st.floats(-5, 5)] * 3)
looks = st.builds(
    CameraLook,
    detector=st.just("yolox"),
    pictures=st.integers(1, 50),
    features=features,
    spread=st.tuples(*[st.floats(0.01, 2)] * 3),
    height=st.floats(-6, 0),
    height_spread=st.floats(0, 2),
    crowd=st.floats(0, 5),
    place=st.tuples(unit, unit),
    brightness=unit,
    shape=st.floats(0.5, 2),
)
counts = st.builds(Counts, st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))


@given(a=looks, b=looks)
def test_distance_is_the_same_from_both_sides_and_nothing_from_itself(a: CameraLook, b: CameraLook) -> None:
    assert distance(a, b) == pytest.approx(distance(b, a))
    assert distance(a, a) == 0.0
    assert distance(a, b) >= 0.0


@given(mine=looks, others=st.lists(looks, max_size=5), limit=st.floats(0, 10))
def test_the_sibling_is_the_nearest_one_and_never_beyond_the_limit(
    mine: CameraLook, others: list[CameraLook], limit: float
) -> None:
    known = [KnownCamera(f"c{n}", f"v{n}", look) for n, look in enumerate(others)]
    found = choose_sibling(mine, known, limit)
    nearest = min((distance(mine, k.look) for k in known), default=math.inf)
    if nearest > limit:
        assert found is None
    else:
        assert found is not None
        assert found.distance == nearest <= limit
        assert found.version == found.camera.replace("c", "v")
    assert choose_sibling(mine, known[::-1], limit) == found, "the order in which cameras are given does not matter"


@pytest.mark.parametrize(
    "change",
    [
        {"features": (2.5, 2.0, 3.0)},
        {"height": -1.0},
        {"height_spread": 0.9},
        {"crowd": 0.0},
        {"place": (0.5, 0.2)},
        {"brightness": 0.9},
        {"shape": 1.0},
    ],
)
def test_everything_that_a_look_holds_counts(change: dict[str, float]) -> None:
    assert distance(LOOK, dataclasses.replace(LOOK, **change)) > 0.1


def test_a_camera_of_another_detector_is_no_sibling() -> None:
    other = dataclasses.replace(LOOK, detector="picodet")
    assert distance(LOOK, other) == math.inf
    assert choose_sibling(LOOK, [KnownCamera("a", "v", other)]) is None


def test_a_camera_that_sees_other_things_is_no_sibling() -> None:
    other = dataclasses.replace(LOOK, features=(9.0, -6.0, 12.0), height=-0.5, crowd=0.0)
    assert distance(LOOK, other) > NOT_ALIKE
    assert choose_sibling(LOOK, [KnownCamera("a", "v", other)]) is None


def test_a_camera_is_asked_once() -> None:
    with pytest.raises(InvalidValue, match="siblings"):
        choose_sibling(LOOK, [KnownCamera("a", "v1", LOOK), KnownCamera("a", "v2", LOOK)])


@given(frames=st.lists(counts, min_size=1, max_size=20), seed=st.integers(0, 9))
def test_the_student_in_force_is_the_start_among_equals(frames: list[Counts], seed: int) -> None:
    own, same = Start("own", tuple(frames)), Start("same", tuple(frames))
    assert choose_start(own, [same], seed) is own


@given(data=st.data(), number=st.integers(1, 20), seed=st.integers(0, 9))
def test_a_start_that_is_taken_is_better_and_the_best_of_those_surely_better(
    data: st.DataObject, number: int, seed: int
) -> None:
    frames = st.lists(counts, min_size=number, max_size=number).map(tuple)
    own = Start("own", data.draw(frames))
    others = [Start(f"o{n}", data.draw(frames)) for n in range(2)]
    chosen = choose_start(own, others, seed)
    if chosen is not own:
        assert chosen.f1 > own.f1 - 1e-9
        alone = [o for o in others if choose_start(own, [o], seed) is o]
        assert chosen.f1 == max(o.f1 for o in alone)


def test_a_sibling_that_is_clearly_better_is_the_start() -> None:
    own = Start("own", (Counts(2, 2, 4),) * 10)
    assert choose_start(own, [Start("sibling", (Counts(5, 1, 1),) * 10)]).version == "sibling"


def test_a_start_that_is_better_on_one_picture_of_many_is_noise() -> None:
    own = Start("own", (Counts(2, 1, 1), Counts(3, 1, 1)) * 5)
    other = Start("other", (*own.frames[:9], Counts(4, 0, 1)))
    assert other.f1 > own.f1
    assert choose_start(own, [other]) is own


def test_without_pictures_the_student_in_force_is_the_start() -> None:
    own = Start("own", ())
    assert choose_start(own, [Start("other", ())]) is own


def test_starts_are_judged_on_the_same_pictures() -> None:
    with pytest.raises(InvalidValue, match="other"):
        choose_start(Start("own", (Counts(),)), [Start("other", ())])
