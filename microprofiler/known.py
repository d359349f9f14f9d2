"""Profiles without a trial: each configuration's gain learned from past windows, with an interval that widens with age.

A configuration's gain is kept as the part of what was missing to accuracy 1 that it brought (or was predicted to), its
cost per training frame. Where there is no time for a trial, the configuration that gained most per device second is
retrained on that knowledge rather than not at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.profiles import Estimate, RetrainingProfile

#: Weight of the newest value of a gain or cost, from a profile or from a retraining that really ran.
FROM_PROFILE, FROM_RETRAINING = 0.3, 0.5
#: Spread (standard deviation of a gained part) of one value, and the amount that each window without a new one adds.
FIRST_SPREAD, AGEING = 0.15, 0.03
#: From a standard deviation to the half-width of an interval of 80 %.
HALF_WIDTH = 1.28
#: Relative spread of a cost that was not measured in this window.
COST_SPREAD = 0.3
#: Configurations offered without a trial.
MOST = 4


@dataclass(frozen=True)
class ConfigGain:
    """One configuration: `gain` part of what is missing to 1 (may be negative), its standard deviation `spread`, device
    seconds per training frame, and the count of profiled windows when it was last seen."""

    gain: float
    spread: float
    seconds_per_frame: float
    seen: int = 0

    def __post_init__(self) -> None:
        checks.in_range("known.gain", self.gain, -1e3, 1.0)
        checks.in_range("known.spread", self.spread, 0.0, 1e3)
        checks.in_range("known.seconds_per_frame", self.seconds_per_frame, 0.0, 1e9)

    def to_json(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__dataclass_fields__}


def part_gained(start: float, end: float) -> float:
    """Part of what was missing to 1 at `start` that `end` brought."""
    return max(-1.0, (end - start) / max(0.02, 1.0 - start))


def seen(known: ConfigGain | None, gain: float, seconds_per_frame: float, window: int, weight: float) -> ConfigGain:
    """`known` after another value of gain and cost."""
    if known is None:
        return ConfigGain(gain, FIRST_SPREAD, seconds_per_frame, window)
    off = abs(gain - known.gain)
    return ConfigGain(
        (1.0 - weight) * known.gain + weight * gain,
        max(0.02, (1.0 - weight) * known.spread + weight * off),
        (1.0 - weight) * known.seconds_per_frame + weight * seconds_per_frame,
        window,
    )


def merged(own: Mapping[str, ConfigGain], others: Sequence[Mapping[str, ConfigGain]]) -> dict[str, ConfigGain]:
    """A camera's knowledge, filled up with the other cameras' (their mean, twice as uncertain)."""
    out = dict(own)
    for config in sorted({c for other in others for c in other} - set(own)):
        found = [other[config] for other in others if config in other]
        n = len(found)
        out[config] = ConfigGain(
            sum(k.gain for k in found) / n,
            2.0 * max(k.spread for k in found),
            sum(k.seconds_per_frame for k in found) / n,
            max(k.seen for k in found),
        )
    return out


def unprofiled(
    space: Sequence[RetrainingConfig],
    known: Mapping[str, ConfigGain],
    train_frames: int,
    start_accuracy: float,
    windows: int = 0,
    throughput: tuple[tuple[float, float], ...] = ((1.0, 1.0),),
) -> tuple[RetrainingProfile, ...]:
    """Profiles of the best-known configurations of `space` on `train_frames` frames (exemplars included), the one with
    most gain per device second first. `windows` is the count of profiled windows now. Empty where nothing is known to
    gain."""
    checks.in_range("start_accuracy", start_accuracy, 0.0, 1.0)
    found = [(c, known[c.id]) for c in space if c.id in known and known[c.id].gain > 0]
    if not found or train_frames < 1:
        return ()
    best = max(found, key=lambda f: f[1].gain)
    ranked = sorted(found, key=lambda f: (-f[1].gain / max(f[1].seconds_per_frame, 1e-9), f[0].id))[:MOST]
    if best not in ranked:
        ranked[-1] = best
    missing = 1.0 - start_accuracy
    out = []
    for config, k in ranked:
        half = HALF_WIDTH * math.hypot(k.spread, AGEING * max(0, windows - k.seen))
        end = Estimate(
            start_accuracy + k.gain * missing,
            max(0.0, start_accuracy + (k.gain - half) * missing),
            min(1.0, start_accuracy + (k.gain + half) * missing),
        )
        work = max(1e-3, k.seconds_per_frame * train_frames)
        cost = Estimate(work, work / (1.0 + COST_SPREAD), work * (1.0 + COST_SPREAD))
        curve = ((0.0, start_accuracy), (work, end.value))
        out.append(RetrainingProfile(config, start_accuracy, end, cost, curve, throughput, profiled=False))
    return tuple(out)
