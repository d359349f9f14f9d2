"""Retraining configurations (gamma), inference configurations (lambda) and student specifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edge.core import checks
from edge.core.detectors import StudentDetector
from edge.core.errors import InvalidValue
from edge.core.vision import TASKS, Task

Layers = Literal["head", "last_stage", "all"]
LAYERS: tuple[Layers, ...] = ("head", "last_stage", "all")

#: A student that began as a published ONNX detector; `StudentSpec.detector` says which.
PUBLISHED_DETECTOR = "onnx"
DETECTION_ARCHITECTURES = ("ssdlite_mobilenet_v3", PUBLISHED_DETECTOR)
CLASSIFICATION_ARCHITECTURES = ("resnet18", "mobilenet_v2", "shufflenet_v2")


@dataclass(frozen=True, order=True)
class RetrainingConfig:
    """gamma: how a student is retrained (Ekya, thesis section 2.3.1).

    `epochs` passes over `data_fraction` (0-1] of the train part in batches of `batch_size`, at `learning_rate`;
    `layers` says what is trained ("head": the prefix is frozen and its activations are computed once).
    """

    epochs: int
    batch_size: int = 16
    layers: Layers = "head"
    data_fraction: float = 1.0
    learning_rate: float = 1e-3
    last_layer_width: int = 0  # 0 keeps the student's own

    def __post_init__(self) -> None:
        checks.in_range("retraining_config.epochs", self.epochs, 1, 1000)
        checks.in_range("retraining_config.batch_size", self.batch_size, 1, 1024)
        checks.one_of("retraining_config.layers", self.layers, LAYERS)
        checks.in_range("retraining_config.data_fraction", self.data_fraction, 0.0, 1.0, low_open=True)
        checks.in_range("retraining_config.learning_rate", self.learning_rate, 0.0, 1.0, low_open=True)
        checks.in_range("retraining_config.last_layer_width", self.last_layer_width, 0, 4096)

    @property
    def id(self) -> str:
        """A stable readable name, for tables and files. It is never parsed."""
        width = f"-w{self.last_layer_width}" if self.last_layer_width else ""
        return (
            f"{self.layers}-e{self.epochs}-b{self.batch_size}-d{self.data_fraction:g}-lr{self.learning_rate:g}{width}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any], path: str = "retraining_config") -> RetrainingConfig:
        """Raises InvalidValue on unknown keys or values out of range."""
        checks.known_keys(path, value.keys(), RetrainingConfig.__dataclass_fields__.keys())
        return RetrainingConfig(**value)


#: Part of a picture, xyxy in fractions of it: the whole.
Region = tuple[float, float, float, float]
WHOLE: Region = (0.0, 0.0, 1.0, 1.0)
#: A region has at least this part of each side: less is nothing to look at.
LEAST_SIDE = 0.1
InputShape = Literal["camera", "model"]
INPUT_SHAPES: tuple[InputShape, ...] = ("camera", "model")


def check_region(path: str, region: Sequence[float]) -> Region:
    """Raises InvalidValue unless `region` is a part of the picture, xyxy in fractions, that holds something."""
    allowed = f"[left, top, right, bottom] in fractions of the picture, each side at least {LEAST_SIDE:g}"
    if len(region) != 4 or not all(isinstance(v, int | float) and 0.0 <= v <= 1.0 for v in region):
        raise InvalidValue(path, list(region), allowed)
    left, top, right, bottom = (float(v) for v in region)
    if right - left < LEAST_SIDE - 1e-9 or bottom - top < LEAST_SIDE - 1e-9:
        raise InvalidValue(path, list(region), allowed)
    return (left, top, right, bottom)


@dataclass(frozen=True, order=True)
class InferenceConfig:
    """lambda: `frame_rate` in answers per second, `resolution` as the scale (0-1] of the student's input size, `region`
    the part of the picture that is looked at (objects outside it are missed), `shape` whether the input has the
    camera's proportions or those that the model was exported with (published detectors only)."""

    frame_rate: float
    resolution: float = 1.0
    region: Region = WHOLE
    shape: InputShape = "camera"

    def __post_init__(self) -> None:
        checks.in_range("inference_config.frame_rate", self.frame_rate, 0.0, 240.0, low_open=True)
        checks.in_range("inference_config.resolution", self.resolution, 0.05, 1.0)
        check_region("inference_config.region", self.region)
        checks.one_of("inference_config.shape", self.shape, INPUT_SHAPES)

    @property
    def id(self) -> str:
        """A stable readable name. It is never parsed."""
        part = "" if self.region == WHOLE else "-r" + "-".join(f"{v:.3f}" for v in self.region)
        return f"{self.frame_rate:g}fps-x{self.resolution:g}{part}" + ("-model" if self.shape == "model" else "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"region": list(self.region)}

    @staticmethod
    def from_json(value: dict[str, Any], path: str = "inference_config") -> InferenceConfig:
        """Raises InvalidValue on unknown keys or values out of range."""
        checks.known_keys(path, value.keys(), InferenceConfig.__dataclass_fields__.keys())
        region = value.get("region", WHOLE)
        if not isinstance(region, list | tuple):
            raise InvalidValue(f"{path}.region", region, "a list of four numbers")
        return InferenceConfig(**(value | {"region": check_region(f"{path}.region", region)}))


@dataclass(frozen=True)
class StudentSpec:
    """A student's description: enough to build its network before weights are loaded.

    `classes` are the camera's classes in order, background excluded. `input_size` is (height, width) in pixels of the
    whole picture (detection) or of one cut-out (classification). `width` scales the channels where the architecture
    allows it; `last_layer_width` is the width of the hidden layer before the output (0: none). `detector` is there
    for architecture "onnx" alone: the published detector that the student began as.
    """

    task: Task
    architecture: str
    classes: tuple[str, ...]
    input_size: tuple[int, int]
    width: float = 1.0
    last_layer_width: int = 0
    detector: StudentDetector | None = None

    def __post_init__(self) -> None:
        if (self.detector is not None) != (self.architecture == PUBLISHED_DETECTOR):
            raise InvalidValue(
                "student.detector", self.detector, f"a detector with architecture {PUBLISHED_DETECTOR!r}"
            )
        checks.one_of("student.task", self.task, TASKS)
        allowed = DETECTION_ARCHITECTURES if self.task == "detection" else CLASSIFICATION_ARCHITECTURES
        checks.one_of("student.architecture", self.architecture, allowed)
        checks.not_empty("student.classes", self.classes)
        checks.unique("student.classes", self.classes)
        for n, size in enumerate(self.input_size):
            checks.in_range(f"student.input_size[{n}]", size, 32, 2048)
        checks.in_range("student.width", self.width, 0.1, 4.0)
        checks.in_range("student.last_layer_width", self.last_layer_width, 0, 4096)

    @property
    def name(self) -> str:
        """The name for people: the published detector that it began as, or its architecture."""
        return self.architecture if self.detector is None else self.detector.name

    def to_json(self) -> dict[str, Any]:
        out = asdict(self)
        if self.detector is None:
            del out["detector"]  # as it was before there were any: equal specs have equal files
        return out

    @staticmethod
    def from_json(value: dict[str, Any]) -> StudentSpec:
        """Raises InvalidValue on unknown keys or values out of range."""
        checks.known_keys("student", value.keys(), StudentSpec.__dataclass_fields__.keys())
        value = dict(value)
        value["classes"] = tuple(value["classes"])
        value["input_size"] = tuple(value["input_size"])
        if value.get("detector") is not None:
            value["detector"] = StudentDetector.from_json(value["detector"])
        return StudentSpec(**value)
