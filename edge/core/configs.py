"""Retraining configurations (gamma), inference configurations (lambda) and student specifications."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from edge.core import checks
from edge.core.vision import TASKS, Task

Layers = Literal["head", "last_stage", "all"]
LAYERS: tuple[Layers, ...] = ("head", "last_stage", "all")

DETECTION_ARCHITECTURES = ("ssdlite_mobilenet_v3",)
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


@dataclass(frozen=True, order=True)
class InferenceConfig:
    """lambda: `frame_rate` in answers per second and `resolution` as the scale (0-1] of the student's input size."""

    frame_rate: float
    resolution: float = 1.0

    def __post_init__(self) -> None:
        checks.in_range("inference_config.frame_rate", self.frame_rate, 0.0, 240.0, low_open=True)
        checks.in_range("inference_config.resolution", self.resolution, 0.05, 1.0)

    @property
    def id(self) -> str:
        return f"{self.frame_rate:g}fps-x{self.resolution:g}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StudentSpec:
    """What a student is: enough to build its network before weights are loaded.

    `classes` are the camera's classes in order, background excluded. `input_size` is (height, width) in pixels of the
    whole picture (detection) or of one cut-out (classification). `width` scales the channels where the architecture
    allows it; `last_layer_width` is the width of the hidden layer before the output (0: none).
    """

    task: Task
    architecture: str
    classes: tuple[str, ...]
    input_size: tuple[int, int]
    width: float = 1.0
    last_layer_width: int = 0

    def __post_init__(self) -> None:
        checks.one_of("student.task", self.task, TASKS)
        allowed = DETECTION_ARCHITECTURES if self.task == "detection" else CLASSIFICATION_ARCHITECTURES
        checks.one_of("student.architecture", self.architecture, allowed)
        checks.not_empty("student.classes", self.classes)
        checks.unique("student.classes", self.classes)
        for n, size in enumerate(self.input_size):
            checks.in_range(f"student.input_size[{n}]", size, 32, 2048)
        checks.in_range("student.width", self.width, 0.1, 4.0)
        checks.in_range("student.last_layer_width", self.last_layer_width, 0, 4096)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> StudentSpec:
        """Raises InvalidValue on unknown keys or values out of range."""
        checks.known_keys("student", value.keys(), StudentSpec.__dataclass_fields__.keys())
        value = dict(value)
        value["classes"] = tuple(value["classes"])
        value["input_size"] = tuple(value["input_size"])
        return StudentSpec(**value)
