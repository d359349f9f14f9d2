"""The demo's teacher: good enough on streets it has never seen, and clear about bad files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from edge.core.errors import InvalidValue, WeightsError
from edge.demo import weight_file
from edge.demo.scene import CLASSES
from edge.demo.training import evaluate
from golden.demo_teacher import DemoTeacher

WEIGHTS = weight_file("demo_teacher")


@pytest.fixture(scope="module")
def teacher() -> DemoTeacher:
    return DemoTeacher(WEIGHTS, threads=1)


def test_it_labels_held_out_streets_in_all_conditions(teacher: DemoTeacher) -> None:
    scores = evaluate(teacher.label, seeds=1, times=10)
    assert teacher.classes == CLASSES
    assert scores["f1"] >= 0.85
    assert min(scores["by_character"].values()) >= 0.78


def test_the_files_are_small_and_say_where_they_come_from() -> None:
    assert WEIGHTS.stat().st_size < 10_000_000
    sidecar = json.loads(WEIGHTS.with_suffix(".json").read_text())
    assert sidecar["trained"]["command"].startswith("python -m edge.demo.train_weights teacher")
    assert sidecar["held_out"]["f1"] >= 0.85


def test_labels_do_not_depend_on_the_picture_size_much(teacher: DemoTeacher) -> None:
    blank = np.full((120, 200, 3), 90, np.uint8)
    assert len(teacher.label(blank)) <= 2
    assert teacher.label(np.zeros((1080, 1920, 3), np.uint8)).boxes.shape[1] == 4


def test_a_wrong_picture_is_refused(teacher: DemoTeacher) -> None:
    with pytest.raises(InvalidValue, match="uint8 RGB"):
        teacher.label(np.zeros((288, 512), np.uint8))


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"nowhere\.safetensors"):
        DemoTeacher(tmp_path / "nowhere.safetensors")
    path = tmp_path / "teacher.safetensors"
    shutil.copy(WEIGHTS, path)
    with pytest.raises(WeightsError, match=r"teacher\.json"):
        DemoTeacher(path)
    shutil.copy(WEIGHTS.with_suffix(".json"), path.with_suffix(".json"))
    DemoTeacher(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsError, match=r"teacher\.safetensors"):
        DemoTeacher(path)
    path.write_bytes(whole)
    path.with_suffix(".json").write_text('{"spec": {"classes": ["car"]}}')
    with pytest.raises(WeightsError, match=r"teacher\.json"):
        DemoTeacher(path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "teacher.safetensors"
    shutil.copy(WEIGHTS, path)
    sidecar = json.loads(WEIGHTS.with_suffix(".json").read_text())
    sidecar["spec"]["widths"] = [16, 32, 64, 96]
    path.with_suffix(".json").write_text(json.dumps(sidecar))
    with pytest.raises(WeightsError, match=r"teacher\.safetensors"):
        DemoTeacher(path)


def test_broken_numbers_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(WEIGHTS)
    name = next(n for n, t in tensors.items() if t.is_floating_point())
    tensors[name] = torch.full_like(tensors[name], float("nan"))
    path = tmp_path / "teacher.safetensors"
    save_file(tensors, path)
    shutil.copy(WEIGHTS.with_suffix(".json"), path.with_suffix(".json"))
    with pytest.raises(WeightsError, match="not finite"):
        DemoTeacher(path)
