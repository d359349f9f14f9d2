"""The description of a golden model: frozen values, read from a YAML file with strict keys (docs/teachers.md).

Every kind has a `label_score`: an object that the teacher gives at least this score becomes a label; one between the
teacher's own `min_score` and it is counted as ambiguous and left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edge.core.detectors import OnnxSpec, Tiling
from edge.core.errors import InvalidValue
from edge.detectors.description import onnx_spec, read_yaml, sha256, tiling
from edge.detectors.fields import Context, Fields, path_of

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
    return _teacher(read_yaml(path, "teacher"), Context(path.parent, environment, (*above, path)), path.stem)


def _teacher(f: Fields, context: Context, default_name: str) -> TeacherSpec:
    kind = f.text("kind", allowed=KINDS)
    name = f.text("name", default_name)
    spec = _BUILDERS[kind](f, context, name)
    if f.has("licence"):
        f.text("licence")  # edge.models.missing looks at it
    f.end()
    return spec


def _torchvision(f: Fields, context: Context, name: str) -> TorchvisionSpec:
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
        weights="published" if published else path_of(f, "weights", context),
        sha256=sha256(f),
        classes=f.texts("classes", ()),
        min_score=f.number("min_score", 0.2, 0.001, 1),
        max_objects=f.whole("max_objects", 100, 1, 1000),
        min_size=f.whole("min_size", None, 64, 4096) if f.has("min_size") else None,
        groups=f.groups("groups"),
        tiling=tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
    )


def _ensemble(f: Fields, context: Context, name: str) -> EnsembleSpec:
    given = f.raw("members")
    if not isinstance(given, list) or len(given) < 2:
        raise InvalidValue(f.at("members"), given, "a list of at least two members")
    members = []
    for i, value in enumerate(given):
        inner = Fields(value, f"{f.path}.members[{i}]")
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
        tiling=tiling(f),
        label_score=f.number("label_score", 0.4, 0, 1),
    )


def _demo(f: Fields, context: Context, name: str) -> DemoSpec:
    return DemoSpec(name, path_of(f, "weights", context), tiling(f), f.number("label_score", 0.0, 0, 1))


def _combined(f: Fields, context: Context, name: str) -> CombinedSpec:
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


_BUILDERS: Mapping[str, Callable[[Fields, Context, str], TeacherSpec]] = {
    "onnx": onnx_spec,
    "torchvision": _torchvision,
    "ensemble": _ensemble,
    "demo": _demo,
    "combined": _combined,
}


def _inner_teacher(f: Fields, key: str, context: Context) -> TeacherSpec:
    """A teacher inside another one: a mapping, or the name of another YAML file."""
    value = f.raw(key)
    if isinstance(value, str):
        return _read_file(path_of(f, key, context), context.environment, context.above)
    return _teacher(f.inside(key), context, f.at(key).removeprefix("teacher."))


def _detector(f: Fields, key: str, context: Context) -> TeacherSpec:
    spec = _inner_teacher(f, key, context)
    if isinstance(spec, TorchvisionSpec) and spec.is_classifier:
        raise InvalidValue(f.at(key), spec.model, "a detector")
    return spec
