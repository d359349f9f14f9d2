"""Light, weather and fashion of the demo's street scene as functions of the time of its cycle.

Every camera character walks through its own list of stations (clear day, rain, night, snow ...) once per
`day_s` seconds and always starts in a clear day. Between two stations everything is interpolated, so that the
drift is strong over a cycle and gradual over a retraining window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLASSES: Final[tuple[str, ...]] = ("car", "truck", "bus", "bicycle", "person")
"""Class names of the scene's objects, in the order of the class indices used by the demo's models."""

CHARACTERS: Final[tuple[str, ...]] = ("highway", "junction", "residential", "boulevard")
"""Names of the camera characters; `SceneSpec.character` counts through them and starts over."""


@dataclass(frozen=True)
class SceneSpec:
    """The scene of one demo camera.

    `character` counts through `CHARACTERS` (4 is a highway again, with another `seed` another highway);
    `width`, `height` in pixels; `fps` in pictures per second, for the encoder of the stream; `day_s` is the
    length of one cycle of light and weather in seconds of scene time; `start_phase` (0-1) shifts its start.

    :raises ValueError: when a field is out of its range.
    """

    seed: int
    character: int = 0
    width: int = 512
    height: int = 288
    fps: float = 8.0
    day_s: float = 600.0
    start_phase: float = 0.0

    def __post_init__(self) -> None:
        if self.character < 0:
            raise ValueError(f"SceneSpec.character: {self.character}; allowed: 0 or more")
        if not 64 <= self.width <= 4096 or not 36 <= self.height <= 4096:
            raise ValueError(f"SceneSpec.width, height: {self.width}, {self.height}; allowed: 64x36 to 4096x4096")
        if not self.fps > 0 or not self.day_s > 0:
            raise ValueError(f"SceneSpec.fps, day_s: {self.fps}, {self.day_s}; allowed: above 0")
        if not 0.0 <= self.start_phase <= 1.0:
            raise ValueError(f"SceneSpec.start_phase: {self.start_phase}; allowed: 0 to 1")

    @property
    def layout(self) -> str:
        """Name of the camera character."""
        return CHARACTERS[self.character % len(CHARACTERS)]


@dataclass(frozen=True)
class Conditions:
    """Light, weather and population at one instant; all fields except `mix` and `light` are 0-1.

    `generation` is the share of vehicles of the new generation and of winter clothing among arrivals,
    `density` scales how many objects arrive, `mix` weighs the classes (order of `CLASSES`, sum 1), `light` is
    the colour of the ambient light (RGB factors), `phase` the place in the cycle.
    """

    phase: float
    daylight: float
    rain: float
    snow: float
    fog: float
    generation: float
    density: float
    mix: tuple[float, float, float, float, float]
    light: tuple[float, float, float]

    @property
    def label(self) -> str:
        """A short name of the conditions, for tables and captions."""
        time = "day" if self.daylight > 0.7 else "dusk" if self.daylight > 0.3 else "night"
        weather = max((self.rain, "rain"), (self.snow, "snow"), (self.fog, "fog"))
        return f"{time} {weather[1]}" if weather[0] > 0.35 else f"{time} clear"


# (phase, daylight, rain, snow, fog, generation, density)
_Station = tuple[float, float, float, float, float, float, float]
_STATIONS: Final[dict[str, tuple[_Station, ...]]] = {
    "highway": (
        (0.00, 1.00, 0.0, 0.0, 0.00, 0.0, 0.6),
        (0.10, 1.00, 0.0, 0.0, 0.00, 0.0, 0.7),
        (0.22, 0.55, 0.9, 0.0, 0.15, 0.4, 0.8),
        (0.34, 0.30, 1.0, 0.0, 0.20, 0.7, 0.9),
        (0.46, 0.05, 0.6, 0.0, 0.00, 1.0, 0.7),
        (0.58, 0.00, 0.0, 0.2, 0.30, 1.0, 0.6),
        (0.70, 0.35, 0.0, 0.9, 0.50, 1.0, 0.7),
        (0.84, 0.90, 0.0, 1.0, 0.20, 0.9, 0.7),
        (0.94, 1.00, 0.0, 0.2, 0.00, 0.3, 0.6),
    ),
    "junction": (
        (0.00, 1.00, 0.0, 0.0, 0.00, 0.0, 0.7),
        (0.10, 0.95, 0.0, 0.0, 0.00, 0.0, 0.8),
        (0.22, 0.20, 0.0, 0.0, 0.00, 0.4, 0.9),
        (0.34, 0.00, 0.1, 0.0, 0.00, 0.8, 0.7),
        (0.46, 0.00, 0.9, 0.0, 0.10, 1.0, 0.7),
        (0.58, 0.30, 0.5, 0.0, 0.60, 1.0, 0.7),
        (0.70, 0.75, 0.0, 0.7, 0.40, 1.0, 0.8),
        (0.84, 1.00, 0.0, 1.0, 0.10, 0.9, 0.8),
        (0.94, 1.00, 0.0, 0.2, 0.00, 0.3, 0.7),
    ),
    "residential": (
        (0.00, 1.00, 0.0, 0.0, 0.00, 0.0, 0.7),
        (0.10, 1.00, 0.0, 0.0, 0.05, 0.0, 0.7),
        (0.22, 0.85, 0.0, 0.8, 0.25, 0.4, 0.8),
        (0.34, 0.60, 0.0, 1.0, 0.30, 0.8, 0.8),
        (0.46, 0.10, 0.0, 1.0, 0.10, 1.0, 0.7),
        (0.58, 0.00, 0.0, 0.6, 0.00, 1.0, 0.6),
        (0.70, 0.30, 0.8, 0.1, 0.20, 1.0, 0.7),
        (0.84, 0.80, 0.7, 0.0, 0.50, 0.8, 0.8),
        (0.94, 1.00, 0.1, 0.0, 0.10, 0.3, 0.7),
    ),
    "boulevard": (
        (0.00, 1.00, 0.0, 0.0, 0.00, 0.0, 0.7),
        (0.10, 1.00, 0.0, 0.0, 0.05, 0.0, 0.8),
        (0.22, 0.75, 0.2, 0.0, 0.75, 0.4, 0.8),
        (0.34, 0.50, 0.9, 0.0, 0.40, 0.7, 0.8),
        (0.46, 0.10, 0.8, 0.0, 0.10, 1.0, 0.8),
        (0.58, 0.00, 0.0, 0.0, 0.00, 1.0, 0.7),
        (0.70, 0.15, 0.0, 0.7, 0.15, 1.0, 0.7),
        (0.84, 0.80, 0.0, 1.0, 0.20, 0.9, 0.8),
        (0.94, 1.00, 0.0, 0.2, 0.00, 0.3, 0.7),
    ),
}

# class weights of each character: by day with old vehicles, at the peak of the new generation, by night
_MIXES: Final[dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]] = {
    "highway": ((0.70, 0.18, 0.05, 0.03, 0.04), (0.42, 0.30, 0.20, 0.05, 0.03), (0.50, 0.38, 0.08, 0.02, 0.02)),
    "junction": ((0.48, 0.12, 0.08, 0.12, 0.20), (0.28, 0.16, 0.16, 0.20, 0.20), (0.46, 0.12, 0.16, 0.10, 0.16)),
    "residential": ((0.50, 0.08, 0.02, 0.15, 0.25), (0.34, 0.24, 0.06, 0.18, 0.18), (0.50, 0.12, 0.06, 0.12, 0.20)),
    "boulevard": ((0.46, 0.06, 0.12, 0.12, 0.24), (0.24, 0.16, 0.20, 0.22, 0.18), (0.42, 0.14, 0.16, 0.10, 0.18)),
}

_NIGHT: Final = (0.25, 0.27, 0.35)
_DUSK: Final = (0.72, 0.52, 0.46)
_DAY: Final = (1.0, 1.0, 1.0)


def _lerp(a: float, b: float, share: float) -> float:
    return a + (b - a) * share


def _light(daylight: float, overcast: float) -> tuple[float, float, float]:
    low, high, share = (_NIGHT, _DUSK, daylight / 0.45) if daylight < 0.45 else (_DUSK, _DAY, (daylight - 0.45) / 0.55)
    red, green, blue = (_lerp(a, b, share) for a, b in zip(low, high, strict=True))
    grey = (red + green + blue) / 3.0
    dim = 1.0 - 0.22 * overcast
    return (
        _lerp(red, grey, 0.8 * overcast) * dim,
        _lerp(green, grey, 0.8 * overcast) * dim,
        _lerp(blue, grey, 0.7 * overcast) * dim,
    )


def conditions_at_phase(layout: str, phase: float) -> Conditions:
    """Conditions of a camera character at a place (0-1, wraps around) in its cycle."""
    phase = phase % 1.0
    stations = _STATIONS[layout]
    later = next((i for i, station in enumerate(stations) if station[0] > phase), len(stations))
    before = stations[later - 1]
    after = stations[later] if later < len(stations) else (1.0, *stations[0][1:])
    share = (phase - before[0]) / (after[0] - before[0])
    daylight, rain, snow, fog, generation, density = (
        _lerp(a, b, share) for a, b in zip(before[1:], after[1:], strict=True)
    )
    old, new, night = _MIXES[layout]
    dark = 1.0 - daylight
    raw = [_lerp(_lerp(o, n, generation), k, 0.6 * dark) for o, n, k in zip(old, new, night, strict=True)]
    total = sum(raw)
    return Conditions(
        phase=phase,
        daylight=daylight,
        rain=rain,
        snow=snow,
        fog=fog,
        generation=generation,
        density=density,
        mix=(raw[0] / total, raw[1] / total, raw[2] / total, raw[3] / total, raw[4] / total),
        light=_light(daylight, max(rain, fog, 0.6 * snow)),
    )


def conditions(spec: SceneSpec, t_s: float) -> Conditions:
    """Conditions of the scene at scene time `t_s` (seconds)."""
    return conditions_at_phase(spec.layout, t_s / spec.day_s + spec.start_phase)
