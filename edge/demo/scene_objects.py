"""Vehicles, cyclists and people of the demo scene: flat coloured polygons placed in the world and projected.

A shape is built once per object and kept; drawing one projects all its corners in one go, drops the faces that
look away, lights the rest and fills them.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from edge.demo.scene_conditions import Conditions
from edge.demo.scene_layout import Camera, unit

_CORNERS = 8  # every polygon is padded to this many corners
_SHIFT = 3  # cv2 sub-pixel bits

# body colours of the old and the new generation of vehicles (RGB)
_OLD_PAINT = (
    (196, 198, 202),
    (232, 232, 232),
    (120, 124, 130),
    (150, 34, 34),
    (38, 62, 128),
    (86, 100, 84),
    (172, 160, 136),
    (60, 62, 66),
)
_NEW_PAINT = (
    (28, 28, 34),
    (242, 140, 24),
    (20, 150, 140),
    (160, 214, 40),
    (104, 48, 150),
    (236, 214, 40),
    (40, 40, 90),
    (206, 60, 120),
)
_SUMMER = ((214, 70, 60), (240, 240, 236), (70, 130, 210), (246, 190, 60), (80, 170, 90), (236, 140, 170))
_WINTER = ((36, 38, 48), (62, 50, 44), (50, 66, 60), (88, 30, 40), (30, 44, 84), (104, 100, 96))
_SKIN = ((224, 182, 150), (176, 124, 88), (112, 76, 54), (240, 204, 176))
_UMBRELLA = ((30, 30, 36), (180, 36, 44), (36, 80, 160), (230, 200, 60), (210, 210, 214))
_GLASS = (44, 56, 70)
_TYRE = (26, 26, 28)


@dataclass(frozen=True)
class Shape:
    """Polygons of one object in its own frame (metres): a forward, b right, c up.

    points (n, 8, 3); colours (n, 3) 0-255; `cull` (n,) bool: only seen from outside (corners are counter-clockwise
    as seen from outside); `top` (n,) 0-1: how much snow stays on it; `glow` (n, 3): light of its own at night;
    `swing` (n, 8): how far a corner moves forward with each step (metres); `facing`: always turned to the camera.
    """

    points: np.ndarray
    colours: np.ndarray
    cull: np.ndarray
    top: np.ndarray
    glow: np.ndarray
    swing: np.ndarray
    facing: bool
    length_m: float
    lamps: tuple[tuple[float, float, float, bool], ...]
    """Lamps as (forward, right, up, is white headlight)."""


class _Builder:
    def __init__(self) -> None:
        self._rows: list[tuple[np.ndarray, tuple[float, ...], bool, float, tuple[float, ...], np.ndarray]] = []

    def poly(
        self,
        points: list[tuple[float, float, float]],
        colour: tuple[float, ...],
        *,
        cull: bool = True,
        top: float = 0.0,
        glow: tuple[float, ...] = (0, 0, 0),
        swing: list[float] | None = None,
    ) -> None:
        padded = np.array(points + [points[-1]] * (_CORNERS - len(points)), np.float32)
        moves = [0.0] * len(points) if swing is None else swing
        self._rows.append(
            (padded, colour, cull, top, glow, np.array(moves + [moves[-1]] * (_CORNERS - len(moves)), np.float32))
        )

    def box(
        self,
        a: tuple[float, float],
        b: tuple[float, float],
        c: tuple[float, float],
        colour: tuple[float, ...],
        *,
        taper: tuple[float, float, float] = (0, 0, 0),
        roof: tuple[float, ...] | None = None,
        skip_front: bool = False,
    ) -> None:
        """A block; `taper` pulls the top in at (front, rear, sides) by metres."""
        (a0, a1), (b0, b1), (c0, c1) = a, b, c
        front, rear, side = taper
        lo = {"fl": (a1, b0, c0), "fr": (a1, b1, c0), "rl": (a0, b0, c0), "rr": (a0, b1, c0)}
        hi = {
            "fl": (a1 - front, b0 + side, c1),
            "fr": (a1 - front, b1 - side, c1),
            "rl": (a0 + rear, b0 + side, c1),
            "rr": (a0 + rear, b1 - side, c1),
        }
        shade = [tuple(x * k for x in colour) for k in (0.78, 0.70, 0.92, 1.06)]
        if not skip_front:
            self.poly([lo["fr"], lo["fl"], hi["fl"], hi["fr"]], shade[0])
        self.poly([lo["rl"], lo["rr"], hi["rr"], hi["rl"]], shade[1])
        self.poly([lo["fl"], lo["rl"], hi["rl"], hi["fl"]], shade[2])
        self.poly([lo["rr"], lo["fr"], hi["fr"], hi["rr"]], tuple(x * 0.84 for x in colour))
        self.poly([hi["fl"], hi["rl"], hi["rr"], hi["fr"]], shade[3] if roof is None else roof, top=1.0)

    def band(
        self,
        a: tuple[float, float],
        half: float,
        c: tuple[float, float],
        colour: tuple[float, ...],
        glow: tuple[float, ...] = (0, 0, 0),
        lean: float = 0.0,
    ) -> None:
        """The same strip on both long sides (windows, stripes); `lean` moves its top inwards."""
        (a0, a1), (c0, c1) = a, c
        out, inn = half + 0.015, half + 0.015 - lean
        self.poly([(a1, -out, c0), (a0, -out, c0), (a0, -inn, c1), (a1, -inn, c1)], colour, glow=glow)
        self.poly([(a0, out, c0), (a1, out, c0), (a1, inn, c1), (a0, inn, c1)], colour, glow=glow)

    def front(
        self,
        at: float,
        b: tuple[float, float],
        c: tuple[float, float],
        colour: tuple[float, ...],
        glow: tuple[float, ...] = (0, 0, 0),
        lean: float = 0.0,
    ) -> None:
        (b0, b1), (c0, c1) = b, c
        at += 0.015
        self.poly([(at, b1, c0), (at, b0, c0), (at - lean, b0, c1), (at - lean, b1, c1)], colour, glow=glow)

    def rear(
        self,
        at: float,
        b: tuple[float, float],
        c: tuple[float, float],
        colour: tuple[float, ...],
        glow: tuple[float, ...] = (0, 0, 0),
        lean: float = 0.0,
    ) -> None:
        (b0, b1), (c0, c1) = b, c
        at -= 0.015
        self.poly([(at, b0, c0), (at, b1, c0), (at + lean, b1, c1), (at + lean, b0, c1)], colour, glow=glow)

    def wheels(self, places: list[float], half: float, radius: float) -> None:
        turn = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
        for at in places:
            ring = [(at + radius * float(np.cos(k)), radius + radius * float(np.sin(k))) for k in turn]
            self.poly([(x, half + 0.02, z) for x, z in ring], _TYRE)
            self.poly([(x, -half - 0.02, z) for x, z in reversed(ring)], _TYRE)

    def done(self, *, facing: bool, length_m: float, lamps: tuple[tuple[float, float, float, bool], ...] = ()) -> Shape:
        columns = list(zip(*self._rows, strict=True))
        return Shape(
            points=np.stack(columns[0]),
            colours=np.array(columns[1], np.float32),
            cull=np.array(columns[2], bool),
            top=np.array(columns[3], np.float32),
            glow=np.array(columns[4], np.float32),
            swing=np.stack(columns[5]),
            facing=facing,
            length_m=length_m,
            lamps=lamps,
        )


def _lamps(half_length: float, side: float, height: float) -> tuple[tuple[float, float, float, bool], ...]:
    return (
        (half_length, -side, height, True),
        (half_length, side, height, True),
        (-half_length, -side, height + 0.15, False),
        (-half_length, side, height + 0.15, False),
    )


_WHITE_GLOW, _RED_GLOW = (255.0, 250.0, 225.0), (255.0, 30.0, 20.0)


def _lamp_faces(build: _Builder, half_length: float, width: float, height: float, new: bool) -> None:
    if new:  # the new generation has one light bar across
        build.front(half_length, (-width, width), (height, height + 0.14), (235, 240, 245), _WHITE_GLOW)
        build.rear(-half_length, (-width, width), (height + 0.1, height + 0.24), (190, 20, 20), _RED_GLOW)
        return
    for b in ((-width, -width + 0.35), (width - 0.35, width)):
        build.front(half_length, b, (height, height + 0.22), (240, 236, 215), _WHITE_GLOW)
        build.rear(-half_length, b, (height + 0.05, height + 0.3), (170, 24, 24), _RED_GLOW)


def _car(key: tuple[int, ...], new: bool) -> Shape:
    paints = _NEW_PAINT if new else _OLD_PAINT
    paint = paints[int(unit(*key, 11) * len(paints))]
    build = _Builder()
    kind = int(unit(*key, 12) * 3)
    width = 0.9
    if new:  # one tall rounded box with a two-tone roof
        half = (1.75, 2.0, 2.25)[kind]
        height = (1.85, 1.75, 1.95)[kind]
        roof = paints[int(unit(*key, 13) * len(paints))]
        build.box((-half, half), (-width, width), (0.22, 0.85), paint)
        build.wheels([-half * 0.62, half * 0.62], width, 0.34)
        build.box((-half, half), (-width, width), (0.85, height), paint, taper=(0.75, 0.45, 0.18), roof=roof)
        build.band((-half * 0.7, half * 0.55), width - 0.03, (0.95, height - 0.2), _GLASS, lean=0.12)
        build.front(half - 0.08, (-0.75, 0.75), (0.95, height - 0.15), _GLASS, lean=0.55)
        build.rear(-half + 0.04, (-0.7, 0.7), (1.05, height - 0.2), _GLASS, lean=0.3)
    else:
        half, height, front, rear = ((2.2, 1.45, 0.75, -1.45), (1.95, 1.5, 0.65, -1.9), (2.3, 1.75, 0.85, -2.2))[kind]
        build.box((-half, half), (-width, width), (0.25, 0.85), paint)
        build.wheels([-half * 0.63, half * 0.63], width, 0.33)
        build.box((rear, front), (-width + 0.05, width - 0.05), (0.85, height), paint, taper=(0.5, 0.35, 0.16))
        build.band((rear + 0.35, front - 0.4), width - 0.07, (0.92, height - 0.12), _GLASS, lean=0.13)
        build.front(front - 0.06, (-0.74, 0.74), (0.9, height - 0.08), _GLASS, lean=0.42)
        build.rear(rear + 0.05, (-0.7, 0.7), (0.95, height - 0.1), _GLASS, lean=0.28)
    _lamp_faces(build, half, width - 0.06, 0.58, new)
    return build.done(facing=False, length_m=2 * half, lamps=_lamps(half, 0.68, 0.65))


def _truck(key: tuple[int, ...], new: bool) -> Shape:
    paints = _NEW_PAINT if new else _OLD_PAINT
    cab = paints[int(unit(*key, 11) * len(paints))]
    cargo_paints = (
        ((70, 70, 76), (196, 120, 40), (60, 110, 70)) if new else ((225, 222, 214), (202, 206, 212), (188, 170, 130))
    )
    cargo = cargo_paints[int(unit(*key, 13) * len(cargo_paints))]
    half = 2.9 + 1.2 * unit(*key, 14)
    width = 1.15
    build = _Builder()
    kind = int(unit(*key, 12) * 2)
    nose = half - 1.7

    def load() -> None:
        if new and kind == 0:  # open flatbed with a low load
            build.box((-half, nose - 0.3), (-width, width), (0.75, 1.0), (60, 58, 56))
            build.box((-half + 0.4, nose - 0.7), (-width + 0.2, width - 0.2), (1.0, 1.9), cargo)
        elif new:  # tipper: a body that widens upwards
            build.box(
                (-half, nose - 0.25),
                (-width + 0.25, width - 0.25),
                (0.8, 2.5),
                cargo,
                taper=(-0.35, -0.3, -0.25),
                roof=(92, 80, 66),
            )
        else:
            build.box((-half, nose - 0.2), (-width, width), (0.75, 3.05), cargo)
            if kind == 1:
                build.band((-half + 0.3, nose - 0.5), width, (1.5, 2.1), cab)

    build.box((-half, half - 0.1), (-width + 0.2, width - 0.2), (0.35, 0.78), (48, 48, 50))
    build.wheels([-half * 0.72, -half * 0.42, half * 0.74], width - 0.1, 0.48)
    load()
    build.box((nose, half), (-width, width), (0.5, 2.45), cab, taper=(0.3, 0.0, 0.05))
    build.band((nose + 0.5, half - 0.3), width - 0.02, (1.45, 2.2), _GLASS)
    build.front(half - 0.12, (-0.95, 0.95), (1.4, 2.25), _GLASS, lean=0.13)
    _lamp_faces(build, half, width - 0.1, 0.65, new)
    return build.done(facing=False, length_m=2 * half, lamps=_lamps(half, 0.9, 0.75))


def _bus(key: tuple[int, ...], new: bool) -> Shape:
    paints = ((30, 110, 90), (70, 40, 120), (40, 44, 52)) if new else ((206, 52, 44), (232, 196, 60), (54, 96, 170))
    paint = paints[int(unit(*key, 11) * len(paints))]
    half = 4.6 + 0.8 * unit(*key, 14)
    height = 4.1 if new and unit(*key, 12) < 0.5 else 3.1
    width = 1.25
    build = _Builder()
    build.box((-half, half), (-width, width), (0.35, height), paint, taper=(0.15, 0.05, 0.05))
    build.wheels([-half * 0.6, half * 0.66], width, 0.48)
    window_glow = (150.0, 140.0, 100.0)
    decks = ((1.35, 2.25), (2.75, 3.6)) if height > 3.5 else ((1.35, 2.45),)
    panes = 6
    step = (2 * half - 0.7) / panes
    for low, high in decks:
        for i in range(panes):
            start = -half + 0.4 + i * step
            build.band((start, start + step * 0.84), width, (low, high), _GLASS, window_glow, lean=0.03)
        build.front(half - 0.03, (-1.05, 1.05), (low, high), _GLASS, lean=0.05)
        build.rear(-half, (-0.95, 0.95), (low + 0.2, high), _GLASS, window_glow)
    build.band((-half, half), width, (0.75, 0.95), (240, 240, 240) if not new else (230, 180, 40))
    build.front(half - 0.1, (-0.8, 0.8), (height - 0.42, height - 0.12), (250, 150, 30), (255, 150, 30))
    _lamp_faces(build, half, width - 0.1, 0.6, new)
    return build.done(facing=False, length_m=2 * half, lamps=_lamps(half, 0.95, 0.7))


def _legs(build: _Builder, base: float, hip: float, stride: float, scale: float, colour: tuple[float, ...]) -> None:
    thick = 0.075 * scale
    for sign in (-1.0, 1.0):
        foot = sign * 0.09 * scale
        build.poly(
            [
                (0, foot - thick, base),
                (0, foot + thick, base),
                (0, sign * 0.1 * scale + thick, hip),
                (0, sign * 0.1 * scale - thick, hip),
            ],
            colour,
            cull=False,
            swing=[sign * stride, sign * stride, 0.0, 0.0],
        )


def _head(
    build: _Builder,
    key: tuple[int, ...],
    neck: float,
    scale: float,
    skin: tuple[float, ...],
    cap: tuple[float, ...] | None,
) -> None:
    """Head and hair; `cap`: the colour of a hat instead."""
    turn = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    head = neck + 0.15 * scale
    radius = 0.135 * scale
    build.poly([(0, radius * float(np.cos(k)), head + 1.1 * radius * float(np.sin(k))) for k in turn], skin, cull=False)
    hair = cap or ((40, 30, 24), (110, 74, 40), (170, 160, 150), (20, 20, 22))[int(unit(*key, 25) * 4)]
    build.poly(
        [
            (0, radius * 1.05 * float(np.cos(k)), head + 0.25 * radius + radius * float(np.sin(k)))
            for k in np.linspace(0.0, np.pi, 6)
        ],
        hair,
        cull=False,
        top=0.3,
    )


def _figure(
    build: _Builder,
    key: tuple[int, ...],
    *,
    winter: bool,
    base: float,
    stride: float,
    scale: float,
    sitting: bool = False,
) -> None:
    """A person's polygons in the plane (right, up), legs from `base` upwards."""
    clothes = _WINTER if winter else _SUMMER
    coat = clothes[int(unit(*key, 21) * len(clothes))]
    skin = _SKIN[int(unit(*key, 22) * len(_SKIN))]
    legs = ((40, 44, 60), (70, 62, 52), (30, 30, 32), (96, 100, 110))[int(unit(*key, 23) * 4)]
    bare = not winter and unit(*key, 24) < 0.4
    hip, neck = base + 0.82 * scale, base + 1.45 * scale
    wide = (0.31 if winter else 0.24) * scale
    hem = hip - (0.3 * scale if winter else 0.05)
    if not sitting:
        _legs(build, base, hip, stride, scale, skin if bare else legs)
    build.poly(
        [
            (0, -wide * 0.8, hem),
            (0, wide * 0.8, hem),
            (0, wide, neck - 0.12 * scale),
            (0, wide * 0.6, neck),
            (0, -wide * 0.6, neck),
            (0, -wide, neck - 0.12 * scale),
        ],
        coat,
        cull=False,
        top=0.15,
    )
    arm = tuple(0.85 * x for x in coat)
    for sign in (-1.0, 1.0):
        build.poly(
            [
                (0, sign * wide, neck - 0.1 * scale),
                (0, sign * (wide + 0.1 * scale), neck - 0.15 * scale),
                (0, sign * (wide + 0.08 * scale), hip),
                (0, sign * (wide - 0.02 * scale), hip),
            ],
            arm,
            cull=False,
            swing=[0.0, 0.0, -sign * stride * 0.5, -sign * stride * 0.5],
        )
    _head(build, key, neck, scale, skin, coat if winter else None)


