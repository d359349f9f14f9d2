"""Students on disk: one safetensors file that says what it is. Written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from edge.core.configs import StudentSpec
from edge.core.errors import InvalidValue, WeightsError
from edge.files import store_whole
from edge.students.building import build
from edge.students.published import PublishedStudent, is_published, read_published
from edge.students.student import Fold, Student

#: A student of either kind: both answer with `detect`.
AnyStudent = Student | PublishedStudent

FORMAT = "magpie-student/1"
# Tensors handled between two breaths of `refill`.
SLICE = 12


def student_bytes(
    module: nn.Module, spec: StudentSpec, extra: Mapping[str, Any] | None = None, half: bool = False
) -> bytes:
    """The file's content. `half` stores weights as float16 (statistics of BatchNorm stay float32: they overflow)."""
    tensors: dict[str, Tensor] = {}
    for name, value in module.state_dict().items():
        value = value.detach().cpu()
        if half and value.dtype == torch.float32 and "running_" not in name:
            value = value.half()
        tensors[name] = value.contiguous()
    metadata = {
        "format": FORMAT,
        "spec": json.dumps(spec.to_json(), sort_keys=True),
        "extra": json.dumps(dict(extra or {}), sort_keys=True),
    }
    return save(tensors, metadata=metadata)


def save_weights(
    path: Path, module: nn.Module, spec: StudentSpec, extra: Mapping[str, Any] | None = None, half: bool = False
) -> None:
    """Write `module` to `path` (safetensors), whole or not at all: temporary name, fsync, rename.

    Raises DiskFull or StoreError.
    """
    store_whole(path, student_bytes(module, spec, extra, half))


def load_student(path: Path, device: str = "cpu") -> AnyStudent:
    """Read a student. Raises WeightsError if the file is missing, damaged, no student, or does not fit its own spec."""
    if is_published(Path(path)):
        return read_published(Path(path), device)
    spec, tensors, extra = _read(Path(path))
    module = build(spec)
    own = module.state_dict()
    _check_fit(path, {k: v.shape for k, v in own.items()}, tensors)
    _check_finite(path, tensors)
    module.load_state_dict({k: v.to(own[k].dtype) for k, v in tensors.items()})
    return Student(spec, module.to(device), extra)


def load_drawn(path: Path, device: str = "cpu") -> Student:
    """Read a student of our own architectures. Raises WeightsError as `load_student`, and for a published detector."""
    student = load_student(path, device)
    if not isinstance(student, Student):
        raise WeightsError(f"weight file {path} holds a published detector ({student.detector.name})")
    return student


def save_student(path: Path, student: AnyStudent, extra: Mapping[str, Any] | None = None) -> None:
    """Write a student of any kind, whole or not at all. `extra` replaces its info. Raises DiskFull or StoreError."""
    info = dict(student.info if extra is None else extra)
    if isinstance(student, PublishedStudent):
        store_whole(path, student.file_bytes(info))
    else:
        save_weights(path, student.module, student.spec, info)


def refill(spare: Student, path: Path, breathe: Callable[[], None] = lambda: None) -> bool:
    """Read a student of the same spec into `spare`, an inference copy that is not in use. False: it is of another spec.

    A fraction of the work of `load_student` and `for_inference`, in slices with `breathe()` between them, so that
    another thread of this process that answers frames is not held up. Raises WeightsError like `load_student`; the
    spare is then unchanged.
    """
    if is_published(Path(path)):
        return False
    spec, tensors, extra = _read(Path(path))
    if spec != spare.spec or not spare.folds:
        return False
    breathe()
    own = spare.module.state_dict()
    folded = {f.conv: f for f in spare.folds}
    wanted = {k: v.shape for k, v in own.items()}
    for fold in spare.folds:
        # The fused bias stands for the four tensors of the norm (none of our folded convolutions has its own).
        wanted.pop(f"{fold.conv}.bias")
        channels = own[f"{fold.conv}.weight"].shape[:1]
        wanted |= {f"{fold.norm}.{part}": channels for part in ("weight", "bias", "running_mean", "running_var")}
        wanted[f"{fold.norm}.num_batches_tracked"] = torch.Size([])
    _check_fit(path, wanted, tensors)
    _check_finite(path, tensors, breathe)
    with torch.no_grad():
        for n, (name, target) in enumerate(own.items()):
            module, _, part = name.rpartition(".")
            fold_of = folded.get(module)
            if fold_of is None:
                target.copy_(tensors[name])
            else:
                target.copy_(_folded(tensors, fold_of, part))
            if n % SLICE == SLICE - 1:
                breathe()
    breathe()
    spare.answer_with_present_weights()
    spare.info = extra
    return True


