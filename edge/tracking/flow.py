"""How objects go at each place of one camera's picture, learned from those that were followed for sure.

Close to a camera a car moves by more than its length between two answers, and grows meanwhile: its speed a moment ago
does not say where it is. Those before it do. A *sample* is where an object was, how large, and how it went on from
there. An object goes as the samples near it that are of its size and went as it does (kernel regression: Nadaraya 1964,
Watson 1964); one seen once, of which no speed is known, as all that are near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

#: So many samples are kept of a camera; the oldest give way.
_KEPT: Final = 1000
#: Columns of a sample: where (x, y), the logarithm of its size, its way (x, y, in fractions of the picture a second),
#: how its size's logarithm grew a second, the squares of its way's length and of its place's, and its class.
_X, _SIZE, _WAY, _GROWTH, _WAY_SQUARED, _X_SQUARED, _CLASS = slice(0, 2), 2, slice(3, 5), 5, 6, 7, 8
#: The columns that are averaged for an object like the samples: way, growth, and the square of the way's length.
_AVERAGED = slice(3, 7)
#: Samples count by how near they are (in sizes of the object), how alike in size (logarithm), and how alike they go:
#: samples are uncertain by so many sizes a second. One of another class counts so much.
_NEAR, _ALIKE, _UNCERTAIN, _OTHER_CLASS = 0.45, 0.35, 1.0, 0.3
#: Samples further apart than this, by the squares of these, count as if they were so far.
_FURTHEST: Final = 60.0
#: With less weight of samples a place is not known.
_LEAST: Final = 1.5
#: A speed is uncertain by so many sizes a second, and by this part of it, at least.
_ERROR, _ERROR_OF_SPEED = 0.4, 0.15


@dataclass(frozen=True)
class Going:
    """How N objects go: `way` (N, 2) a second, its variance (N,) for each axis, `growth` (N,) of their size's logarithm
    a second; `known` (N,) whether samples enough say it."""

    way: Numbers
    variance: Numbers
    growth: Numbers
    known: NDArray[np.bool_]


@dataclass(frozen=True)
class Sample:
    """An object at `centre` of `size` (root of its area) went `way` a second, and grew."""

    centre: tuple[float, float]
    size: float
    way: tuple[float, float]
    growth: float
    class_name: str


def _none() -> Numbers:
    return np.empty((0, 9))


@dataclass(frozen=True, eq=False)
class Flow:
    """The samples (N, 9) of a camera, the oldest first; `classes` are numbered in the order in which they came."""

    samples: Numbers = field(default_factory=_none)
    classes: tuple[str, ...] = ()

    def with_samples(self, new: Sequence[Sample]) -> Flow:
        """With more of them. The order of `new` does not matter."""
        if not new:
            return self
        names = (*self.classes, *sorted({s.class_name for s in new} - set(self.classes)))
        rows = sorted(
            (*s.centre, float(np.log(s.size)), *s.way, s.growth, _square(s.way), _square(s.centre),
             float(names.index(s.class_name)))
            for s in new
        )  # fmt: skip
        return Flow(np.concatenate([self.samples, np.array(rows)])[-_KEPT:], names)

    def at(
        self, centres: Numbers, sizes: Numbers, ways: Numbers, variances: Numbers, class_names: Sequence[str]
    ) -> Going:
        """How objects at `centres` (N, 2), of `sizes` (N,), go that went `ways` (N, 2), give or take `variances`."""
        if not len(self.samples) or not len(centres):
            nothing = np.zeros(len(centres))
            return Going(np.zeros((len(centres), 2)), nothing, nothing, np.zeros(len(centres), bool))
        known = {name: n for n, name in enumerate(self.classes)}
        own = [known.get(name, -1) for name in class_names]
        s, square = self.samples, sizes**2
        apart = _squares(centres, s[:, _X], s[:, _X_SQUARED])
        apart /= (_NEAR**2 * square)[:, None]
        apart += (np.log(sizes)[:, None] - s[:, _SIZE]) ** 2 / _ALIKE**2
        otherwise = _squares(ways, s[:, _WAY], s[:, _WAY_SQUARED])
        otherwise /= (variances + _UNCERTAIN**2 * square)[:, None]
        apart += otherwise
        of_class = np.where(np.arange(len(known)) == np.array(own)[:, None], 1.0, _OTHER_CLASS)
        weight = _weights(apart)
        weight *= of_class.take(s[:, _CLASS].astype(np.intp), axis=1)
        total = weight.sum(1)
        mean = weight @ s[:, _AVERAGED] / np.maximum(total, 1e-12)[:, None]
        way, growth, squared = mean[:, :2], mean[:, 2], mean[:, 3]
        spread = np.maximum(0.0, squared - (way**2).sum(1)) / 2
        least = (_ERROR * sizes + _ERROR_OF_SPEED * np.hypot(way[:, 0], way[:, 1])) ** 2
        return Going(way, np.maximum(spread, least), growth, total >= _LEAST)


def _weights(apart: Numbers) -> Numbers:
    """(N, S) of samples so far apart. Most of them are further than the furthest, and one number is enough."""
    near = np.flatnonzero(apart < _FURTHEST)
    weight = np.full(apart.size, np.exp(-0.5 * _FURTHEST))
    weight[near] = np.exp(-0.5 * apart.ravel()[near])
    return weight.reshape(apart.shape)


def _square(a: tuple[float, float]) -> float:
    """Of a length."""
    return a[0] * a[0] + a[1] * a[1]


def _squares(a: Numbers, b: Numbers, b_squared: Numbers) -> Numbers:
    """(len(a), len(b)) squares of the distances between points; `b_squared` (len(b),): those of `b` from the origin."""
    out = (a**2).sum(1)[:, None] + b_squared
    out += (-2.0 * a) @ b.T
    return np.asarray(np.maximum(out, 0.0, out=out))