def _person(key: tuple[int, ...], new: bool, raining: bool) -> Shape:
    build = _Builder()
    scale = 0.98 + 0.2 * unit(*key, 12)
    _figure(build, key, winter=new, base=0.0, stride=0.24, scale=scale)
    if raining and unit(*key, 13) < 0.8:
        colour = _UMBRELLA[int(unit(*key, 14) * len(_UMBRELLA))]
        rim, crown = 1.72 * scale, 2.25 * scale
        build.poly(
            [
                (0, 0.68, rim),
                (0, 0.55, rim + 0.28),
                (0, 0.22, crown),
                (0, -0.22, crown),
                (0, -0.55, rim + 0.28),
                (0, -0.68, rim),
            ],
            colour,
            cull=False,
            top=0.4,
        )
    elif unit(*key, 15) < 0.3:
        build.poly(
            [(0, 0.1, 0.9 * scale), (0, 0.34, 0.9 * scale), (0, 0.34, 1.4 * scale), (0, 0.1, 1.4 * scale)],
            (150, 90, 40),
            cull=False,
        )
    return build.done(facing=True, length_m=0.8)


def _frame_of_a_bicycle(build: _Builder, key: tuple[int, ...]) -> None:
    frame = ((200, 40, 40), (30, 30, 34), (40, 90, 190), (220, 220, 220))[int(unit(*key, 12) * 4)]
    turn = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    for at in (-0.62, 0.62):  # wheels: dark disc, lighter inside, so that a ring is left
        build.poly(
            [(at + 0.4 * float(np.cos(k)), 0, 0.4 + 0.4 * float(np.sin(k))) for k in turn], (22, 22, 24), cull=False
        )
        build.poly(
            [(at + 0.29 * float(np.cos(k)), 0, 0.4 + 0.29 * float(np.sin(k))) for k in turn],
            (128, 130, 132),
            cull=False,
        )
        build.poly([(at, -0.06, 0.0), (at, 0.06, 0.0), (at, 0.06, 0.8), (at, -0.06, 0.8)], (22, 22, 24), cull=False)
    for a, b in (
        ((-0.62, 0.4), (-0.12, 0.95)),
        ((-0.12, 0.95), (0.5, 0.92)),
        ((0.5, 1.08), (0.62, 0.4)),
        ((0.0, 0.4), (-0.12, 0.95)),
        ((0.0, 0.4), (0.5, 0.92)),
    ):
        build.poly(
            [(a[0] - 0.05, 0, a[1]), (a[0] + 0.05, 0, a[1]), (b[0] + 0.05, 0, b[1]), (b[0] - 0.05, 0, b[1])],
            frame,
            cull=False,
        )
    build.poly(
        [(0.48, -0.32, 1.08), (0.48, 0.32, 1.08), (0.48, 0.32, 1.16), (0.48, -0.32, 1.16)], (30, 30, 34), cull=False
    )


