"""Accuracy of a student on labelled frames, answered afresh."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.accuracy import Pair, accuracy
from edge.core.labels import Accuracy, LabelledFrame
from edge.core.vision import Detections
from edge.students.weights import AnyStudent
from edge.training.pictures import read_frame

BATCH = 8


def evaluate_pairs(
    student: AnyStudent,
    frames: Sequence[LabelledFrame],
    score: float | None = None,
    resolution: float = 1.0,
) -> list[Pair]:
    """(fresh answer, labels) of each frame whose picture can be read.

    Detection: the student's finds. Classification: how it names the golden boxes (finding them is not its job).
    """
    pairs: list[Pair] = []
    readable = ((frame, read_frame(frame)) for frame in frames)
    if student.spec.task == "classification":
        for frame, picture in readable:
            if picture is None:
                continue
            boxes = frame.labels.boxes
            classes, scores = student.name(picture, boxes, resolution)
            pairs.append((Detections(boxes, scores, classes), frame.labels))
        return pairs
    waiting = []
    for frame, picture in readable:
        if picture is not None:
            waiting.append((frame, picture))
        if len(waiting) == BATCH:
            pairs += _found(student, waiting, score, resolution)
            waiting = []
    return pairs + _found(student, waiting, score, resolution)


def _found(student: AnyStudent, batch: list, score: float | None, resolution: float) -> list[Pair]:  # type: ignore[type-arg]
    answers = student.detect([picture for _, picture in batch], resolution, score)
    return [(answer, frame.labels) for answer, (frame, _) in zip(answers, batch, strict=True)]


def evaluate(
    student: AnyStudent,
    frames: Sequence[LabelledFrame],
    score: float | None = None,
    resolution: float = 1.0,
) -> Accuracy:
    """Accuracy of fresh answers on labelled frames: for the gate on held-out data and for the frozen student.

    `Accuracy.frames` counts the frames whose picture could be read. `edge.core.accuracy.realised` measures the answers
    really given instead.
    """
    return accuracy(student.spec.task, evaluate_pairs(student, frames, score, resolution), len(student.spec.classes))
