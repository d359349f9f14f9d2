"""A published detector as a student: its file, its shapes and regions, damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from detectors.tiny_detectors import describe, in_file, street, tiny_distribution, tiny_grid

from edge.core.configs import StudentSpec
from edge.core.detectors import OnnxSpec
from edge.core.errors import InvalidValue, LabelError, WeightsError
from edge.detectors.description import published_spec, read_detector
from edge.detectors.shapes import SHAPES_KEY
from edge.students.published import (
    DOWNLOAD_SCORE,
    RETRAINED_SCORE,
    PublishedStudent,
    check_trainable,
    is_published,
    read_published,
)
from edge.students.student import Student
from edge.students.weights import load_student, refill, save_student

CAMERA = ("car", "person")
MAP = {"car": ("car", "truck")}
TINY = {"grid": tiny_grid, "distribution": tiny_distribution}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=sorted(TINY))
def student(request: pytest.FixtureRequest) -> PublishedStudent:
    content, spec = TINY[request.param]()
    return PublishedStudent(published_spec(spec, CAMERA, MAP), content)


def test_a_description_written_for_a_tiny_detector_is_read_back(tmp_path: Path) -> None:
    for content, spec in (tiny_grid(), tiny_distribution()):
        assert read_detector(describe(tmp_path, spec, content), {}) == in_file(spec, tmp_path)


def test_answers_have_the_cameras_classes_and_lie_in_the_picture(student: PublishedStudent) -> None:
    picture, _ = street(1)
    (found,) = student.detect([picture], score=0.01)
    assert len(found) > 5
    assert set(found.classes) <= {0, 1}
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.boxes >= 0) & (found.boxes <= 1)).all()


def test_the_input_has_the_cameras_shape_unless_asked_otherwise(student: PublishedStudent) -> None:
    assert student.input_shape((96, 160)) == (96, 160)
    assert student.input_shape((96, 160), shape="model") == (128, 128)
    assert student.input_shape((96, 160), 0.5, shape="model") == (64, 64)
    assert student.input_shape((96, 160), 0.5) == (64, 64)
    # The left half of a wide picture is upright.
    assert student.input_shape((96, 160), region=(0.0, 0.0, 0.5, 1.0)) == (128, 128)


def test_a_region_is_answered_as_the_cut_picture_is(student: PublishedStudent) -> None:
    picture, _ = street(2, (96, 160))
    (part,) = student.detect([picture], score=0.05, region=(0.5, 0.0, 1.0, 1.0))
    (cut,) = student.detect([np.ascontiguousarray(picture[:, 80:])], score=0.05)
    assert len(part) == len(cut) > 0
    assert np.allclose(part.boxes, cut.boxes * [0.5, 1, 0.5, 1] + [0.5, 0, 0.5, 0], atol=1e-5)
    assert np.allclose(part.scores, cut.scores, atol=1e-5)
    assert (part.boxes[:, 0] >= 0.5).all()


def test_a_file_round_trip_changes_no_answer(student: PublishedStudent, tmp_path: Path) -> None:
    picture, _ = street(3)
    before = student.detect([picture], score=0.02)[0]
    student.info["score"] = 0.31
    path = tmp_path / "student.bin"
    save_student(path, student)
    again = load_student(path)
    assert isinstance(again, PublishedStudent)
    assert again.spec == student.spec
    assert again.score == 0.31
    after = again.detect([picture], score=0.02)[0]
    assert after.to_json() == before.to_json()
    # Saving what was loaded adds nothing.
    assert again.file_bytes() == path.read_bytes()


def test_the_file_names_its_origin_and_says_that_it_is_modified(student: PublishedStudent) -> None:
    metadata = {p.key: p.value for p in onnx.load_from_string(student.file_bytes()).metadata_props}
    assert student.detector.name in metadata["magpie.notice"]
    assert "modified" in metadata["magpie.notice"]
    assert "Apache-2.0" in metadata["magpie.notice"]
    unnamed = replace(student.spec, detector=replace(student.detector, licence=""))
    metadata = {
        p.key: p.value
        for p in onnx.load_from_string(PublishedStudent(unnamed, student.content).file_bytes()).metadata_props
    }
    assert "Licence" not in metadata["magpie.notice"]


def test_shapes_once_worked_out_are_in_the_file(student: PublishedStudent, tmp_path: Path) -> None:
    picture, _ = street(4)
    expected = student.detect([picture], score=0.05)[0]
    model = onnx.load_from_string(student.file_bytes())
    (known,) = (p for p in model.metadata_props if p.key == SHAPES_KEY)
    shapes = json.loads(known.value)["96x160"]
    # The same shapes, written as no run would work them out: they are still there after their use.
    marked = {"96x160": {name: [-1, *shape[1:]] for name, shape in shapes.items()}}
    known.value = json.dumps(marked)
    path = tmp_path / "student"
    path.write_bytes(model.SerializeToString())
    again = read_published(path)
    assert again.detect([picture], score=0.05)[0].to_json() == expected.to_json()
    kept = {p.key: p.value for p in onnx.load_from_string(again.file_bytes()).metadata_props}
    assert json.loads(kept[SHAPES_KEY]) == marked


def test_the_usual_score_is_lower_for_a_download(student: PublishedStudent) -> None:
    assert student.score == DOWNLOAD_SCORE
    retrained = student.with_weights(student.network(), {"steps": 3})
    assert retrained.score == RETRAINED_SCORE
    assert student.with_weights(student.network(), {"steps": 3, "score": 0.42}).score == 0.42


def test_other_weights_change_nothing_else(student: PublishedStudent) -> None:
    copy = student.copy()
    network = copy.network()
    with torch.no_grad():
        network.weights[2].add_(0.01)
    changed = copy.with_weights(network, {})
    before, after = (onnx.load_from_string(s.content) for s in (student, changed))
    apart = [
        a.name
        for a, b in zip(before.graph.initializer, after.graph.initializer, strict=True)
        if not np.array_equal(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b))
    ]
    assert apart == [network.weight_names[2]]
    assert [n.SerializeToString() for n in before.graph.node] == [n.SerializeToString() for n in after.graph.node]
    assert torch.equal(changed.network().weights[2], network.weights[2])


def test_torch_and_onnxruntime_agree(student: PublishedStudent) -> None:
    check_trainable(student)


def test_a_graph_that_computes_otherwise_in_torch_is_not_trained(
    student: PublishedStudent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.no_grad():
        student.network().weights[-1].add_(0.1)  # as if an operator were computed in another way
    with pytest.raises(WeightsError, match="differ by") as raised:
        check_trainable(student)
    assert "teacher" in raised.value.hint


def test_features_tell_pictures_apart(student: PublishedStudent) -> None:
    same, other = street(5)[0], street(6)[0]
    rows = student.features([same, same, other])
    assert rows.shape == (3, 16)
    assert np.array_equal(rows[0], rows[1])
    assert not np.allclose(rows[0], rows[2])
    assert student.features([]).shape[0] == 0


def test_it_names_no_cut_outs(student: PublishedStudent) -> None:
    with pytest.raises(InvalidValue, match="classification"):
        student.name(street(1)[0], np.zeros((1, 4), np.float32))


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b"no model at all, but long enough",
        lambda b: bytes(200),
        lambda b: tiny_grid()[0],  # a download is no student file
        lambda b: b.replace(b'"architecture": "onnx"', b'"architecture": "unix"'),
        lambda b: b.replace(b'"table": ', b'"cable": '),
    ],
)
def test_damaged_files_are_refused(student: PublishedStudent, damage, tmp_path: Path) -> None:
    path = tmp_path / "student"
    path.write_bytes(damage(student.file_bytes()))
    with pytest.raises(WeightsError):
        load_student(path)


def test_the_two_kinds_of_file_are_distinguished(student: PublishedStudent, tmp_path: Path) -> None:
    published, drawn = tmp_path / "a", tmp_path / "b"
    save_student(published, student)
    spec = StudentSpec("detection", "ssdlite_mobilenet_v3", CAMERA, (64, 64), 0.35)
    save_student(drawn, Student(spec))
    assert (is_published(published), is_published(drawn), is_published(tmp_path / "none")) == (True, False, False)
    assert isinstance(load_student(drawn), Student)
    assert refill(Student(spec).for_inference(), published) is False
    with pytest.raises(WeightsError, match="does not exist"):
        load_student(tmp_path / "none")


def test_classes_that_the_detector_lacks_are_named() -> None:
    spec: OnnxSpec = tiny_grid()[1]
    with pytest.raises(LabelError, match="giraffe"):
        published_spec(spec, ("giraffe",), {})
    with pytest.raises(InvalidValue, match=r"student.class_map"):
        published_spec(spec, ("car",), {"lorry": ("truck",)})
