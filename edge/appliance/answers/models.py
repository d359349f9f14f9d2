"""Versions of the cameras' students. Model files of others are edge.appliance.model_files.KnownFiles."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import OfCamera, Shown, answer, kept
from edge.core.configs import Layers
from edge.core.models import VersionOrigin, VersionState


@answer
class ConfigAnswer:
    """A retraining configuration (edge.core.configs.RetrainingConfig). `last_layer_width` 0: the student's own."""

    epochs: Shown[int]
    batch_size: Shown[int]
    layers: Shown[Layers]
    data_fraction: Shown[float]
    learning_rate: Shown[float]
    last_layer_width: Shown[int]


@kept
class DetectorInput:
    """A published detector's input (edge.core.detectors.InputSpec)."""

    width: Shown[int]
    height: Shown[int]
    fit: Shown[str] = "stretch"
    colour: Shown[str] = "rgb"
    layout: Shown[str] = "nchw"
    type: Shown[str] = "float32"
    scale: Shown[float] = 1.0
    mean: Shown[tuple[float, ...]] = (0.0, 0.0, 0.0)
    std: Shown[tuple[float, ...]] = (1.0, 1.0, 1.0)
    pad: Shown[int] = 114
    name: Shown[str] = ""
    size_name: Shown[str] = ""
    size_order: Shown[str] = "wh"


@kept
class DetectorOutput:
    """How a published detector's outputs are read (edge.core.detectors.OutputSpec)."""

    kind: Shown[str]
    strides: Shown[tuple[int, ...]] = ()
    box_format: Shown[str] = "xyxy"
    box_units: Shown[str] = "input"
    objectness: Shown[bool] = False
    labels: Shown[str] = "labels"
    boxes: Shown[str] = "boxes"
    scores: Shown[str] = "scores"
    cell_centre: Shown[float] = 0.5
    first_class: Shown[int] = 0
    anchors: Shown[tuple[tuple[tuple[float, float], ...], ...]] = ()


@kept
class StudentDetectorAnswer:
    """The published detector that a student began as. `offered` are its own classes, `table` the camera's class of each
    (-1: none)."""

    name: Shown[str]
    input: Shown[DetectorInput]
    output: Shown[DetectorOutput]
    offered: Shown[tuple[str, ...]]
    table: Shown[tuple[int, ...]]
    nms_iou: Shown[float] = 0.6
    max_objects: Shown[int] = 100
    licence: Shown[str] = ""


@kept
class StudentSpecAnswer:
    """A student's description (edge.core.configs.StudentSpec). `input_size`: height, width in pixels; `detector` null:
    it is of our own architectures."""

    task: Shown[str]
    architecture: Shown[str]
    classes: Shown[tuple[str, ...]]
    input_size: Shown[tuple[int, int]]
    width: Shown[float] = 1.0
    last_layer_width: Shown[int] = 0
    detector: Shown[StudentDetectorAnswer | None] = None


@answer
class VersionAnswer:
    """A version of a camera's student. `frames`: labelled frames that it was trained on; `blob_kept` false: retention
    deleted the weights, the record is left. `retraining`: the configuration with the id `config`, null where none of
    the present settings has it."""

    id: Shown[str]
    camera: OfCamera[str]
    blob: Shown[str]
    spec: Shown[StudentSpecAnswer]
    parent: Shown[str | None]
    origin: Shown[VersionOrigin]
    window: Shown[int | None]
    config: Shown[str | None]
    retraining: Shown[ConfigAnswer | None]
    scores: Shown[Mapping[str, float]]
    state: Shown[VersionState]
    decided_by: Shown[str]
    reason: Shown[str]
    pinned: Shown[bool]
    created_utc_s: Shown[float]
    frames: Shown[int]
    device_seconds: Shown[float]
    blob_kept: Shown[bool]
