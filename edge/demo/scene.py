"""The demo's street camera: `Scene.render(t)` draws the picture at any scene time and tells what is on it.

Everything is a function of (spec, t): a scene can be asked for any time in any order and gives the same picture.
Fixed parts of a view are painted once; the street in a given light and weather is composed for a grid of places in
the cycle and cross-faded between them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import cv2
import numpy as np

from edge.demo.scene_conditions import (
    CHARACTERS,
    CLASSES,
    Conditions,
    SceneSpec,
    conditions,
    conditions_at_phase,
)
from edge.demo.scene_layout import SceneLayout, build_layout, hash64, unit
from edge.demo.scene_objects import PlacedObject, Shape, build_shape, draw, place

__all__ = ["CHARACTERS", "CLASSES", "Conditions", "Scene", "SceneObject", "SceneSpec", "conditions"]

_GRID = 144  # street pictures per cycle
_KEPT_STREETS = 6
_KEPT_SHAPES = 512
_MIN_VISIBLE = 0.4  # truth leaves out objects of which less is seen
_MIN_HEIGHT, _MIN_WIDTH = 12.5, 5.0  # pixels at 512x288


@dataclass(frozen=True)
class SceneObject:
    """One object of the truth: `box` xyxy in [0, 1], clipped to the picture; `visible_fraction` (0-1] of its box
    that is inside the picture and not behind a nearer object; `track_id` is the same on all its pictures."""

    box: tuple[float, float, float, float]
    class_name: str
    visible_fraction: float
    track_id: int


def _smooth_noise(rng: np.random.Generator, height: int, width: int, cell: int) -> np.ndarray:
    small = rng.random((height // cell + 2, width // cell + 2), dtype=np.float32)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


class _Street:
    """The fixed parts of a view and their look in given conditions."""

    def __init__(self, spec: SceneSpec, layout: SceneLayout) -> None:
        self._spec = spec
        height, width = spec.height, spec.width
        rng = np.random.default_rng((spec.seed, spec.character, 5))
        camera = layout.camera
        rows = np.arange(height, dtype=np.float32)
        horizon = camera.horizon
        depth = camera.fy * camera.height_m / np.maximum(rows - horizon, 1.0)
        self._far = np.minimum(depth, 90.0)[:, None, None]
        self._ground = np.zeros((height, width, 1), np.float32)
        self._ground[max(0, min(height, round(horizon + 1))) :] = 1.0
        self._road = np.zeros((height, width), np.uint8)
        albedo = np.empty((height, width, 3), np.float32)
        grass = np.array((96, 122, 70), np.float32) * (0.8 + 0.4 * rng.random())
        albedo[:] = grass
        self._sky = np.zeros((height, width), np.uint8)
        self._sky[: max(0, round(horizon))] = 1
        asphalt = float(82 + 30 * rng.random())
        paints = {
            "road": (asphalt, asphalt, asphalt + 4),
            "walk": (158, 150, 142),
            "mark": (226, 226, 220),
            "zebra": (230, 230, 226),
            "bike": (150, 92, 80),
        }
        for area in layout.areas:
            polygon = self._ground_polygon(layout, area.points)
            if polygon is None:
                continue
            cv2.fillPoly(albedo, [polygon], paints[area.kind], cv2.LINE_8, 3)
            if area.kind in ("road", "walk", "bike"):
                cv2.fillPoly(self._road, [polygon], 2 if area.kind == "road" else 1, cv2.LINE_8, 3)
        texture = 0.5 * _smooth_noise(rng, height, width, 7) + 0.5 * rng.random((height, width), dtype=np.float32)
        albedo *= (0.88 + 0.24 * texture)[..., None]
        self._windows = np.zeros((height, width, 3), np.float32)
        self._roofs = np.zeros((height, width), np.float32)
        self._leaves = np.zeros((height, width), np.float32)
        self._backdrop(rng, layout, albedo)
        self._albedo = albedo
        self._lamps = self._lamp_light(rng, layout)
        patches = _smooth_noise(rng, height, width, 12)
        self._snow_order = (0.7 * patches + 0.3 * rng.random((height, width), dtype=np.float32))[..., None]

    @staticmethod
    def _ground_polygon(layout: SceneLayout, points: tuple[tuple[float, float], ...]) -> np.ndarray | None:
        near = 3.0
        ring: list[tuple[float, float]] = []
        for (x0, z0), (x1, z1) in zip(points, (*points[1:], points[0]), strict=True):
            if z0 >= near:
                ring.append((x0, z0))
            if (z0 >= near) != (z1 >= near):
                share = (near - z0) / (z1 - z0)
                ring.append((x0 + (x1 - x0) * share, near))
        if len(ring) < 3:
            return None
        world = np.array([(x, 0.0, z) for x, z in ring], np.float32)
        return np.round(layout.camera.project(world) * 8).astype(np.int32)

    def _backdrop(self, rng: np.random.Generator, layout: SceneLayout, albedo: np.ndarray) -> None:
        """Houses, trees and the underpass, from far to near."""
        camera, spec = layout.camera, self._spec
        scenery: list[tuple[float, str, float]] = []
        if spec.layout == "boulevard":
            scenery += [(36.0 + 2.0 * rng.random(), "house", x) for x in np.arange(-38.0, 38.0, 9.5).tolist()]
            scenery += [(33.5, "tree", x + 4 * rng.random()) for x in np.arange(-30.0, 30.0, 9.0).tolist()]
        else:
            scenery += [(50.0 + 6.0 * rng.random(), "house", x) for x in np.arange(-44.0, 44.0, 11.0).tolist()]
            side = {"highway": 12.5, "junction": 10.5, "residential": 10.0}[spec.layout]
            for z in (44.0, 37.0, 31.0, 20.0, 15.0):
                for sign in (-1.0, 1.0):
                    lean = 0.22 * (z - 10.0) if spec.layout == "residential" else 0.0
                    x = sign * (side + 3.0 * rng.random()) + self._lean_sign(layout) * lean
                    if spec.layout == "junction" and 18.0 < z < 34.0:
                        continue
                    scenery.append((z, "tree" if rng.random() < 0.6 else "house", x))
        for z, kind, x in sorted(scenery, reverse=True):
            if kind == "house":
                self._house(rng, layout, albedo, x, z)
            else:
                self._tree(rng, layout, albedo, x, z)
        if layout.portal is not None:
            x0, x1, z = layout.portal
            for (a, b, low, high), colour in (
                ((x0 - 2.5, x1 + 2.5, 0.0, 7.2), (132, 128, 124)),
                ((x0, x1, 0.0, 5.4), (24, 24, 26)),
            ):
                corner = camera.project(np.array([(a, low, z), (b, high, z)], np.float32))
                (px0, py1), (px1, py0) = corner.tolist()
                self._rect(albedo, px0, py0, px1, py1, colour)

    @staticmethod
    def _lean_sign(layout: SceneLayout) -> float:
        lane = layout.lanes[0]
        return 1.0 if (lane.start[0] - lane.end[0]) * (lane.start[1] - lane.end[1]) > 0 else -1.0

    def _rect(
        self, albedo: np.ndarray, x0: float, y0: float, x1: float, y1: float, colour: tuple[float, float, float]
    ) -> tuple[slice, slice]:
        height, width = albedo.shape[:2]
        rows = slice(max(0, min(height, round(y0))), max(0, min(height, round(y1))))
        cols = slice(max(0, min(width, round(x0))), max(0, min(width, round(x1))))
        albedo[rows, cols] = colour
        self._ground[rows, cols] = 0.0
        self._sky[rows, cols] = 0
        self._road[rows, cols] = 0
        self._roofs[rows, cols] = 0.0
        self._leaves[rows, cols] = 0.0
        self._windows[rows, cols] = 0.0
        return rows, cols

    def _house(self, rng: np.random.Generator, layout: SceneLayout, albedo: np.ndarray, x: float, z: float) -> None:
        wide, high = 6.0 + 4.0 * rng.random(), 6.0 + 7.0 * rng.random()
        wall = np.array(((190, 176, 150), (170, 120, 100), (200, 200, 196), (150, 156, 166))[int(4 * rng.random())])
        wall = wall * (0.8 + 0.3 * rng.random())
        if abs(x) < 12.0 and z < 45.0 and self._spec.layout != "boulevard":
            x += math.copysign(wide / 2, x)
        corner = layout.camera.project(np.array([(x - wide / 2, 0.0, z), (x + wide / 2, high, z)], np.float32))
        (px0, py1), (px1, py0) = corner.tolist()
        rows, cols = self._rect(albedo, px0, py0, px1, py1, (float(wall[0]), float(wall[1]), float(wall[2])))
        self._roofs[rows.start : min(rows.stop, rows.start + max(2, int(0.06 * (py1 - py0)))), cols] = 1.0
        floors, columns = max(2, int(high / 3.0)), max(2, int(wide / 2.2))
        for i in range(floors):
            for j in range(columns):
                wx = px0 + (j + 0.3) * (px1 - px0) / columns
                wy = py0 + (i + 0.3) * (py1 - py0) / floors
                r = slice(max(0, int(wy)), max(0, int(wy + 0.45 * (py1 - py0) / floors)))
                c = slice(max(0, int(wx)), max(0, int(wx + 0.45 * (px1 - px0) / columns)))
                albedo[r, c] = (70, 84, 100)
                if rng.random() < 0.35:
                    self._windows[r, c] = (225.0, 180.0, 105.0)

    def _tree(self, rng: np.random.Generator, layout: SceneLayout, albedo: np.ndarray, x: float, z: float) -> None:
        camera = layout.camera
        scale = camera.fy / z
        foot = camera.project(np.array([(x, 0.0, z)], np.float32))[0]
        crown, trunk = (1.3 + 0.8 * rng.random()) * scale, 2.4 * scale
        fx, fy = float(foot[0]), float(foot[1])
        self._rect(albedo, fx - 0.16 * scale, fy - trunk, fx + 0.16 * scale, fy, (84, 64, 48))
        green = np.array((60, 96, 48)) * (0.8 + 0.4 * rng.random())
        height, width = albedo.shape[:2]
        for _ in range(7):
            cx = fx + (rng.random() - 0.5) * 1.4 * crown
            cy = fy - trunk - rng.random() * 1.3 * crown
            radius = int((0.45 + 0.35 * rng.random()) * crown)
            shade = green * (0.8 + 0.4 * rng.random())
            mask = np.zeros((height, width), np.uint8)
            cv2.circle(mask, (round(cx), round(cy)), max(1, radius), 1, -1)
            where = mask > 0
            albedo[where] = shade
            self._ground[where] = 0.0
            self._sky[where] = 0
            self._road[where] = 0
            self._windows[where] = 0.0
            self._leaves[where] = 1.0
            cv2.circle(mask, (round(cx), round(cy + 0.5 * radius)), max(1, radius), 0, -1)
            self._roofs[mask > 0] = 0.8

    def _lamp_light(self, rng: np.random.Generator, layout: SceneLayout) -> np.ndarray:
        """Light of the street lamps on the ground (additive factor, night only)."""
        height, width = self._spec.height, self._spec.width
        light = np.zeros((height, width), np.float32)
        places = [(-6.5, 14.0), (6.5, 19.0), (-6.5, 27.0), (6.5, 36.0)]
        for x, z in places:
            x += 2.0 * (rng.random() - 0.5)
            px, py = layout.camera.project(np.array([(x, 0.0, z)], np.float32))[0].tolist()
            scale = layout.camera.fy / z
            mask = np.zeros((height, width), np.float32)
            cv2.ellipse(mask, (round(px), round(py)), (int(4.5 * scale), int(1.6 * scale)), 0, 0, 360, 1.0, -1)
            light += cv2.GaussianBlur(mask, (0, 0), 0.9 * scale)
        return np.minimum(light, 1.0)[..., None] * np.array((0.42, 0.34, 0.20), np.float32)

    def look(self, state: Conditions) -> tuple[np.ndarray, np.ndarray]:
        """The street without objects as uint8 RGB (H, W, 3), and the fog's colour (3,) 0-255."""
        light = np.array(state.light, np.float32)
        dark = 1.0 - state.daylight
        scene = self._albedo.copy()
        snow = state.snow
        if snow > 0.01:
            leaves = self._leaves[..., None]
            scene = scene * (1.0 - leaves * 0.5 * snow) + leaves * (0.5 * snow) * np.array((110, 100, 92), np.float32)
            cover = np.clip((snow * 1.6 - self._snow_order) * 3.0, 0.0, 1.0) * self._ground
            driven = (self._road == 2)[..., None]
            cover = cover * np.where(driven, 0.72, 0.95)
            cover = np.maximum(cover, self._roofs[..., None] * min(1.0, 1.3 * snow))
            scene = scene * (1.0 - cover) + cover * np.array((236, 239, 246), np.float32)
        sky = np.array((128, 172, 220), np.float32)
        overcast = max(state.rain, state.fog, snow)
        sky = sky * (1.0 - overcast) + np.array((188, 190, 194), np.float32) * overcast
        scene = np.where(self._sky[..., None] > 0, sky, scene)
        if state.rain > 0.01:
            wet = (self._road > 0)[..., None] * state.rain
            mirror = scene[::-1]
            scene = scene * (1.0 - 0.45 * wet) + wet * (0.16 * mirror + 0.10 * sky)
        lit = scene * (light + self._lamps * (dark * dark))
        if dark > 0.3:
            lit = np.maximum(lit, self._windows * min(1.0, (dark - 0.3) * 1.6))
        fog_rgb = np.array((205, 208, 212), np.float32) * (light * 0.9 + 0.05)
        if state.fog > 0.01:
            share = 1.0 - np.exp(-state.fog * 0.055 * self._far)
            lit = lit * (1.0 - share) + fog_rgb * share
        return np.clip(lit, 0.0, 255.0).astype(np.uint8), fog_rgb