def _bicycle(key: tuple[int, ...], new: bool, raining: bool) -> Shape:
    build = _Builder()
    _frame_of_a_bicycle(build, key)
    length = 2.04
    if new:  # cargo bikes: a box in front of the rider
        box = _NEW_PAINT[int(unit(*key, 16) * len(_NEW_PAINT))]
        build.box((0.35, 1.35), (-0.36, 0.36), (0.35, 0.95), box)
        length = 2.4
    clothes = _WINTER if new else _SUMMER
    coat = clothes[int(unit(*key, 21) * len(clothes))]
    trousers = (40, 44, 60)
    for sign in (-1.0, 1.0):  # legs seen from the side and from the front
        build.poly(
            [(-0.2, sign * 0.14, 0.95), (-0.02, sign * 0.14, 1.0), (0.14, sign * 0.16, 0.3), (0.0, sign * 0.08, 0.3)],
            trousers,
            cull=False,
            swing=[0.0, 0.0, sign * 0.16, sign * 0.16],
        )
    half = 0.27 if new else 0.22
    build.poly([(-0.24, 0, 0.9), (0.0, 0, 0.92), (0.26, 0, 1.5), (0.06, 0, 1.6)], coat, cull=False)
    build.poly(
        [(-0.08, -half * 0.8, 0.92), (-0.08, half * 0.8, 0.92), (0.14, half, 1.48), (0.14, -half, 1.48)],
        coat,
        cull=False,
        top=0.15,
    )
    build.poly(
        [(0.16, -0.02, 1.5), (0.2, 0.02, 1.38), (0.52, 0.02, 1.1), (0.46, -0.02, 1.12)],
        tuple(0.85 * x for x in coat),
        cull=False,
    )
    skin = _SKIN[int(unit(*key, 22) * len(_SKIN))]
    turn = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    helmet = (230, 230, 60) if unit(*key, 26) < 0.5 else (40, 40, 44)
    head = [(0.14 * float(np.cos(k)), 1.74 + 0.15 * float(np.sin(k))) for k in turn]
    cap = [(0.155 * float(np.cos(k)), 1.79 + 0.14 * float(np.sin(k))) for k in np.linspace(0.0, np.pi, 6)]
    for colour, ring in ((skin, head), (helmet, cap)):
        build.poly([(0.24 + x, 0, z) for x, z in ring], colour, cull=False)
        build.poly([(0.24, x, z) for x, z in ring], colour, cull=False)
    if raining:
        build.poly([(-0.5, 0, 0.85), (0.42, 0, 0.98), (0.3, 0, 1.55), (-0.05, 0, 1.62)], (216, 204, 60), cull=False)
        build.poly(
            [(0.1, -0.4, 0.85), (0.1, 0.4, 0.85), (0.15, 0.22, 1.6), (0.15, -0.22, 1.6)], (216, 204, 60), cull=False
        )
    return build.done(facing=False, length_m=length, lamps=((0.75, 0.0, 0.85, True), (-0.85, 0.0, 0.7, False)))


