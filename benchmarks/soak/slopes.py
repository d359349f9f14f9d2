"""How a quantity grows over time: the Theil-Sen slope with an interval, which a few outliers do not move. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["flat", "rising", "falling", "undecided", "short"]
#: A process's first minutes are warming up: caches, first pages, compiled code. Memory takes longer: cameras' workers
#: and profilers of an hour's soak grew by 3 to 13 % an hour from the fifth to the 20th minute of their lives, and by
#: less than 2 % from the fifth to the 50th.
WARM_UP_S, MEMORY_WARM_UP_S = 300.0, 900.0
#: Fewer minutes than this say nothing of an hour.
LEAST_MINUTES = 10
#: Of the normal distribution, for an interval of 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Slope:
    """A slope per hour with its 95 % interval, in the unit of the values; the median value; minutes behind it."""

    per_hour: float
    low: float
    high: float
    median: float
    minutes: int


def minute_medians(samples: Sequence[tuple[float, float]], warm_up_s: float = WARM_UP_S) -> list[tuple[float, float]]:
    """(hours, median) of each minute of `samples` = (seconds, value), without the first `warm_up_s`."""
    if not samples:
        return []
    begin = samples[0][0] + warm_up_s
    minutes: defaultdict[int, list[float]] = defaultdict(list)
    for at_s, value in samples:
        if at_s >= begin:
            minutes[int((at_s - begin) // 60.0)].append(value)
    return [((minute + 0.5) / 60.0, statistics.median(values)) for minute, values in sorted(minutes.items())]


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Theil-Sen: the median of the slopes between all pairs of `points` = (hours, value), and the interval of Sen (by
    the variance of Kendall's count, no ties). None for fewer than LEAST_MINUTES points."""
    count = len(points)
    if count < LEAST_MINUTES:
        return None
    hours, values = np.asarray(points, float).T
    first, second = np.triu_indices(count, 1)
    pairs = np.sort((values[second] - values[first]) / (hours[second] - hours[first]))
    spread = _Z * float(np.sqrt(count * (count - 1) * (2 * count + 5) / 18.0))
    low = max(0, int(np.floor((len(pairs) - spread) / 2.0)))
    high = min(len(pairs) - 1, int(np.ceil((len(pairs) + spread) / 2.0)))
    return Slope(
        float(np.median(pairs)), float(pairs[low]), float(pairs[high]), float(np.median(values)), count
    )  # fmt: skip


def verdict(found: Slope | None, limit_per_hour: float) -> Verdict:
    """`flat`: the whole interval is within ± the limit; `rising` or `falling`: all of it is beyond the limit;
    `undecided`: the interval is too wide to say; `short`: there is no slope."""
    if found is None:
        return "short"
    if found.low > limit_per_hour:
        return "rising"
    if found.high < -limit_per_hour:
        return "falling"
    return "flat" if -limit_per_hour <= found.low and found.high <= limit_per_hour else "undecided"
