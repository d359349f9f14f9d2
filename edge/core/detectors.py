"""How a published detector is described: its input, its output layout, its classes (docs/teachers.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from edge.core import checks

#: The 80 object classes of COCO 2017, in the order that nearly every detector uses.
COCO80: tuple[str, ...] = tuple(
    """person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|fire hydrant|stop sign
    |parking meter|bench|bird|cat|dog|horse|sheep|cow|elephant|bear|zebra|giraffe|backpack|umbrella|handbag|tie
    |suitcase|frisbee|skis|snowboard|sports ball|kite|baseball bat|baseball glove|skateboard|surfboard
    |tennis racket|bottle|wine glass|cup|fork|knife|spoon|bowl|banana|apple|sandwich|orange|broccoli|carrot
    |hot dog|pizza|donut|cake|chair|couch|potted plant|bed|dining table|toilet|tv|laptop|mouse|remote|keyboard
    |cell phone|microwave|oven|toaster|sink|refrigerator|book|clock|vase|scissors|teddy bear|hair drier
    |toothbrush""".replace("\n    ", "").split("|")
)

OutputKind = Literal["end_to_end", "rows", "grid", "distribution", "cells", "anchors"]
OUTPUT_KINDS: tuple[OutputKind, ...] = ("end_to_end", "rows", "grid", "distribution", "cells", "anchors")
#: Layouts with strides.
STRIDED: tuple[OutputKind, ...] = ("grid", "distribution", "anchors")
#: (width, height) of the default boxes of one stride, in pixels of the input.
Anchors = tuple[tuple[float, float], ...]
BoxUnits = Literal["input", "picture", "normalised"]
BOX_UNITS: tuple[BoxUnits, ...] = ("input", "picture", "normalised")
BoxFormat = Literal["xyxy", "cxcywh"]
BOX_FORMATS: tuple[BoxFormat, ...] = ("xyxy", "cxcywh")


@dataclass(frozen=True)
class OutputSpec:
    """How the outputs of a detector are read.

    `strides`: of `grid`, `distribution`, `cells`, `anchors`. `anchors`: default boxes of each stride, in the order in
    which a cell has them; they stay as large when the input gets another shape, since objects do. `box_format`,
    `box_units`: of `end_to_end` and `rows`; units are pixels of the network's input, pixels of the original picture
    (the graph gets its size), or normalised. `objectness`: `rows` carry an objectness before the class scores.
    `labels`, `boxes`, `scores`: output names of `end_to_end`. `cell_centre`: where a `distribution` cell's centre lies,
    in cells. `first_class`: index of the graph's label that is the first of `classes` (1 where 0 means background).
    """

    kind: OutputKind
    strides: tuple[int, ...] = ()
    box_format: BoxFormat = "xyxy"
    box_units: BoxUnits = "input"
    objectness: bool = False
    labels: str = "labels"
    boxes: str = "boxes"
    scores: str = "scores"
    cell_centre: float = 0.5
    first_class: int = 0
    anchors: tuple[Anchors, ...] = ()


@dataclass(frozen=True)
class Tiling:
    """Look at the picture in `columns` x `rows` overlapping tiles too, for small objects; `whole`: and as a whole."""

    columns: int = 2
    rows: int = 2
    overlap: float = 0.2
    whole: bool = True
    iou: float = 0.55


@dataclass(frozen=True)
class InputSpec:
    """How a picture becomes the network's input tensor (1, 3, height, width) or, `nhwc`, (1, height, width, 3).

    `fit`: stretch (both sides alone), letterbox (keep the shape, picture centred), corner (keep it, picture at the
    top left). Pixels become `(value * scale - mean) / std` per channel, in the colour order given.
    """

    width: int
    height: int
    fit: Literal["stretch", "letterbox", "corner"] = "stretch"
    colour: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["nchw", "nhwc"] = "nchw"
    type: Literal["float32", "uint8"] = "float32"
    scale: float = 1.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    pad: int = 114
    name: str = ""
    size_name: str = ""
    size_order: Literal["wh", "hw"] = "wh"


def knows_one_shape(given: InputSpec, output: OutputSpec) -> bool:
    """Whether a detector is used at its exported input shape only: its layout has no cells that follow from the shape
    of the input."""
    return output.kind not in STRIDED or given.layout != "nchw"


@dataclass(frozen=True)
class OnnxSpec:
    """An ONNX detector: file, input, output layout and classes."""

    name: str
    file: Path
    input: InputSpec
    output: OutputSpec
    classes: tuple[str, ...] = COCO80
    sha256: str = ""
    min_score: float = 0.2
    nms_iou: float = 0.6  # 1 keeps everything
    max_objects: int = 100
    tiling: Tiling | None = None
    label_score: float = 0.4
    kind: str = "onnx"
    licence: str = ""


@dataclass(frozen=True)
class StudentDetector:
    """The description that a student of a published detector keeps of it, beside its weights.

    `offered` are the detector's own classes; `table` says for each of them which class of the camera it is (-1: none).
    `licence` is the SPDX identifier of its weights.
    """

    name: str
    input: InputSpec
    output: OutputSpec
    offered: tuple[str, ...]
    table: tuple[int, ...]
    nms_iou: float = 0.6
    max_objects: int = 100
    licence: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> StudentDetector:
        """Inverse of `to_json`. Raises InvalidValue on unknown keys."""
        checks.known_keys("student.detector", value.keys(), StudentDetector.__dataclass_fields__.keys())
        given, output = dict(value["input"]), dict(value["output"])
        given["mean"], given["std"] = tuple(given["mean"]), tuple(given["std"])
        output["strides"] = tuple(output["strides"])
        output["anchors"] = tuple(tuple((w, h) for w, h in level) for level in output.get("anchors", ()))
        rest = {k: v for k, v in value.items() if k not in ("input", "output", "offered", "table")}
        return StudentDetector(
            input=InputSpec(**given),
            output=OutputSpec(**output),
            offered=tuple(value["offered"]),
            table=tuple(value["table"]),
            **rest,
        )
