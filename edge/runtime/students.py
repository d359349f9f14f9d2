"""A camera's first student, made in a process of its own: the control process never loads torch."""

from __future__ import annotations

import queue
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edge.core.configs import StudentSpec
from edge.core.errors import MagpieError, Unavailable, WeightsError
from edge.core.shares import LaunchSpec
from edge.runtime.process import Channel, WorkerError, WorkerProcess, describe_exit

_PATIENCE_S = 120.0


@dataclass(frozen=True)
class FirstStudent:
    """Make a student of `spec` from `source` (None: random weights) and write it to `target`."""

    spec: StudentSpec
    source: Path | None
    target: Path


@dataclass(frozen=True)
class Made:
    """It is written; `words` say what it started from."""

    words: str


def make_first_student(channel: Channel, order: FirstStudent) -> None:
    """Worker main."""
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


def _is_student(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise WeightsError(f"weight file {path} does not exist", "check student.weights")
    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("format", "")).startswith("magpie-student/")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path} is damaged or no safetensors file: {error}") from error


def run_once(name: str, main: Any, argument: Any) -> Any:
    """Run a worker to its first message and return it. Blocks; raises MagpieError with the worker's own words."""
    said: queue.Queue[Any] = queue.Queue()
    process = WorkerProcess(name, main, argument, LaunchSpec(), said.put, lambda code: said.put(("exit", code)))
    try:
        message = said.get(timeout=_PATIENCE_S)
    except queue.Empty:
        raise Unavailable(f"{name} did not finish within {_PATIENCE_S:.0f} s") from None
    finally:
        process.join(2.0)
        process.kill()
    if isinstance(message, WorkerError):
        raise WeightsError(message.message) if message.code == "weights" else MagpieError(message.message)
    if isinstance(message, tuple):
        raise MagpieError(f"{name} {describe_exit(message[1])}")
    return message


def first_student(spec: StudentSpec, source: Path | None, target: Path) -> tuple[StudentSpec, str]:
    """Write a camera's first student to `target`; returns its specification and where it came from, in words.

    Raises WeightsError (missing, damaged, does not fit), Unavailable.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    made = run_once(f"first-student-{target.stem}", make_first_student, FirstStudent(spec, source, target))
    return spec, made.words
