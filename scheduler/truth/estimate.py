"""True accuracy of student and teacher from answers and predictions, with an interval.

F1 = 2 TP / (boxes + objects), where boxes are counted and TP and objects are estimated by prediction-powered inference
(Angelopoulos et al., Science 382, 2023; with power tuning, "PPI++", arXiv 2311.01453): the sum of the predictions over
all questions, plus the weighted sum of (answer - prediction) over those that were answered. The weights are
1/probability of having been asked (scheduler.truth.choice). The variance of the ratio is that of its linearised
residual (delta method), of the part that was not asked (finite population).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.truth import Agreed, Interval, Question, TrueAccuracy
from scheduler.truth.choice import Population, chances, probabilities
from scheduler.truth.predictions import Floats
from scheduler.truth.students_t import quantile

#: The interval's confidence.
CONFIDENCE = 0.9
METHOD = "prediction-powered inference (PPI++), sequential Poisson sampling, delta method, t"
#: With fewer usable answers nothing is estimated.
LEAST_ANSWERS = 4
#: Power tuning starts from lambda 1 and correction 0; standard deviations of the prior, and of box answers.
_POWER_SD, _SHIFT_SD = 0.5, 0.15
#: Power tuning fits two slopes to the answers that the residuals are of. Each takes one answer from them.
_SLOPES = 2.0
#: So many answers' worth is the variance that the predictions themselves expect.
_MODEL_WORTH = 2.0


@dataclass(frozen=True)
class _Answered:
    """Usable answers: their place in the population, the probability that they were asked, and their content."""

    index: NDArray[np.int64]
    #: (Q,): drawn, or still to be drawn; the others are known.
    free: NDArray[np.bool_]
    chance: Floats
    student: Floats
    teacher: Floats
    object: Floats
    strata: tuple[str, ...]


def true_accuracy(
    asked: Population, frames: int, answers: Mapping[Question, Agreed], known: Collection[Question] = ()
) -> TrueAccuracy | None:
    """Accuracy over the population's frames; None with fewer than 4 usable answers.

    `answers`: the people's joint answers, by question (others than the population's are ignored). `known`: those of
    them that were imported, not drawn: they count as they are and stand for no other question.
    """
    given = {q: answers[q] for q in asked.questions if q in answers}
    usable = {q: a for q, a in given.items() if a.verdict != "unsure"}
    if len(usable) < min(LEAST_ANSWERS, len(asked)) or not usable:
        return None
    said = _answered(asked, given, usable, known)
    power, student, teacher, found = _predicted(asked, said)
    weight = 1.0 / said.chance
    true = {
        "student": student.sum() + (weight * (said.student - student[said.index])).sum(),
        "teacher": teacher.sum() + (weight * (said.teacher - teacher[said.index])).sum(),
        "object": found.sum() + (weight * (said.object - found[said.index])).sum(),
    }
    parts = []
    objects = max(float(true["object"]), float(said.object.sum()))
    for own, expected, boxes in (("student", student, asked.student_boxes), ("teacher", teacher, asked.teacher_boxes)):
        got = said.student if own == "student" else said.teacher
        right = min(max(float(true[own]), float(got.sum())), float(boxes), objects)
        total = boxes + objects
        f1 = 2 * right / total if total > 0 else 1.0
        residual = 2 * (got - expected[said.index]) - f1 * (said.object - found[said.index])
        parts.append((f1, residual / max(total, 1.0), _model_residual(asked, own, f1) / max(total, 1.0)))
    (f1_s, own_s, model_s), (f1_t, own_t, model_t) = parts
    model_d = np.sqrt(np.maximum(model_s**2 + model_t**2 - 1.2 * model_s * model_t, 0.0))
    drawn = int(said.free[said.index].sum())
    size = _Size(asked.size[said.free], int(said.free.sum()) - drawn, drawn, said)
    return TrueAccuracy(
        _interval(f1_s, own_s, model_s, size, (0.0, 1.0)),
        _interval(f1_t, own_t, model_t, size, (0.0, 1.0)),
        _interval(f1_s - f1_t, own_s - own_t, model_d, size, (-1.0, 1.0)),
        CONFIDENCE,
        METHOD,
        frames,
        objects,
        len(usable),
        len(given) - len(usable),
        sum(a.contradicted for a in given.values()),
        len(asked),
        power,
    )


def _answered(
    asked: Population, given: Collection[Question], usable: Mapping[Question, Agreed], known: Collection[Question]
) -> _Answered:
    index = np.array([n for n, q in enumerate(asked.questions) if q in usable], np.int64)
    free = np.array([not (q in known and q in usable) for q in asked.questions], bool)
    drawn = index[free[index]]
    chance = np.ones(len(asked))
    if len(drawn):
        # "Not sure" was asked, too: others of its size stand for it.
        count = sum(asked.questions[n] in given for n in np.flatnonzero(free))
        places, counts = (np.cumsum(free) - 1)[drawn], np.full(len(drawn), count)
        chance[drawn] = chances(asked.size[free], asked.ranks[free], places, counts) * len(drawn) / count
    rows = []
    for n in index:
        said, stratum = usable[asked.questions[n]], asked.strata[n]
        if said.missed is not None:
            rows.append((0.0, 0.0, float(said.missed)))
            continue
        student = stratum != "teacher" and said.verdict in ("yes", "student")
        teacher = stratum != "student" and said.verdict in ("yes", "teacher")
        rows.append((float(student), float(teacher), float(student or teacher)))
    values = np.array(rows)
    strata = tuple(asked.strata[n] for n in index)
    return _Answered(index, free, chance[index], values[:, 0], values[:, 1], values[:, 2], strata)


def _predicted(asked: Population, said: _Answered) -> tuple[dict[str, float], Floats, Floats, Floats]:
    """The predictions of student's right boxes, teacher's right boxes and objects, tuned: each becomes
    shift + lambda prediction, by weighted ridge regression of the answers on them, for boxes and missed apart."""
    student, teacher, found = asked.student.copy(), asked.teacher.copy(), asked.object.copy()
    power = {}
    for name, mask in (("box", ~asked.missed), ("missed", asked.missed)):
        here = mask[said.index]
        if not here.any():
            continue
        spread = math.sqrt(float(asked.variance[mask].mean())) if name == "missed" else 0.4
        shift_sd = _SHIFT_SD if name == "box" else 1.0 + float(asked.object[mask].mean())
        at = said.index[here]
        weight = np.sqrt((1.0 - said.chance[here]) / said.chance[here] ** 2)
        weight = weight / weight.mean() if weight.sum() > 0 else np.ones(len(at))
        shift, slope = _tuned(asked.object[at], said.object[here], weight / spread, shift_sd)
        power[name] = slope
        for own, values in ((said.student, student), (said.teacher, teacher), (said.object, found)):
            if name == "missed" and own is not said.object:
                continue
            has = mask & (values > 0)
            values[has] = shift + slope * values[has]
    return power, student, teacher, found


def _tuned(prediction: Floats, answer: Floats, weight: Floats, shift_sd: float) -> tuple[float, float]:
    """(shift, lambda) of the ridge regression of answers on predictions around (0, 1)."""
    design = np.stack([np.ones(len(prediction)), prediction], 1) * weight[:, None]
    inverse = np.diag([1 / shift_sd**2, 1 / _POWER_SD**2])
    change = np.linalg.solve(design.T @ design + inverse, design.T @ ((answer - prediction) * weight))
    return float(change[0]), float(np.clip(1.0 + change[1], 0.0, 2.0))


def _model_residual(asked: Population, own: str, f1: float) -> Floats:
    """Standard deviation of each question's residual, as the predictions expect it."""
    mine = asked.student if own == "student" else asked.teacher
    gain = np.where(asked.missed, f1, np.where(mine > 0, 2.0 - f1, f1))
    out: Floats = gain * np.sqrt(asked.variance)
    return out


