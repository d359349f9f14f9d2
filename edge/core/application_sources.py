"""A camera as the source of an application: each of its answers asks the application, and outputs name its objects.

The inputs are then the answered picture and the answer's objects, the likeliest first: boxes in fractions, scores, and
labels (the places of their names in the camera's list of classes). An output may become an attribute of these objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.oip import TensorSpec

#: The inputs of an application that a camera feeds; there is one row.
SOURCE_INPUTS = (
    TensorSpec("picture", "UINT8", (-1, -1, -1, 3)),
    TensorSpec("boxes", "FP32", (-1, -1, 4)),
    TensorSpec("scores", "FP32", (-1, -1)),
    TensorSpec("labels", "INT64", (-1, -1)),
)
_NUMBERS = ("FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_WHOLE = tuple(name for name in _NUMBERS if "INT" in name)

#: Why a camera feeds an application nothing.
SourceFault = Literal["unknown_camera", "camera_off", "unknown_class"]
#: In words, which name no camera: not everybody who reads them may see it.
SOURCE_FAULTS: Mapping[SourceFault, str] = {
    "unknown_camera": "source: there is no such camera",
    "camera_off": "source: the camera is switched off",
    "unknown_class": "source: the camera does not have all of these classes",
}


@dataclass(frozen=True)
class ApplicationSource:
    """The camera `camera` asks the application with each of its answers, at most `max_rate` times a second (None: as
    often as it answers). Objects of other `classes` (empty: all are taken) or with a score below `min_score` are left
    out, and of the rest all but the likeliest `most`."""

    camera: str
    classes: tuple[str, ...] = ()
    min_score: float = 0.0
    most: int = 32
    max_rate: float | None = None

    def __post_init__(self) -> None:
        checks.not_empty("source.camera", self.camera)
        checks.unique("source.classes", self.classes)
        checks.plain_text("source.classes", self.classes)
        checks.in_range("source.min_score", self.min_score, 0.0, 1.0)
        checks.in_range("source.most", self.most, 1, 1024)
        if self.max_rate is not None:
            checks.in_range("source.max_rate", self.max_rate, 0.0, 240.0, low_open=True)

    def rate(self, answers_per_s: float) -> float:
        """Requests per second of a camera that answers so often."""
        return answers_per_s if self.max_rate is None else min(answers_per_s, self.max_rate)


@dataclass(frozen=True)
class AttributeOutput:
    """An output as an attribute of the camera's objects. With `labels` the value is one of these texts: the output has
    a score for each (`softmax`: logits), of which the best counts if it is at least `min_score`, or the label's place
    as a whole number. Without, the value is the output's number."""

    labels: tuple[str, ...] = ()
    min_score: float = 0.0
    softmax: bool = False

    def __post_init__(self) -> None:
        checks.unique("attribute.labels", self.labels)
        checks.plain_text("attribute.labels", self.labels)
        checks.in_range("attribute.min_score", self.min_score, 0.0, 1.0)
        if self.softmax and not self.labels:
            raise InvalidValue("attribute.softmax", self.softmax, "false where there are no labels")

    def check(self, path: str, spec: TensorSpec, most: int) -> None:
        """Raises InvalidValue for an output (rows, `most`, ...) that cannot become this attribute."""
        if spec.datatype not in _NUMBERS:
            raise InvalidValue(f"{path}.datatype", spec.datatype, f"a number for an attribute: {', '.join(_NUMBERS)}")
        each = tuple(spec.shape[2:])
        scored = bool(self.labels) and each == (len(self.labels),)
        placed = bool(self.labels) and each == () and spec.datatype in _WHOLE
        number = not self.labels and each in ((), (1,))
        if tuple(spec.shape[:2]) != (-1, most) or not (scored or placed or number):
            wanted = f"(-1, {most}) or (-1, {most}, 1), a number for each object"
            if self.labels:
                wanted = f"(-1, {most}, {len(self.labels)}), a score for each label, or whole numbers (-1, {most})"
            raise InvalidValue(f"{path}.shape", list(spec.shape), wanted)


@dataclass(frozen=True)
class AttributeValue:
    """The value of an object's attribute; `score` 0-1 of a label (None: of a number), `answers` that it comes from."""

    value: str | float
    score: float | None = None
    answers: int = 1

    def to_json(self) -> dict[str, Any]:
        """For REST and outputs."""
        value = self.value if isinstance(self.value, str) else round(self.value, 6)
        return {
            "value": value,
            "score": None if self.score is None else round(self.score, 4),
            "answers": self.answers,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> AttributeValue:
        """Inverse of `to_json`."""
        return AttributeValue(value["value"], value["score"], value["answers"])


@dataclass(frozen=True)
class DescribedObject:
    """An object of one answer as an application describes it: its box xyxy in fractions, and the value of each
    attribute that was found."""

    box: tuple[float, float, float, float]
    attributes: dict[str, AttributeValue]


@dataclass(frozen=True)
class ObjectsDescribed:
    """From the front: an application describes objects of the camera's answer to the frame `number`."""

    application: str
    camera: str
    number: int
    objects: tuple[DescribedObject, ...]


@dataclass(frozen=True)
class ExpectCamera:
    """To the front: let this camera's worker in when it shows `token`; an empty token: no more."""

    camera: str
    token: str
