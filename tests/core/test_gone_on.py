"""Answers that go on: the arithmetic, and what another student would have had at the same instant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.labels import SampledFrame
from edge.core.shadow import stood_in
from edge.core.vision import Detections
from edge.core.ways import FURTHEST_S, MovingAnswer, gone_on

CAR = Detections.build([[0.4, 0.4, 0.5, 0.5]], [0.9], [0])


def ways(*rows: tuple[float, float, float]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, 3)


def test_an_object_is_where_its_way_leads_and_grows() -> None:
    later = gone_on(CAR, ways((0.2, -0.1, np.log(2))), 1.0)
    assert np.allclose(later.boxes, [[0.55, 0.25, 0.75, 0.45]], atol=1e-6)


def test_one_that_left_the_picture_is_gone_and_one_at_its_edge_is_cut() -> None:
    two = Detections.build([[0.8, 0.4, 0.9, 0.5], [0.1, 0.1, 0.2, 0.2]], [0.9, 0.8], [0, 1])
    later = gone_on(two, ways((0.13, 0.0, 0.0), (0.0, 0.0, 0.0)), 1.0)
    assert np.allclose(later.boxes[0], [0.93, 0.4, 1.0, 0.5], atol=1e-6)
    assert gone_on(two, ways((0.2, 0.0, 0.0), (0.0, 0.0, 0.0)), 1.0).classes.tolist() == [1]


def test_without_ways_or_time_the_answer_stays_as_it_is() -> None:
    assert gone_on(CAR, None, 1.0) is CAR
    assert gone_on(CAR, ways((1, 1, 1)), 0.0) is CAR
    assert gone_on(Detections.empty(), ways(), 1.0).boxes.shape == (0, 4)


def test_another_number_of_ways_than_objects_is_refused() -> None:
    with pytest.raises(InvalidValue, match="ways"):
        gone_on(CAR, ways((0, 0, 0), (0, 0, 0)), 1.0)


@given(
    st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=6), st.floats(-3, 3), st.floats(-3, 3),
    st.floats(-4, 4), st.floats(0, 100),
)  # fmt: skip
def test_it_is_always_an_answer_and_nothing_goes_on_for_ever(
    corners: list[tuple[float, float, float, float]], x: float, y: float, growth: float, passed: float
) -> None:
    boxes = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    answer = Detections.build(boxes, [0.5] * len(boxes), range(len(boxes)))
    later = gone_on(answer, ways(*[(x, y, growth)] * len(boxes)), passed)
    assert set(later.classes.tolist()) <= set(range(len(boxes)))
    furthest = gone_on(answer, ways(*[(x, y, growth)] * len(boxes)), FURTHEST_S)
    if passed >= FURTHEST_S:
        assert np.array_equal(later.boxes, furthest.boxes)


def frame(going: MovingAnswer | None) -> SampledFrame:
    return SampledFrame("gate", 1, 7, 1e9, Path("7.jpg"), CAR, "v1", 0.5, going=going)


def test_another_students_object_goes_on_as_the_one_that_it_overlaps() -> None:
    going = MovingAnswer(CAR, ways((0.2, 0.0, 0.0)))
    other = Detections.build([[0.41, 0.4, 0.5, 0.52], [0.0, 0.0, 0.1, 0.1]], [0.8, 0.7], [1, 0])
    moved = stood_in(other, frame(going))
    assert np.allclose(moved.boxes[0], [0.51, 0.4, 0.6, 0.52], atol=1e-6), "half a second of its way"
    assert np.allclose(moved.boxes[1], other.boxes[1]), "its way is not known"


def test_a_fresh_answer_and_one_that_stayed_are_as_they_are() -> None:
    assert stood_in(CAR, frame(None)) is CAR
    nothing = Detections.empty()
    assert stood_in(nothing, frame(MovingAnswer(CAR, ways((1, 0, 0))))) is nothing
    assert stood_in(CAR, frame(MovingAnswer(nothing, ways()))) is CAR


def test_a_sample_is_read_back_with_what_its_answer_was_made_of_and_one_of_an_older_version_without() -> None:
    sample = frame(MovingAnswer(CAR, ways((0.25, 0.0, -0.5))))
    again = SampledFrame.from_json(sample.to_json())
    assert again.going is not None
    assert again.going.ways.tolist() == [[0.25, 0.0, -0.5]]
    older = {k: v for k, v in sample.to_json().items() if k != "going"}
    assert SampledFrame.from_json(older).going is None
