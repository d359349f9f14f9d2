"""A camera's first student, made in a process of its own: the control process never loads torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from edge.core.configs import StudentSpec
from edge.core.detectors import OnnxSpec, knows_one_shape
from edge.core.errors import WeightsError
from edge.detectors.description import needs_torch, published_spec, read_detector
from edge.detectors.files import check_file
from edge.models.descriptions import described
from edge.runtime.one_off import run_once
from edge.runtime.process import Channel
from edge.settings import DRAWN_INPUT, CameraSettings


@dataclass(frozen=True)
class FirstStudent:
    """Make a student of `spec` from `source` (None: random weights, or as published) and write it to `target`.
    `detector` is there for a student that begins as a published detector."""

    spec: StudentSpec
    source: Path | None
    target: Path
    detector: OnnxSpec | None = None


@dataclass(frozen=True)
class Made:
    """It is written; `words` say what it started from."""

    words: str


def make_first_student(channel: Channel, order: FirstStudent) -> None:
    """Worker main."""
    if order.detector is not None:
        channel.send(Made(_published(order, order.detector)))
        return
    import torch

    from edge.students import Student, load_student, save_weights, start_from
    from edge.students.adopt import adopt

    torch.manual_seed(0)
    student = Student(order.spec)
    if order.source is None:
        words = "random weights: its first retraining teaches it"
    elif order.source.suffix == ".pth" or not _is_student(order.source):
        taken = start_from(student, order.source)
        words = f"published weights {order.source.name} ({taken} tensors of the backbone)"
    else:
        given = load_student(order.source)
        if not isinstance(given, Student):
            raise WeightsError(f"weight file {order.source} holds a published detector", "name it with student.model")
        if replace(given.spec, classes=order.spec.classes, input_size=order.spec.input_size) != order.spec:
            raise WeightsError(
                f"weight file {order.source} holds a {given.spec.architecture} of width {given.spec.width:g} for "
                f"{given.spec.task}, the camera is configured for a {order.spec.architecture} of width "
                f"{order.spec.width:g} for {order.spec.task}",
                "make student.architecture, width and last_layer_width fit the file",
            )
        known = adopt(student, given)
        new = [c for c in order.spec.classes if c not in known]
        words = f"weights of {order.source.name}" + (f"; new to it: {', '.join(new)}" if new else "")
    save_weights(order.target, student.module, order.spec, {"origin": words})
    channel.send(Made(words))


def _published(order: FirstStudent, detector: OnnxSpec) -> str:
    """The download as it was published, or a student that was retrained from it elsewhere."""
    import numpy as np

    from edge.students.published import PublishedStudent, check_trainable, is_published, read_published
    from edge.students.weights import save_student

    check_file(detector.file, detector.sha256)
    student = PublishedStudent(order.spec, detector.file.read_bytes())
    # At the exported shape first: a file that does not fit its description shall be reported as that.
    student.detect([np.full((*order.spec.input_size, 3), 127, np.uint8)], shape="model")
    check_trainable(student)
    words = f"{detector.name} as published"
    if order.source is not None:
        if not order.source.is_file() or not is_published(order.source):
            raise WeightsError(
                f"weight file {order.source} holds no student of {detector.name}", "check student.weights"
            )
        given = read_published(order.source)
        if given.spec != order.spec:
            raise WeightsError(
                f"weight file {order.source} began as {given.detector.name} for {', '.join(given.spec.classes)}; the "
                f"camera wants {detector.name} for {', '.join(order.spec.classes)}",
                "check student.weights",
            )
        student, words = given, f"weights of {order.source.name}"
    save_student(order.target, student, student.info | {"origin": words})
    return words


def _is_student(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise WeightsError(f"weight file {path} does not exist", "check student.weights")
    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("format", "")).startswith("magpie-student/")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path} is damaged or no safetensors file: {error}") from error


def student_of(
    settings: CameraSettings, default: str, limit_bytes: int | None = None
) -> tuple[StudentSpec, OnnxSpec | None]:
    """A camera's student, and the published detector that it begins as (None: one of our own architectures).

    `default` is the site's student; `limit_bytes` of memory may be used to read it (None: as for workers without a
    setting). Raises MemoryLimitExceeded, and InvalidValue or LabelError if its description cannot be read, or
    the detector lacks one of the camera's classes.
    """
    own = settings.student.architecture is not None or settings.task != "detection"
    named = settings.student.model or ("" if own else default)
    if not named:
        return settings.drawn_spec(), None
    detector = _detector(named, f"cameras.{settings.id}.student.model", limit_bytes)
    return published_spec(detector, settings.classes, settings.class_map | settings.student.class_map), detector


@dataclass(frozen=True)
class StudentInput:
    """A student's usual input in pixels. Not `fixed`: it takes the proportions of the picture at no more pixels."""

    width: int
    height: int
    fixed: bool


def input_of(student: str, limit_bytes: int | None = None) -> StudentInput:
    """The usual input of a student as the site names it, "" for one of our own architectures. Raises
    MemoryLimitExceeded, WeightsError, Unavailable, and InvalidValue if its description cannot be read."""
    if student:
        detector = _detector(student, "student", limit_bytes)
        given = detector.input
        return StudentInput(given.width, given.height, knows_one_shape(given, detector.output))
    height, width = DRAWN_INPUT
    return StudentInput(width, height, True)


def _detector(named: str, root: str, limit_bytes: int | None) -> OnnxSpec:
    path = described(named, "student")
    if needs_torch(path, root):
        found: OnnxSpec = run_once(f"read-{path.stem}", _read, (path, root), str(path), limit_bytes)
        return found
    return read_detector(path, root=root)


def _read(channel: Channel, named: tuple[Path, str]) -> None:
    """Worker main: a description whose graph is made with torch, which the control process never loads."""
    channel.send(read_detector(named[0], root=named[1]))


def first_student(
    settings: CameraSettings, default: str, target: Path, limit_bytes: int | None = None
) -> tuple[StudentSpec, str]:
    """Write a camera's first student to `target`; returns its specification and where it came from, in words.
    `limit_bytes` as for `student_of`.

    Raises MemoryLimitExceeded, WeightsError (missing, damaged, does not fit, cannot be trained), InvalidValue,
    LabelError, Unavailable.
    """
    spec, detector = student_of(settings, default, limit_bytes)
    source = Path(settings.student.weights) if settings.student.weights else None
    target.parent.mkdir(parents=True, exist_ok=True)
    order = FirstStudent(spec, source, target, detector)
    file = source or (target if detector is None else detector.file)
    made = run_once(f"first-student-{target.stem}", make_first_student, order, str(file), limit_bytes)
    return spec, made.words
