"""Accuracies of models in windows where a trace does not have them, in the simulation of windows (pure).

Accuracies of whole windows are those on fresh answers here. An accuracy that a live run measured has the loss by age in
it, so it is divided by the inference factor of its window; it may come out above 1 where that factor is too low.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from edge.core.profiles import RetrainingProfile
from edge.simulation.trace import RecordedOutcome, RecordedWindow
from scheduler.learning.promise import FRAME_NOISE, PRIOR, TRUE_GAINS, reliability

#: A smaller inference factor says nothing about accuracy.
LEAST_FACTOR = 0.2
#: Where a scene becomes easier, the frozen student gains; a model that learned is taken to gain this part of it.
RISE = 0.5


def fresh(measured: float, factors: Mapping[int, float], window: int) -> float:
    """An accuracy that was `measured` on a whole window, as it would have been on fresh answers."""
    return measured / max(LEAST_FACTOR, factors.get(window, 1.0))


def aged(accuracy: float, factors: Mapping[int, float], window: int) -> float:
    """An `accuracy` on fresh answers as a whole window would have measured it: the inverse of `fresh`."""
    return accuracy * max(LEAST_FACTOR, factors.get(window, 1.0))


def all_fresh(measured: Mapping[int, float], factors: Mapping[int, float]) -> dict[int, float]:
    """The same of several windows."""
    return {w: fresh(a, factors, w) for w, a in measured.items()}


def known(by_window: Mapping[int, float], window: int) -> float:
    """The accuracy in `window`, or in the last one before it that is known."""
    if window in by_window:
        return by_window[window]
    earlier = [w for w in by_window if w <= window]
    return by_window[max(earlier)] if earlier else by_window[min(by_window)]


def carried(measured: Mapping[int, float], frozen: Mapping[int, float], window: int, most: float = 1.0) -> float:
    """A model's accuracy in `window`, at `most` this: as measured, or its last one moved with the frozen student
    (`faded`); of a model that was never measured that of the frozen student."""
    earlier = [w for w in measured if w <= window]
    if not earlier:
        return known(frozen, window)
    since = max(earlier)
    return faded(measured[since], frozen, since, window, most)


def faded(accuracy: float, frozen: Mapping[int, float], since: int, window: int, most: float = 1.0) -> float:
    """An accuracy of the window `since` in `window`, at `most` this: less what the frozen student lost in between, or
    with RISE of what it gained."""
    lost = known(frozen, since) - known(frozen, window) if since < window else 0.0
    return clip(accuracy - (lost if lost > 0.0 else RISE * lost), most)


def believed(held_out_frames: int) -> float:
    """The part of a gain (or of a difference of two) by profiles of so many held-out frames that comes, as a box counts
    on before it has learned anything (0 frames: not known)."""
    return float(PRIOR[1]) * (reliability(held_out_frames) if held_out_frames else 1.0)


def weighed(measured: float, frames: int, window_frames: int, expected: float) -> float:
    """An accuracy on all labelled frames of a window: as it was `measured` on `frames` of them and as was `expected` of
    a retraining, weighed by their variances."""
    noise = FRAME_NOISE**2 * max(0.0, 1.0 / max(1, frames) - 1.0 / max(1, window_frames))
    return expected + TRUE_GAINS**2 / (TRUE_GAINS**2 + noise) * (measured - expected)


def nearest_outcome(
    record: RecordedWindow, profile: RetrainingProfile, window: int
) -> tuple[RetrainingProfile, RecordedOutcome] | None:
    """The retraining recorded in `window`, and measured on it, whose profile promises most nearly as much."""
    end = profile.end_accuracy.value
    found = [(p, record.outcomes[p.config.id]) for p in record.profiles if p.config.id in record.outcomes]
    known = [(p, o) for p, o in found if window in o.live]
    return min(known, key=lambda f: (abs(f[0].end_accuracy.value - end), f[0].config.id), default=None)


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