@dataclass(frozen=True)
class _Size:
    """The grounds of the width beside the residuals: sizes of the questions that are drawn, how many of them are
    left and how many were answered."""

    size: Floats
    left: int
    count: int
    said: _Answered


def _interval(value: float, residual: Floats, model: Floats, size: _Size, bounds: tuple[float, float]) -> Interval:
    count, chance, model = size.count, size.said.chance, model[size.said.free]
    if size.left == 0:
        return Interval(value, value, value, 0)
    freedom = max(count - 3.0, 1.0)
    errors = np.sqrt(1 - chance) * residual / chance
    # Imported questions leave gaps in the spread: by their part it is no better than independent numbers.
    gaps = 1.0 - float(size.said.free.mean())
    independent = float((errors**2).sum()) * count / freedom
    spread = spread_variance(errors, chance, size.said.strata) * count / max(count - _SLOPES, 1.0)
    measured = (1.0 - gaps) * spread + gaps * independent
    expected = _model_variance(size.size, model, count)
    variance = (freedom * measured + _MODEL_WORTH * expected) / (freedom + _MODEL_WORTH)
    half = quantile(CONFIDENCE, freedom + 0.5 * _MODEL_WORTH) * math.sqrt(variance)
    low, high = _within(value, half, bounds)
    more = _more(size, model, count, freedom)
    return Interval(value, low, high, more)


def spread_variance(errors: Floats, chance: Floats, strata: Sequence[str]) -> float:
    """Variance of the sum of errors (N,) of questions whose numbers are spread evenly over strata: from each one's
    difference to its stratum's mean, as an error that a stratum shares is balanced. Questions that are asked in any
    case have none."""
    groups: dict[str, list[float]] = {}
    for error, part, stratum in zip(errors, chance, strata, strict=True):
        if part < 1.0:
            groups.setdefault(stratum, []).append(float(error))
    total = 0.0
    for found in groups.values():
        # One alone has no mean to differ from.
        mean = sum(found) / len(found) if len(found) > 1 else 0.0
        total += sum((e - mean) ** 2 for e in found) * len(found) / max(len(found) - 1, 1)
    return total


def _within(value: float, half: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """value +- half on the logit scale of the bounds: longer towards the middle, never past a bound."""
    low, high = bounds
    span = high - low
    middle = min(max((value - low) / span, 0.02), 0.98)
    slope = min(half / span / (middle * (1 - middle)), 30.0)  # beyond it is all of the range
    at = math.log(middle / (1 - middle))
    ends = [low + span / (1 + math.exp(-(at + sign * slope))) for sign in (-1.0, 1.0)]
    return min(value, ends[0]), max(value, ends[1])


def _model_variance(size: Floats, model: Floats, count: int) -> float:
    chance = probabilities(size, count)
    return float((model**2 * (1 - chance) / np.maximum(chance, 1e-12)).sum())


def _more(size: _Size, model: Floats, count: int, freedom: float) -> int:
    """Answers more until the interval is half as wide: by the variance that the predictions expect, to scale."""
    now = quantile(CONFIDENCE, freedom + 0.5 * _MODEL_WORTH) * math.sqrt(_model_variance(size.size, model, count))
    low, high = 0, size.left  # with all questions answered nothing is left to doubt
    while low < high:
        middle = (low + high) // 2
        then = count + middle
        width = quantile(CONFIDENCE, max(then - 3.0, 1.0) + 0.5 * _MODEL_WORTH)
        if width * math.sqrt(_model_variance(size.size, model, then)) <= now / 2:
            high = middle
        else:
            low = middle + 1
    return low