def build_shape(class_index: int, key: tuple[int, ...], entered: Conditions) -> Shape:
    """The shape of an object of a class that came into the picture under the conditions `entered`."""
    new = unit(*key, 10) < entered.generation
    raining = entered.rain > 0.3 or entered.snow > 0.8
    if class_index == 0:
        return _car(key, new)
    if class_index == 1:
        return _truck(key, new)
    if class_index == 2:
        return _bus(key, new)
    if class_index == 3:
        return _bicycle(key, new, raining)
    return _person(key, new, raining)


@dataclass(frozen=True)
class PlacedObject:
    """An object of one picture, projected: everything that drawing and truth need."""

    shape: Shape
    class_index: int
    track_id: int
    depth: float
    corners: np.ndarray
    """(n, 8, 2) pixels."""
    visible: np.ndarray
    """(n,) bool: faces turned to the camera."""
    box: tuple[float, float, float, float]
    """Bounds in pixels, not clipped."""
    footprint: np.ndarray
    """(4, 2) pixels: the ground under it, a little wider and to the side, where its shadow falls."""
    lamps: tuple[tuple[float, float, float, bool], ...]
    """Lamps turned to the camera: x, y, pixels per metre, is white."""


def _lamps_seen(
    shape: Shape, ground: tuple[float, float], heading: tuple[float, float], camera: Camera
) -> tuple[tuple[float, float, float, bool], ...]:
    """Lamps turned to the camera: x, y, pixels per metre, is white."""
    hx, hz = heading
    lamps = []
    for forward, right, up, white in shape.lamps:
        lx, lz = ground[0] + forward * hx + right * hz, ground[1] + forward * hz - right * hx
        out = 1.0 if white else -1.0
        if (hx * out) * lx + (hz * out) * lz < -0.25 * float(np.hypot(lx, lz)):  # lamp looks back at the camera
            scale = camera.fy / max(lz, 0.8)
            lamps.append(
                (
                    camera.cx + camera.fx * lx / max(lz, 0.8),
                    camera.horizon + (camera.height_m - up) * scale,
                    scale,
                    white,
                )
            )
    return tuple(lamps)


