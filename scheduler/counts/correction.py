"""How true a count is: the count corrected by what labels say, with an interval (docs/counts.md, "How true").

Around labelled frames what was counted at a place is known beside what was there. The difference of both, for each
object that was counted there, says how far the count is from the truth: the count plus the difference is a prediction
that a labelled sample rectifies (Angelopoulos et al., "Prediction-powered inference", Science 2023). Its error comes
from some minutes of frames as clusters, since frames near each other show the same objects; the method's own error
comes on top.

A difference that may be chance makes counts worse. So a part of it is taken: its square beside its square and its
variance (an empirical-Bayes estimate; James, Stein, "Estimation with quadratic loss", 1961). Where labels are of the
counted time itself, that variance is the smaller, the more of its crossings they show.
"""

from __future__ import annotations

import math
from typing import Final

from edge.core.counts import Corrected
from scheduler.counts.checks import ClusterSums

#: Of a normal distribution, two-sided, 90 %.
_Z: Final = 1.6449
#: The standard deviation of what the method is off by: part of the count, and so many objects.
_OWN_ERROR, _OWN_OBJECTS = 0.15, 1.2
#: Where labels are rare a difference is off by chance, and by what labels are off by: the variance, so many times.
_MOST_CHANCE: Final = 3.0


def corrected(objects: int, at_place: int, own: ClusterSums, every: ClusterSums, crossings: bool) -> Corrected | None:
    """The count of `objects` of one class at one place where `at_place` objects of all classes were counted. `own` are
    the checks of that class there, `every` those of all classes there; `crossings`: of that time itself. None: there
    are too few to say anything."""
    counted = max(objects, at_place)
    if every.few and not (crossings and every.cover(counted)):
        return None
    each = counted / every.followed
    squares = max(0, own.followed_squared - 2 * own.product + own.there_squared)
    difference = own.there - own.followed
    sure = _sure_part(difference, _chance(each, crossings) * _variance(own, squares))
    value = max(0.0, objects + sure * difference * each)
    spread = each * math.sqrt(squares)
    wide = _Z * math.sqrt(spread**2 + (_OWN_ERROR * value) ** 2 + _OWN_OBJECTS**2)
    # Nothing counted: some may have been missed all the same, as many as a Poisson count of none allows.
    missed = -math.log(0.1) * (1.0 - min(1.0, every.same / max(1, every.there))) if objects == 0 else 0.0
    return Corrected(value, max(0.0, value - wide), value + wide + missed)


def _variance(own: ClusterSums, squares: int) -> float:
    """The variance of the difference of labelled and followed objects, if clusters are a small sample."""
    n = own.clusters
    return max(0.0, squares - (own.there - own.followed) ** 2 / n) * n / (n - 1) if n > 1 else float(squares)


def _chance(each: float, crossings: bool) -> float:
    """How much chance there is where each followed object stands for so many counted ones: none where each crossing of
    the counted time is in the own time of a labelled frame, and the whole variance at least where labels are of another
    time, or of objects in a zone, whose number says nothing about how many of the counted ones they show."""
    return min(_MOST_CHANCE, max(each - 1.0, 0.0 if crossings else 1.0))


def _sure_part(difference: int, variance: float) -> float:
    """The part of a difference that is taken to be more than chance."""
    square = difference**2
    return square / (square + variance) if square else 0.0
