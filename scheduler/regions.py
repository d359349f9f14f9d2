"""The region of interest: which part of a camera's picture is worth looking at, learned from past labels.

At the same cost a smaller part is seen larger. Objects outside it are missed, and counted as missed, so the choice is
made on the same F1 as everything else. It changes at a window's end only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge.core.baseline import RegionRecord
from edge.core.configs import LEAST_SIDE, WHOLE, Region
from edge.core.zones import Point

#: The part of the labels' edges that may lie outside the box, and the margin added around it.
LEFT_OUT, MARGIN = 0.01, 0.03
#: Fewer labels than this say nothing.
FEWEST_LABELS = 30
#: Regions that overlap so much (intersection over union) are one.
SAME_REGION = 0.9
#: A region that saves less than this part of the picture is not worth a change.
LEAST_SAVED = 0.1
#: F1 by which the region must have been better to be taken, and may fall behind before it is given up.
TAKEN_AT, GIVEN_UP_AT = 0.02, 0.0
#: It must be better beyond the noise, too: 90 % of that of a difference of two F1 on the same n objects, of which a
#: fifth are found by one of them only, is 1.28 * sqrt(0.2 / n).
NOISE_OF_ONE_OBJECT = 0.57


def learned_region(boxes: NDArray[np.float32] | Sequence[Sequence[float]], places: Sequence[Point] = ()) -> Region:
    """The region that holds the labels `boxes` (N, 4), xyxy in fractions of the picture, and the corners `places` of
    lines and zones; WHOLE where labels are too few, or all of it is nearly everywhere."""
    given = np.asarray(boxes, np.float64).reshape(-1, 4)
    if len(given) < FEWEST_LABELS:
        return WHOLE
    low = np.quantile(given[:, :2], LEFT_OUT, axis=0) - MARGIN
    high = np.quantile(given[:, 2:], 1.0 - LEFT_OUT, axis=0) + MARGIN
    if len(places) > 0:
        corners = np.asarray(places, np.float64)
        low, high = np.minimum(low, corners.min(0) - MARGIN), np.maximum(high, corners.max(0) + MARGIN)
    sides = np.clip(np.concatenate([low, high]), 0.0, 1.0)
    for axis in (0, 1):  # a single row of objects is no reason to see nothing else
        short = LEAST_SIDE - (sides[axis + 2] - sides[axis])
        if short > 0:
            sides[axis] = max(0.0, sides[axis] - short)
            sides[axis + 2] = min(1.0, sides[axis] + LEAST_SIDE)
    region: Region = tuple(round(float(v), 3) for v in sides)  # type: ignore[assignment]
    saved = 1.0 - (region[2] - region[0]) * (region[3] - region[1])
    return region if saved >= LEAST_SAVED else WHOLE


def holds(region: Region, places: Sequence[Point]) -> bool:
    """Whether a region has all of the corners of lines and zones: beside it nothing is seen, so nothing is counted."""
    return all(region[0] <= x <= region[2] and region[1] <= y <= region[3] for x, y in places)


def next_region(record: RegionRecord | None, in_force: Region) -> Region:
    """The region for the next window: the learned one when the student in force, whose `record` it is, did better on it
    than on the whole picture. A retrained one sees in the whole picture what it was trained to see, so the download's
    record counts for the download alone; where the student was not measured yet (None) nothing changes."""
    if record is None:
        return in_force
    if record.region == WHOLE or record.part.objects <= 0 or record.whole.objects <= 0:
        return WHOLE
    gain = record.part.best_f1 - record.whole.best_f1
    needed = GIVEN_UP_AT if in_force != WHOLE else TAKEN_AT + NOISE_OF_ONE_OBJECT / math.sqrt(record.part.objects)
    if gain < needed:
        return WHOLE
    # Nearly the same again is the same: each change is another input shape, and another least score.
    return in_force if in_force != WHOLE and _overlap(record.region, in_force) >= SAME_REGION else record.region


def _overlap(one: Region, other: Region) -> float:
    """Intersection over union of two regions."""
    wide = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    high = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    both = wide * high
    areas = sum((r[2] - r[0]) * (r[3] - r[1]) for r in (one, other))
    return both / (areas - both)
