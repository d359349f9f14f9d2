"""Frames, detections, and the student's answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue

Task = Literal["detection", "classification"]
TASKS: tuple[Task, ...] = ("detection", "classification")

#: The class name of a cut-out that shows no object of the camera's classes (classification task only).
BACKGROUND = "background"


@dataclass(frozen=True)
class Frame:
    """One decoded picture. `picture` is uint8 RGB (H, W, 3); both times are of its arrival (or capture, if known)."""

    camera: str
    number: int
    monotonic_s: float
    utc_s: float
    picture: NDArray[np.uint8]

    def __post_init__(self) -> None:
        p = self.picture
        if p.ndim != 3 or p.shape[2] != 3 or p.dtype != np.uint8:
            raise InvalidValue("frame.picture", f"{p.dtype}{p.shape}", "uint8 RGB of shape (H, W, 3)")


@dataclass(frozen=True)
class Detections:
    """N objects: boxes float32 (N, 4) normalised xyxy in [0, 1]; scores float32 (N,) in [0, 1]; classes int64 (N,).

    `classes` are indices into a class list that travels beside (camera's classes, or the teacher's own).
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.boxes)
        if self.boxes.shape != (n, 4):
            raise InvalidValue("detections.boxes", self.boxes.shape, "shape (N, 4)")
        if self.scores.shape != (n,) or self.classes.shape != (n,):
            raise InvalidValue("detections.scores/classes", (self.scores.shape, self.classes.shape), f"shape ({n},)")
        if n and (float(self.boxes.min()) < -1e-4 or float(self.boxes.max()) > 1 + 1e-4):
            raise InvalidValue("detections.boxes", float(np.abs(self.boxes).max()), "normalised xyxy in [0, 1]")

    def __len__(self) -> int:
        return len(self.boxes)

    @staticmethod
    def empty() -> Detections:
        """No objects."""
        return Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))

    @staticmethod
    def build(boxes: Any, scores: Any, classes: Any) -> Detections:
        """From anything array-like; boxes are clipped to [0, 1]."""
        b = np.clip(np.asarray(boxes, np.float32).reshape(-1, 4), 0.0, 1.0)
        return Detections(b, np.asarray(scores, np.float32).reshape(-1), np.asarray(classes, np.int64).reshape(-1))

    def select(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> Detections:
        """The objects that `keep` (mask or indices) names."""
        return Detections(self.boxes[keep], self.scores[keep], self.classes[keep])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, rounded to what a display or a label needs (1e-4)."""
        return {
            "boxes": [[round(float(v), 4) for v in b] for b in self.boxes],
            "scores": [round(float(s), 4) for s in self.scores],
            "classes": [int(c) for c in self.classes],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Detections:
        """Inverse of `to_json`."""
        return Detections.build(value["boxes"], value["scores"], value["classes"])


@dataclass(frozen=True)
class ResolutionProbe:
    """An answered frame that was answered at another resolution too, in `seconds` of CPU time: so much of the answer at
    full resolution is the same (0-1)."""

    resolution: float
    agreement: float
    seconds: float


@dataclass(frozen=True)
class Observation:
    """The student's answer for one instant. `stale` marks a skipped frame answered by the last answer.

    `answered_at_s` is the monotonic time of the picture that was looked at (None: nothing was yet), `resolution` the
    scale (0-1] that it was looked at with, and `inference_s` CPU seconds.
    """

    camera: str
    frame_number: int
    monotonic_s: float
    utc_s: float
    model_version: str
    detections: Detections
    stale: bool = False
    inference_s: float = 0.0
    answered_at_s: float | None = None
    task: Task = "detection"
    resolution: float = 1.0
    probe: ResolutionProbe | None = None
