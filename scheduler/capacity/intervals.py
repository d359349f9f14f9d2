"""Intervals of forecasts: from how much windows differ, and from how far past answers were off."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from edge.core.capacity import CapacityOutcome
from edge.core.profiles import Estimate

#: Drawn means behind an interval, and the part of them inside it.
DRAWS, INSIDE = 400, 0.8
#: A forecast is for the mean of so many coming windows.
HORIZON = 6


def interval(values: Sequence[float], seed: int) -> Estimate:
    """The mean of coming windows, where recorded windows would have been `values` [0, 1], at least one: the mean of
    resampled windows, plus how far the mean of `HORIZON` others may lie from it."""
    mean, n = fmean(values), len(values)
    drawn = random.Random(seed)
    means = sorted(
        fmean(drawn.choices(values, k=n)) + fmean(drawn.choices(values, k=HORIZON)) - mean for _ in range(DRAWS)
    )
    out = math.floor((1.0 - INSIDE) / 2 * DRAWS)
    return estimate(mean, means[out], means[-1 - out])


def estimate(value: float, low: float, high: float) -> Estimate:
    """Of an accuracy: within [0, 1], and with the value inside."""
    value = min(1.0, max(0.0, value))
    return Estimate(value, max(0.0, min(low, value)), min(1.0, max(high, value)))


@dataclass(frozen=True)
class PastErrors:
    """How right past answers were: mean absolute error [0, 1], the part of values inside their intervals, and how much
    wider intervals must be to each side."""

    answers: int
    error: float
    held: float
    wider: float


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
    outside = sorted(c.outside for c in found)
    rank = min(len(outside), math.ceil((len(outside) + 1) * INSIDE)) - 1
    error = fmean(abs(c.forecast - c.came) for c in found)
    return PastErrors(len(once), error, sum(c.held for c in found) / len(found), outside[rank])


def widened(found: Estimate, past: PastErrors | None) -> Estimate:
    """`found`, wider where past answers did not hold."""
    wider = 0.0 if past is None else past.wider
    return estimate(found.value, found.low - wider, found.high + wider)
