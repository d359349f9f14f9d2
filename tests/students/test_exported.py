"""Drawn students answer by onnxruntime on a CPU: as torch does, with the weights in force, or torch answers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_students import ALL, CLASSIFIERS, DETECTOR, lively, picture

from edge.core.configs import StudentSpec
from edge.core.errors import WeightsError
from edge.students import input_size_at, load_student, pictures_to_tensor, refill, save_weights
from edge.students.exported import ExportedGraphs, open_exported
from edge.students.student import FEW_ANSWERS, Student


def outputs(
    student: Student, pictures: int, size: tuple[int, int], graphs: ExportedGraphs | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """By torch and by onnxruntime."""
    net = open_exported(student.spec, student.module, graphs)
    assert net is not None
    x = pictures_to_tensor([picture(n, size) for n in range(pictures)])
    with torch.inference_mode():
        return list(student.module(x)), list(net(x))


@pytest.mark.parametrize("spec", ALL, ids=lambda s: f"{s.architecture}-{s.width}")
@pytest.mark.parametrize("pictures", [1, 3])
@pytest.mark.parametrize("resolution", [1.0, 0.6])
def test_outputs_are_those_of_torch_for_any_batch_and_size(spec: StudentSpec, pictures: int, resolution: float) -> None:
    by_torch, found = outputs(lively(spec).for_inference(), pictures, input_size_at(spec, resolution))
    assert len(by_torch) == len(found)
    for a, b in zip(by_torch, found, strict=True):
        assert a.shape == b.shape
        assert float((a - b).abs().max()) < 1e-4 * max(1.0, float(a.abs().max()))


def test_each_student_has_weights_of_its_own_and_the_graph_is_exported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exports: list[Any] = []
    export = torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", lambda *a, **k: (exports.append(a), export(*a, **k)))
    size, graphs = input_size_at(DETECTOR), ExportedGraphs()
    first, second = (lively(DETECTOR, seed).for_inference() for seed in (1, 2))
    for student in (first, second, first):
        for a, b in zip(*outputs(student, 1, size, graphs), strict=True):
            assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)
    assert len(exports) == 1
    assert not torch.allclose(outputs(first, 1, size)[1][0], outputs(second, 1, size)[1][0], atol=1e-3)


@pytest.mark.parametrize("spec", [DETECTOR, CLASSIFIERS[0]], ids=lambda s: s.task)
def test_a_refilled_spare_answers_with_its_new_weights(spec: StudentSpec, tmp_path: Path) -> None:
    old, new = lively(spec, 1), lively(spec, 2)
    path = tmp_path / "new.safetensors"
    save_weights(path, new.module, spec)
    spare, expected = old.for_inference(), load_student(path).for_inference()
    before = answers(spare)
    assert refill(spare, path)
    assert not same(answers(spare), before)
    assert same(answers(spare), answers(expected))


def test_torch_answers_where_onnxruntime_answers_something_else(caplog: pytest.LogCaptureFixture) -> None:
    student = lively(DETECTOR).for_inference()
    with caplog.at_level(logging.WARNING):
        assert open_exported(student.spec, student.module, same=-1.0) is None
    assert "is answered by torch: onnxruntime differs by" in caplog.text


def test_torch_answers_where_nothing_can_be_exported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise torch.onnx.errors.OnnxExporterError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", refuses)
    student = lively(CLASSIFIERS[0]).for_inference(0)
    with caplog.at_level(logging.WARNING):
        assert open_exported(student.spec, student.module, ExportedGraphs()) is None
    assert "is answered by torch: no such operator" in caplog.text
    assert len(answers(student)) > 0, "by torch"


def test_what_is_not_a_number_is_not_the_same() -> None:
    student = lively(DETECTOR).for_inference()
    for value in student.module.state_dict().values():
        value.fill_(float("nan"))
    assert open_exported(student.spec, student.module) is None


@pytest.mark.parametrize("part", ["class_out", "box_out"])
def test_one_output_that_is_not_a_number_is_enough(part: str) -> None:
    """Whichever of them it is, the first or the last."""
    student = lively(DETECTOR).for_inference()
    student.module.state_dict()[f"{part}.weight"].fill_(float("nan"))
    assert open_exported(student.spec, student.module) is None


def test_onnxruntime_that_gives_up_says_so_in_our_words() -> None:
    student = lively(DETECTOR).for_inference()
    net = open_exported(student.spec, student.module)
    assert net is not None
    with pytest.raises(WeightsError, match="gives no answer"):
        net(torch.zeros(1, 5, 96, 160))


@pytest.mark.parametrize(("wanted", "opened"), [(FEW_ANSWERS, 1), (FEW_ANSWERS - 1, 0)])
def test_it_is_opened_where_enough_answers_are_wanted_and_answers_then(
    monkeypatch: pytest.MonkeyPatch, wanted: int, opened: int
) -> None:
    asked: list[Any] = []

    def answers_itself(spec: StudentSpec, module: Any) -> Any:
        return lambda x: (asked.append(x), module(x))[1]

    monkeypatch.setattr("edge.students.student.open_exported", answers_itself)
    lively(DETECTOR).for_inference(wanted).detect([picture(5)])
    assert len(asked) == opened


def answers(student: Student) -> np.ndarray:
    """(N, 5 or 2): boxes and scores that it finds, or names and scores of cut-outs."""
    if student.spec.task == "detection":
        found = student.detect([picture(5)], score=0.01)[0]
        return np.concatenate([found.boxes, found.scores[:, None]], 1)
    corners = np.random.default_rng(0).uniform(0.0, 0.6, (12, 2))
    return np.stack(student.name(picture(5), np.concatenate([corners, corners + 0.4], 1).astype(np.float32)), 1)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, atol=1e-4))
