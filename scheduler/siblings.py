"""Which other camera's student a new camera begins with, by how alike the cameras look, and which student a retraining
begins with, by what each gets right.

The first needs no labels: cameras that see like objects have like students (ECCO, RECL: models are shared and reused
among cameras whose pictures are alike).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge.core import checks
from edge.core.accuracy import Counts
from edge.core.camera_look import CameraLook
from edge.core.resampling import resampled_f1, resamples

#: One step apart, beside features (whose unit is their spread within cameras), is a factor of 1.6 in the
#: objects' height, of 2.7 in how many there are, a fifth of the picture or of its brightness, a third in proportions.
HEIGHT, HEIGHT_SPREAD, CROWD, PLACE, BRIGHTNESS, SHAPE = 0.5, 0.5, 1.0, 0.2, 0.2, 0.3
#: Beyond this distance no two cameras are alike. Measured: nearer siblings helped or did little harm, further ones cost
#: up to 25 points (docs/students.md).
NOT_ALIKE = 1.3
#: Another start than the student in force is taken when it is better in this part of the resamples.
SURE = 0.9


@dataclass(frozen=True)
class KnownCamera:
    """Another camera with a student of its own: `version` is in force, retrained on its own pictures."""

    camera: str
    version: str
    look: CameraLook


@dataclass(frozen=True)
class Sibling:
    """The camera that looks most alike, its version, and how far it is away (`distance`)."""

    camera: str
    version: str
    distance: float


def distance(a: CameraLook, b: CameraLook) -> float:
    """How far two cameras are apart: 0 for the same look, symmetric, infinite for other detectors.

    The root of the mean of two squares: of the features' difference, in units of their spread within the two cameras,
    and of the objects' and pictures' numbers, each in steps of its own.
    """
    if a.detector != b.detector or len(a.features) != len(b.features):
        return math.inf
    apart = np.array(a.features) - np.array(b.features)
    within = (np.square(a.spread).sum() + np.square(b.spread).sum()) / 2
    between = float(np.square(apart).sum())
    # A single picture has no spread; an equal look is always at distance 0.
    features = between / max(float(within), 1e-9) if between > 0 else 0.0
    steps = [
        (a.height - b.height) / HEIGHT,
        (a.height_spread - b.height_spread) / HEIGHT_SPREAD,
        (a.crowd - b.crowd) / CROWD,
        math.dist(a.place, b.place) / PLACE,
        (a.brightness - b.brightness) / BRIGHTNESS,
        math.log(a.shape / b.shape) / SHAPE,
    ]
    objects = sum(s * s for s in steps) / len(steps)
    return math.sqrt((features + objects) / 2)


def choose_sibling(mine: CameraLook, others: Sequence[KnownCamera], limit: float = NOT_ALIKE) -> Sibling | None:
    """The camera that looks most alike, or None where none is within `limit`. Among equals, the first by name.

    Raises InvalidValue if a camera is there twice.
    """
    checks.unique("siblings[].camera", [o.camera for o in others])
    ranked = sorted((distance(mine, o.look), o.camera, o.version) for o in others)
    if not ranked or not ranked[0][0] <= limit:
        return None
    apart, camera, version = ranked[0]
    return Sibling(camera, version, apart)


@dataclass(frozen=True)
class Start:
    """A student that a retraining could begin with, and its correct answers on each kept-out picture."""

    version: str
    frames: tuple[Counts, ...]

    @property
    def f1(self) -> float:
        """F1 over all pictures."""
        return sum(self.frames, Counts()).f1


def choose_start(in_force: Start, others: Sequence[Start], seed: int = 0) -> Start:
    """The student that the next retraining begins with: the one in force, unless another is better in at least 90 % of
    bootstrap resamples of the pictures; then the best of those.

    Raises InvalidValue if they were judged on different numbers of pictures.
    """
    frames = len(in_force.frames)
    for other in others:
        checks.in_range(f"starts[{other.version}].frames", len(other.frames), frames, frames)
    if frames == 0:
        return in_force
    drawn = resamples(frames, seed)
    own = resampled_f1(in_force.frames, drawn)
    better = [o for o in others if float((resampled_f1(o.frames, drawn) > own).mean()) >= SURE]
    return max(better, key=lambda o: o.f1) if better else in_force
