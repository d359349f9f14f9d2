"""The least score that a detector answers with, chosen on past labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import Pair, match
from edge.core.labels import Accuracy

#: Scores that are tried. Answers must come with at least the first of them.
SCORES: NDArray[np.float64] = np.round(np.arange(0.05, 0.901, 0.01), 2)
LOWEST = float(SCORES[0])
#: Width of the smoothing over scores, with many objects; it grows where few objects make the curve rough.
SMOOTHING, FEW_OBJECTS = 0.03, 60.0
#: F1 that a score must gain per square of its distance from the usual one, where there are few objects.
UNUSUAL = 0.5


def f1_by_score(pairs: Sequence[Pair], iou: float = 0.5) -> tuple[NDArray[np.float64], int]:
    """F1 at `iou` for each of SCORES as the least score that is answered, and the number of labelled objects.

    One matching serves all scores: it takes the best answers first, so answers below a score change nothing above it.
    """
    rights, objects = score_counts(pairs, iou)
    return _f1(*rights, objects), objects


def score_counts(
    pairs: Sequence[Pair], iou: float = 0.5
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], int]:
    """For each of SCORES how many answers are right, and how many are given; and the number of labelled objects."""
    scores: list[NDArray[np.float32]] = []
    hits: list[NDArray[np.bool_]] = []
    objects = 0
    for answer, labels in pairs:
        scores.append(answer.scores)
        hits.append(match(answer, labels, iou) >= 0)
        objects += len(labels)
    if not scores:
        nothing = np.zeros(len(SCORES))
        return (nothing, nothing), 0
    flat, hit = np.concatenate(scores), np.concatenate(hits)
    given = np.array([(flat >= s - 1e-6).sum() for s in SCORES], np.float64)
    right = np.array([(hit & (flat >= s - 1e-6)).sum() for s in SCORES], np.float64)
    return (right, given), objects


def _f1(right: NDArray[np.float64], given: NDArray[np.float64], objects: float) -> NDArray[np.float64]:
    total = given + objects
    return np.divide(2 * right, total, out=np.ones_like(total), where=total > 0)


def best_score(pairs: Sequence[Pair], usual: float, iou: float = 0.5) -> float:
    """The least score with the best F1 on `pairs` (answers from LOWEST on), on a smoothed curve; `usual` where the
    pairs hold no object and no answer tells anything."""
    (right, given), objects = score_counts(pairs, iou)
    return smoothed_best(right, given, objects, usual)


def smoothed_best(right: NDArray[np.float64], given: NDArray[np.float64], objects: float, usual: float) -> float:
    """The same from counts for each of SCORES."""
    if objects <= 0:
        return usual
    f1 = _f1(right, given, objects)
    # Few objects make the curve rough: scores far from the usual one must then be clearly better.
    doubt = FEW_OBJECTS / (objects + FEW_OBJECTS)
    f1 = f1 - UNUSUAL * doubt * (SCORES - usual) ** 2
    width = SMOOTHING * np.sqrt(1.0 + FEW_OBJECTS / objects)
    kernel = np.exp(-0.5 * ((SCORES[:, None] - SCORES[None]) / width) ** 2)
    smooth = (kernel @ f1) / kernel.sum(1)
    return float(SCORES[int(smooth.argmax())])


def accuracy_at(pairs: Sequence[Pair], score: float) -> Accuracy:
    """F1 at IoU 0.5 of `pairs` with answers below `score` left out (no other measure is filled in)."""
    f1, objects = f1_by_score(pairs)
    value = float(f1[int(np.abs(SCORES - score).argmin())])
    return Accuracy(value, len(pairs), objects, f1_iou50=value)
