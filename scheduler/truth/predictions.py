"""The expected answer to a question: from scores, sizes and places, and from answers to other
windows of the camera.

Predictions only make the interval narrow. They may be as wrong as they like and the interval still covers, because the
answers of the window at hand correct them (Angelopoulos et al., Science 382, 2023: prediction-powered inference); so
they must never be fitted to the very answers that correct them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.truth import Agreed, AskableFrame, Question
from scheduler.truth import scene

Floats = NDArray[np.float64]

#: Prior weights of the logistic model of "an object is there", in the order of scheduler.truth.scene, and the standard
#: deviation of a camera's weights around them; fitted to nine of the eighteen cameras of benchmarks/bench_truth.py
#: (docs/truth.md). No place is better than another before anything is known of the camera.
PRIOR = (0.9, -1.4, 1.1, 0.7, 4.6, 2.2, -1.5, 0.8, 0.0, -1.3, -1.1, -1.5,
         0.0, -1.0, 0.2, -1.6, 0.9, -0.8, *(0.0,) * scene.PLACES)  # fmt: skip
_SPREAD = (0.4, 0.5, 0.4, 0.6, 0.7, 0.8, 0.4, 0.6, 0.8, 1.1, 0.6, 0.5,
           0.4, 0.7, 0.4, 1.2, 0.7, 0.5, *(0.8,) * scene.PLACES)  # fmt: skip
#: Variance (in log odds) by which windows differ.
_DRIFT = 0.2
_STEPS, _HALVINGS = 30, 20
#: Of an object that a pair of boxes is about, log odds that the student's box (the teacher's) fits: at _ALIKE, and more
#: with each unit of their IoU. A camera's differ by a number of this standard deviation.
_FIT_STUDENT, _FIT_TEACHER, _ALIKE, _FIT_SD = (3.1, 13.4), (4.4, 6.0), 0.85, 0.6
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
    """Fitted to answers of earlier windows by `learned`; `Predictor.prior()` knows none. `student_fits` and
    `teacher_fits`: log odds above the prior's that a box of a pair fits."""

    weights: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    student_fits: float
    teacher_fits: float
    missed_scale: float

    @staticmethod
    def prior() -> Predictor:
        """Without any answer of the camera."""
        return Predictor(PRIOR, _rows(np.diag(np.array(_SPREAD) ** 2)), 0.0, 0.0, 1.0)

    def expect(self, frames: Sequence[AskableFrame]) -> list[Expected]:
        """Expectations for the questions of the frames of a window, which are described by each other."""
        described = scene.features(frames)
        return [self._expect(frame, described[frame.key]) for frame in frames]

    def _expect(self, frame: AskableFrame, described: Floats) -> Expected:
        missed = self.missed_scale * prior_missed(frame)
        if not frame.candidates:
            none = np.zeros(0)
            return Expected(none, none, none, missed)
        found = np.clip(self._found(described), _SURE, 1 - _SURE)
        alike = scene.pair_overlaps(frame.candidates)
        has_student = np.array([c.student is not None for c in frame.candidates])
        has_teacher = np.array([c.teacher is not None for c in frame.candidates])
        pair = has_student & has_teacher
        student = np.where(pair, found * _sigmoid(_fits(_FIT_STUDENT, alike) + self.student_fits), found) * has_student
        teacher = np.where(pair, found * _sigmoid(_fits(_FIT_TEACHER, alike) + self.teacher_fits), found) * has_teacher
        return Expected(found, student, teacher, missed)

    def _found(self, features: Floats) -> Floats:
        """Probabilities, less sure where few answers were like it (MacKay, Neural Computation 4, 1992)."""
        doubt = np.einsum("nf,fg,ng->n", features, np.array(self.covariance), features) + _DRIFT
        return _sigmoid(features @ np.array(self.weights) / np.sqrt(1.0 + np.pi / 8 * doubt))


def learned(frames: Sequence[AskableFrame], answers: Mapping[Question, Agreed]) -> Predictor:
    """A predictor from answers to questions of these frames: all of their windows, which are other ones than the window
    that it is used on."""
    asked = {question.key for question in answers}
    described = scene.features(frames, asked)
    rows: list[Floats] = []
    found: list[float] = []
    pairs: list[tuple[float, bool, bool]] = []
    missed, expected = 0.0, 0.0
    for frame in frames:
        if frame.key not in asked:
            continue
        alike = scene.pair_overlaps(frame.candidates)
        for candidate, row, overlap in zip(frame.candidates, described[frame.key], alike, strict=True):
            said = answers.get(Question(frame.key, "box", candidate.index))
            if said is None or said.verdict == "unsure":
                continue
            rows.append(row)
            found.append(float(said.verdict != "no"))
            if candidate.group == "both" and said.verdict != "no":
                verdict = said.verdict
                pairs.append((float(overlap), verdict in ("yes", "student"), verdict in ("yes", "teacher")))
        missing = answers.get(Question(frame.key, "missed"))
        if missing is not None and missing.missed is not None:
            missed += missing.missed
            expected += prior_missed(frame)
    scale = (missed + _MISSED_WORTH) / (expected + _MISSED_WORTH)
    precision = np.diag(1.0 / np.array(_SPREAD) ** 2)
    weights, covariance = _fit(np.array(rows).reshape(-1, len(PRIOR)), np.array(found), np.array(PRIOR), precision)
    overlaps, student, teacher = np.array(pairs, np.float64).reshape(-1, 3).T
    return Predictor(
        tuple(float(w) for w in weights),
        _rows(covariance),
        _offset(_fits(_FIT_STUDENT, overlaps), student),
        _offset(_fits(_FIT_TEACHER, overlaps), teacher),
        float(scale),
    )


def _fits(line: tuple[float, float], alike: Floats) -> Floats:
    """Log odds that a box of a pair fits, by the pair's IoU."""
    return line[0] + line[1] * (alike - _ALIKE)


def _offset(odds: Floats, said: Floats) -> float:
    """The number to be added to these log odds, from answers (1 and 0)."""
    weights, _ = _fit(np.ones((len(said), 1)), said, np.zeros(1), np.eye(1) / _FIT_SD**2, odds)
    return float(weights[0])


def prior_missed(frame: AskableFrame) -> float:
    """Objects that no model saw, by the objects that the teacher was not sure of."""
    return _MISSED_PER_PICTURE + _MISSED_PER_AMBIGUOUS * frame.ambiguous


def _fit(
    features: Floats, found: Floats, prior: Floats, precision: Floats, offset: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Logistic regression with a normal prior (Newton's method, a step halved while it does not gain; it converges, as
    the loss is convex): weights and their covariance (Laplace). `offset`: log odds that are known."""

    def loss(weights: Floats) -> float:
        odds = features @ weights + offset
        away = weights - prior
        return float(np.sum(np.logaddexp(0.0, odds) - found * odds) + 0.5 * away @ precision @ away)

    weights = prior.copy()
    curvature, now = precision, loss(weights)
    for _ in range(_STEPS):
        p = _sigmoid(features @ weights + offset)
        slope = features.T @ (found - p) - precision @ (weights - prior)
        curvature = (features.T * (p * (1 - p))) @ features + precision
        step = np.linalg.solve(curvature, slope)
        for _ in range(_HALVINGS):
            if (after := loss(weights + step)) <= now:
                weights, now = weights + step, after
                break
            step = step / 2
        else:
            break
    covariance: Floats = np.asarray(np.linalg.inv(curvature), np.float64)
    return weights, covariance


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(v) for v in row) for row in matrix)


def _sigmoid(x: Floats) -> Floats:
    out: Floats = 1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0)))
    return out
