"""A camera's look, in numbers that need no labels: to tell which cameras look alike.

Features are of the detector that the cameras' students began as, left as published, so that looks of cameras with the
same detector are comparable. Objects are those that it finds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.vision import Detections

#: A later look changes what is known of a camera by this part.
RENEWED = 0.5
#: Log height of an object where none was found: a middling one, a tenth of the picture.
_USUAL_HEIGHT = math.log(0.1)


@dataclass(frozen=True)
class CameraLook:
    """`features` (D,) of the download, averaged over pictures, and their `spread` (D,), the standard deviation.

    Of the objects it finds: the mean and standard deviation of the natural log of their height in fractions of the
    picture, the log of one plus how many a picture holds, and where their middle is (x, y in fractions).
    `brightness` is the mean grey value, 0-1; `shape` the proportions of the picture, width by height.
    """

    detector: str
    pictures: int
    features: tuple[float, ...]
    spread: tuple[float, ...]
    height: float
    height_spread: float
    crowd: float
    place: tuple[float, float]
    brightness: float
    shape: float

    def __post_init__(self) -> None:
        checks.in_range("look.pictures", self.pictures, 1, 1_000_000)
        checks.in_range("look.spread", len(self.spread), len(self.features), len(self.features))

    def after(self, later: CameraLook) -> CameraLook:
        """The look after another one: half of it is the later look. Another detector's features
        cannot be mixed with: the later look alone."""
        if later.detector != self.detector or len(later.features) != len(self.features):
            return later

        def mixed(a: Any, b: Any) -> Any:
            if isinstance(a, tuple):
                return tuple(mixed(x, y) for x, y in zip(a, b, strict=True))
            return (1.0 - RENEWED) * a + RENEWED * b

        names = [f.name for f in fields(self) if f.name not in ("detector", "pictures")]
        values = {n: mixed(getattr(self, n), getattr(later, n)) for n in names}
        return CameraLook(detector=self.detector, pictures=self.pictures + later.pictures, **values)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, rounded to what tells cameras apart (five digits)."""

        def plain(value: Any) -> Any:
            if isinstance(value, tuple):
                return [plain(v) for v in value]
            return float(f"{value:.5g}") if isinstance(value, float) else value

        return {k: plain(v) for k, v in asdict(self).items()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> CameraLook:
        """Inverse of `to_json`. Raises InvalidValue on unknown keys."""
        checks.known_keys("look", value.keys(), CameraLook.__dataclass_fields__.keys())
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return CameraLook(**given)


def camera_look(
    detector: str, features: NDArray[np.float32], answers: Sequence[Detections], pictures: Sequence[NDArray[np.uint8]]
) -> CameraLook:
    """The look of a camera: of each of its `pictures` (uint8 RGB (H, W, 3)) the download's features (N, D) and answers.

    Raises InvalidValue if there is no picture.
    """
    checks.not_empty("look.pictures", pictures)
    boxes = np.concatenate([a.boxes for a in answers]).astype(np.float64)
    heights = np.log(np.maximum(boxes[:, 3] - boxes[:, 1], 1e-3))
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    found = len(boxes) > 0
    place = middle.mean(0) if found else np.array([0.5, 0.5])
    return CameraLook(
        detector=detector,
        pictures=len(pictures),
        features=tuple(float(v) for v in features.mean(0)),
        spread=tuple(float(v) for v in features.std(0)),
        height=float(heights.mean()) if found else _USUAL_HEIGHT,
        height_spread=float(heights.std()) if found else 0.0,
        crowd=float(np.mean([math.log1p(len(a)) for a in answers])),
        place=(float(place[0]), float(place[1])),
        brightness=float(np.mean([p.mean() for p in pictures])) / 255.0,
        shape=float(np.mean([p.shape[1] / p.shape[0] for p in pictures])),
    )
