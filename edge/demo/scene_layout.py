"""Where the demo's cameras stand and which lanes their traffic follows (metres; X right, Z away, Y up).

The camera is a pinhole whose picture plane stands upright: x = cx + fx X / Z, y = horizon + fy (height - Y) / Z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edge.demo.scene_conditions import SceneSpec

_M64 = (1 << 64) - 1


def hash64(*keys: int) -> int:
    """A well mixed 64-bit number of some integers (splitmix64): randomness with random access."""
    state = 0x9E3779B97F4A7C15
    for key in keys:
        state = (state ^ (key & _M64)) & _M64
        state = (state + 0x9E3779B97F4A7C15) & _M64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _M64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _M64
        state ^= state >> 31
    return state


def unit(*keys: int) -> float:
    """A number in [0, 1) that depends on the keys only."""
    return hash64(*keys) / 2.0**64


@dataclass(frozen=True)
class Camera:
    """Pinhole over flat ground: focal lengths and centre in pixels, `height_m` above ground."""

    fx: float
    fy: float
    cx: float
    horizon: float
    height_m: float

    def project(self, points: np.ndarray) -> np.ndarray:
        """World points (..., 3) as X, Y, Z in metres to pixels (..., 2); Z is kept at 0.8 m or more."""
        depth = np.maximum(points[..., 2], 0.8)
        out = np.empty((*points.shape[:-1], 2), np.float32)
        out[..., 0] = self.cx + self.fx * points[..., 0] / depth
        out[..., 1] = self.horizon + self.fy * (self.height_m - points[..., 1]) / depth
        return out


@dataclass(frozen=True)
class SceneLane:
    """A straight path with equally spaced arrival slots.

    `start`, `end` are ground points (X, Z) in metres; `speed` in m/s (0: parking places); `gap` is the distance
    between two slots; `kinds` are the class indices that may use the lane; `presence` is the share of slots in
    use at density 1. In front of `stop_m` (metres from the start) everybody moves only while the light is green:
    `green` is its share of `period_s`, `offset_s` its shift.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    speed: float
    gap: float
    kinds: tuple[int, ...]
    presence: float
    stop_m: float | None = None
    period_s: float = 24.0
    green: float = 1.0
    offset_s: float = 0.0

    @property
    def length(self) -> float:
        """Length in metres."""
        return math.hypot(self.end[0] - self.start[0], self.end[1] - self.start[1])

    def _moved_s(self, t_s: float) -> float:
        if self.stop_m is None:
            return t_s
        whole, part = divmod(t_s + self.offset_s, self.period_s)
        return whole * self.green * self.period_s + min(part, self.green * self.period_s)

    def _time_of(self, moved_s: float) -> float:
        if self.stop_m is None:
            return moved_s
        whole, part = divmod(moved_s, self.green * self.period_s)
        return whole * self.period_s + part - self.offset_s

    def occupants(self, t_s: float, seed: int, index: int) -> list[tuple[int, float, float]]:
        """Slots on the lane at `t_s`: (slot key, metres from the start, time of entering in seconds)."""
        reach = self.length
        spare = max(0.0, self.gap - 13.0) if self.gap > 13.0 else 0.5 * self.gap
        if self.speed == 0.0:
            found = []
            for slot in range(int(reach // self.gap)):
                dwell = 60.0 + 120.0 * unit(seed, index, slot, 1)
                stay = math.floor(t_s / dwell + unit(seed, index, slot, 2))
                entered = (stay - unit(seed, index, slot, 2)) * dwell
                found.append((slot * 100_003 + stay, (slot + 0.5) * self.gap, entered))
            return found
        front = self.speed * self._moved_s(t_s)
        # slots past the stop line run freely, so one may be on the lane for longer: look a little further
        first = math.floor((front - reach - self.speed * self.period_s) / self.gap) - 1
        found = []
        for slot in range(first, math.floor(front / self.gap) + 1):
            origin = slot * self.gap + spare * unit(seed, index, slot, 3)
            along = front - origin
            if along < 0.0:
                continue
            entered = self._time_of(origin / self.speed)
            if self.stop_m is not None and along > self.stop_m:
                crossed = self._time_of((origin + self.stop_m) / self.speed)
                along = self.stop_m + self.speed * (t_s - crossed)
            if along <= reach:
                found.append((slot, along, entered))
        return found


@dataclass(frozen=True)
class Area:
    """A painted piece of ground: a polygon of ground points (X, Z)."""

    kind: Literal["road", "walk", "mark", "zebra", "bike"]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class SceneLayout:
    """Everything fixed about one camera's view."""

    camera: Camera
    lanes: tuple[SceneLane, ...]
    areas: tuple[Area, ...]
    portal: tuple[float, float, float] | None
    """A dark underpass (X from, X to, Z) out of which distant traffic comes."""


_MOTOR, _BIKE, _WALK, _HEAVY = (0, 1, 2), (3,), (4,), (0, 1, 2)


def _strip(
    kind: Literal["road", "walk", "mark", "zebra", "bike"], a: tuple[float, float], b: tuple[float, float], half: float
) -> Area:
    length = math.hypot(b[0] - a[0], b[1] - a[1])
    nx, nz = -(b[1] - a[1]) / length * half, (b[0] - a[0]) / length * half
    return Area(kind, ((a[0] + nx, a[1] + nz), (b[0] + nx, b[1] + nz), (b[0] - nx, b[1] - nz), (a[0] - nx, a[1] - nz)))


def _dashes(a: tuple[float, float], b: tuple[float, float], step: float = 6.0) -> list[Area]:
    length = math.hypot(b[0] - a[0], b[1] - a[1])
    ux, uz = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    marks = []
    for i in range(int(length // step)):
        s = i * step
        marks.append(
            _strip("mark", (a[0] + ux * s, a[1] + uz * s), (a[0] + ux * (s + 2.4), a[1] + uz * (s + 2.4)), 0.09)
        )
    return marks


def _highway() -> tuple[list[SceneLane], list[Area], tuple[float, float, float] | None]:
    far, near = 46.0, 6.0
    lanes = [
        SceneLane((-5.5, far), (-5.5, near), 9.0, 21.0, _HEAVY, 0.75),
        SceneLane((-2.0, far), (-2.0, near), 12.0, 23.0, _MOTOR, 0.75),
        SceneLane((2.0, near), (2.0, far), 11.5, 24.0, _MOTOR, 0.75),
        SceneLane((5.5, near), (5.5, far), 8.5, 21.0, _HEAVY, 0.75),
        SceneLane((-10.0, 40.0), (-10.0, 12.0), 3.6, 12.0, (3, 4), 0.45),
        SceneLane((9.6, 12.0), (9.6, 40.0), 1.6, 9.0, (3, 4), 0.35),
    ]
    areas = [
        _strip("road", (0, 4), (0, 70), 7.6),
        _strip("bike", (-10.0, 4), (-10.0, 70), 1.2),
        _strip("bike", (9.6, 4), (9.6, 70), 1.2),
        _strip("walk", (0, 4), (0, 70), 0.3),
    ]
    areas += _dashes((-3.8, 5), (-3.8, 66)) + _dashes((3.8, 5), (3.8, 66))
    return lanes, areas, (-9.0, 9.0, 46.5)


def _junction() -> tuple[list[SceneLane], list[Area], tuple[float, float, float] | None]:
    cross, zebra = 25.0, 16.0
    go = {"period_s": 24.0, "green": 0.5}
    lanes = [
        SceneLane((-1.9, 44.0), (-1.9, 6.0), 8.0, 20.0, _MOTOR, 0.7, 44.0 - 33.5, **go),
        SceneLane((1.9, 6.0), (1.9, 44.0), 8.0, 20.0, _MOTOR, 0.7, 5.5, **go),
        SceneLane((-22.0, cross - 1.9), (22.0, cross - 1.9), 7.5, 20.0, _MOTOR, 0.7, 15.0, offset_s=12.0, **go),
        SceneLane((22.0, cross + 2.1), (-22.0, cross + 2.1), 7.5, 20.0, _MOTOR, 0.7, 15.0, offset_s=12.0, **go),
        SceneLane((-12.0, zebra), (12.0, zebra), 1.5, 4.5, _WALK, 0.5, 7.2, offset_s=10.0, **go),
        SceneLane((12.0, zebra + 1.3), (-12.0, zebra + 1.3), 1.4, 5.0, _WALK, 0.45, 7.2, offset_s=10.0, **go),
        SceneLane((-6.2, 40.0), (-6.2, 9.0), 1.5, 9.0, _WALK, 0.5),
        SceneLane((4.6, 8.0), (4.6, 42.0), 4.2, 14.0, _BIKE, 0.6),
        SceneLane((20.0, cross + 5.4), (-20.0, cross + 5.4), 4.0, 15.0, _BIKE, 0.6),
    ]
    areas = [
        _strip("walk", (0, 4), (0, 60), 7.6),
        _strip("walk", (-45, cross), (45, cross), 9.0),
        _strip("road", (0, 4), (0, 60), 3.9),
        _strip("road", (-45, cross), (45, cross), 4.6),
        _strip("bike", (4.6, 4), (4.6, 17), 0.7),
        _strip("bike", (-45, cross + 5.4), (45, cross + 5.4), 0.7),
    ]
    areas += _dashes((0, 5), (0, 14), 5.0) + _dashes((0, 32), (0, 58), 5.0)
    areas += _dashes((-40, cross), (-6, cross)) + _dashes((6, cross), (40, cross))
    areas += [_strip("zebra", (x, zebra - 0.9), (x, zebra + 2.2), 0.25) for x in np.arange(-3.4, 3.6, 0.95).tolist()]
    return lanes, areas, (-4.5, 4.5, 44.5)


def _residential() -> tuple[list[SceneLane], list[Area], tuple[float, float, float] | None]:
    # the street runs obliquely: X shifts by 0.22 m per metre of depth
    def at(side: float, z: float) -> tuple[float, float]:
        return (side + 0.22 * (z - 10.0), z)

    lanes = [
        SceneLane(at(-2.6, 42.0), at(-2.6, 6.0), 5.5, 19.0, (0, 1, 2), 0.75),
        SceneLane(at(0.6, 6.0), at(0.6, 42.0), 5.5, 21.0, (0, 1, 2), 0.7),
        SceneLane(at(3.0, 8.0), at(3.0, 38.0), 0.0, 7.4, (0, 0, 1), 0.7),
        SceneLane(at(-6.4, 40.0), at(-6.4, 7.0), 1.4, 7.5, _WALK, 0.6),
        SceneLane(at(-7.4, 7.0), at(-7.4, 40.0), 1.3, 8.5, _WALK, 0.5),
        SceneLane(at(5.6, 7.0), at(5.6, 40.0), 1.35, 8.0, _WALK, 0.5),
        SceneLane(at(-4.6, 40.0), at(-4.6, 7.0), 3.8, 14.0, _BIKE, 0.7),
    ]
    areas = [
        _strip("walk", at(-1.0, 2), at(-1.0, 60), 7.6),
        _strip("road", at(-0.7, 2), at(-0.7, 60), 4.9),
        _strip("bike", at(-4.6, 2), at(-4.6, 60), 0.7),
    ]
    areas += _dashes(at(-1.0, 4), at(-1.0, 58))
    return lanes, areas, None


def _boulevard() -> tuple[list[SceneLane], list[Area], tuple[float, float, float] | None]:
    lanes = [
        SceneLane((-26.0, 16.0), (24.0, 16.0), 7.0, 24.0, (0, 2, 2), 0.75, 24.0, period_s=18.0, green=0.6),
        SceneLane((-26.0, 19.5), (26.0, 19.5), 8.5, 24.0, _MOTOR, 0.75),
        SceneLane((28.0, 24.0), (-28.0, 24.0), 8.0, 23.0, _MOTOR, 0.75),
        SceneLane((30.0, 27.5), (-30.0, 27.5), 7.0, 25.0, (0, 1, 2), 0.75),
        SceneLane((-18.0, 13.2), (18.0, 13.2), 4.2, 16.0, _BIKE, 0.75),
        SceneLane((12.0, 11.3), (-12.0, 11.3), 1.4, 7.5, _WALK, 0.5),
        SceneLane((-12.0, 10.5), (12.0, 10.5), 1.3, 8.5, _WALK, 0.45),
        SceneLane((-24.0, 31.5), (24.0, 31.5), 1.4, 9.0, _WALK, 0.5),
    ]
    areas = [
        _strip("walk", (-60, 21), (60, 21), 14.0),
        _strip("bike", (-60, 13.2), (60, 13.2), 0.8),
        _strip("road", (-60, 21.8), (60, 21.8), 7.5),
        _strip("walk", (-60, 21.7), (60, 21.7), 0.5),
    ]
    areas += _dashes((-40, 17.7), (40, 17.7)) + _dashes((-40, 25.8), (40, 25.8))
    return lanes, areas, None


def build_layout(spec: SceneSpec) -> SceneLayout:
    """The view of a camera: its character's street, varied by the seed (pose, mirroring, timing)."""
    lanes, areas, portal = {
        "highway": _highway,
        "junction": _junction,
        "residential": _residential,
        "boulevard": _boulevard,
    }[spec.layout]()
    focal, height_m, horizon = {
        "highway": (430.0, 7.6, 6.0),
        "junction": (430.0, 6.8, 26.0),
        "residential": (420.0, 5.6, 34.0),
        "boulevard": (360.0, 5.6, 66.0),
    }[spec.layout]
    key = (spec.seed, spec.character, 77)
    sx, sy = spec.width / 512.0, spec.height / 288.0
    focal *= 0.94 + 0.12 * unit(*key, 1)
    camera = Camera(
        fx=focal * sx,
        fy=focal * sy,
        cx=(256.0 + 44.0 * (unit(*key, 2) - 0.5)) * sx,
        horizon=(horizon + 12.0 * (unit(*key, 3) - 0.5)) * sy,
        height_m=height_m * (0.93 + 0.14 * unit(*key, 4)),
    )
    sign = -1.0 if unit(*key, 5) < 0.5 else 1.0
    pace = 0.85 + 0.3 * unit(*key, 6)
    shift = 24.0 * unit(*key, 7)
    lanes = [
        replace(
            lane,
            start=(sign * lane.start[0], lane.start[1]),
            end=(sign * lane.end[0], lane.end[1]),
            speed=lane.speed * pace,
            offset_s=lane.offset_s + shift,
        )
        for lane in lanes
    ]
    areas = [Area(area.kind, tuple((sign * x, z) for x, z in area.points)) for area in areas]
    if portal is not None:
        ends = sorted((sign * portal[0], sign * portal[1]))
        portal = (ends[0], ends[1], portal[2])
    return SceneLayout(camera, tuple(lanes), tuple(areas), portal)
