"""Where the student and its teacher disagree about one picture, object by object (numpy only)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import NAMING_IOU, box_iou, match
from edge.core.vision import Detections, Task

#: Of an object: both say the same; the student saw what the teacher did not; the teacher saw what the student did not;
#: both saw it and call it differently; undecided (a classifier's answer about an object that the teacher did not
#: label).
Verdict = Literal["right", "extra", "missed", "class", "unjudged"]
#: An answer and a label are of the same object from this overlap on; the one that accuracy is counted at.
IOU = 0.5


@dataclass(frozen=True)
class Comparison:
    """A verdict for each of the student's answers and for each of the teacher's labels, in their order."""

    student: tuple[Verdict, ...]
    teacher: tuple[Verdict, ...]

    @property
    def kinds(self) -> tuple[Verdict, ...]:
        """The kinds of disagreement in the picture, of "missed", "extra" and "class"; empty: they agree."""
        found = {*self.student, *self.teacher}
        return tuple(kind for kind in _DISAGREEMENTS if kind in found)


_DISAGREEMENTS: tuple[Verdict, ...] = ("missed", "extra", "class")


def compare(task: Task, answer: Detections, labels: Detections) -> Comparison:
    """The verdict on each answer and each label. Counted as accuracy counts: "right" is right there, too."""
    return _detection(answer, labels) if task == "detection" else _classification(answer, labels)


def _detection(answer: Detections, labels: Detections) -> Comparison:
    student: list[Verdict] = ["extra"] * len(answer)
    teacher: list[Verdict] = ["missed"] * len(labels)
    owner = match(answer, labels, IOU)
    for n, label in enumerate(owner):
        if label >= 0:
            student[n] = teacher[label] = "right"
    # Boxes left over may be the same object under another name.
    mine = np.flatnonzero(owner < 0)
    theirs = np.array([n for n, verdict in enumerate(teacher) if verdict == "missed"], np.int64)
    for n, label in enumerate(match(_nameless(answer.select(mine)), _nameless(labels.select(theirs)), IOU)):
        if label >= 0:
            student[mine[n]] = teacher[theirs[label]] = "class"
    return Comparison(tuple(student), tuple(teacher))


def _nameless(found: Detections) -> Detections:
    return Detections(found.boxes, found.scores, np.zeros(len(found), np.int64))


def _classification(answer: Detections, labels: Detections) -> Comparison:
    student: list[Verdict] = ["unjudged"] * len(answer)
    teacher: list[Verdict] = ["missed"] * len(labels)
    if len(answer) and len(labels):
        overlap = box_iou(answer.boxes, labels.boxes)
        for label, n in enumerate(overlap.argmax(0)):
            if overlap[n, label] >= NAMING_IOU:
                verdict: Verdict = "right" if answer.classes[n] == labels.classes[label] else "class"
                teacher[label] = verdict
                # An answer may name several objects; one that it names wrong is worth knowing.
                student[n] = "class" if "class" in (verdict, student[n]) else "right"
    return Comparison(tuple(student), tuple(teacher))


def class_counts(classes: tuple[str, ...], found: NDArray[np.int64]) -> dict[str, int]:
    """Objects per class name, every class named; indices outside the list (a classifier's background) count nowhere."""
    counts = Counter(int(c) for c in found)
    return {name: counts[index] for index, name in enumerate(classes)}