def place(
    shape: Shape,
    class_index: int,
    track_id: int,
    ground: tuple[float, float],
    heading: tuple[float, float],
    along: float,
    camera: Camera,
    min_depth: float,
) -> PlacedObject | None:
    """Projects an object that stands on `ground` (X, Z) and looks along `heading` (a unit vector in X, Z).

    None when a part of it would come nearer than `min_depth` metres: it is then under the picture anyway.
    """
    if shape.facing:
        hx, hz = 0.0, -1.0
    else:
        hx, hz = heading
    points = shape.points
    if shape.swing.any():
        points = points.copy()
        step = np.sin(along * 4.2) * shape.swing
        if shape.facing:  # seen from the front the legs swing sideways on the picture only when crossing it
            points[..., 1] += step * (0.35 + 0.65 * abs(heading[0]))
        else:
            points[..., 0] += step
    a, b, c = points[..., 0], points[..., 1], points[..., 2]
    world = np.empty_like(points)
    # right of a heading (hx, hz) seen from above with X right and Z away is (hz, -hx)
    world[..., 0] = ground[0] + a * hx + b * hz
    world[..., 1] = c
    world[..., 2] = ground[1] + a * hz - b * hx
    if float(world[..., 2].min()) < min_depth:
        return None
    corners = camera.project(world)
    x, y = corners[..., 0], corners[..., 1]
    area = (x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1)
    visible = (area < 0.0) | ~shape.cull
    long, wide = 0.5 * shape.length_m + 0.12, 0.34 if shape.facing else 0.42 if class_index == 3 else 1.2
    flat = np.zeros((4, 3), np.float32)
    for i, (forward, right) in enumerate(((long, -wide), (long, wide), (-long, wide), (-long, -wide))):
        flat[i, 0] = ground[0] + forward * hx + right * hz + 0.25
        flat[i, 2] = ground[1] + forward * hz - right * hx
    return PlacedObject(
        shape,
        class_index,
        track_id,
        ground[1],
        corners,
        visible,
        (float(x.min()), float(y.min()), float(x.max()), float(y.max())),
        camera.project(flat),
        _lamps_seen(shape, ground, (hx, hz), camera),
    )


def draw(picture: np.ndarray, placed: PlacedObject, state: Conditions, fog_rgb: np.ndarray, fog_share: float) -> None:
    """Fills the object's visible faces into the picture (uint8 RGB), lit and dimmed by the conditions."""
    shape = placed.shape
    light = np.array(state.light, np.float32)
    dark = 1.0 - state.daylight
    white = (shape.top * min(1.0, 1.15 * state.snow))[:, None]
    colours = shape.colours * (1.0 - white) + 238.0 * white
    colours = colours * light
    colours = np.maximum(colours, shape.glow * (dark * dark))
    colours = np.clip(colours * (1.0 - fog_share) + fog_rgb * fog_share, 0.0, 255.0)
    pixels = np.round(placed.corners * (1 << _SHIFT)).astype(np.int32)
    for i in np.flatnonzero(placed.visible).tolist():
        r, g, b = colours[i].tolist()
        cv2.fillConvexPoly(picture, pixels[i], (r, g, b), cv2.LINE_8, _SHIFT)
