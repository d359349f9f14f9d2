"""The registry: a teacher from its description, checked before anything starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge.core.detectors import OnnxSpec
from edge.core.errors import WeightsError
from edge.core.vision import Detections
from edge.detectors.files import check_file
from golden.ensemble import CombinedTeacher, EnsembleTeacher, Teacher, TiledTeacher, joint_classes
from golden.spec import CombinedSpec, DemoSpec, EnsembleSpec, TeacherSpec, TorchvisionSpec


@dataclass(frozen=True)
class TeacherFacts:
    """A check's findings: the classes on offer and the files read (downloads that are still due are named)."""

    name: str
    classes: tuple[str, ...]
    files: tuple[str, ...]


def check_teacher(spec: TeacherSpec, timeout_s: float = 10.0) -> TeacherFacts:
    """Cheap verification before anything starts: files are there and are the right ones, published weights are on
    disk or their address answers within `timeout_s`, classes fit. An ONNX file is opened and compared with its
    description; no other model is loaded.

    Raises:
        WeightsError: a file is missing, damaged or cannot be downloaded; says what to do.
        LabelError: a class mapping names what a model does not know.
    """
    match spec:
        case OnnxSpec():
            from golden.onnx_teacher import check_model

            check_model(spec)
            return TeacherFacts(spec.name, spec.classes, (str(spec.file),))
        case TorchvisionSpec():
            from golden import torchvision_teacher as tv

            classes = tv.offered(spec)
            if spec.is_classifier:
                classes, _ = tv.check_groups(spec, classes)
            tv.check_weights(spec, timeout_s)
            if isinstance(spec.weights, Path):
                return TeacherFacts(spec.name, classes, (str(spec.weights),))
            url, file = tv.published_file(spec)
            return TeacherFacts(spec.name, classes, (str(file) if file.is_file() else url,))
        case DemoSpec():
            return TeacherFacts(spec.name, _demo_classes(spec.weights), (str(spec.weights),))
        case EnsembleSpec():
            facts = [check_teacher(m.teacher, timeout_s) for m in spec.members]
            names, _ = joint_classes([(f.name, f.classes) for f in facts], spec.classes)
            return TeacherFacts(spec.name, names, tuple(file for f in facts for file in f.files))
        case CombinedSpec():
            finder, namer = check_teacher(spec.detector, timeout_s), check_teacher(spec.classifier, timeout_s)
            both = tuple(dict.fromkeys((*finder.classes, *namer.classes)))
            return TeacherFacts(spec.name, both, finder.files + namer.files)


def open_teacher(spec: TeacherSpec, threads: int = 1, device: str = "cpu") -> Teacher:
    """Load a teacher. `threads`: CPU threads per model (torch's are set for the whole process).

    Raises:
        WeightsError, LabelError: as `check_teacher`, and when a file does not fit its description.
    """
    match spec:
        case OnnxSpec():
            from golden.onnx_teacher import OnnxTeacher

            return _tiled(OnnxTeacher(spec, threads, device), spec)
        case TorchvisionSpec():
            from golden.torchvision_teacher import TorchvisionTeacher

            return _tiled(TorchvisionTeacher(spec, threads, device), spec)
        case DemoSpec():
            return _tiled(_Demo(spec, threads, device), spec)
        case EnsembleSpec():
            # Each member merges its own tiles before the fusion: measured better than fusing inside each tile.
            return _ensemble(spec, [_tiled(open_teacher(m.teacher, threads, device), spec) for m in spec.members])
        case CombinedSpec():
            from golden.torchvision_teacher import TorchvisionClassifier

            namer = TorchvisionClassifier(spec.classifier, threads, device, spec.margin)
            return CombinedTeacher(spec.name, open_teacher(spec.detector, threads, device), namer, spec.min_share)


def _ensemble(spec: EnsembleSpec, members: Sequence[Teacher]) -> EnsembleTeacher:
    return EnsembleTeacher(
        spec.name,
        members,
        [m.weight for m in spec.members],
        spec.classes,
        spec.iou,
        spec.min_score,
        spec.min_agreement,
        spec.max_objects,
    )


def _tiled(teacher: Teacher, spec: OnnxSpec | TorchvisionSpec | DemoSpec | EnsembleSpec) -> Teacher:
    return teacher if spec.tiling is None else TiledTeacher(teacher, spec.tiling)


class _Demo:
    """The demo's own teacher with a name."""

    def __init__(self, spec: DemoSpec, threads: int, device: str) -> None:
        from golden.demo_teacher import DemoTeacher

        self.name = spec.name
        self._inner = DemoTeacher(spec.weights, device=device, threads=threads)
        self.classes: tuple[str, ...] = self._inner.classes

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        return self._inner.label(picture)


def _demo_classes(weights: Path) -> tuple[str, ...]:
    check_file(weights)
    sidecar = weights.with_suffix(".json")
    check_file(sidecar)
    try:
        return tuple(json.loads(sidecar.read_text(encoding="utf-8"))["spec"]["classes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{sidecar}: not a sidecar of the demo teacher ({error})") from error
