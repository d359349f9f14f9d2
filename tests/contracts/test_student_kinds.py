"""The contract of every kind of student: it answers, is saved, loaded and copied, and a damaged file of it is
refused."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from detectors.tiny_detectors import street, tiny_distribution, tiny_grid

from edge.core.configs import CLASSIFICATION_ARCHITECTURES, DETECTION_ARCHITECTURES, TASKS, StudentSpec
from edge.core.detectors import OnnxSpec
from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections
from edge.detectors import ssdlite
from edge.detectors.description import published_spec
from edge.models.descriptions import shipped
from edge.students.detector_loss import TRAINABLE
from edge.students.published import PublishedStudent
from edge.students.student import Student
from edge.students.weights import AnyStudent, load_student, save_student

CAMERA = ("car", "person")


def published(content: bytes, spec: OnnxSpec) -> PublishedStudent:
    return PublishedStudent(published_spec(spec, CAMERA, {"car": ("car", "truck")}), content)


def anchors() -> PublishedStudent:
    torch.manual_seed(0)
    classes = ("person", "car", "truck")
    network = ssdlite._network(len(classes) + 1)
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.Conv2d):  # torchvision's own start answers nearly the same for everything
            torch.nn.init.kaiming_normal_(module.weight)
            module.weight.data.mul_(0.3 if name.startswith("head.") else 1.0)
    content = ssdlite.graph_bytes(network.eval())
    spec = OnnxSpec("ssdlite", Path("ssdlite.onnx"), ssdlite.INPUT, ssdlite.output_spec(), classes)
    return published(content, spec)


#: Every kind of student; a new one is added here.
STUDENTS: dict[str, Callable[[], AnyStudent]] = {
    "drawn": lambda: Student(StudentSpec("detection", "ssdlite_mobilenet_v3", CAMERA, (96, 160), 0.35)),
    "resnet": lambda: Student(StudentSpec("classification", "resnet18", CAMERA, (32, 32), 0.25)),
    "mobilenet": lambda: Student(StudentSpec("classification", "mobilenet_v2", CAMERA, (32, 32), 0.25)),
    "shufflenet": lambda: Student(StudentSpec("classification", "shufflenet_v2", CAMERA, (32, 32), 0.5)),
    "grid": lambda: published(*tiny_grid()),
    "distribution": lambda: published(*tiny_distribution()),
    "anchors": anchors,
}
PICTURES = [street(n)[0] for n in (1, 2)]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@functools.cache
def made(name: str) -> AnyStudent:
    return STUDENTS[name]()


@pytest.fixture(params=sorted(STUDENTS), scope="module")
def student(request: pytest.FixtureRequest) -> AnyStudent:
    return made(request.param)


def layouts() -> set[str]:
    """The output layouts of the published detectors among the students here."""
    return {one.detector.output.kind for one in map(made, STUDENTS) if isinstance(one, PublishedStudent)}


def test_every_task_architecture_and_output_layout_is_among_them() -> None:
    students = [made(name) for name in STUDENTS]
    assert {type(one) for one in students} == set(typing.get_args(AnyStudent))
    assert {one.spec.task for one in students} == set(TASKS)
    architectures = {*DETECTION_ARCHITECTURES, *CLASSIFICATION_ARCHITECTURES}
    assert {one.spec.architecture for one in students} == architectures
    assert layouts() == set(TRAINABLE)


@pytest.mark.parametrize("path", [d.path for d in shipped() if d.kind == "student"], ids=lambda path: path.stem)
def test_the_output_layout_of_every_shipped_student_is_among_them(path: Path) -> None:
    """Read without its model file, which is not there."""
    description = yaml.safe_load(path.read_text(encoding="utf-8"))
    if description["kind"] == "torchvision":  # its one model has the layout that the product makes for it
        assert description["model"] == ssdlite.MODEL
        assert ssdlite.output_spec().kind in layouts()
    else:
        assert description["output"]["kind"] in layouts()


def answer(student: AnyStudent, resolution: float = 1.0) -> list[dict[str, object]]:
    """Answers of a student on two pictures: found, or named in two places."""
    if student.spec.task == "detection":
        return [d.to_json() for d in student.detect(PICTURES, resolution, score=0.05)]
    boxes = np.array([(0.1, 0.1, 0.5, 0.5), (0.4, 0.3, 0.9, 0.8)], np.float32)
    out = []
    for picture in PICTURES:
        classes, scores = student.name(picture, boxes, resolution)
        assert classes.max() <= student.background
        out.append(Detections.build(boxes, scores, classes).to_json())
    return out


def test_it_answers_in_the_cameras_classes(student: AnyStudent) -> None:
    for resolution in (1.0, 0.5):
        given = answer(student, resolution)
        assert len(given) == 2
        for found in map(Detections.from_json, given):
            assert ((found.boxes >= 0) & (found.boxes <= 1)).all()
            assert ((found.scores >= 0) & (found.scores <= 1)).all()
            assert len(found) == 0 or found.classes.max() <= student.background
    assert student.background == len(CAMERA)
    assert answer(student) == answer(student)


def test_it_does_its_own_task_only(student: AnyStudent) -> None:
    def other_task() -> object:
        if student.spec.task == "detection":
            return student.name(PICTURES[0], np.array([(0.1, 0.1, 0.5, 0.5)], np.float32))
        return student.detect(PICTURES)

    with pytest.raises(InvalidValue, match=r"student\.task"):
        other_task()


def test_no_pictures_no_answers(student: AnyStudent) -> None:
    if student.spec.task == "detection":
        assert student.detect([]) == []
    assert len(student.features([])) == 0


def test_a_region_and_a_least_score(student: AnyStudent) -> None:
    if student.spec.task != "detection":
        return
    (found,) = student.detect(PICTURES[:1], score=0.05, region=(0.5, 0.25, 1.0, 1.0))
    assert (found.boxes[:, 0] >= 0.5 - 1e-6).all()
    assert (found.boxes[:, 1] >= 0.25 - 1e-6).all()
    (few,) = student.detect(PICTURES[:1], score=0.99999)
    assert (few.scores >= 0.99999).all()


def test_saved_and_loaded_it_is_the_same(student: AnyStudent, tmp_path: Path) -> None:
    path = tmp_path / "student"
    save_student(path, student, {"score": 0.3, "note": "mine"})
    again = load_student(path)
    assert type(again) is type(student)
    assert again.spec == student.spec
    assert again.info == {"score": 0.3, "note": "mine"}
    assert answer(again) == answer(student)
    save_student(tmp_path / "again", again)
    if isinstance(student, PublishedStudent):  # safetensors writes its metadata in any order
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "student"]  # nothing temporary is left


def test_a_copy_is_independent(student: AnyStudent) -> None:
    before = answer(student)
    copy = student.copy()
    copy.info["mine"] = 1
    assert "mine" not in student.info
    network = copy.network() if isinstance(copy, PublishedStudent) else copy.module
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    if isinstance(copy, PublishedStudent):
        copy = copy.with_weights(copy.network(), {})
    assert answer(copy) != before
    assert answer(student) == before


def test_for_inference_answers_the_same(student: AnyStudent) -> None:
    quick = student.for_inference()
    for one, other in zip(answer(student), answer(quick), strict=True):
        a, b = Detections.from_json(one), Detections.from_json(other)
        assert abs(len(a) - len(b)) <= 1
        if len(a) == len(b):
            assert np.allclose(a.boxes, b.boxes, atol=1e-2)
            assert np.allclose(a.scores, b.scores, atol=1e-3)


def test_features_tell_pictures_apart(student: AnyStudent) -> None:
    rows = student.features([PICTURES[0], PICTURES[1], PICTURES[0]])
    assert len(rows) == 3
    assert np.isfinite(rows).all()
    assert np.allclose(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.95])
def test_a_damaged_file_is_refused(student: AnyStudent, part: float, tmp_path: Path) -> None:
    path = tmp_path / "student"
    save_student(path, student)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(WeightsError):
        load_student(path)
    path.write_bytes(b"{" + content[1:] if part else b"\xff" * 300)
    with pytest.raises(WeightsError):
        load_student(path)
    path.unlink()
    with pytest.raises(WeightsError):
        load_student(path)
