"""Accuracy: worked examples and properties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.accuracy import (
    Counts,
    accuracy,
    box_iou,
    classification_accuracy,
    count,
    detection_accuracy,
    match,
    realised,
)
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections

A, B = [0.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.9, 0.9]


@st.composite
def detections(draw: st.DrawFn, most: int = 6, classes: int = 3) -> Detections:
    n = draw(st.integers(0, most))
    corner = st.tuples(st.floats(0, 0.8), st.floats(0, 0.8), st.floats(0.05, 0.2), st.floats(0.05, 0.2))
    boxes = [(x, y, x + w, y + h) for x, y, w, h in draw(st.lists(corner, min_size=n, max_size=n))]
    scores = draw(st.lists(st.floats(0.3, 1), min_size=n, max_size=n))
    names = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    return Detections.build(boxes, scores, names)


def test_iou_by_hand() -> None:
    iou = box_iou(np.array([A, [0.1, 0.0, 0.3, 0.2]], np.float32), np.array([A, B, [0.3, 0.3, 0.3, 0.3]], np.float32))
    assert iou == pytest.approx(np.array([[1, 0, 0], [1 / 3, 0, 0]]), abs=1e-6)


def test_best_score_takes_the_object_first() -> None:
    answer = Detections.build([A, A, B], [0.6, 0.9, 0.8], [0, 0, 1])
    labels = Detections.build([A, B], [1, 1], [0, 0])
    assert match(answer, labels, 0.5).tolist() == [-1, 0, -1]
    assert count(answer, labels, 0.5) == Counts(right=1, wrong=2, missed=1)
    assert count(answer, labels, 0.5).f1 == pytest.approx(0.4)


def test_detection_worked_example() -> None:
    half = [0.0, 0.0, 0.2, 0.09]  # IoU 0.45 with A: right at 0.3, wrong at 0.5
    frames = [
        (Detections.build([A, B], [0.9, 0.8], [0, 1]), Detections.build([A, B], [1, 1], [0, 1])),
        (Detections.build([half, B], [0.9, 0.4], [0, 1]), Detections.build([A, B], [1, 1], [0, 1])),
    ]
    result = detection_accuracy(frames, 2, score_threshold=0.5)
    # IoU 0.5: right 2, wrong 1, missed 2; the answer with score 0.4 is not counted as given.
    assert result.value == result.f1_iou50 == pytest.approx(4 / 7)
    assert result.f1_iou30 == pytest.approx(6 / 7)
    # Class 0: hits (1, 0) of 2 objects: 0.5. Class 1: both found, ranked by score: 1.
    assert result.map50 == pytest.approx(0.75)
    assert (result.frames, result.objects) == (2, 4)


def test_classification_worked_example() -> None:
    labels = Detections.build([A, B, [0.4, 0.0, 0.5, 0.1]], [1, 1, 1], [0, 1, 1])
    answer = Detections.build([A, B, [0.5, 0.5, 0.7, 0.9]], [0.3, 0.9, 0.9], [0, 2, 1])
    # A right; B is named by the better overlapping answer, which says 2; no answer named the third.
    result = classification_accuracy([(answer, labels)])
    assert result.value == pytest.approx(1 / 3)
    assert (result.frames, result.objects, result.f1_iou50) == (1, 3, None)


def test_nothing_to_see() -> None:
    none = Detections.empty()
    assert detection_accuracy([(none, none)], 3).value == 1.0
    assert detection_accuracy([(Detections.build([A], [0.9], [0]), none)], 3).value == 0.0
    assert detection_accuracy([(Detections.build([A], [0.9], [0]), none)], 3).map50 == 0.0
    assert classification_accuracy([(none, none)]).value == 1.0
    assert classification_accuracy([]).frames == 0


def test_realised_uses_the_recorded_answers() -> None:
    right, wrong = Detections.build([A], [0.9], [0]), Detections.build([A], [0.9], [1])
    sampled = [SampledFrame("c", 1, n, 0.0, Path("x.jpg"), right if n else wrong, "v1", 0.5) for n in range(2)]
    frames = [LabelledFrame(s, right, "teacher") for s in sampled]
    assert realised("detection", frames, 2).value == 0.5
    assert realised("classification", frames, 2).value == 0.5


@given(st.lists(detections(), min_size=1, max_size=4), st.sampled_from(["detection", "classification"]))
@settings(max_examples=60, deadline=None)
def test_labels_answer_themselves_perfectly(labels: list[Detections], task: str) -> None:
    pairs = [(Detections(x.boxes, np.ones_like(x.scores), x.classes), x) for x in labels]
    if task == "classification" and any(box_iou(x.boxes, x.boxes).sum() > len(x) + 1e-6 for x in labels):
        return  # overlapping objects of other classes may name each other only if they are the same box
    result = accuracy(task, pairs, 3)  # type: ignore[arg-type]
    assert result.value == 1.0
    assert result.map50 in (None, 1.0)


@given(st.lists(st.tuples(detections(), detections()), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_bounds_order_and_threshold(pairs: list[tuple[Detections, Detections]]) -> None:
    result = detection_accuracy(pairs, 3)
    assert result.f1_iou30 is not None
    assert result.map50 is not None
    assert 0.0 <= result.value <= result.f1_iou30 + 1e-12 <= 1.0 + 1e-12
    assert 0.0 <= result.map50 <= 1.0
    assert 0.0 <= classification_accuracy(pairs).value <= 1.0
    # The order of the frames and of the objects does not matter where scores differ.
    assert detection_accuracy(pairs[::-1], 3).value == result.value
    for answer, labels in pairs:
        owners = match(answer, labels, 0.5)
        used = owners[owners >= 0]
        assert len(set(used.tolist())) == len(used)
        assert (answer.classes[owners >= 0] == labels.classes[used]).all()
        total = count(answer, labels, 0.5, 0.0)
        assert total.right + total.wrong == len(answer)
        assert total.right + total.missed == len(labels)


@given(detections(), detections(), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_wrong_answer_more_never_helps(answer: Detections, labels: Detections, klass: int) -> None:
    extra = Detections.build(
        [*answer.boxes, [0.99, 0.99, 1.0, 1.0]], [*answer.scores, 0.3 + klass * 0.1], [*answer.classes, klass % 3]
    )
    assert detection_accuracy([(extra, labels)], 3).value <= detection_accuracy([(answer, labels)], 3).value + 1e-12
