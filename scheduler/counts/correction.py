"""How true a count is: the count corrected by what labels say, with an interval (docs/counts.md, "How true").

Objects pass a place in proportion to how many are near it at any moment, and so do those that are followed. So in
frames that a teacher labelled, the ratio of labels near the place to followed objects near it is the ratio of objects
that passed to those that were counted: a ratio estimate (Cochran, "Sampling Techniques", 1977, section 6.3), as the
rectifier of prediction-powered inference (Angelopoulos et al., Science 2023). Its variance comes from minutes of frames
as clusters, since frames of one minute show the same objects. The chance of this one period comes on top: which of the
objects that passed were missed, and which of those counted are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from edge.core.counts import Corrected, CountCheck

#: Of a normal distribution, two-sided, 90 %.
_Z: Final = 1.6449
#: Objects that the ratio of all classes together is worth when a class has few of its own.
_PRIOR: Final = 8.0
#: With fewer labels or followed objects near a place nothing is said.
LEAST_OBJECTS: Final = 10
#: The standard deviation of a ratio (relative) is never taken to be less: what passes is not quite what stands there.
_LEAST_ERROR: Final = 0.015


def corrected(objects: int, own: Sequence[CountCheck], all_classes: Sequence[CountCheck]) -> Corrected | None:
    """The count of `objects` of one class at one place. `own` are the checks of that class there, `all_classes` those
    of every class there; None: there are too few of either to say anything."""
    followed, there, same = _sums(own)
    followed_all, there_all, same_all = _sums(all_classes)
    if min(followed_all, there_all) < LEAST_OBJECTS:
        return None
    usual = there_all / followed_all
    ratio = (there + _PRIOR * usual) / (followed + _PRIOR)
    # A class with few objects of its own is as true as all are, give or take.
    part = followed / (followed + _PRIOR)
    spread = math.sqrt(
        part * _spread(own, ratio) ** 2
        + (1.0 - part) * _spread(all_classes, usual) ** 2
        + (_LEAST_ERROR * ratio) ** 2
        + (1.0 - part) * (0.5 * (ratio - 1.0)) ** 2
    )
    found = (same + _PRIOR * same_all / there_all) / (there + _PRIOR)
    right = (same + _PRIOR * same_all / followed_all) / (followed + _PRIOR)
    chance = _chance(objects, min(1.0, found), min(1.0, right))
    value = objects * ratio
    wide = _Z * math.sqrt((objects * spread) ** 2 + chance)
    # Nothing counted: some may have been missed all the same, as many as a Poisson count of none allows.
    missed = -math.log(0.1) * (1.0 - min(1.0, found)) if objects == 0 else 0.0
    return Corrected(value, max(0.0, value - wide), value + wide + missed)


def _sums(checks: Iterable[CountCheck]) -> tuple[float, float, float]:
    followed = there = same = 0
    for check in checks:
        followed, there, same = followed + check.followed, there + check.there, same + check.same
    return float(followed), float(there), float(same)


def _spread(checks: Sequence[CountCheck], ratio: float) -> float:
    """The standard error of a ratio of sums over clusters; of one cluster nothing is known: as large as the ratio."""
    clusters: dict[int, tuple[int, int]] = {}
    for check in checks:
        followed, there = clusters.get(check.start_s, (0, 0))
        clusters[check.start_s] = followed + check.followed, there + check.there
    total, count = sum(f for f, _ in clusters.values()), len(clusters)
    if total == 0 or count < 2:
        return ratio
    squares = sum((there - ratio * followed) ** 2 for followed, there in clusters.values())
    return math.sqrt(squares * count / (count - 1)) / total


def _chance(objects: int, found: float, right: float) -> float:
    """The variance of the true count where each object is counted with the chance `found`, and each that is counted is
    one with the chance `right`."""
    found = max(found, 0.05)
    return objects * (right * (1.0 - right) / found**2 + right * (1.0 - found) / found**2)
