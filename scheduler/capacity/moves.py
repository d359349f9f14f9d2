"""How a camera moves by a change, of what two replays of the same windows say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduler.learning.promise import FRAME_NOISE, WANDER

#: Gains in a replay count at most so many times.
MOST_TRUE = 2.0
#: The part that is true is at most so unsure (standard deviation), however small a replay's gains are: it is between
#: 0 and MOST_TRUE (chosen for that, after an absolute scale of 0.05 was seen on seeds 301 to 304 of
#: benchmarks/bench_capacity_simulated.py).
PART_SPREAD = 1.0


@dataclass(frozen=True)
class ReplayedWindow:
    """Mean accuracy [0, 1] of a camera in a window of a replay, and that of the frozen student at the same inference
    shares."""

    accuracy: float
    frozen: float


@dataclass(frozen=True)
class TruePart:
    """The part of retrainings' gains in a replay that were really there on windows, 0 to MOST_TRUE, and its standard
    deviation."""

    value: float = 1.0
    spread: float = 0.0


def move(was: ReplayedWindow, then: ReplayedWindow, true_part: float) -> float:
    """By how much the accuracy moves from `was` to `then`: by what other answers bring, as for the frozen student, and
    by `true_part` of what other retrainings do."""
    return _by_answers(was, then) + true_part * by_retraining(was, then)


def by_retraining(was: ReplayedWindow, then: ReplayedWindow) -> float:
    """The part of the difference from `was` to `then` that other retrainings bring."""
    return then.accuracy - was.accuracy - _by_answers(was, then)


def _by_answers(was: ReplayedWindow, then: ReplayedWindow) -> float:
    return was.accuracy * (then.frozen / was.frozen - 1.0) if was.frozen > 0 else 0.0


def true_part(replayed: Sequence[float], measured: Sequence[tuple[float, tuple[int, int]]]) -> TruePart:
    """`replayed`: gains of the replay; `measured`: gains as they were measured on windows, each with the frames of the
    student before and of the new one, both at least 1; both on fresh answers.

    A replay's gains follow those on held-out frames. These are few and the best is kept, so that of students who have
    learned nearly all there is, most of a gain is noise; the next window takes it back. Nothing is picked by the frames
    of a window, so their mean is right, if noisy: it is drawn to all of the replay's mean, and the
    more the smaller that is, for small gains say nothing of what large ones would be."""
    mean = max(0.0, fmean(replayed)) if replayed else 0.0
    known = [1.0 / (FRAME_NOISE**2 * (1.0 / before + 1.0 / new)) for _, (before, new) in measured]
    believed = 1.0 / PART_SPREAD**2 + (mean / WANDER) ** 2
    surely = believed + mean**2 * sum(known)
    found = (believed + mean * sum(k * gain for k, (gain, _) in zip(known, measured, strict=True))) / surely
    return TruePart(min(MOST_TRUE, max(0.0, found)), 1.0 / math.sqrt(surely))
