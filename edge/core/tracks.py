"""Objects with an identity over time, as a tracker makes them of a camera's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.application_sources import AttributeValue
from edge.core.errors import InvalidValue
from edge.core.zones import Box

ObjectPhase = Literal["new", "update", "end"]


@dataclass(frozen=True)
class TrackerLimits:
    """When an object begins, and when it is over. Times in seconds.

    An object is reported when `confirm_answers` answers have shown it over at least `confirm_after_s`, each within
    `confirm_within_s` of the one before, and their scores, less some for each answer between that did not show it, come
    to `confirm_score` (with one answer: at once). It is over `end_after_s` after the last one. One that has stood still
    for `still_after_s` is waited for up to `still_patience_s`: a parked car that is not seen for a while stays one
    object. One that vanished in mid-picture is waited for up to `lost_patience_s`: an object that turns up where it
    would be by then is the same one. `max_objects` per camera at once.
    """

    confirm_answers: int = 2
    confirm_after_s: float = 0.35
    confirm_within_s: float = 2.5
    confirm_score: float = 1.0
    end_after_s: float = 3.0
    lost_patience_s: float = 8.0
    still_after_s: float = 5.0
    still_patience_s: float = 45.0
    leave_zone_after_s: float = 1.5
    max_objects: int = 100

    def __post_init__(self) -> None:
        checks.in_range("tracker.confirm_answers", self.confirm_answers, 1, 100)
        checks.in_range("tracker.confirm_after_s", self.confirm_after_s, 0.0, 3600)
        checks.in_range("tracker.confirm_within_s", self.confirm_within_s, 0.0, 3600, low_open=True)
        checks.in_range("tracker.confirm_score", self.confirm_score, 0.0, 1000)
        checks.in_range("tracker.end_after_s", self.end_after_s, 0.0, 3600, low_open=True)
        checks.in_range("tracker.lost_patience_s", self.lost_patience_s, self.end_after_s, 3600)
        checks.in_range("tracker.still_after_s", self.still_after_s, 0.0, 3600)
        checks.in_range("tracker.still_patience_s", self.still_patience_s, self.end_after_s, 86_400)
        checks.in_range("tracker.leave_zone_after_s", self.leave_zone_after_s, 0.0, 3600)
        checks.in_range("tracker.max_objects", self.max_objects, 1, 10_000)


@dataclass(frozen=True)
class Seen:
    """One answer: N objects in a picture taken at `at_s` (monotonic, seconds) and `utc_s`. `boxes` (N, 4) xyxy in
    fractions of the picture, `scores` (N,) 0-1, `classes` N names. Boxes with a score below `sure` only go on with what
    is known already. `looks` (N, any number): how each looks, where the worker says it. Raises InvalidValue."""

    at_s: float
    utc_s: float
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: tuple[str, ...]
    sure: float = 0.0
    looks: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        count = len(self.classes)
        if self.boxes.shape != (count, 4) or self.scores.shape != (count,):
            raise InvalidValue("seen", (self.boxes.shape, self.scores.shape, count), "N boxes, scores and classes")
        if self.looks is not None and (self.looks.ndim != 2 or len(self.looks) != count):
            raise InvalidValue("seen.looks", self.looks.shape, f"({count}, any number)")


@dataclass(frozen=True)
class TrackedObject:
    """One object as it is now. `box` xyxy in fractions of the picture, where it was seen last; `score` its best answer;
    `zones` it is in now, the one that it was seen in last at the end; `zone_s` seconds of its present (or last) stay in
    each zone that it was in, in the order in which it came to them first; `attributes` are what applications that the
    camera feeds say of it; `began_box`: where it was seen first; `velocity` of its middle, in fractions of the picture
    a second."""

    id: int
    camera: str
    class_name: str
    score: float
    box: Box
    began_utc_s: float
    seen_utc_s: float
    age_s: float
    answers: int
    zones: tuple[str, ...] = ()
    zone_s: Mapping[str, float] = field(default_factory=dict)
    still: bool = False
    ended_utc_s: float | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    began_box: Box | None = None
    velocity: tuple[float, float] = (0.0, 0.0)

    @property
    def dwell_s(self) -> float:
        """Seconds of its longest stay in a zone; without zones, of its stay in view."""
        return max(self.zone_s.values(), default=self.age_s)

    def to_json(self) -> dict[str, Any]:
        """For REST; `picture` is added by the keeper of the picture."""
        return {
            "id": self.id, "camera": self.camera, "class": self.class_name, "began_utc_s": self.began_utc_s,
            "ended_utc_s": self.ended_utc_s, "score": round(self.score, 4), "box": [round(v, 4) for v in self.box],
            "zones": sorted(self.zone_s), "zone_dwell_s": {z: round(s, 2) for z, s in sorted(self.zone_s.items())},
            "dwell_s": round(self.dwell_s, 2),
            "attributes": {name: value.to_json() for name, value in sorted(self.attributes.items())},
        }  # fmt: skip


@dataclass(frozen=True)
class ObjectChange:
    """`new`: confirmed; `update`: its class, its attributes or the zones that it was in are others; `end`: gone
    (`ended_utc_s` set)."""

    phase: ObjectPhase
    object: TrackedObject


@dataclass(frozen=True)
class ObjectNews:
    """The news of an object that changed; `picture`: one of it is kept."""

    object: TrackedObject
    phase: ObjectPhase
    picture: bool

    @property
    def camera(self) -> str:
        """The camera that follows it."""
        return self.object.camera

    def to_json(self) -> dict[str, Any]:
        """For outputs and listeners."""
        return self.object.to_json() | {"picture": self.picture, "phase": self.phase}
