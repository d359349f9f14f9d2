"""The accuracy that answers lose while they stand in for later frames, measured on a camera's own fresh answers.

Every frame rate is tried as the camera would have lived with it: the answers that it would have had are kept, their
objects are followed from one to the next of these, and each goes on until the next one comes. It is compared with the
fresh answers of that time. Both are the student's, so that no teacher is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from edge.core.vision import Detections, Observation, Task
from edge.core.ways import CLEARLY, Ways, gone_on
from edge.inference.agreement import agreement_counts

#: Gets the detections of answers and their pictures' monotonic seconds, the oldest first; gives the ways (N, 3) of each
#: answer's objects (edge.core.ways).
Follower = Callable[[Detections, float], Ways | None]

#: Age in seconds, objects agreeing, objects compared.
Pair = tuple[float, int, int]

#: Answers that stay may each stand in for every later one; so many of them are enough.
_MOST_BASES = 20
ENOUGH_OBJECTS = 60
UNKNOWN_HALF_LIFE_S = 1.0
#: Answers come a little sooner or later than their rate says.
_JITTER = 0.85
_BINS = 10


def staleness_factors(
    observations: Iterable[Observation],
    rates: Iterable[float],
    task: Task = "detection",
    follower: Callable[[], Follower] | None = None,
) -> dict[float, float]:
    """Accuracy factor [0, 1] of each frame rate (per second): the agreement of the last answer with a fresh one,
    averaged over the ages 0 to 1/rate that an answer has when it stands in. `follower` makes what follows the objects
    of a camera's answers; without it answers stay as they are.

    Two answers right after another do not agree fully either: a look misses what the one before saw (flicker). That is
    no loss by age, so each curve is taken relative to the agreement at age 0: that of answers one after another on how
    many objects of each class there are, wherever these are by now. Where few objects have been seen (an empty street
    says nothing about what will drive there), curves lean towards a usual one that halves in UNKNOWN_HALF_LIFE_S. A
    lower rate is never better than a higher one.
    """
    fresh = sorted((o for o in observations if not o.stale), key=lambda o: o.monotonic_s)
    own_s, start = _own_gap_s(fresh), _agreement_at_age_0(fresh)
    rates = sorted(rates, reverse=True)
    # A rate that the camera does not reach is judged by the answers that it has.
    gaps = [max(1.0 / rate, own_s) for rate in rates]
    curves = {gap: agreement_by_age(task, fresh, gap, follower) for gap in dict.fromkeys(gaps)}
    known = min(1.0, max((objects for _, objects in curves.values()), default=0) / ENOUGH_OBJECTS)
    factors = [_mean_over_ages(curves[gap][0], known, start, rate) for rate, gap in zip(rates, gaps, strict=True)]
    falling = _falling(np.array(factors), np.ones(len(factors))) if factors else np.zeros(0)
    return dict(zip(rates, map(float, falling), strict=True))


def agreement_by_age(
    task: Task, fresh: Sequence[Observation], gap_s: float, follower: Callable[[], Follower] | None = None
) -> tuple[list[tuple[float, float]], int]:
    """(age in seconds, agreement) of answers that stand in for up to `gap_s` with the `fresh` ones (oldest first) of
    that time, ages increasing, and the number of objects compared. Made to fall with age (what remains is noise of few
    samples); empty if there are no two fresh answers with an object."""
    bases, ways = _as_lived_with(task, fresh, gap_s, follower)
    held = _pairs(task, bases, fresh, gap_s)
    moved = [] if ways is None else _pairs(task, bases, fresh, gap_s, ways)
    pairs = moved if _agreement(moved) > _agreement(held) + CLEARLY else held
    if pairs is held and len(bases) < min(_MOST_BASES, len(fresh)):
        pairs = _pairs(task, fresh[:: max(1, len(fresh) // _MOST_BASES)], fresh, gap_s)
    if not pairs:
        return [], 0
    pairs.sort()
    # About ten bins with equally many pairs each, so that every mean is equally sure.
    parts = np.array_split(np.array(pairs), min(_BINS, len(pairs)))
    weights = np.array([p[:, 2].sum() for p in parts])
    values = _falling(np.array([p[:, 1].sum() for p in parts]) / weights, weights)
    ages = [float(np.average(p[:, 0], weights=p[:, 2])) for p in parts]
    return [(age, float(v)) for age, v in zip(ages, values, strict=True)], int(weights.sum())


def _own_gap_s(fresh: Sequence[Observation]) -> float:
    """The usual time from answer to answer (0 of fewer than two)."""
    apart = [b.monotonic_s - a.monotonic_s for a, b in pairwise(fresh)]
    return median(apart) if apart else 0.0


def _agreement_at_age_0(fresh: Sequence[Observation]) -> float:
    """The F1 of answers one after another on the number of objects of each class (1: there are none)."""
    both = everything = 0
    for early, late in pairwise(fresh):
        one, other = Counter(early.detections.classes.tolist()), Counter(late.detections.classes.tolist())
        both += 2 * (one & other).total()
        everything += one.total() + other.total()
    return both / everything if everything else 1.0


def _as_lived_with(
    task: Task, fresh: Sequence[Observation], gap_s: float, follower: Callable[[], Follower] | None
) -> tuple[Sequence[Observation], list[Ways | None] | None]:
    """The answers of a camera that answers once in `gap_s`, and their objects' ways (None: nothing follows them)."""
    own = _JITTER * gap_s <= _own_gap_s(fresh)
    bases = fresh if own else _thinned(fresh, gap_s)
    if follower is None or task != "detection":
        return bases, None
    if own:  # the camera has followed them itself
        return bases, [o.ways for o in bases]
    follow = follower()
    return bases, [follow(o.detections, o.monotonic_s) for o in bases]


