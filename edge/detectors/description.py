"""The description of an ONNX detector, read with strict keys (docs/teachers.md): teachers and students alike."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from edge.core import checks
from edge.core.configs import PUBLISHED_DETECTOR, StudentSpec
from edge.core.detectors import (
    BOX_FORMATS,
    BOX_UNITS,
    COCO80,
    OUTPUT_KINDS,
    STRIDED,
    Anchors,
    InputSpec,
    OnnxSpec,
    OutputSpec,
    StudentDetector,
    Tiling,
)
from edge.core.errors import InvalidValue, WeightsError
from edge.core.model_files import models_folder
from edge.detectors.classes import ClassMap
from edge.detectors.fields import Context, Fields, path_of
from edge.detectors.files import check_file

#: Classes of cameras that stand for several of COCO's.
USUAL_GROUPS: Mapping[str, tuple[str, ...]] = {
    "vehicle": ("car", "truck", "bus", "train"),
    "two_wheeler": ("bicycle", "motorcycle"),
}


def read_yaml(path: Path, root: str) -> Fields:
    """The fields of a YAML file. Raises InvalidValue (`root` names it) if it cannot be read."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(root, str(path), f"a readable YAML file ({error})") from error
    except yaml.YAMLError as error:
        raise InvalidValue(root, str(path), f"valid YAML ({' '.join(str(error).split())})") from error
    return Fields(value, root)


def onnx_spec(f: Fields, context: Context, name: str) -> OnnxSpec:
    return OnnxSpec(
        name=name,
        file=path_of(f, "file", context),
        input=_input(f.inside("input")),
        output=_output(f.inside("output")),
        classes=_classes(f),
        sha256=sha256(f),
        min_score=f.number("min_score", 0.2, 0.001, 1),
        nms_iou=f.number("nms_iou", 0.6, 0.05, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        tiling=tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
        licence=f.text("licence", "") if f.has("licence") else "",
    )


def _input(f: Fields) -> InputSpec:
    spec = InputSpec(
        width=f.whole("width", None, 32, 4096),
        height=f.whole("height", None, 32, 4096),
        fit=f.text("fit", "stretch", ("stretch", "letterbox", "corner")),  # type: ignore[arg-type]
        colour=f.text("colour", "rgb", ("rgb", "bgr")),  # type: ignore[arg-type]
        layout=f.text("layout", "nchw", ("nchw", "nhwc")),  # type: ignore[arg-type]
        type=f.text("type", "float32", ("float32", "uint8")),  # type: ignore[arg-type]
        scale=f.number("scale", 1.0, 1e-6, 1e6),
        mean=_three(f, "mean", 0.0, -1e6),
        std=_three(f, "std", 1.0, 1e-6),
        pad=f.whole("pad", 114, 0, 255),
        name=f.text("name", "") if f.has("name") else "",
        size_name=f.text("size_name", "") if f.has("size_name") else "",
        size_order=f.text("size_order", "wh", ("wh", "hw")),  # type: ignore[arg-type]
    )
    f.end()
    return spec


def _output(f: Fields) -> OutputSpec:
    kind = f.text("kind", allowed=OUTPUT_KINDS)
    strides: tuple[int, ...] = ()
    if kind in STRIDED:
        given = f.raw("strides")
        good = isinstance(given, list) and given and all(isinstance(s, int) and 1 <= s <= 256 for s in given)
        if not good:
            raise InvalidValue(f.at("strides"), given, "a list of whole numbers from 1 to 256")
        strides = tuple(given)
    free = kind in ("end_to_end", "rows")
    spec = OutputSpec(
        kind=kind,  # type: ignore[arg-type]
        strides=strides,
        box_format=f.text("box_format", "xyxy", BOX_FORMATS) if free else "xyxy",  # type: ignore[arg-type]
        box_units=f.text("box_units", "input", BOX_UNITS) if free else "input",  # type: ignore[arg-type]
        objectness=f.flag("objectness", False) if kind == "rows" else False,
        labels=f.text("labels", "labels") if kind == "end_to_end" else "labels",
        boxes=f.text("boxes", "boxes") if kind == "end_to_end" else "boxes",
        scores=f.text("scores", "scores") if kind == "end_to_end" else "scores",
        cell_centre=f.number("cell_centre", 0.5, 0, 1) if kind == "distribution" else 0.5,
        first_class=f.whole("first_class", 0, 0, 100) if kind == "end_to_end" else 0,
        anchors=_anchors(f, len(strides)) if kind == "anchors" else (),
    )
    f.end()
    return spec


def _anchors(f: Fields, levels: int) -> tuple[Anchors, ...]:
    """Default boxes: for each stride a list of [width, height] in pixels of the input."""
    given = f.raw("anchors")
    allowed = f"a list of {levels} lists of [width, height] in pixels, one list for each stride"
    try:
        out = tuple(tuple((float(w), float(h)) for w, h in level) for level in given)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f.at("anchors"), given, allowed) from error
    if len(out) != levels or not all(level and all(w > 0 and h > 0 for w, h in level) for level in out):
        raise InvalidValue(f.at("anchors"), given, allowed)
    return out


