"""Accuracy of answers against golden labels (numpy only).

Detection: F1 at IoU 0.5 (the headline; micro: one count of right, wrong and missed objects over all frames and
classes), F1 at IoU 0.3, and mAP at IoU 0.5. Classification: share of golden objects whose answer has the right class
(Ekya, thesis section 2.3.1). The matching is greedy, best score first, as in PASCAL VOC and COCO.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.labels import Accuracy, LabelledFrame
from edge.core.vision import Detections, Task

#: (the student's answer, the golden labels) of one frame, both in the camera's class list.
Pair = tuple[Detections, Detections]

#: Answers with a smaller score are not counted as given (F1); they only take part in the ranking of mAP. By default
#: every answer counts: a student withholds answers that are not to count.
SCORE_THRESHOLD = 0.0
#: An answer names a golden object when they overlap at least this much (classification).
NAMING_IOU = 0.3


def box_iou(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Intersection over union of boxes (N, 4) and (M, 4) xyxy: (N, M). Empty boxes overlap nothing."""
    one, two = np.asarray(a, np.float64).reshape(-1, 4), np.asarray(b, np.float64).reshape(-1, 4)
    low = np.maximum(one[:, None, :2], two[None, :, :2])
    high = np.minimum(one[:, None, 2:], two[None, :, 2:])
    both = np.prod(np.clip(high - low, 0.0, None), axis=2)
    area_one = np.prod(np.clip(one[:, 2:] - one[:, :2], 0.0, None), axis=1)
    area_two = np.prod(np.clip(two[:, 2:] - two[:, :2], 0.0, None), axis=1)
    union = area_one[:, None] + area_two[None, :] - both
    out: NDArray[np.float64] = both / np.where(union > 0, union, 1.0)
    return out


def best_pairs(overlap: NDArray[np.float64], least: float) -> list[tuple[int, int]]:
    """Pairs (row, column) that overlap by `least` or more, each row and each column once, the best first; of equal ones
    the first row, then the first column. `overlap` (N, M), `least` above 0."""
    out: list[tuple[int, int]] = []
    rows: set[int] = set()
    columns: set[int] = set()
    for place in np.argsort(-overlap, axis=None, kind="stable"):
        row, column = divmod(int(place), overlap.shape[1])
        if overlap[row, column] < least:
            break
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            out.append((row, column))
    return out


def match(answer: Detections, labels: Detections, iou: float) -> NDArray[np.int64]:
    """Which golden object each answer stands for, (N,): its index, or -1.

    Best score first, each answer takes the free golden object of its class that it overlaps most, at `iou` or more;
    a golden object is taken once. Ties go to the lower index.
    """
    taken = np.zeros(len(labels), bool)
    owner = np.full(len(answer), -1, np.int64)
    if len(answer) == 0 or len(labels) == 0:
        return owner
    overlap = box_iou(answer.boxes, labels.boxes)
    overlap[answer.classes[:, None] != labels.classes[None, :]] = 0.0
    for n in np.argsort(-answer.scores, kind="stable"):
        free = np.where(taken, 0.0, overlap[n])
        best = int(free.argmax())
        if free[best] >= iou and free[best] > 0.0:
            owner[n] = best
            taken[best] = True
    return owner


@dataclass(frozen=True)
class Counts:
    """Objects right, answers that stand for no object, and objects without an answer; counts add up over frames."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)

    @property
    def f1(self) -> float:
        """2 right / (2 right + wrong + missed); 1 where there was nothing to see and nothing was answered."""
        total = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / total if total else 1.0


def count(answer: Detections, labels: Detections, iou: float, score_threshold: float = SCORE_THRESHOLD) -> Counts:
    """Counts of one frame at `iou`, answers below `score_threshold` left out."""
    given = answer.select(answer.scores >= score_threshold)
    right = int((match(given, labels, iou) >= 0).sum())
    return Counts(right, len(given) - right, len(labels) - right)


def mean_average_precision(pairs: Sequence[Pair], num_classes: int, iou: float = 0.5) -> float:
    """Mean over the classes that have golden objects of the area under the precision-recall curve (every point).

    1 where there are no golden objects and no answers, 0 where there are answers only.
    """
    areas = []
    for klass in range(num_classes):
        objects = sum(int((labels.classes == klass).sum()) for _, labels in pairs)
        if objects == 0:
            continue
        scores: list[NDArray[np.float32]] = []
        hits: list[NDArray[np.bool_]] = []
        for answer, labels in pairs:
            mine = answer.select(answer.classes == klass)
            scores.append(mine.scores)
            hits.append(match(mine, labels.select(labels.classes == klass), iou) >= 0)
        order = np.argsort(-np.concatenate(scores), kind="stable")
        hit = np.concatenate(hits)[order]
        right = np.cumsum(hit)
        precision = right / np.arange(1, len(hit) + 1)
        # The best precision at this recall or a higher one.
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        areas.append(float(envelope[hit].sum()) / objects)
    if not areas:
        return 1.0 if all(len(answer) == 0 for answer, _ in pairs) else 0.0
    return float(np.mean(areas))


def detection_accuracy(pairs: Iterable[Pair], num_classes: int, score_threshold: float = SCORE_THRESHOLD) -> Accuracy:
    """Accuracy of a detector: `value` = F1 at IoU 0.5; F1 at IoU 0.3 and mAP at IoU 0.5 beside it.

    No frames, or frames without objects and without answers, count as 1.
    """
    frames = list(pairs)
    tight, loose, objects = Counts(), Counts(), 0
    for answer, labels in frames:
        tight += count(answer, labels, 0.5, score_threshold)
        loose += count(answer, labels, 0.3, score_threshold)
        objects += len(labels)
    return Accuracy(tight.f1, len(frames), objects, loose.f1, tight.f1, mean_average_precision(frames, num_classes))


def named_right(answer: Detections, labels: Detections) -> tuple[int, int]:
    """(golden objects named right, golden objects named at all) of one frame.

    The answer that overlaps a golden object most (IoU 0.3 or more) names it; class -1 or one past the last class (the
    background) never equals a golden class.
    """
    if len(answer) == 0 or len(labels) == 0:
        return 0, 0
    overlap = box_iou(answer.boxes, labels.boxes)
    best = overlap.argmax(0)
    named = overlap[best, np.arange(len(labels))] >= NAMING_IOU
    right = named & (answer.classes[best] == labels.classes)
    return int(right.sum()), int(named.sum())


def classification_accuracy(pairs: Iterable[Pair]) -> Accuracy:
    """Accuracy of a classifier: share of golden objects named right. One without a name is wrong.

    Without golden objects the value is 1.
    """
    frames = right = objects = 0
    for answer, labels in pairs:
        frames += 1
        objects += len(labels)
        right += named_right(answer, labels)[0]
    return Accuracy(right / objects if objects else 1.0, frames, objects)


def accuracy(task: Task, pairs: Iterable[Pair], num_classes: int, score_threshold: float = SCORE_THRESHOLD) -> Accuracy:
    """The accuracy that `task` is judged by."""
    if task == "detection":
        return detection_accuracy(pairs, num_classes, score_threshold)
    return classification_accuracy(pairs)


def realised(task: Task, frames: Iterable[LabelledFrame], num_classes: int) -> Accuracy:
    """Realised inference accuracy: the answers really given (stale ones included) against the labels."""
    return accuracy(task, ((f.frame.answer, f.labels) for f in frames), num_classes)
