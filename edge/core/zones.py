"""Zones: named parts of a camera's picture. An object is where it stands: at the middle of its box's lower edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edge.core.errors import InvalidValue

Point = tuple[float, float]
Box = tuple[float, float, float, float]

MIN_POINTS: Final = 3
MAX_POINTS: Final = 64
#: Of the picture; a smaller zone (at 640x360 some 23 pixels) is a slip of the hand.
MIN_AREA: Final = 1e-4
_SAME = 1e-9


@dataclass(frozen=True)
class Zone:
    """`polygon`: 3 to 64 points (x, y) in fractions of the picture, closed by itself, not crossing itself. Only objects
    of `classes` count (empty: all). Raises InvalidValue."""

    name: str
    polygon: tuple[Point, ...]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_polygon(f"zones.{self.name}.polygon", self.polygon)

    def contains(self, point: Point) -> bool:
        """Whether a point lies inside; points on the edge may fall to either side."""
        x, y = point
        within = False
        before = self.polygon[-1]
        for here in self.polygon:
            if (here[1] > y) != (before[1] > y):
                at = here[0] + (y - here[1]) * (before[0] - here[0]) / (before[1] - here[1])
                within ^= x < at
            before = here
        return within


def foot_point(box: Box) -> Point:
    """Where an object stands: `box` xyxy in fractions of the picture."""
    return (box[0] + box[2]) / 2, box[3]


def zones_at(zones: Sequence[Zone], box: Box, class_name: str) -> tuple[str, ...]:
    """Names of the zones that an object of this class stands in, in the order of `zones`."""
    foot = foot_point(box)
    return tuple(z.name for z in zones if (not z.classes or class_name in z.classes) and z.contains(foot))


def polygon_area(polygon: Sequence[Point]) -> float:
    """Fraction of the picture, of a polygon that does not cross itself."""
    following = (*polygon[1:], polygon[0])
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(polygon, following, strict=True))) / 2


def check_polygon(path: str, polygon: Sequence[Point]) -> None:
    """Raises InvalidValue naming `path`, and the point or the edges that are wrong (points are counted from 0)."""
    count = len(polygon)
    if not MIN_POINTS <= count <= MAX_POINTS:
        raise InvalidValue(path, f"{count} points", f"{MIN_POINTS} to {MAX_POINTS} points")
    for n, point in enumerate(polygon):
        if len(point) != 2 or not all(math.isfinite(v) and 0.0 <= v <= 1.0 for v in point):
            raise InvalidValue(f"{path}[{n}]", list(point), "[x, y], each from 0 to 1")
    for n in range(count):
        if math.dist(polygon[n], polygon[(n + 1) % count]) < _SAME:
            raise InvalidValue(f"{path}[{(n + 1) % count}]", list(polygon[n]), "a point other than the one before it")
    for a in range(count):
        for b in range(a + 1, count):
            if _edges_touch(polygon, a, b):
                edges = f"the edge from point {a} and the edge from point {b} cross or touch"
                raise InvalidValue(path, edges, "edges that meet at their ends only")
    if polygon_area(polygon) < MIN_AREA:
        raise InvalidValue(path, f"an area of {polygon_area(polygon):.2g}", f"at least {MIN_AREA:g} of the picture")


def _edges_touch(polygon: Sequence[Point], a: int, b: int) -> bool:
    """Whether two edges share more than the corner that neighbours have in common."""
    count = len(polygon)
    a0, a1, b0, b1 = polygon[a], polygon[(a + 1) % count], polygon[b], polygon[(b + 1) % count]
    if (a + 1) % count == b:
        return _folds_back(a0, a1, b1)
    if (b + 1) % count == a:
        return _folds_back(b0, b1, a1)
    d1, d2, d3, d4 = _turn(b0, b1, a0), _turn(b0, b1, a1), _turn(a0, a1, b0), _turn(a0, a1, b1)
    if d1 * d2 < 0 and d3 * d4 < 0:
        return True
    return (
        (d1 == 0 and _between(b0, b1, a0))
        or (d2 == 0 and _between(b0, b1, a1))
        or (d3 == 0 and _between(a0, a1, b0))
        or (d4 == 0 and _between(a0, a1, b1))
    )


def _folds_back(start: Point, corner: Point, end: Point) -> bool:
    """Two edges at a corner that lie on each other."""
    forward = (corner[0] - start[0]) * (end[0] - corner[0]) + (corner[1] - start[1]) * (end[1] - corner[1])
    return _turn(start, corner, end) == 0 and forward < 0


def _turn(a: Point, b: Point, c: Point) -> float:
    """Above 0 if a, b, c turn one way, below 0 the other, 0 on one line (within what floats can tell)."""
    value = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return 0.0 if abs(value) < 1e-12 else value


def _between(a: Point, b: Point, p: Point) -> bool:
    """Of a point on the line through a and b: whether it lies between them."""
    return min(a[0], b[0]) <= p[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= p[1] <= max(a[1], b[1])