def tiling(f: Fields) -> Tiling | None:
    if not f.has("tiling"):
        return None
    t = f.inside("tiling")
    out = Tiling(
        t.whole("columns", 2, 1, 8),
        t.whole("rows", 2, 1, 8),
        t.number("overlap", 0.2, 0, 0.5),
        t.flag("whole", True),
        t.number("iou", 0.55, 0.05, 0.95),
    )
    t.end()
    if out.columns * out.rows < 2:
        raise InvalidValue(t.at("columns"), out.columns, "columns x rows of at least 2")
    return out


def _three(f: Fields, key: str, default: float, low: float) -> tuple[float, float, float]:
    if not f.has(key):
        return (default, default, default)
    value = f.raw(key)
    if not isinstance(value, list) or len(value) != 3:
        raise InvalidValue(f.at(key), value, "a list of three numbers, one per channel")
    for v in value:
        checks.in_range(f.at(key), v, low, 1e6)
    return (float(value[0]), float(value[1]), float(value[2]))


def _classes(f: Fields) -> tuple[str, ...]:
    if not f.has("classes") or f.raw("classes") == "coco80":
        return COCO80
    return f.texts("classes", COCO80)


def sha256(f: Fields) -> str:
    if not f.has("sha256"):
        return ""
    value = f.raw("sha256")
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise InvalidValue(f.at("sha256"), value, "64 hexadecimal digits")
    return value.lower()


def needs_torch(path: Path, root: str = "student") -> bool:
    """Whether reading a description loads torch: its graph is made from published torchvision weights.

    Raises InvalidValue if the file cannot be read."""
    return read_yaml(Path(path), root).text("kind", allowed=("onnx", "torchvision")) == "torchvision"


def read_detector(path: Path, environment: Mapping[str, str] | None = None, root: str = "student") -> OnnxSpec:
    """A detector from its YAML file, described as a teacher is: kind onnx, or torchvision's SSDLite, of which a graph
    is made beside its weights. File names in it are relative to the file, or start with `${NAME}` of the environment.

    Raises:
        InvalidValue: the file cannot be read, is of another kind, or a field is unknown, missing or out of range.
        WeightsError: kind torchvision, and its weights are missing, damaged or do not fit.
        StoreError: kind torchvision, and the graph cannot be written.
    """
    path = Path(path).resolve()
    environment = os.environ if environment is None else environment
    f = read_yaml(path, root)
    kind = f.text("kind", allowed=("onnx", "torchvision"))
    name = f.text("name", path.stem)
    context = Context(path.parent, environment, (path,))
    spec = onnx_spec(f, context, name) if kind == "onnx" else _ssdlite(f, context, name)
    f.end()
    return spec


def published_spec(
    detector: OnnxSpec, classes: Sequence[str], class_map: Mapping[str, Sequence[str]] | None = None
) -> StudentSpec:
    """The specification of a student that begins as `detector`, for a camera's classes.

    `class_map`: camera class -> classes of the detector; one that is not named is taken by its own name. A name that
    the detector does not know is taken by what it usually stands for (USUAL_GROUPS).
    Raises LabelError or InvalidValue if the detector lacks one of the classes.
    """
    wanted = {c: (c,) for c in classes} | {c: tuple(names) for c, names in (class_map or {}).items()}
    groups = {
        c: tuple(
            n for name in names for n in ((name,) if name in detector.classes else USUAL_GROUPS.get(name, (name,)))
        )
        for c, names in wanted.items()
    }
    table = ClassMap.build(classes, detector.classes, groups, "student.class_map", "student").table
    kept = StudentDetector(
        detector.name,
        detector.input,
        detector.output,
        detector.classes,
        table,
        detector.nms_iou,
        detector.max_objects,
        detector.licence,
    )
    size = (detector.input.height, detector.input.width)
    return StudentSpec("detection", PUBLISHED_DETECTOR, tuple(classes), size, detector=kept)


def _ssdlite(f: Fields, context: Context, name: str) -> OnnxSpec:
    """torchvision's SSDLite with published weights, or with a file's own classes."""
    from edge.detectors import ssdlite  # torch: seconds to import, and not needed for ONNX files

    f.text("model", allowed=(ssdlite.MODEL,))
    published = f.text("weights", "published") == "published"
    if published:
        if f.has("classes"):
            raise InvalidValue(f.at("classes"), f.raw("classes"), "no such field with published weights")
        classes, address = ssdlite.published_classes(), ssdlite.published_address()
        weights = models_folder(context.environment) / address.rsplit("/", 1)[-1]
        if not weights.is_file():
            raise WeightsError(
                f"the published weights of {ssdlite.MODEL} are not in the models folder",
                f"run `magpie models pull {ssdlite.MODEL}`, or put {address} at {weights}",
            )
    else:
        classes, weights = f.texts("classes", ()), path_of(f, "weights", context)
        if not classes:
            raise InvalidValue(f.at("classes"), None, "the classes of the file, without the background")
    hash_ = sha256(f)
    check_file(weights, hash_)
    return OnnxSpec(
        name=name,
        input=ssdlite.INPUT,
        output=ssdlite.output_spec(),
        classes=classes,
        min_score=f.number("min_score", 0.2, 0.001, 1),
        nms_iou=f.number("nms_iou", 0.55, 0.05, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        licence=f.text("licence", "") if f.has("licence") else "",
        file=ssdlite.converted(weights, len(classes)),
    )