def _folded(tensors: Mapping[str, Tensor], fold: Fold, part: str) -> Tensor:
    """Weight or bias of a convolution with its BatchNorm folded in."""
    gain, shift, mean, variance = (
        tensors[f"{fold.norm}.{name}"].float() for name in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain * torch.rsqrt(variance + fold.eps)
    if part == "bias":
        return shift - mean * scale
    return tensors[f"{fold.conv}.weight"].float() * scale.view(-1, 1, 1, 1)


def _read(path: Path) -> tuple[StudentSpec, dict[str, Tensor], dict[str, Any]]:
    if not path.is_file():
        raise WeightsError(f"weight file {path} does not exist", "check the path")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        tensors = _tensors(path)
    except (SafetensorError, OSError, KeyError, AssertionError, MemoryError) as error:
        raise WeightsError(f"weight file {path} is damaged or no safetensors file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise WeightsError(f"weight file {path} holds no student (format {metadata.get('format')!r})")
    try:
        spec = StudentSpec.from_json(json.loads(metadata["spec"]))
        extra = json.loads(metadata.get("extra", "{}"))
    except (KeyError, TypeError, ValueError, InvalidValue) as error:
        raise WeightsError(f"weight file {path} has an unreadable specification: {error}") from error
    return spec, tensors, extra


def _tensors(path: Path) -> dict[str, Tensor]:
    """Raises OSError, SafetensorError.

    By the file's bytes: safetensors 0.8 loses two small objects for each tensor that it maps from a file, 26 KB for a
    drawn student. A profiler reads three students for each window, a camera's worker one for each promotion.
    """
    found: dict[str, Tensor] = load(path.read_bytes())
    return found


def _check_fit(path: Path, wanted: Mapping[str, torch.Size], tensors: Mapping[str, Tensor]) -> None:
    missing = sorted(wanted.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - wanted.keys())
    shapes = sorted(k for k in wanted.keys() & tensors.keys() if wanted[k] != tensors[k].shape)
    for what, names in (("lacks", missing), ("has unknown", unknown), ("has other shapes for", shapes)):
        if names:
            raise WeightsError(f"weight file {path} does not fit its student: it {what} {len(names)}, e.g. {names[0]}")


def _check_finite(path: Path, tensors: Mapping[str, Tensor], breathe: Callable[[], None] = lambda: None) -> None:
    for n, (name, value) in enumerate(tensors.items()):
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise WeightsError(f"weight file {path} is damaged: {name} holds numbers that are not finite")
        if n % SLICE == SLICE - 1:
            breathe()


def start_from(student: Student, path: Path) -> int:
    """Start a student's backbone from weights that torchvision published (local .pth or safetensors file).

    Tensors are taken where name and shape fit; returns how many. Raises WeightsError if the file cannot be read or if
    it fits less than half of the backbone (another architecture or width).
    """
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"weight file {path} does not exist", "check the path")
    try:
        if path.suffix == ".safetensors":
            given = _tensors(path)
        else:
            given = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise WeightsError(f"weight file {path} cannot be read: {error}") from error
    if not isinstance(given, Mapping) or not all(isinstance(v, Tensor) for v in given.values()):
        raise WeightsError(f"weight file {path} holds no table of tensors")
    own = student.module.state_dict()
    published = {_published_name(k): k for k in own}
    backbone = [k for k in own if _published_name(k) != k or k.startswith("features.")]
    taken = {
        published[k]: v.to(own[published[k]].dtype)
        for k, v in given.items()
        if k in published and own[published[k]].shape == v.shape
    }
    if len(taken) * 2 < len(backbone):
        raise WeightsError(
            f"weight file {path} fits {len(taken)} of {len(backbone)} tensors of the backbone",
            f"it must hold torchvision's weights of {student.spec.architecture} at the student's width",
        )
    student.module.load_state_dict(taken, strict=False)
    return len(taken)


def _published_name(name: str) -> str:
    """torchvision's name of one of our tensors (our classifiers hold the same blocks in two parts)."""
    for part in ("stem.", "last."):
        if name.startswith(part):
            rest = name[len(part) :]
            return rest.replace("features_", "features.", 1) if rest.startswith("features_") else rest
    return name
