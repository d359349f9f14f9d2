"""How a camera moves by a change, of what two replays of the same windows say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduler.learning.promise import FRAME_NOISE, WANDER

#: Gains in a replay count at most so many times.
MOST_TRUE = 2.0


@dataclass(frozen=True)
class ReplayedWindow:
    """Mean accuracy [0, 1] of a camera in a window of a replay, and that of the frozen student at the same inference
    shares."""

    accuracy: float
    frozen: float


def move(was: ReplayedWindow, then: ReplayedWindow, true_part: float) -> float:
    """By how much the accuracy moves from `was` to `then`: by what other answers bring, as for the frozen student, and
    by `true_part` of what other retrainings do."""
    answers = was.accuracy * (then.frozen / was.frozen - 1.0) if was.frozen > 0 else 0.0
    return answers + true_part * (then.accuracy - was.accuracy - answers)


def true_part(replayed: Sequence[float], measured: Sequence[tuple[float, tuple[int, int]]]) -> float:
    """The part of retrainings' gains in a replay that were really there on windows, 0 to MOST_TRUE. `replayed`: gains
    of the replay; `measured`: gains as they were measured on windows, each with the frames of the student before and of
    the new one, both at least 1.

    A replay's gains follow those on held-out frames. These are few and the best is kept, so that of students who have
    learned nearly all there is, most of a gain is noise; the next window takes it back. Nothing is picked by the frames
    of a window, so their mean is right, if noisy: it is drawn to the replay's mean."""
    if not replayed or not measured:
        return 1.0
    mean = fmean(replayed)
    if mean <= 0:
        return 1.0
    known = [1.0 / (FRAME_NOISE**2 * (1.0 / before + 1.0 / new)) for _, (before, new) in measured]
    believed = 1.0 / WANDER**2
    found = (sum(k * gain for k, (gain, _) in zip(known, measured, strict=True)) + believed * mean) / (
        sum(known) + believed
    )
    return min(MOST_TRUE, max(0.0, found / mean))
