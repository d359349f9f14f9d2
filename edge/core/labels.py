"""Labelled data of a retraining window. Pictures stay on disk; these values name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core.vision import Detections, Task
from edge.core.ways import MovingAnswer


@dataclass(frozen=True)
class SampledFrame:
    """A frame that the recorder kept, with what the student had answered at that instant (stale answers included).

    `path` is a JPEG file. `answer` uses the camera's class list; `answer_age_s` is how old the answer was.
    `going`: the answer of which a stale `answer` was made, where its objects were moved on since.
    """

    camera: str
    window: int
    number: int
    utc_s: float
    path: Path
    answer: Detections
    answer_version: str
    answer_age_s: float = 0.0
    going: MovingAnswer | None = None

    @property
    def id(self) -> str:
        return f"{self.camera}/{self.window}/{self.number}"

    @property
    def answered_path(self) -> Path:
        """The picture that the answer is about, where that is an earlier one (a stale answer); it may not exist."""
        return self.path.with_suffix(".answered.jpg")

    def to_json(self) -> dict[str, Any]:
        return {
            "camera": self.camera,
            "window": self.window,
            "number": self.number,
            "utc_s": self.utc_s,
            "path": str(self.path),
            "answer": self.answer.to_json(),
            "answer_version": self.answer_version,
            "answer_age_s": self.answer_age_s,
            "going": None if self.going is None else self.going.to_json(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> SampledFrame:
        going = value.get("going")
        return SampledFrame(
            value["camera"],
            value["window"],
            value["number"],
            value["utc_s"],
            Path(value["path"]),
            Detections.from_json(value["answer"]),
            value["answer_version"],
            value["answer_age_s"],
            None if going is None else MovingAnswer.from_json(going),
        )


@dataclass(frozen=True)
class TeacherAnswer:
    """The golden model's answer about a picture, in the camera's class list: see `LabelledFrame`."""

    labels: Detections
    unsure: Detections
    agreement: float | None = None

    def of(self, frame: SampledFrame, teacher: str) -> LabelledFrame:
        """The frame of this picture with these labels."""
        return LabelledFrame(
            frame, self.labels, teacher, ambiguous=len(self.unsure), agreement=self.agreement, unsure=self.unsure
        )


@dataclass(frozen=True)
class LabelledFrame:
    """A sampled frame with the golden model's labels, in the camera's class list, with confidence as scores.

    `weight`: how much it counts in training. `unsure`: objects that are not labels because the teacher was not sure, so
    neither objects nor background for training; `ambiguous`: how many.
    `agreement`: mean share of a joint teacher's members that saw a label; None for a teacher of one, or no label.
    """

    frame: SampledFrame
    labels: Detections
    teacher: str
    weight: float = 1.0
    ambiguous: int = 0
    agreement: float | None = None
    unsure: Detections = field(default_factory=Detections.empty)

    def to_json(self) -> dict[str, Any]:
        return {
            "frame": self.frame.to_json(),
            "labels": self.labels.to_json(),
            "teacher": self.teacher,
            "weight": self.weight,
            "ambiguous": self.ambiguous,
            "agreement": self.agreement,
            "unsure": self.unsure.to_json(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> LabelledFrame:
        return LabelledFrame(
            SampledFrame.from_json(value["frame"]),
            Detections.from_json(value["labels"]),
            value["teacher"],
            value["weight"],
            value.get("ambiguous", 0),
            value.get("agreement"),
            Detections.from_json(value["unsure"]) if "unsure" in value else Detections.empty(),
        )


@dataclass(frozen=True)
class LabelledWindow:
    """The labelled data of one camera at a window boundary: train and held-out split by time, plus exemplars.

    Held-out frames are the latest of the window; exemplars are older frames kept so that old scenes are not forgotten.
    `kept_out` are held-out frames of earlier windows: no student of the camera was ever trained on them.
    """

    camera: str
    window: int
    task: Task
    classes: tuple[str, ...]
    train: tuple[LabelledFrame, ...]
    held_out: tuple[LabelledFrame, ...]
    exemplars: tuple[LabelledFrame, ...] = ()
    kept_out: tuple[LabelledFrame, ...] = ()

    def __post_init__(self) -> None:
        checks.not_empty("labelled_window.classes", self.classes)

    @property
    def all_sampled(self) -> tuple[LabelledFrame, ...]:
        """Every labelled frame of the window itself: realised accuracy is measured on these."""
        return self.train + self.held_out

    def to_json(self) -> dict[str, Any]:
        return {
            "camera": self.camera,
            "window": self.window,
            "task": self.task,
            "classes": list(self.classes),
            "train": [f.to_json() for f in self.train],
            "held_out": [f.to_json() for f in self.held_out],
            "exemplars": [f.to_json() for f in self.exemplars],
            "kept_out": [f.to_json() for f in self.kept_out],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> LabelledWindow:
        def frames(items: Iterable[dict[str, Any]]) -> tuple[LabelledFrame, ...]:
            return tuple(LabelledFrame.from_json(i) for i in items)

        return LabelledWindow(
            value["camera"],
            value["window"],
            value["task"],
            tuple(value["classes"]),
            frames(value["train"]),
            frames(value["held_out"]),
            frames(value["exemplars"]),
            frames(value.get("kept_out", ())),
        )


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of answers against labels over `frames` labelled frames and `objects` golden objects.

    Classification: `value` = share of objects right. Detection: `value` = F1 at IoU 0.5 (the headline), with
    F1 at IoU 0.3 and mAP at IoU 0.5 beside it.
    """

    value: float
    frames: int
    objects: int
    f1_iou30: float | None = None
    f1_iou50: float | None = None
    map50: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__dataclass_fields__}
