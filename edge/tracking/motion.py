"""Where an object is expected, and how sure that is: a Kalman filter of its centre at nearly constant velocity.

Errors are measured in sizes of the object (root of its area): a box of a detector trembles by part of its size, and a
car nearby moves and turns by more of the picture than one far away. Both axes have the same uncertainty, so that three
numbers say it all (Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Point = tuple[float, float]

#: A measured centre is off by so many sizes (standard deviation); one of a box that the picture's edge cuts by more.
_MEASURED, _MEASURED_CUT = 0.13, 0.3
#: Standard deviation of the velocity of an object seen once: sizes a second.
_FIRST_SPEED = 2.5
#: The velocity changes by so many sizes a second in a second, and by this part of itself.
_TURN, _TURN_OF_SPEED = 0.45, 0.45


@dataclass(frozen=True)
class Motion:
    """`centre` and `velocity` (a second) in fractions of the picture; variances of both and between them."""

    centre: Point
    velocity: Point
    of_centre: float
    between: float
    of_velocity: float

    @property
    def sure_velocity(self) -> Point:
        """The part of the velocity that is more than its standard deviation."""
        speed = math.hypot(*self.velocity)
        part = max(0.0, 1.0 - math.sqrt(max(0.0, self.of_velocity)) / speed) if speed > 0 else 0.0
        return part * self.velocity[0], part * self.velocity[1]

    @property
    def stopped(self) -> Motion:
        """As it would be if it stood."""
        return Motion(self.centre, (0.0, 0.0), self.of_centre, self.between, self.of_velocity)

    def after(self, passed_s: float, size: float) -> Motion:
        """The expectation `passed_s` later for an object of `size`."""
        t = passed_s
        q = (_TURN * size + _TURN_OF_SPEED * math.hypot(*self.velocity)) ** 2
        x, y = self.centre
        vx, vy = self.velocity
        return Motion(
            (x + vx * t, y + vy * t),
            self.velocity,
            self.of_centre + 2 * t * self.between + t * t * self.of_velocity + q * t**3 / 3,
            self.between + t * self.of_velocity + q * t * t / 2,
            self.of_velocity + q * t,
        )

    def drawn(self, velocity: Point, variance: float) -> Motion:
        """After others were seen to go with `velocity`, give or take the root of `variance`, where it is."""
        total = self.of_velocity + variance
        gain, shift = self.of_velocity / total, self.between / total
        dx, dy = velocity[0] - self.velocity[0], velocity[1] - self.velocity[1]
        return Motion(
            (self.centre[0] + shift * dx, self.centre[1] + shift * dy),
            (self.velocity[0] + gain * dx, self.velocity[1] + gain * dy),
            self.of_centre - shift * self.between,
            (1 - gain) * self.between,
            (1 - gain) * self.of_velocity,
        )

    def seen(self, centre: Point, variance: float) -> Motion:
        """After it was measured at `centre`, give or take the root of `variance`."""
        total = self.of_centre + variance
        gain, turn = self.of_centre / total, self.between / total
        dx, dy = centre[0] - self.centre[0], centre[1] - self.centre[1]
        return Motion(
            (self.centre[0] + gain * dx, self.centre[1] + gain * dy),
            (self.velocity[0] + turn * dx, self.velocity[1] + turn * dy),
            (1 - gain) * self.of_centre,
            (1 - gain) * self.between,
            self.of_velocity - turn * self.between,
        )


def first(centre: Point, size: float) -> Motion:
    """An object of which nothing is known but where it is."""
    return Motion(centre, (0.0, 0.0), (_MEASURED * size) ** 2, 0.0, (_FIRST_SPEED * size) ** 2)


def measured(size: float, cut: bool) -> float:
    """Variance of a measured centre of a box of `size`."""
    return ((_MEASURED_CUT if cut else _MEASURED) * size) ** 2
