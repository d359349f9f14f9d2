"""Student against teacher, object by object: it must say the same as accuracy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.accuracy import count, named_right
from edge.core.disagreements import class_counts, compare
from edge.core.vision import Detections

LEFT, RIGHT = [0.1, 0.1, 0.3, 0.4], [0.6, 0.5, 0.9, 0.9]


def found(*objects: tuple[list[float], int, float]) -> Detections:
    return Detections.build([o[0] for o in objects], [o[2] for o in objects], [o[1] for o in objects])


@st.composite
def detections(draw: Any) -> Detections:
    """Few places and classes, so that things overlap."""
    n = draw(st.integers(0, 6))
    corner = st.integers(0, 5)
    objects = []
    for _ in range(n):
        x, y = draw(corner) / 10, draw(corner) / 10
        objects.append(
            ([x, y, x + draw(st.integers(2, 4)) / 10, y + 0.3], draw(st.integers(0, 2)), draw(st.floats(0, 1)))
        )
    return found(*objects)


def test_each_kind_of_disagreement_is_reported_at_its_object() -> None:
    answer = found((LEFT, 0, 0.9), (RIGHT, 0, 0.8), ([0.4, 0.1, 0.5, 0.2], 2, 0.7))
    labels = found((LEFT, 0, 0.9), (RIGHT, 1, 0.8), ([0.05, 0.6, 0.2, 0.9], 1, 0.7))
    compared = compare("detection", answer, labels)
    assert compared.student == ("right", "class", "extra")
    assert compared.teacher == ("right", "class", "missed")
    assert compared.kinds == ("missed", "extra", "class")


def test_who_agrees_does_not_disagree() -> None:
    both = found((LEFT, 0, 0.9), (RIGHT, 1, 0.2))
    assert compare("detection", both, both).kinds == ()
    assert compare("classification", both, both).kinds == ()
    assert compare("detection", Detections.empty(), Detections.empty()).kinds == ()


def test_a_classifier_is_judged_on_labelled_objects_only() -> None:
    answer = found((LEFT, 0, 0.9), (RIGHT, 1, 0.8))
    compared = compare("classification", answer, found((LEFT, 2, 0.9), ([0.05, 0.6, 0.2, 0.9], 1, 0.7)))
    assert compared.student == ("class", "unjudged")
    assert compared.teacher == ("class", "missed")
    assert compared.kinds == ("missed", "class")


@settings(max_examples=200, deadline=None)
@given(detections(), detections())
def test_detection_verdicts_are_those_of_the_accuracy(answer: Detections, labels: Detections) -> None:
    compared, counted = compare("detection", answer, labels), count(answer, labels, 0.5)
    assert compared.student.count("right") == compared.teacher.count("right") == counted.right
    assert len(answer) - compared.student.count("right") == counted.wrong
    assert len(labels) - compared.teacher.count("right") == counted.missed
    assert compared.student.count("class") == compared.teacher.count("class")
    assert (compared.kinds == ()) == (counted.wrong + counted.missed == 0)


@settings(max_examples=200, deadline=None)
@given(detections(), detections())
def test_classification_verdicts_are_those_of_the_accuracy(answer: Detections, labels: Detections) -> None:
    compared, (right, named) = compare("classification", answer, labels), named_right(answer, labels)
    assert compared.teacher.count("right") == right
    assert compared.teacher.count("missed") == len(labels) - named


def test_every_class_is_counted_and_the_background_is_not() -> None:
    assert class_counts(("car", "bus", "person"), np.array([0, 2, 0, -1, 3])) == {"car": 2, "bus": 0, "person": 1}
