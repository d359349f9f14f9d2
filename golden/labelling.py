"""Labelling: a sampled frame goes in, a labelled frame comes out, and every loss is counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.labels import LabelledFrame, SampledFrame, TeacherAnswer
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import read_picture
from golden.ensemble import Teacher, answer_jointly, in_classes, member_count


@dataclass
class LabellerCounters:
    """Since the labeller was made. `ambiguous`: objects under the label score."""

    frames: int = 0
    unreadable: int = 0
    labels: int = 0
    ambiguous: int = 0

    def to_json(self) -> dict[str, int]:
        """Plain numbers."""
        return asdict(self)


class Labeller:
    """One teacher for one camera's classes. `label_score` comes from the teacher's description."""

    def __init__(self, teacher: Teacher, class_map: ClassMap, label_score: float) -> None:
        checks.in_range("teacher.label_score", label_score, 0.0, 1.0)
        self._teacher, self._label_score = in_classes(teacher, class_map), label_score
        self.counters = LabellerCounters()

    def label(self, frame: SampledFrame) -> LabelledFrame | None:
        """The frame with its labels (scores: the teacher's confidence), or None if its picture cannot be read."""
        picture = read_picture(frame.path)
        if picture is None:
            self.counters.unreadable += 1
            return None
        return self.label_picture(picture).of(frame, self._teacher.name)

    def label_picture(self, picture: NDArray[np.uint8]) -> TeacherAnswer:
        """Labels in the camera's classes on a uint8 RGB picture (H, W, 3), the ambiguous objects, and the members' mean
        agreement on the labels (None for a teacher of one, or no label).
        """
        answer = answer_jointly(self._teacher, picture)
        found, agreement = answer.detections, answer.agreement
        sure = found.scores >= self._label_score
        counters = self.counters
        counters.frames += 1
        counters.labels += int(sure.sum())
        counters.ambiguous += int((~sure).sum())
        agreeing = sure.any() and member_count(self._teacher) > 1
        mean = float(agreement[sure].mean()) if agreeing else None
        return TeacherAnswer(found.select(sure), found.select(~sure), mean)
