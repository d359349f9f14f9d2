"""Intervals of forecasts: from how much windows differ, and from how far past answers were off."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from edge.core.capacity import BoxChange, CameraOutcome, CapacityOutcome, PastChange
from edge.core.profiles import Estimate

#: Drawn means behind an interval, and the part of them inside it.
DRAWS, INSIDE = 400, 0.8
#: Standard deviations to each side of what is normal that hold as much.
SIDE = NormalDist().inv_cdf((1.0 + INSIDE) / 2)
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
    """How right `answers` past answers were: mean absolute error [0, 1], the part of values inside their intervals, and
    how much wider intervals must be to each side. `bias`: how far answers are moved for what came of the `learned` ones
    of these that were alike (above 0: more came); `unsure`: its standard deviation."""

    answers: int
    error: float
    held: float
    wider: float
    bias: float = 0.0
    learned: int = 0
    unsure: float = 0.0


def past_errors(past: Sequence[PastChange], change: BoxChange) -> PastErrors | None:
    """Of past changes, those of the newest question first; those of the kind of `change` count. None: nothing was
    compared. A change that was made once counts once, however often it was asked about: with the newest answer. The
    bias is that of changes to the same side: outcomes with more device say nothing of less of it. With the
    widening, as large a part of the past values as an interval promises would have been inside, had each been moved by
    what the *other* changes were off; of few values all."""
    once: dict[int, PastChange] = {}
    for p in past:
        if p.change.kind == change.kind:
            once.setdefault(p.outcome.window, p)
    found = [c for p in once.values() for c in p.outcome.cameras]
    if not found:
        return None
    off = {number: error for number, p in once.items() if (error := _off(p.outcome)) is not None}
    outside = []
    for number, p in once.items():
        others = [e for n, e in off.items() if n != number and once[n].change.alike(p.change)]
        outside += [_outside(c, _bias(others)) for c in p.outcome.cameras]
    outside.sort()
    rank = min(len(outside), math.ceil((len(outside) + 1) * INSIDE)) - 1
    error = fmean(abs(c.forecast - c.came) for c in found)
    alike = [e for n, e in off.items() if once[n].change.alike(change)]
    held = sum(c.held for c in found) / len(found)
    return PastErrors(len(once), error, held, outside[rank], _bias(alike), len(alike), _bias_unsure(alike))


def _off(outcome: CapacityOutcome) -> float | None:
    """How much more came of a change than was forecast. Cameras of one change err alike: it counts as one. None: the
    forecast was of an earlier version, which erred in its own way."""
    errors = [c.came - c.first.value for c in outcome.cameras if c.first is not None]
    return fmean(errors) if errors else None


def _bias(off: Sequence[float]) -> float:
    """Of changes that were so far off."""
    return sum(off) / (len(off) + BIAS_SHRINK)


def _bias_unsure(off: Sequence[float]) -> float:
    """Standard deviation of a bias. The bias is drawn to none as if it varied, between kinds of changes, by
    1 / sqrt(BIAS_SHRINK) of how changes of one kind differ; that is the most likely one by `off`."""
    if not off:
        return 0.0
    bias = _bias(off)
    differ = (sum((e - bias) ** 2 for e in off) + BIAS_SHRINK * bias**2) / len(off)
    return math.sqrt(differ / (len(off) + BIAS_SHRINK))


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
    """`found`, moved by what past answers were off, and wider where they did not hold, and by what that is unsure."""
    if past is None:
        return found
    moved, unsure = _moved(found, past.bias), SIDE * past.unsure
    below, above = moved.value - moved.low + past.wider, moved.high - moved.value + past.wider
    return estimate(moved.value, moved.value - math.hypot(below, unsure), moved.value + math.hypot(above, unsure))
