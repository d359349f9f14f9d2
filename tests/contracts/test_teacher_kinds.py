"""The contract of every kind of teacher: it is checked without being loaded, and labels whole pictures in its
classes."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from detectors.tiny_detectors import street, tiny_grid
from safetensors.torch import save

from edge.core.detectors import Tiling
from edge.core.errors import WeightsError
from edge.demo import weight_file
from golden.spec import CombinedSpec, DemoSpec, EnsembleSpec, Member, TeacherSpec, TorchvisionSpec
from golden.teacher import Teacher, check_teacher, open_teacher

PICTURES = [street(n)[0] for n in (1, 2)]


def onnx(folder: Path) -> TeacherSpec:
    content, spec = tiny_grid()
    file = folder / "grid.onnx"
    file.write_bytes(content)
    return replace(spec, file=file, min_score=0.01, max_objects=4)


@cache
def weights(model: str, classes: int, **more: Any) -> bytes:
    """Of a network as it is made: to make one takes longer than to label with it."""
    torch.manual_seed(0)
    network = torchvision.models.get_model(model, weights=None, num_classes=classes, **more)
    return save({k: v.contiguous() for k, v in network.state_dict().items()})


def saved(folder: Path, model: str, classes: int, **more: Any) -> Path:
    file = folder / f"{model}.safetensors"
    file.write_bytes(weights(model, classes, **more))
    return file


def detector(folder: Path) -> TorchvisionSpec:
    name = "ssdlite320_mobilenet_v3_large"
    file = saved(folder, name, 3, weights_backbone=None)
    return TorchvisionSpec("t", name, file, classes=("car", "person"), min_score=0.001, max_objects=5)


def combined(folder: Path) -> CombinedSpec:
    file = saved(folder, "resnet18", 2)
    namer = TorchvisionSpec("n", "resnet18", file, classes=("x", "y"), groups={"b": ("x",), "c": ("y",)})
    return CombinedSpec("c", onnx(folder), namer, min_share=0.0)


#: Every kind of teacher; a new one is added here.
TEACHERS: dict[str, Callable[[Path], TeacherSpec]] = {
    "onnx": onnx,
    "torchvision": detector,
    "demo": lambda folder: DemoSpec("demo", weight_file("demo_teacher")),
    "ensemble": lambda folder: EnsembleSpec("e", (Member(onnx(folder)), Member(detector(folder), 2.0)), min_score=0.01),
    "combined": combined,
    "tiled": lambda folder: replace(detector(folder), tiling=Tiling(2, 2, 0.2)),
}


@dataclass(frozen=True)
class Opened:
    spec: TeacherSpec
    teacher: Teacher


@pytest.fixture(params=sorted(TEACHERS), scope="module")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    torch.set_num_threads(1)
    spec = TEACHERS[request.param](tmp_path_factory.mktemp(request.param))
    return Opened(spec, open_teacher(spec))


def test_every_kind_of_description_is_among_them(tmp_path: Path) -> None:
    kinds = {type(TEACHERS[name](tmp_path)) for name in TEACHERS}
    assert kinds == set(typing.get_args(TeacherSpec))


def test_its_labels_are_boxes_of_the_picture_in_its_classes(opened: Opened) -> None:
    for picture in PICTURES:
        found = opened.teacher.label(picture)
        assert found.boxes.shape == (len(found), 4)
        assert found.boxes.min(initial=0.0) >= 0.0
        assert found.boxes.max(initial=0.0) <= 1.0
        assert (found.boxes[:, 2:] >= found.boxes[:, :2]).all()
        assert set(found.classes.tolist()) <= set(range(len(opened.teacher.classes)))
        assert found.scores.min(initial=0.0) >= 0.0
        assert found.scores.max(initial=0.0) <= 1.0
    assert any(len(opened.teacher.label(p)) for p in PICTURES), "it finds something at all"


def test_it_says_the_same_of_the_same_picture(opened: Opened) -> None:
    once = [opened.teacher.label(p).to_json() for p in PICTURES]
    again = open_teacher(opened.spec)
    for teacher in (opened.teacher, again):
        assert [teacher.label(p).to_json() for p in reversed(PICTURES)] == once[::-1], "whatever it labelled before"


def test_a_picture_is_only_read(opened: Opened) -> None:
    picture = PICTURES[0].copy()
    before = picture.tobytes()
    opened.teacher.label(picture)
    assert picture.tobytes() == before


@pytest.mark.parametrize("shape", [(1, 1, 3), (37, 211, 3)])
def test_pictures_of_any_size_are_labelled(opened: Opened, shape: tuple[int, ...]) -> None:
    found = opened.teacher.label(np.full(shape, 90, np.uint8))
    assert found.boxes.shape == (len(found), 4)


def test_the_check_knows_its_name_classes_and_files_without_loading_it(opened: Opened) -> None:
    facts = check_teacher(opened.spec)
    assert facts.name == opened.spec.name == opened.teacher.name
    assert facts.classes == opened.teacher.classes
    assert facts.files
    assert all(os.path.isfile(f) for f in facts.files)


@pytest.mark.parametrize("name", sorted(TEACHERS))
def test_without_its_file_it_is_refused_by_name_before_and_when_it_opens(name: str, tmp_path: Path) -> None:
    spec = TEACHERS[name](tmp_path)
    if isinstance(spec, DemoSpec):
        spec = replace(spec, weights=tmp_path / "gone.safetensors")
    for file in tmp_path.iterdir():
        file.unlink()
    for use in (check_teacher, open_teacher):
        with pytest.raises(WeightsError, match=r"\.(onnx|safetensors)"):
            use(spec)
