"""Which questions to ask next, with known probabilities.

Each question has a size: the error in the two estimates without its answer. Questions are asked in the order of
(random number / size), as in sequential Poisson sampling (Ohlsson, J. Off. Stat. 14, 1998), so that the operator may
stop at any time. The random numbers are not independent: along all questions, stratum by stratum and in a random order
within each, they go by the golden ratio from a random start, so that however many are asked, they are spread evenly
over the strata (as by systematic sampling). The order and the start come from a seed, so that they stay the same from
one visit to the next, also when labels are imported in between.

With independent numbers a question would be among the first n with probability min(1, n size / sum of sizes), nearly.
Here it is near that in the mean only: single questions differ by a tenth of it or more. As the start is the only random
number once the order is known, the probability is the part of all starts with which the question is among the first n.
Without the random order a window's error would be a function of one number, and in some windows the interval would miss
far more often than in others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.truth import AskableFrame, NextQuestion, Question
from scheduler.truth.predictions import Floats, Predictor

#: How much more a number of missed objects scatters than its expectation (a Poisson number: 1).
MISSED_SCATTER = 1.0
#: The least size of a question, as a part of the mean: no answer may get an enormous weight.
_LEAST_SIZE = 0.5
#: Multiples of it, less their whole parts, are spread evenly over 0 to 1, however many there are.
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
#: So many starts, evenly spaced, stand for all; so many at a time, to need little memory.
_STARTS, _AT_A_TIME = 1000, 200
#: With fewer starts than that in a question's favour, or more questions, its size says more or takes less time.
_LEAST_HITS, _MANY = 4, 2000


@dataclass(frozen=True)
class Population:
    """Every question of some frames (Q), with what is expected of it. `student`, `teacher`, `object`: of a box
    question the probabilities that the student's box fits, the teacher's, that there is an object; of a missed question
    the number of objects that no model saw is `object`. `variance` is that of the answer's `object`.

    `student_boxes`, `teacher_boxes`: all boxes in the frames. `size` is relative; its sum has no meaning.
    """

    questions: tuple[Question, ...]
    strata: tuple[str, ...]
    missed: NDArray[np.bool_]
    student: Floats
    teacher: Floats
    object: Floats
    variance: Floats
    size: Floats
    student_boxes: int
    teacher_boxes: int
    #: Places of the questions in the spread of the choice (see `rank`).
    ranks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.questions)


def population(frames: Sequence[AskableFrame], predictor: Predictor, seed: int) -> Population:
    """All questions of the frames of a window, box questions of a frame before its missed question. `seed`: the one
    that `next_questions` is given, too."""
    questions: list[Question] = []
    strata: list[str] = []
    parts: list[tuple[Floats, Floats, Floats]] = []
    boxes = np.zeros(2, np.int64)
    for frame, expected in zip(frames, predictor.expect(frames), strict=True):
        for candidate in frame.candidates:
            questions.append(Question(frame.key, "box", candidate.index))
            strata.append(candidate.group)
            boxes += (candidate.student is not None, candidate.teacher is not None)
        parts.append((expected.student, expected.teacher, expected.object))
        questions.append(Question(frame.key, "missed"))
        strata.append("missed")
        parts.append((np.zeros(1), np.zeros(1), np.array([expected.missed])))
    student, teacher, found = (np.concatenate([np.zeros(0), *(p[n] for p in parts)]) for n in range(3))
    missed = np.array([s == "missed" for s in strata], bool)
    variance = np.where(missed, MISSED_SCATTER * np.maximum(found, 0.25), found * (1 - found))
    size = _sizes(missed, student, teacher, found, variance, boxes)
    return Population(
        tuple(questions), tuple(strata), missed, student, teacher, found, variance, size, int(boxes[0]), int(boxes[1]),
        rank(strata, seed),
    )  # fmt: skip


def _sizes(
    missed: NDArray[np.bool_],
    student: Floats,
    teacher: Floats,
    found: Floats,
    variance: Floats,
    boxes: NDArray[np.int64],
) -> Floats:
    """Standard deviation of what an answer changes in student's and teacher's F1 together."""
    if len(missed) == 0:
        return np.zeros(0)
    objects = float(found.sum())
    total = np.zeros(len(missed))
    for own, count in ((student, boxes[0]), (teacher, boxes[1])):
        scale = max(float(count) + objects, 1.0)
        f1 = 2 * float(own.sum()) / scale
        # An answer counts 2 of its fitting box less f1 of its object; they go together but for a box that fits badly.
        gain = np.where(missed, f1, np.where(own > 0, 2.0 - f1, f1)) / scale
        badly = (2.0 / scale) ** 2 * np.where(found > 0, own * (1 - own / np.maximum(found, 1e-9)), 0.0)
        total += gain**2 * variance + np.where(missed, 0.0, badly)
    size = np.sqrt(total)
    out: Floats = np.maximum(size, _LEAST_SIZE * float(size.mean()))
    return out / float(out.mean())


def probabilities(size: Floats, count: int) -> Floats:
    """Probability that each of some questions is among the first `count` asked, by its size alone: proportional to it,
    at most 1. They add up to `count`."""
    if count >= len(size):
        return np.ones(len(size))
    out = np.zeros(len(size))
    sure = np.zeros(len(size), bool)
    while True:
        rest = count - int(sure.sum())
        out = np.where(sure, 1.0, rest * size / max(float(size[~sure].sum()), 1e-300))
        over = (out >= 1.0) & ~sure
        if not over.any():
            return out
        sure |= over


def rank(strata: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Each question's place (Q,): stratum by stratum, in a random order within each."""
    _, stratum = np.unique(np.array(strata, dtype=str), return_inverse=True)
    # Another stream than that of `order`: the order says nothing about the start.
    within = np.random.default_rng([seed, 1]).random(len(strata))
    out = np.empty(len(strata), np.int64)
    out[np.lexsort((within, stratum))] = np.arange(len(strata))
    return out


