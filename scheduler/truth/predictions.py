"""The expected answer to a question: from scores, sizes and places, and from answers to other
windows of the camera.

Predictions only make the interval narrow. They may be as wrong as they like and the interval still covers, because the
answers of the window at hand correct them (Angelopoulos et al., Science 382, 2023: prediction-powered inference); so
they must never be fitted to the very answers that correct them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.truth import Agreed, AskableFrame, Candidate, Question

Floats = NDArray[np.float64]

#: Prior weights of the logistic model of "an object is there", in the order of `_features`; chosen on nine of the
#: eighteen cameras of benchmarks/bench_truth.py (docs/truth.md).
PRIOR = (1.2, -1.9, 0.5, 0.6, 4.8, 1.4, -0.9, 0.0, 0.0, -0.9, -1.5)
#: How many answers' worth a prior weight is (a ridge).
_RIDGE = 1.0
#: Variance (in log odds) by which windows differ.
_DRIFT = 0.2
_STEPS = 12
#: Of an object that a pair of boxes is about, the student's (the teacher's) fits; prior rates and their weight.
_FIT = (0.93, 0.98, 10.0)
#: Objects that no model saw: prior mean per picture and per object that the teacher was not sure of, and the weight of
#: these in objects.
_MISSED_PER_PICTURE, _MISSED_PER_AMBIGUOUS, _MISSED_WORTH = 0.3, 0.6, 1.5
#: Nothing is expected more surely than this.
_SURE = 0.04


@dataclass(frozen=True)
class Expected:
    """Expectations for the candidates of a frame (N,): the probability that it is an `object`, that the `student`'s box
    fits one, the `teacher`'s; and how many objects no model saw (`missed`)."""

    object: Floats
    student: Floats
    teacher: Floats
    missed: float


@dataclass(frozen=True)
class Predictor:
    """Fitted to answers of earlier windows by `learned`; `Predictor.prior()` knows none."""

    weights: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    student_fits: float
    teacher_fits: float
    missed_scale: float

    @staticmethod
    def prior() -> Predictor:
        """Without any answer of the camera."""
        return Predictor(PRIOR, _rows(np.eye(len(PRIOR)) / _RIDGE), _FIT[0], _FIT[1], 1.0)

    def expect(self, frame: AskableFrame) -> Expected:
        """Expectations for a frame's questions."""
        if not frame.candidates:
            none = np.zeros(0)
            return Expected(none, none, none, self.missed_scale * prior_missed(frame))
        found = np.clip(self._found(_features(frame.candidates)), _SURE, 1 - _SURE)
        pair = np.array([c.group == "both" for c in frame.candidates])
        has_student = np.array([c.student is not None for c in frame.candidates])
        has_teacher = np.array([c.teacher is not None for c in frame.candidates])
        student = np.where(pair, found * self.student_fits, found) * has_student
        teacher = np.where(pair, found * self.teacher_fits, found) * has_teacher
        return Expected(found, student, teacher, self.missed_scale * prior_missed(frame))

    def _found(self, features: Floats) -> Floats:
        """Probabilities, less sure where few answers were like it (MacKay, Neural Computation 4, 1992)."""
        doubt = np.einsum("nf,fg,ng->n", features, np.array(self.covariance), features) + _DRIFT
        return _sigmoid(features @ np.array(self.weights) / np.sqrt(1.0 + np.pi / 8 * doubt))


def learned(frames: Iterable[AskableFrame], answers: Mapping[Question, Agreed]) -> Predictor:
    """A predictor from answers to these frames' questions (of other windows than the one it is used on)."""
    rows: list[Floats] = []
    found: list[float] = []
    fits = np.array([_FIT[0], _FIT[1]]) * _FIT[2]
    pairs = _FIT[2]
    missed, expected = 0.0, 0.0
    for frame in frames:
        features = _features(frame.candidates)
        for candidate, row in zip(frame.candidates, features, strict=True):
            said = answers.get(Question(frame.key, "box", candidate.index))
            if said is None or said.verdict == "unsure":
                continue
            rows.append(row)
            found.append(float(said.verdict != "no"))
            if candidate.group == "both" and said.verdict != "no":
                pairs += 1
                fits += (said.verdict in ("yes", "student"), said.verdict in ("yes", "teacher"))
        missing = answers.get(Question(frame.key, "missed"))
        if missing is not None and missing.missed is not None:
            missed += missing.missed
            expected += prior_missed(frame)
    typical = _MISSED_WORTH
    scale = (missed + typical) / (expected + typical)
    weights, covariance = _fit(np.array(rows).reshape(-1, len(PRIOR)), np.array(found))
    rates = fits / pairs
    return Predictor(
        tuple(float(w) for w in weights), _rows(covariance), float(rates[0]), float(rates[1]), float(scale)
    )


def prior_missed(frame: AskableFrame) -> float:
    """Objects that no model saw, by the objects that the teacher was not sure of."""
    return _MISSED_PER_PICTURE + _MISSED_PER_AMBIGUOUS * frame.ambiguous


def _features(candidates: Sequence[Candidate]) -> Floats:
    """(N, 11) of one frame's candidates, best first: its finder (student or teacher), scores, size, place, shape, and
    how far it lies in (or around) a better one, as a second box of one object does."""
    if not candidates:
        return np.zeros((0, len(PRIOR)))
    boxes = np.array([c.teacher or c.student for c in candidates], np.float64)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-4)
    has_student = np.array([c.student is not None for c in candidates])
    has_teacher = np.array([c.teacher is not None for c in candidates])
    size = (np.log(sides.prod(1)) + 6.0) / 2
    columns = (
        has_student & has_teacher,
        has_student & ~has_teacher,
        has_teacher & ~has_student,
        np.array([c.student_score for c in candidates]) - 0.5 * has_student,
        np.array([c.teacher_score for c in candidates]) - 0.5 * has_teacher,
        size,
        size**2,
        boxes[:, 3] - 0.5,
        (boxes[:, 0] + boxes[:, 2]) / 2 - 0.5,
        np.clip(np.log(sides[:, 0] / sides[:, 1]), -2.0, 2.0),
        _in_a_better_one(boxes, sides),
    )
    return np.stack([np.asarray(c, np.float64) for c in columns], 1)


def _in_a_better_one(boxes: Floats, sides: Floats) -> Floats:
    """Of each box (N, 4) the largest common area with one before it, as a part of the smaller of the two."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    area = sides.prod(1)
    common = np.clip(high - low, 0.0, None).prod(2) / np.minimum(area[:, None], area[None, :])
    out: Floats = np.clip(np.tril(common, -1).max(1), 0.0, 1.0)
    return out


def _fit(features: Floats, found: Floats) -> tuple[Floats, Floats]:
    """Ridge logistic regression towards PRIOR (Newton's method): weights and their covariance (Laplace)."""
    prior = np.array(PRIOR)
    weights = prior.copy()
    ridge = _RIDGE * np.eye(len(prior))
    curvature = ridge
    for _ in range(_STEPS):
        p = _sigmoid(features @ weights)
        slope = features.T @ (found - p) - ridge @ (weights - prior)
        curvature = (features.T * (p * (1 - p))) @ features + ridge
        weights = weights + np.linalg.solve(curvature, slope)
    covariance: Floats = np.asarray(np.linalg.inv(curvature), np.float64)
    return weights, covariance


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(v) for v in row) for row in matrix)


def _sigmoid(x: Floats) -> Floats:
    out: Floats = 1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0)))
    return out
