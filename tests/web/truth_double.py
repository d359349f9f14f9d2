"""True accuracy in dictionaries: three questions a camera. test_truth_rest.py uses the real one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from edge.appliance.answers.read import read
from edge.appliance.answers.truth import ImportedLabels, QuestionsAnswer, TruthOfCamera
from edge.appliance.truth_service import LabelFile
from edge.core import checks
from edge.core.errors import InvalidValue, NotFound
from web.examples.truth import QUESTIONS, TRUTH


class DictTruth:
    """Implements `edge.appliance.truth_service.TruthService`. `check` raises NotFound for an unknown camera."""

    def __init__(self, check: Callable[[str], object], jpeg: bytes) -> None:
        self._check, self._jpeg = check, jpeg
        self.answered: list[tuple[str, dict[str, Any]]] = []

    def questions(self, camera: str, limit: int, by: str, second: bool = False) -> QuestionsAnswer:
        self._check(camera)
        rows = [] if second else [QUESTIONS["questions"][0] | {"candidate": n} for n in range(min(limit, 3))]
        return read(QuestionsAnswer, QUESTIONS | {"camera": camera, "questions": rows})

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        self._check(camera)
        if (window, frame) != (3, 1834):
            raise NotFound(f"there is no picture of frame {frame} in window {window} of camera {camera} (any more)")
        return self._jpeg

    def answer(self, camera: str, given: Mapping[str, Any], by: str) -> TruthOfCamera:
        self._check(camera)
        checks.known_keys("", given, ("answers",))
        rows = given.get("answers")
        if not isinstance(rows, list) or not rows or not all(isinstance(r, Mapping) for r in rows):
            raise InvalidValue("answers", rows, "a list of 1 to 100 answers")
        self.answered += [(by, dict(row)) for row in rows]
        return self.estimate(camera)

    def estimate(self, camera: str) -> TruthOfCamera:
        self._check(camera)
        findings = [f | {"camera": camera} for f in TRUTH["findings"]]
        return read(TruthOfCamera, TRUTH | {"camera": camera, "findings": findings})

    def export(self, camera: str, format: str) -> LabelFile:
        self._check(camera)
        checks.one_of("format", format, ("coco", "yolo"))
        return LabelFile(f"{camera}-labels.json", "application/json", json.dumps({"images": []}).encode())

    def import_labels(self, camera: str, given: Mapping[str, Any], by: str) -> ImportedLabels:
        self._check(camera)
        checks.known_keys("", given, ("format", "document", "files", "complete"))
        checks.one_of("format", given.get("format"), ("coco", "yolo"))
        return ImportedLabels(pictures=1, answers=4, incomplete=0, unknown=0, there=0)
