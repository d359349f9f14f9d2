"""The service of true accuracy. Values are edge.appliance.answers.truth; errors are edge.core.errors.
All methods block: transports call them in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edge.appliance.answers.truth import ImportedLabels, QuestionsAnswer, TruthOfCamera


@dataclass(frozen=True)
class LabelFile:
    """An exported file."""

    name: str
    media_type: str
    content: bytes


class TruthService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    def questions(self, camera: str, limit: int, by: str, second: bool = False) -> QuestionsAnswer:
        """The next unanswered questions in the order of asking; `second`: those that others have answered
        and `by` has not. Raises NotFound, Conflict (no detection camera)."""

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """JPEG of a frame that is asked about. Raises NotFound (also when retention deleted it)."""

    def answer(self, camera: str, given: Mapping[str, Any], by: str) -> TruthOfCamera:
        """Keep {"answers": [{"window", "frame", "kind", "candidate"?, "verdict", "missed"?, "marked"?: [{"box",
        "class"}]}]}, all or none; answers as `estimate`. Raises InvalidValue, NotFound (no such question)."""

    def estimate(self, camera: str) -> TruthOfCamera:
        """The newest estimate, the progress of questions, and earlier estimates, newest first. Raises NotFound."""

    def export(self, camera: str, format: str) -> LabelFile:
        """People's labels as "coco" (JSON) or "yolo" (ZIP of text files). Raises NotFound, InvalidValue."""

    def import_labels(self, camera: str, given: Mapping[str, Any], by: str) -> ImportedLabels:
        """Add answers from {"format": "coco", "document"} or {"format": "yolo", "files": {name: text}}; with
        "complete": true every picture holds all objects there are. Raises InvalidValue, NotFound, Conflict."""
