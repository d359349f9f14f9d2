"""Intervals of forecasts: from how much windows differ, and from how far past answers were off."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from edge.core.capacity import CameraOutcome, CapacityOutcome
from edge.core.profiles import Estimate

#: Drawn means behind an interval, and the part of them inside it.
DRAWS, INSIDE = 400, 0.8
#: A forecast is for the mean of so many coming windows.
HORIZON = 6
#: A bias of past answers is believed with the weight n / (n + BIAS_SHRINK) after n changes: what comes of one change is
#: off by as much for reasons of its own.
BIAS_SHRINK = 1.0


def interval(values: Sequence[float], seed: int, unsure: float = 0.0) -> Estimate:
    """The mean of coming windows, where recorded windows would have been `values` [0, 1], at least one: the mean of
    resampled windows, plus how far the mean of `HORIZON` others may lie from it, plus what is `unsure` about all of
    them (a standard deviation)."""
    mean, n = fmean(values), len(values)
    drawn = random.Random(seed)
    means = sorted(
        fmean(drawn.choices(values, k=n)) + fmean(drawn.choices(values, k=HORIZON)) - mean + drawn.gauss(0.0, unsure)
        for _ in range(DRAWS)
    )
    out = math.floor((1.0 - INSIDE) / 2 * DRAWS)
    return estimate(mean, means[out], means[-1 - out])


def estimate(value: float, low: float, high: float) -> Estimate:
    """Of an accuracy: within [0, 1], and with the value inside."""
    value = min(1.0, max(0.0, value))
    return Estimate(value, max(0.0, min(low, value)), min(1.0, max(high, value)))


@dataclass(frozen=True)
class PastErrors:
    """How right past answers were: mean absolute error [0, 1], the part of values inside their intervals, how far
    answers are moved for what came of the past ones (above 0: more came), and how much wider intervals must be to each
    side then."""

    answers: int
    error: float
    held: float
    wider: float
    bias: float = 0.0


def past_errors(outcomes: Sequence[CapacityOutcome]) -> PastErrors | None:
    """Of outcomes of one kind of change, those of the newest question first. None: nothing was compared. With the
    widening, as large a part of the past values as an interval promises would have been inside; of few values all. A
    change that was made once counts once, however often it was asked about: with the newest answer."""
    once: dict[int, CapacityOutcome] = {}
    for o in outcomes:
        once.setdefault(o.window, o)
    found = [c for o in once.values() for c in o.cameras]
    if not found:
        return None
    # Cameras of one change err alike: it counts as one. Earlier versions erred in their own way.
    kept = [[c.came - c.first.value for c in o.cameras if c.first is not None] for o in once.values()]
    off = [fmean(errors) for errors in kept if errors]
    bias = sum(off) / (len(off) + BIAS_SHRINK)
    outside = sorted(_outside(c, bias) for c in found)
    rank = min(len(outside), math.ceil((len(outside) + 1) * INSIDE)) - 1
    error = fmean(abs(c.forecast - c.came) for c in found)
    return PastErrors(len(once), error, sum(c.held for c in found) / len(found), outside[rank], bias)


def _outside(camera: CameraOutcome, bias: float) -> float:
    """How far the value that came is outside of its first interval, moved by `bias`. Of an interval that was not kept,
    it is known how far it was outside only: it is taken not to move."""
    if camera.first is None:
        return camera.outside
    moved = _moved(camera.first, bias)
    return max(0.0, moved.low - camera.came, camera.came - moved.high)


def _moved(found: Estimate, bias: float) -> Estimate:
    return estimate(found.value + bias, found.low + bias, found.high + bias)


def widened(found: Estimate, past: PastErrors | None) -> Estimate:
    """`found`, moved by what past answers were off, and wider where they did not hold."""
    if past is None:
        return found
    moved = _moved(found, past.bias)
    return estimate(moved.value, moved.low - past.wider, moved.high + past.wider)