def order(size: Floats, seed: int, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the questions in the order in which they are asked; `ranks`: their places among all (see `rank`)."""
    start = np.random.default_rng(seed).random(1)
    return np.argsort(_draws(size, ranks, start)[0], kind="stable")


def _draws(size: Floats, ranks: NDArray[np.int64], starts: Floats) -> Floats:
    """(random number / size) of each question, one row for each start."""
    numbers = starts[:, None] + (_GOLDEN * ranks % 1.0)[None, :]
    # 1 - u: never 0, so that a size decides between any two numbers.
    out: Floats = (1.0 - np.where(numbers < 1.0, numbers, numbers - 1.0)) / np.maximum(size, 1e-12)
    return out


def chances(size: Floats, ranks: NDArray[np.int64], places: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
    """Probability (N,) that the question at each of some places (N,) is among the first counts (N,) of `order`, over
    all starts: its inclusion probability. That by size alone is given for more than 2000 questions, and for so small
    counts that a grid of starts tells less."""
    by_count = {int(n): probabilities(size, int(n)) for n in np.unique(counts)}
    by_size = np.array([by_count[int(n)][place] for place, n in zip(places, counts, strict=True)], float)
    enough = counts * _STARTS >= _LEAST_HITS * len(size)
    if len(size) > _MANY or not enough.any():
        return by_size
    last = np.minimum(counts, len(size)) - 1
    hits = np.zeros(len(places))
    starts = (np.arange(_STARTS) + 0.5) / _STARTS
    for some in np.array_split(starts, _STARTS // _AT_A_TIME):
        draws = _draws(size, ranks, some)
        hits += (draws[:, places] <= np.sort(draws, axis=1)[:, last]).sum(0)
    # A question that was asked has a probability, though it may fall between two starts of the grid.
    out: Floats = np.where(enough, np.maximum(hits / _STARTS, by_size / 4.0), by_size)
    return out


def next_questions(
    people: Population, seed: int, answered: Collection[Question], known: Collection[Question], limit: int
) -> list[NextQuestion]:
    """At most `limit` questions that are in neither of the two, in the order of asking.

    `answered`: through the page (their number sets the probabilities); `known`: by labels that were imported.
    """
    indices = np.flatnonzero([q not in known for q in people.questions])
    count = sum(people.questions[i] in answered for i in indices)
    sizes = {s: people.strata.count(s) for s in set(people.strata)}
    # Ranks are those among all questions: an import takes some out, and the others keep their order.
    size, ranks = people.size[indices], people.ranks[indices]
    places = [n for n in order(size, seed, ranks) if people.questions[indices[n]] not in answered][:limit]
    counts = count + 1 + np.arange(len(places))
    found = chances(size, ranks, np.array(places, np.int64), counts)
    asked = zip((indices[n] for n in places), found, strict=True)
    return [
        NextQuestion(people.questions[i], people.strata[i], sizes[people.strata[i]], float(chance))
        for i, chance in asked
    ]
