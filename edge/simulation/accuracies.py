"""Accuracies of models in windows where a trace does not have them, in the simulation of windows (pure).

Accuracies of whole windows are those on fresh answers here. An accuracy that a live run measured has the loss by age in
it, so it is divided by the inference factor of its window; it may come out above 1 where that factor is too low.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from edge.core.profiles import RetrainingProfile
from edge.simulation.trace import RecordedOutcome, RecordedWindow
from scheduler.learning.promise import FRAME_NOISE, PRIOR, TRUE_GAINS, reliability

#: A smaller inference factor says nothing about accuracy.
LEAST_FACTOR = 0.2
#: Between two scenes no harder than those that a model has learned, it loses or gains this part of what the frozen
#: student does (docs/simulation.md says what it was chosen on).
WITHIN = 0.3
#: A student remembers the newest windows that it was trained on, so many: the exemplar memory has a picture of each, at
#: its default size (retraining.exemplars).
REMEMBERED = 64


def fresh(measured: float, factors: Mapping[int, float], window: int) -> float:
    """An accuracy that was `measured` on a whole window, as it would have been on fresh answers."""
    return measured / max(LEAST_FACTOR, factors.get(window, 1.0))


def aged(accuracy: float, factors: Mapping[int, float], window: int) -> float:
    """An `accuracy` on fresh answers as a whole window would have measured it: the inverse of `fresh`."""
    return accuracy * max(LEAST_FACTOR, factors.get(window, 1.0))


def all_fresh(measured: Mapping[int, float], factors: Mapping[int, float]) -> dict[int, float]:
    """The same of several windows."""
    return {w: fresh(a, factors, w) for w, a in measured.items()}


def nearest_known(by_window: Collection[int], window: int) -> int:
    """The last window up to `window` that is known, or else the first one after it."""
    if window in by_window:
        return window
    earlier = [w for w in by_window if w <= window]
    return max(earlier) if earlier else min(by_window)


def known(by_window: Mapping[int, float], window: int) -> float:
    """The accuracy in `window`, or in the nearest one that is known (`nearest_known`)."""
    return by_window[nearest_known(by_window, window)]


def trained_on(learned: Sequence[int], window: int) -> tuple[int, ...]:
    """The windows that a student remembers after a retraining on the data of `window`, the newest last."""
    return (*learned, window)[-REMEMBERED:]


def carried(
    measured: Mapping[int, float],
    frozen: Mapping[int, float],
    window: int,
    learned: Collection[int] = (),
    most: float = 1.0,
) -> float:
    """A model's accuracy in `window`, at `most` this: as measured, or its last one moved with the frozen student
    (`faded`); of a model that was never measured that of the frozen student."""
    earlier = [w for w in measured if w <= window]
    if not earlier:
        return known(frozen, window)
    since = max(earlier)
    return faded(measured[since], frozen, since, window, learned, most)


def faded(
    accuracy: float,
    frozen: Mapping[int, float],
    since: int,
    window: int,
    learned: Collection[int] = (),
    most: float = 1.0,
) -> float:
    """An accuracy of the window `since` in `window`, at `most` this: moved by what the frozen student lost or gained in
    between. As far as scenes are no harder for the frozen student than the hardest of the windows that the model has
    `learned`, it moves by WITHIN of that only."""
    hardest = min((known(frozen, w) for w in learned), default=math.inf)

    def level(of: int) -> float:
        f = known(frozen, of)
        return min(f, hardest) + WITHIN * max(0.0, f - hardest)

    return clip(accuracy + level(window) - level(since), most)


def believed(held_out_frames: int) -> float:
    """The part of a gain (or of a difference of two) by profiles of so many held-out frames that comes, as a box counts
    on before it has learned anything (0 frames: not known)."""
    return float(PRIOR[1]) * (reliability(held_out_frames) if held_out_frames else 1.0)


def weighed(measured: float, frames: int, window_frames: int, expected: float) -> float:
    """An accuracy on all labelled frames of a window: as it was `measured` on `frames` of them and as was `expected` of
    a retraining, weighed by their variances."""
    noise = FRAME_NOISE**2 * max(0.0, 1.0 / max(1, frames) - 1.0 / max(1, window_frames))
    return expected + TRUE_GAINS**2 / (TRUE_GAINS**2 + noise) * (measured - expected)


def unrecorded(record: RecordedWindow, profile: RetrainingProfile, window: int) -> tuple[RecordedOutcome, float]:
    """(outcome, by how much it is better) of a retraining of `window` that was not recorded: the outcome of the one
    recorded in it whose profile promises most nearly as much, and the believed part of the difference between their
    profiles; where none was recorded, the start, and the believed part of the gain. Those that were measured on the
    window come before those measured later, and those before students that the gate refused: these were never
    measured."""
    part, end = believed(record.held_out_frames), profile.end_accuracy.value
    found = [(p, record.outcomes[p.config.id]) for p in record.profiles if p.config.id in record.outcomes]
    cost = profile.device_seconds.value
    if not found:
        return RecordedOutcome(record.start_accuracy, cost), part * (end - profile.start_accuracy)

    def order(one: tuple[RetrainingProfile, RecordedOutcome]) -> tuple[bool, bool, float, str]:
        p, o = one
        return window not in o.live, not o.live, abs(p.end_accuracy.value - end), p.config.id

    near, outcome = min(found, key=order)
    return replace(outcome, device_seconds=cost, people={}), part * (end - near.end_accuracy.value)


def progress(profile: RetrainingProfile, part: float) -> float:
    """Part of the gain that `part` of the work brings, along the profile's curve (linear where it has none)."""
    curve = profile.curve
    if part >= 1.0:
        return 1.0
    if len(curve) < 2 or abs(curve[-1][1] - curve[0][1]) < 1e-6:
        return part
    x = part * curve[-1][0]
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x <= x1:
            y = y0 + (y1 - y0) * (x - x0) / max(x1 - x0, 1e-12)
            return min(1.0, max(0.0, (y - curve[0][1]) / (curve[-1][1] - curve[0][1])))
    return 1.0


def mean(values: list[float]) -> float:
    """0 of none."""
    return sum(values) / max(1, len(values))


def clip(value: float, most: float = 1.0) -> float:
    """As an accuracy, 0 to `most`."""
    return min(most, max(0.0, value))
