"""What a golden model is made of: frozen values, read from a YAML file with strict keys (docs/teachers.md).

Every kind has a `label_score`: an object that the teacher gives at least this score becomes a label; one between the
teacher's own `min_score` and it is counted as ambiguous and left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from edge.core import checks
from edge.core.errors import InvalidValue
from golden.classes import COCO80
from golden.decoding import BOX_FORMATS, BOX_UNITS, OUTPUT_KINDS, OutputSpec

#: torchvision detectors that have published COCO weights.
DETECTORS: tuple[str, ...] = (
    "fasterrcnn_resnet50_fpn_v2",
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "retinanet_resnet50_fpn_v2",
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
)
#: torchvision classifiers that may name cut-outs, with published ImageNet weights.
CLASSIFIERS: tuple[str, ...] = (
    "resnext101_64x4d",
    "resnext101_32x8d",
    "resnext50_32x4d",
    "resnet152",
    "resnet50",
    "resnet18",
    "convnext_base",
    "efficientnet_v2_m",
)
PUBLISHED = "published"


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


@dataclass(frozen=True)
class TorchvisionSpec:
    """A torchvision detector or classifier. `weights`: a file (.pth or .safetensors) or "published" (downloaded once
    into torch's hub folder). `classes` name a file's classes; empty: those of the published weights.
    """

    name: str
    model: str
    weights: Path | Literal["published"] = "published"
    sha256: str = ""
    classes: tuple[str, ...] = ()
    min_score: float = 0.2
    max_objects: int = 100
    min_size: int | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tiling: Tiling | None = None
    label_score: float = 0.4
    kind: str = "torchvision"

    @property
    def is_classifier(self) -> bool:
        """True for a model that names whole pictures or cut-outs and finds no boxes."""
        return self.model in CLASSIFIERS


@dataclass(frozen=True)
class DemoSpec:
    """The demo's own teacher; `weights` is its .safetensors file with a .json sidecar."""

    name: str
    weights: Path
    tiling: Tiling | None = None
    label_score: float = 0.0
    kind: str = "demo"


@dataclass(frozen=True)
class Member:
    """One detector of an ensemble and its weight in the fusion."""

    teacher: TeacherSpec
    weight: float = 1.0


@dataclass(frozen=True)
class EnsembleSpec:
    """Several detectors fused by weighted boxes. `classes`: fused class -> member classes (several become one before
    the fusion, so that members which call a van a car or a truck agree); empty: every class that a member knows.
    """

    name: str
    members: tuple[Member, ...]
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    iou: float = 0.55
    min_score: float = 0.2
    min_agreement: float = 0.0
    max_objects: int = 100
    tiling: Tiling | None = None
    label_score: float = 0.4
    kind: str = "ensemble"


@dataclass(frozen=True)
class CombinedSpec:
    """A detector finds the boxes, a classifier names the cut-outs where it is sure (`min_share` of its probability)."""

    name: str
    detector: TeacherSpec
    classifier: TorchvisionSpec
    min_share: float = 0.5
    margin: float = 0.1
    label_score: float = 0.4
    kind: str = "combined"


TeacherSpec = OnnxSpec | TorchvisionSpec | EnsembleSpec | DemoSpec | CombinedSpec
KINDS = ("onnx", "torchvision", "ensemble", "demo", "combined")


def read_teacher(path: Path, environment: Mapping[str, str] | None = None) -> TeacherSpec:
    """A teacher from its YAML file. File names in it are relative to the file, or start with `${NAME}` of the
    environment (`environment` in tests).

    Raises:
        InvalidValue: the file cannot be read, or a field is unknown, missing or out of range (path, value, allowed).
    """
    return _read_file(Path(path), os.environ if environment is None else environment, ())


def _read_file(path: Path, environment: Mapping[str, str], above: tuple[Path, ...]) -> TeacherSpec:
    path = path.resolve()
    if path in above:
        raise InvalidValue("teacher", str(path), "a file that does not contain itself")
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("teacher", str(path), f"a readable YAML file ({error})") from error
    except yaml.YAMLError as error:
        raise InvalidValue("teacher", str(path), f"valid YAML ({' '.join(str(error).split())})") from error
    return _teacher(_Fields(value, "teacher"), _Context(path.parent, environment, (*above, path)), path.stem)


@dataclass(frozen=True)
class _Context:
    folder: Path
    environment: Mapping[str, str]
    above: tuple[Path, ...]


class _Fields:
    """A mapping from YAML with its path: each `take` checks one field, `end` refuses what was not taken."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidValue(path, value, "a mapping of fields")
        for key in value:
            if not isinstance(key, str):
                raise InvalidValue(f"{path}.{key}", key, "a field name")
        self._value, self.path, self._taken = value, path, set[str]()

    def has(self, key: str) -> bool:
        self._taken.add(key)
        return self._value.get(key) is not None

    def raw(self, key: str) -> Any:
        if not self.has(key):
            raise InvalidValue(self.at(key), None, "a value (the field is required)")
        return self._value[key]

    def at(self, key: str) -> str:
        return f"{self.path}.{key}"

    def text(self, key: str, default: str | None = None, allowed: Sequence[str] = ()) -> str:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            raise InvalidValue(self.at(key), value, "a text")
        if allowed:
            checks.one_of(self.at(key), value, allowed)
        return value

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, bool):
            raise InvalidValue(self.at(key), value, "true or false")
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        checks.in_range(self.at(key), value, low, high)
        return float(value)

    def whole(self, key: str, default: int | None, low: int, high: int) -> int:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValue(self.at(key), value, f"a whole number from {low} to {high}")
        return value

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
            raise InvalidValue(self.at(key), value, "a list of at least one text")
        checks.unique(self.at(key), value)
        return tuple(value)

    def groups(self, key: str) -> Mapping[str, tuple[str, ...]]:
        if not self.has(key):
            return {}
        inner = _Fields(self.raw(key), self.at(key))
        return {name: inner.texts(name, ()) for name in inner._value}

    def inside(self, key: str) -> _Fields:
        return _Fields(self.raw(key), self.at(key))

    def end(self) -> None:
        checks.known_keys(self.path, list(self._value), self._taken)


def _teacher(f: _Fields, context: _Context, default_name: str) -> TeacherSpec:
    kind = f.text("kind", allowed=KINDS)
    name = f.text("name", default_name)
    spec = _BUILDERS[kind](f, context, name)
    f.end()
    return spec


def _onnx(f: _Fields, context: _Context, name: str) -> OnnxSpec:
    return OnnxSpec(
        name=name,
        file=_path(f, "file", context),
        input=_input(f.inside("input")),
        output=_output(f.inside("output")),
        classes=_classes(f),
        sha256=_sha256(f),
        min_score=f.number("min_score", 0.2, 0.001, 1),
        nms_iou=f.number("nms_iou", 0.6, 0.05, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        tiling=_tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
    )


def _torchvision(f: _Fields, context: _Context, name: str) -> TorchvisionSpec:
    model = f.text("model", allowed=DETECTORS + CLASSIFIERS)
    published = f.text("weights", PUBLISHED) == PUBLISHED
    if model in CLASSIFIERS:
        for key in ("tiling", "min_size"):
            if f.has(key):
                raise InvalidValue(f.at(key), f.raw(key), "no such field for a classifier")
    elif f.has("groups"):
        raise InvalidValue(f.at("groups"), f.raw("groups"), "no such field for a detector")
    if published and f.has("classes"):
        raise InvalidValue(f.at("classes"), f.raw("classes"), "no such field with published weights")
    return TorchvisionSpec(
        name=name,
        model=model,
        weights="published" if published else _path(f, "weights", context),
        sha256=_sha256(f),
        classes=f.texts("classes", ()),
        min_score=f.number("min_score", 0.2, 0.001, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        min_size=f.whole("min_size", None, 64, 4096) if f.has("min_size") else None,
        groups=f.groups("groups"),
        tiling=_tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
    )


def _ensemble(f: _Fields, context: _Context, name: str) -> EnsembleSpec:
    given = f.raw("members")
    if not isinstance(given, list) or len(given) < 2:
        raise InvalidValue(f.at("members"), given, "a list of at least two members")
    members = []
    for i, value in enumerate(given):
        inner = _Fields(value, f"{f.path}.members[{i}]")
        teacher = _detector(inner, "teacher", context)
        members.append(Member(teacher, inner.number("weight", 1.0, 0.001, 1000)))
        inner.end()
    return EnsembleSpec(
        name=name,
        members=tuple(members),
        classes=f.groups("classes"),
        iou=f.number("iou", 0.55, 0.05, 0.95),
        min_score=f.number("min_score", 0.2, 0.001, 1),
        min_agreement=f.number("min_agreement", 0.0, 0, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        tiling=_tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
    )


def _demo(f: _Fields, context: _Context, name: str) -> DemoSpec:
    return DemoSpec(name, _path(f, "weights", context), _tiling(f), f.number("label_score", 0.0, 0, 1))


def _combined(f: _Fields, context: _Context, name: str) -> CombinedSpec:
    detector = _detector(f, "detector", context)
    classifier = _inner_teacher(f, "classifier", context)
    if not isinstance(classifier, TorchvisionSpec) or not classifier.is_classifier:
        raise InvalidValue(f.at("classifier"), classifier.name, "a torchvision classifier")
    if not classifier.groups:
        raise InvalidValue(f.at("classifier.groups"), None, "a mapping: detector class -> the classifier's classes")
    return CombinedSpec(
        name,
        detector,
        classifier,
        f.number("min_share", 0.5, 0, 1),
        f.number("margin", 0.1, 0, 1),
        f.number("label_score", 0.4, 0, 1),
    )


_BUILDERS: Mapping[str, Callable[[_Fields, _Context, str], TeacherSpec]] = {
    "onnx": _onnx,
    "torchvision": _torchvision,
    "ensemble": _ensemble,
    "demo": _demo,
    "combined": _combined,
}


def _inner_teacher(f: _Fields, key: str, context: _Context) -> TeacherSpec:
    """A teacher inside another one: a mapping, or the name of another YAML file."""
    value = f.raw(key)
    if isinstance(value, str):
        return _read_file(_path(f, key, context), context.environment, context.above)
    return _teacher(f.inside(key), context, f.at(key).removeprefix("teacher."))


def _detector(f: _Fields, key: str, context: _Context) -> TeacherSpec:
    spec = _inner_teacher(f, key, context)
    if isinstance(spec, TorchvisionSpec) and spec.is_classifier:
        raise InvalidValue(f.at(key), spec.model, "a detector")
    return spec


def _input(f: _Fields) -> InputSpec:
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


def _output(f: _Fields) -> OutputSpec:
    kind = f.text("kind", allowed=OUTPUT_KINDS)
    strides: tuple[int, ...] = ()
    if kind in ("grid", "distribution"):
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
    )
    f.end()
    return spec


def _tiling(f: _Fields) -> Tiling | None:
    if not f.has("tiling"):
        return None
    t = f.inside("tiling")
    tiling = Tiling(
        t.whole("columns", 2, 1, 8),
        t.whole("rows", 2, 1, 8),
        t.number("overlap", 0.2, 0, 0.5),
        t.flag("whole", True),
        t.number("iou", 0.55, 0.05, 0.95),
    )
    t.end()
    if tiling.columns * tiling.rows < 2:
        raise InvalidValue(t.at("columns"), tiling.columns, "columns x rows of at least 2")
    return tiling


def _three(f: _Fields, key: str, default: float, low: float) -> tuple[float, float, float]:
    if not f.has(key):
        return (default, default, default)
    value = f.raw(key)
    if not isinstance(value, list) or len(value) != 3:
        raise InvalidValue(f.at(key), value, "a list of three numbers, one per channel")
    for v in value:
        checks.in_range(f.at(key), v, low, 1e6)
    return (float(value[0]), float(value[1]), float(value[2]))


def _classes(f: _Fields) -> tuple[str, ...]:
    if not f.has("classes") or f.raw("classes") == "coco80":
        return COCO80
    return f.texts("classes", COCO80)


def _sha256(f: _Fields) -> str:
    if not f.has("sha256"):
        return ""
    value = f.raw("sha256")
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise InvalidValue(f.at("sha256"), value, "64 hexadecimal digits")
    return value.lower()


def _path(f: _Fields, key: str, context: _Context) -> Path:
    text = f.text(key)

    def known(match: re.Match[str]) -> str:
        name = match.group(1)
        value = context.environment.get(name, "")
        if not value:
            raise InvalidValue(f.at(key), text, f"a path; the environment variable {name} is not set")
        return value

    path = Path(re.sub(r"\$\{(\w+)\}", known, text)).expanduser()
    return path if path.is_absolute() else (context.folder / path).resolve()