class Scene:
    """One camera of the demo. Not thread-safe: it keeps shapes and street pictures that it has already made."""

    def __init__(self, spec: SceneSpec) -> None:
        self.spec = spec
        self._layout = build_layout(spec)
        self._street = _Street(spec, self._layout)
        self._streets: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._shapes: OrderedDict[tuple[int, int], tuple[int, Shape] | None] = OrderedDict()
        height, width = spec.height, spec.width
        self._scale = height / 288.0
        rng = np.random.default_rng((spec.seed, spec.character, 6))
        self._noise = np.clip(rng.normal(128.0, 40.0, (height + 64, width + 64, 3)), 0, 255).astype(np.uint8)
        self._streaks = self._streak_texture(rng)
        self._flakes = self._flake_texture(rng)
        axis = np.linspace(-1.0, 1.0, 65, dtype=np.float32)
        radius = np.sqrt(axis[:, None] ** 2 + axis[None, :] ** 2)
        self._glow = np.clip(np.exp(-5.0 * radius * radius) - 0.007, 0.0, 1.0)
        self._glow_sprites: dict[tuple[int, int, int, int, int], np.ndarray] = {}

    def _streak_texture(self, rng: np.random.Generator) -> np.ndarray:
        height, width = 2 * self.spec.height, 2 * self.spec.width
        drops = np.zeros((height, width), np.uint8)
        for x, y, length in zip(
            rng.integers(0, width, 2600).tolist(),
            rng.integers(0, height, 2600).tolist(),
            (rng.integers(8, 26, 2600) * self._scale).tolist(),
            strict=True,
        ):
            cv2.line(drops, (x, y), (int(x + 0.22 * length), int(y + length)), int(120 + 100 * (length % 1)), 1)
        return cv2.cvtColor(cv2.GaussianBlur(drops, (3, 3), 0.6), cv2.COLOR_GRAY2RGB)

    def _flake_texture(self, rng: np.random.Generator) -> np.ndarray:
        height, width = 2 * self.spec.height, 2 * self.spec.width
        flakes = np.zeros((height, width), np.uint8)
        for x, y, size in zip(
            rng.integers(0, width, 1700).tolist(),
            rng.integers(0, height, 1700).tolist(),
            rng.random(1700).tolist(),
            strict=True,
        ):
            cv2.circle(flakes, (x, y), max(1, round((0.7 + 1.9 * size * size) * self._scale)), 235, -1)
        return cv2.cvtColor(cv2.GaussianBlur(flakes, (3, 3), 0.7), cv2.COLOR_GRAY2RGB)

    def _street_at(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        index %= _GRID
        found = self._streets.get(index)
        if found is None:
            found = self._street.look(conditions_at_phase(self.spec.layout, index / _GRID))
            self._streets[index] = found
            if len(self._streets) > _KEPT_STREETS:
                self._streets.popitem(last=False)
        else:
            self._streets.move_to_end(index)
        return found

    def _occupant(self, lane: int, slot: int, entered_s: float) -> tuple[int, Shape] | None:
        """The occupant of a lane's slot: class index and shape, or None for an empty slot."""
        name = (lane, slot)
        if name in self._shapes:
            self._shapes.move_to_end(name)
            return self._shapes[name]
        path = self._layout.lanes[lane]
        key = (self.spec.seed, self.spec.character, lane, slot)
        state = conditions(self.spec, entered_s)
        who: tuple[int, Shape] | None = None
        if unit(*key, 1) < path.presence * state.density:
            weights = [state.mix[kind] for kind in path.kinds]
            pick = unit(*key, 2) * sum(weights)
            chosen = path.kinds[-1]
            for kind, weight in zip(path.kinds, weights, strict=True):
                pick -= weight
                if pick < 0.0:
                    chosen = kind
                    break
            who = (chosen, build_shape(chosen, key, state))
        self._shapes[name] = who
        if len(self._shapes) > _KEPT_SHAPES:
            self._shapes.popitem(last=False)
        return who

    def _placed(self, t_s: float) -> list[PlacedObject]:
        camera = self._layout.camera
        found = []
        for index, lane in enumerate(self._layout.lanes):
            ux = (lane.end[0] - lane.start[0]) / lane.length
            uz = (lane.end[1] - lane.start[1]) / lane.length
            for slot, along, entered_s in lane.occupants(t_s, hash64(self.spec.seed, self.spec.character), index):
                who = self._occupant(index, slot, entered_s)
                if who is None:
                    continue
                class_index, shape = who
                ground = (lane.start[0] + ux * along, lane.start[1] + uz * along)
                track = hash64(self.spec.seed, self.spec.character, index, slot) >> 33
                item = place(shape, class_index, track, ground, (ux, uz), along, camera, 2.0)
                if (
                    item is not None
                    and item.box[2] > 0
                    and item.box[0] < self.spec.width
                    and item.box[1] < self.spec.height
                ):
                    found.append(item)
        found.sort(key=lambda item: -item.depth)
        return found

    def _add_glow(
        self, picture: np.ndarray, x: float, y: float, rx: float, ry: float, rgb: tuple[int, int, int]
    ) -> None:
        half_x, half_y = max(2, round(rx)), max(2, round(ry))
        name = (half_x, half_y, *rgb)
        sprite = self._glow_sprites.get(name)
        if sprite is None:
            shape = cv2.resize(self._glow, (2 * half_x + 1, 2 * half_y + 1), interpolation=cv2.INTER_AREA)
            sprite = (shape[..., None] * np.array(rgb, np.float32)).astype(np.uint8)
            if len(self._glow_sprites) > 400:
                self._glow_sprites.clear()
            self._glow_sprites[name] = sprite
        x0, y0 = round(x) - half_x, round(y) - half_y
        left, up = max(0, -x0), max(0, -y0)
        right = min(sprite.shape[1], self.spec.width - x0)
        down = min(sprite.shape[0], self.spec.height - y0)
        if right <= left or down <= up:
            return
        target = picture[y0 + up : y0 + down, x0 + left : x0 + right]
        target[:] = cv2.add(target, sprite[up:down, left:right])

    def _draw_ground_marks(self, picture: np.ndarray, item: PlacedObject, state: Conditions) -> None:
        """Shadow by day, a smeared reflection on a wet street."""
        x0, y0, x1, y1 = (round(v) for v in item.box)
        width, height = self.spec.width, self.spec.height
        cx, cy = min(max((x0 + x1) // 2, 0), width - 1), min(max(y1, 0), height - 1)
        sun = state.daylight * (1.0 - max(state.rain, state.fog, state.snow))
        if sun > 0.25:
            base = picture[cy, cx].astype(np.float32) * (1.0 - 0.45 * sun)
            cv2.fillConvexPoly(picture, np.round(item.footprint * 8).astype(np.int32), base.tolist(), cv2.LINE_8, 3)
        if state.rain > 0.15:
            low, high = max(0, y1), min(height, y1 + round(0.55 * (y1 - y0)))
            left, right = max(0, x0), min(width, x1)
            if high > low and right > left:
                body = item.shape.colours[:6].mean(axis=0) * np.array(state.light, np.float32) * 0.75
                target = picture[low:high, left:right]
                share = 0.42 * state.rain
                target[:] = (target * (1.0 - share) + body * share).astype(np.uint8)

    def _draw_lights(self, picture: np.ndarray, item: PlacedObject, state: Conditions) -> None:
        dark = 1.0 - state.daylight
        strength = max(0.0, dark - 0.25) / 0.75
        for x, y, scale, white in item.lamps:
            small = 0.6 if item.class_index == 3 else 1.0
            level = round(strength * 4) / 4.0
            if level <= 0.0:
                continue
            if white:
                rgb = (int(250 * level), int(240 * level), int(205 * level))
                self._add_glow(picture, x, y, 0.85 * scale * small, 0.85 * scale * small, rgb)
                pool = (int(80 * level), int(76 * level), int(58 * level))
                self._add_glow(picture, x, y + 1.7 * scale, 2.0 * scale * small, 1.2 * scale * small, pool)
            else:
                rgb = (int(235 * level), int(28 * level), int(20 * level))
                self._add_glow(picture, x, y, 0.5 * scale * small, 0.5 * scale * small, rgb)
            if state.rain > 0.3:
                streak = (rgb[0] // 2, rgb[1] // 2, rgb[2] // 2)
                self._add_glow(picture, x, y + 1.6 * scale, 0.3 * scale, 1.5 * scale, streak)

    def _weather(self, picture: np.ndarray, state: Conditions, t_s: float) -> np.ndarray:
        height, width = picture.shape[:2]
        tick = hash64(self.spec.seed, round(t_s * 1000.0))
        ox, oy = tick % width, (tick >> 20) % height
        if state.rain > 0.02:
            grey = 16.0 * state.rain * (0.3 + 0.7 * state.daylight)
            picture = cv2.addWeighted(
                picture,
                1.0 - 0.16 * state.rain,
                self._streaks[oy : oy + height, ox : ox + width],
                0.34 * state.rain,
                grey,
            )
            if state.rain > 0.5:
                picture = cv2.blur(picture, (3, 1))
        if state.snow > 0.05:
            shine = state.snow * (0.45 + 0.5 * state.daylight)
            picture = cv2.addWeighted(picture, 1.0, self._flakes[oy : oy + height, ox : ox + width], shine, 0.0)
        noise = 0.05 + 0.13 * (1.0 - state.daylight)
        nx, ny = (tick >> 40) % 64, (tick >> 48) % 64
        return cv2.addWeighted(picture, 1.0, self._noise[ny : ny + height, nx : nx + width], noise, -128.0 * noise)

    def _truth(self, items: list[PlacedObject]) -> list[SceneObject]:
        width, height = self.spec.width, self.spec.height
        owner = np.full((height // 4 + 1, width // 4 + 1), -1, np.int16)
        cells: list[tuple[slice, slice]] = []
        for i, item in enumerate(items):  # far to near: the nearest writes last
            x0, y0, x1, y1 = item.box
            area = (
                slice(max(0, round(y0 / 4)), max(0, round(y1 / 4))),
                slice(max(0, round(x0 / 4)), max(0, round(x1 / 4))),
            )
            owner[area] = i
            cells.append(area)
        truth = []
        for i, item in enumerate(items):
            x0, y0, x1, y1 = item.box
            cx0, cy0, cx1, cy1 = max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height))
            if cy1 - cy0 < _MIN_HEIGHT * self._scale or cx1 - cx0 < _MIN_WIDTH * self._scale:
                continue
            inside = (cx1 - cx0) * (cy1 - cy0) / ((x1 - x0) * (y1 - y0))
            part = owner[cells[i]]
            seen = float((part == i).mean()) if part.size else 0.0
            fraction = inside * seen
            if fraction < _MIN_VISIBLE:
                continue
            truth.append(
                SceneObject(
                    (cx0 / width, cy0 / height, cx1 / width, cy1 / height),
                    CLASSES[item.class_index],
                    min(1.0, fraction),
                    item.track_id,
                )
            )
        return truth

    def render(self, t_s: float) -> tuple[np.ndarray, list[SceneObject]]:
        """The picture at scene time `t_s` (seconds, any order): uint8 RGB (H, W, 3), and the objects on it."""
        state = conditions(self.spec, t_s)
        place_on_grid = state.phase * _GRID
        index = math.floor(place_on_grid)
        share = place_on_grid - index
        here, fog_here = self._street_at(index)
        then, fog_then = self._street_at(index + 1)
        picture = cv2.addWeighted(here, 1.0 - share, then, share, 0.0)
        fog_rgb = fog_here * (1.0 - share) + fog_then * share
        items = self._placed(t_s)
        for item in items:
            self._draw_ground_marks(picture, item, state)
            fog_share = 1.0 - math.exp(-state.fog * 0.055 * item.depth)
            draw(picture, item, state, fog_rgb, fog_share)
            if state.daylight < 0.75:
                self._draw_lights(picture, item, state)
        return self._weather(picture, state, t_s), self._truth(items)
