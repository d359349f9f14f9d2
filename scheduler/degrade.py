"""The inference configuration lambda in force at a share: the best that keeps up, so that frames never queue."""

from __future__ import annotations

from dataclasses import dataclass

from edge.core import checks
from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile

#: A better configuration is taken only when it leaves this part of the share free; the one in force may use it all.
HEADROOM = 0.1


@dataclass(frozen=True)
class InferenceChoice:
    """The chosen configuration, the share (devices) that it needs, its accuracy factor, and whether it keeps up."""

    config: InferenceConfig
    needed_share: float
    factor: float
    keeps_up: bool
    reason: str


def choose_inference(
    profile: InferenceProfile,
    share: float,
    current: InferenceConfig | None = None,
    measured_share: float | None = None,
    headroom: float = HEADROOM,
) -> InferenceConfig:
    """The configuration of `inference_choice`; `current` where nothing was profiled yet.

    Raises InvalidValue for a profile without points when no configuration is in force.
    """
    if not profile.points and current is not None:
        return current
    return inference_choice(profile, share, current, measured_share, headroom).config


def inference_choice(
    profile: InferenceProfile,
    share: float,
    current: InferenceConfig | None = None,
    measured_share: float | None = None,
    headroom: float = HEADROOM,
) -> InferenceChoice:
    """The configuration of highest factor among `profile.points` whose needed share is at most `share` (devices).

    `measured_share` is what `current` was measured to need; all profiled needs are scaled by measured / profiled.
    Hysteresis: `current` stays as long as it keeps up and no better one leaves `headroom` (part of the share) free.
    When nothing keeps up the cheapest is taken, `keeps_up` False: it answers what it can and skips the rest.
    Raises InvalidValue for a profile without points.
    """
    if not profile.points:
        raise InvalidValue("inference_profile.points", [], "at least one measured configuration")
    checks.in_range("share", share, 0.0, 1024.0)
    checks.in_range("headroom", headroom, 0.0, 0.9)
    scale = 1.0
    in_force = next((p for p in profile.points if p.config == current), None)
    if in_force is not None and measured_share is not None:
        checks.positive("measured_share", measured_share)
        scale = measured_share / in_force.share
    ranked = sorted(profile.points, key=lambda p: (-p.factor, p.share))
    stays = in_force is not None and in_force.share * scale <= share + 1e-9
    for point in ranked:
        needed = point.share * scale
        if stays and in_force is not None and point.factor <= in_force.factor:
            break
        room = share * (1 - headroom) if current is not None else share
        if needed <= room + 1e-9:
            words = f"the best that keeps up at share {share:.3g}: needs {needed:.3g}, keeps {point.factor:.2f}"
            return InferenceChoice(point.config, needed, point.factor, True, words)
    if stays and in_force is not None:
        needed = in_force.share * scale
        words = f"keeps up at share {share:.3g} (needs {needed:.3g}); nothing better leaves {100 * headroom:.0f} % free"
        return InferenceChoice(in_force.config, needed, in_force.factor, True, words)
    cheapest = min(profile.points, key=lambda p: (p.share, -p.factor))
    needed = cheapest.share * scale
    if needed <= share + 1e-9:
        words = f"the cheapest, needs {needed:.3g} of share {share:.3g}"
        return InferenceChoice(cheapest.config, needed, cheapest.factor, True, words)
    words = f"nothing keeps up at share {share:.3g}: the cheapest needs {needed:.3g}, so frames are skipped"
    return InferenceChoice(cheapest.config, needed, cheapest.factor * share / needed, False, words)
