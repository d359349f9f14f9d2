"""What transports may ask about true accuracy. Values are plain JSON; errors are edge.core.errors. All methods block:
transports call them in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True)
class LabelFile:
    """An exported file."""

    name: str
    media_type: str
    content: bytes


class TruthService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    def questions(self, camera: str, limit: int, by: str, second: bool = False) -> Json:
        """{"camera", "window": asked about, or null, "classes", "questions": [{"window", "frame", "utc_s", "kind":
        "box" or "missed", "candidate": number or null, "class": name or null, "student_box", "teacher_box": or null,
        "others": [boxes of the other candidates], "width", "height", "probability", "stratum"}]}: the next questions
        in the order of asking that nobody has answered; `second`: those that others have answered and `by` has not.
        Raises NotFound, Conflict (no detection camera)."""

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """JPEG of a frame that is asked about. Raises NotFound (also when retention deleted it)."""

    def answer(self, camera: str, given: Mapping[str, Any], by: str) -> Json:
        """Keep {"answers": [{"window", "frame", "kind", "candidate"?, "verdict", "missed"?, "marked"?: [{"box",
        "class"}]}]}, all or none; answers as `estimate`. Raises InvalidValue, NotFound (no such question)."""

    def estimate(self, camera: str) -> Json:
        """{"camera", "detection": false for a camera that classifies, "window": null before any estimate, "estimate":
        edge.core.truth.TrueAccuracy as JSON, or null, "asking": window asked about, or null, "answers": to it,
        "answers_needed": until it has an estimate, "enough": answers after which a newer window is begun, "findings":
        [{"kind", "camera", "window", "value", "message"}], "history": [{"window", "estimate"}] newest first}. Raises
        NotFound."""

    def export(self, camera: str, format: str) -> LabelFile:
        """People's labels as "coco" (JSON) or "yolo" (ZIP of text files). Raises NotFound, InvalidValue."""

    def import_labels(self, camera: str, given: Mapping[str, Any], by: str) -> Json:
        """Add answers from {"format": "coco", "document"} or {"format": "yolo", "files": {name: text}}; with
        "complete": true every picture holds all objects there are. {"pictures", "answers": added, "incomplete",
        "unknown": pictures of no labelled frame, "there": answers that were there already}. Raises InvalidValue,
        NotFound, Conflict."""
