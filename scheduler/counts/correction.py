"""How true a count is: the count corrected by what labels say, with an interval (docs/counts.md, "How true").

Objects pass a place in proportion to how many are near it at any moment, and so do those that are followed. So in
frames that a teacher labelled, the ratio of labels near the place to followed objects near it is the ratio of objects
that passed to those that were counted: a ratio estimate (Cochran, "Sampling Techniques", 1977, section 6.3), as the
rectifier of prediction-powered inference (Angelopoulos et al., Science 2023). Its variance comes from some minutes of
frames as clusters, since frames near each other show the same objects. The chance of this one period comes on top:
which of the objects that passed were missed, and which of those counted are none.
"""

from __future__ import annotations

import math
from typing import Final

from edge.core.counts import Corrected
from scheduler.counts.checks import ClusterSums

#: Of a normal distribution, two-sided, 90 %.
_Z: Final = 1.6449
#: Objects that the ratio of all classes together is worth when a class has few of its own.
_PRIOR: Final = 8.0
#: With fewer labels or followed objects near a place nothing is said.
LEAST_OBJECTS: Final = 10
#: The standard deviation of a ratio (relative) is never taken to be less: what passes is not quite what stands there.
_LEAST_ERROR: Final = 0.015


def corrected(objects: int, own: ClusterSums, every: ClusterSums) -> Corrected | None:
    """The count of `objects` of one class at one place. `own` are the checks of that class there, `every` those of all
    classes there; None: there are too few of either to say anything."""
    if min(every.followed, every.there) < LEAST_OBJECTS:
        return None
    usual = every.there / every.followed
    ratio = (own.there + _PRIOR * usual) / (own.followed + _PRIOR)
    # A class with few objects of its own is as true as all are, give or take.
    part = own.followed / (own.followed + _PRIOR)
    spread = math.sqrt(
        part * _spread(own, ratio) ** 2
        + (1.0 - part) * _spread(every, usual) ** 2
        + (_LEAST_ERROR * ratio) ** 2
        + (1.0 - part) * (0.5 * (ratio - 1.0)) ** 2
    )
    found = (own.same + _PRIOR * every.same / every.there) / (own.there + _PRIOR)
    right = (own.same + _PRIOR * every.same / every.followed) / (own.followed + _PRIOR)
    chance = _chance(objects, min(1.0, found), min(1.0, right))
    value = objects * ratio
    wide = _Z * math.sqrt((objects * spread) ** 2 + chance)
    # Nothing counted: some may have been missed all the same, as many as a Poisson count of none allows.
    missed = -math.log(0.1) * (1.0 - min(1.0, found)) if objects == 0 else 0.0
    return Corrected(value, max(0.0, value - wide), value + wide + missed)


def _spread(sums: ClusterSums, ratio: float) -> float:
    """The standard error of a ratio of sums over clusters; of one cluster nothing is known: as large as the ratio."""
    count = sums.clusters
    if sums.followed == 0 or count < 2:
        return ratio
    squares = sums.there_squared - 2 * ratio * sums.product + ratio**2 * sums.followed_squared
    return math.sqrt(max(0.0, squares) * count / (count - 1)) / sums.followed


def _chance(objects: int, found: float, right: float) -> float:
    """The variance of the true count where each object is counted with the chance `found`, and each that is counted is
    one with the chance `right`."""
    found = max(found, 0.05)
    return objects * (right * (1.0 - right) / found**2 + right * (1.0 - found) / found**2)