def _thinned(fresh: Sequence[Observation], gap_s: float) -> list[Observation]:
    """Those that a camera would have had that answers once in `gap_s`."""
    kept: list[Observation] = []
    for observation in fresh:
        if not kept or observation.monotonic_s - kept[-1].monotonic_s >= _JITTER * gap_s:
            kept.append(observation)
    return kept


def _pairs(
    task: Task,
    bases: Sequence[Observation],
    fresh: Sequence[Observation],
    gap_s: float,
    ways: Sequence[Ways | None] | None = None,
) -> list[Pair]:
    """Each of `bases`, as it goes on, with every fresh answer that comes up to `gap_s` (and a quarter) after it."""
    out = []
    for n, base in enumerate(bases):
        for late in fresh:
            age = late.monotonic_s - base.monotonic_s
            if 0 < age <= gap_s * 1.25:
                stood_in = gone_on(base.detections, None if ways is None else ways[n], age)
                right, total = agreement_counts(task, stood_in, late.detections)
                if total:
                    out.append((age, right, total))
    return out


def _agreement(pairs: Sequence[Pair]) -> float:
    return sum(p[1] for p in pairs) / max(1, sum(p[2] for p in pairs))


def _mean_over_ages(curve: Sequence[tuple[float, float]], known: float, start: float, rate: float) -> float:
    """The mean of `curve`, which begins at `start`, over the ages 0 to 1/rate, relative to its beginning; the part that
    is not `known` [0, 1] is that of the usual curve."""
    start = max(start, curve[0][1] if curve else 1e-6, 1e-6)
    at = np.linspace(0.0, 1.0 / rate, 33)
    still = np.interp(at, [0.0, *(a for a, _ in curve)], [start, *(v for _, v in curve)]) / start
    usual = 0.5 ** (at / UNKNOWN_HALF_LIFE_S)
    mixed = known * still + (1.0 - known) * usual
    return float(np.clip(np.trapezoid(mixed, at) * rate, 0.0, 1.0))


def _falling(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The non-increasing sequence nearest to `values` (least squares; pool adjacent violators)."""
    blocks: list[list[float]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        blocks.append([float(value), float(weight), 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            v1, w1, n1 = blocks.pop()
            v0, w0, n0 = blocks.pop()
            blocks.append([(v0 * w0 + v1 * w1) / (w0 + w1), w0 + w1, n0 + n1])
    return np.concatenate([np.full(int(n), v) for v, _, n in blocks])
