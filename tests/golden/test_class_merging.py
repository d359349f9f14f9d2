"""Classes are merged before double answers are suppressed, in every kind of teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from detectors.tiny_detectors import describe, street, tiny_distribution, tiny_grid

from edge.core.detectors import OnnxSpec, Tiling
from edge.core.vision import Detections
from edge.detectors.boxes import iou_matrix
from edge.detectors.classes import ClassMap
from edge.detectors.description import read_detector
from golden.ensemble import (
    EnsembleTeacher,
    JointTeacher,
    MappableTeacher,
    RenamedTeacher,
    Teacher,
    TiledTeacher,
    in_classes,
)
from golden.labelling import Labeller
from golden.onnx_teacher import OnnxTeacher

OFFERED = ("car", "truck", "dog")
MAP = ClassMap.build(("vehicle",), OFFERED, {"vehicle": ("car", "truck")})


class Both:
    """One object that is called a car and a truck, a second car beside it, and a dog."""

    name, classes = "both", OFFERED

    def label(self, picture: np.ndarray) -> Detections:
        boxes = [(0.1, 0.1, 0.5, 0.5), (0.11, 0.1, 0.5, 0.5), (0.55, 0.1, 0.9, 0.5), (0.1, 0.6, 0.3, 0.9)]
        return Detections.build(boxes, [0.9, 0.8, 0.7, 0.6], [0, 1, 0, 2])


PICTURE = np.zeros((120, 200, 3), np.uint8)


def test_a_teacher_that_cannot_merge_is_suppressed_again() -> None:
    teacher = in_classes(Both(), MAP)
    assert isinstance(teacher, RenamedTeacher)
    assert teacher.classes == ("vehicle",)
    found = teacher.label(PICTURE)
    assert found.classes.tolist() == [0, 0]
    assert np.allclose(found.scores, [0.9, 0.7])


def test_nothing_is_suppressed_where_nothing_is_merged() -> None:
    both = in_classes(Both(), ClassMap.build(("car", "truck"), OFFERED))
    assert both.label(PICTURE).classes.tolist() == [0, 1, 0]


def test_all_members_of_an_ensemble_are_mapped() -> None:
    joint = EnsembleTeacher("e", [Both(), Both()], [2.0, 1.0], {}, 0.55, 0.2)
    # Left alone, it tells of a car and of a truck at one place.
    assert joint.label(PICTURE).classes.tolist() == [0, 1, 0, 2]
    mapped = in_classes(joint, MAP)
    assert isinstance(mapped, EnsembleTeacher)
    fused = mapped.label_jointly(PICTURE)
    assert fused.detections.classes.tolist() == [0, 0]
    assert np.allclose(fused.detections.scores, [0.9, 0.7])
    assert np.allclose(fused.agreement, 1.0)
    assert mapped.members == 2
    # The ensemble itself is as before: other cameras use it.
    assert joint.classes == OFFERED
    assert len(joint.label(PICTURE)) == 4


def test_a_member_without_the_class_is_no_witness_after_mapping() -> None:
    class Dogs:
        name, classes = "dogs", ("dog",)

        def label(self, picture: np.ndarray) -> Detections:
            return Detections.empty()

    joint = EnsembleTeacher("e", [Both(), Dogs()], [1.0, 1.0], {}, 0.55, 0.2)
    mapped = in_classes(joint, ClassMap.build(("vehicle",), joint.classes, {"vehicle": ("car", "truck")}))
    assert isinstance(mapped, JointTeacher)
    fused = mapped.label_jointly(PICTURE)
    assert np.allclose(fused.detections.scores, [0.9, 0.7])
    assert np.allclose(fused.agreement, 1.0)


def test_groups_of_an_ensemble_go_on_into_the_cameras_classes() -> None:
    groups = {"vehicle": ("car", "truck"), "animal": ("dog",)}
    joint = EnsembleTeacher("e", [Both()], [1.0], groups, 0.55, 0.2)
    mapped = in_classes(joint, ClassMap.build(("all",), joint.classes, {"all": ("vehicle", "animal")}))
    assert mapped.classes == ("all",)
    assert mapped.label(PICTURE).classes.tolist() == [0, 0, 0]


def test_tiles_pass_the_map_on() -> None:
    tiled = TiledTeacher(Both(), Tiling(2, 1, 0.2, whole=True))
    mapped = in_classes(tiled, MAP)
    assert isinstance(mapped, TiledTeacher)
    found = mapped.label(PICTURE)
    assert set(found.classes) == {0}
    overlap = iou_matrix(found.boxes, found.boxes) - np.eye(len(found), dtype=np.float32)
    assert overlap.max() <= 0.55


def opened(tmp_path: Path, kind: str, **changes: object) -> OnnxTeacher:
    content, spec = (tiny_grid if kind == "grid" else tiny_distribution)()
    given: OnnxSpec = read_detector(describe(tmp_path, spec, content), {})
    from dataclasses import replace

    return OnnxTeacher(replace(given, min_score=0.05, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["grid", "distribution"])
def test_an_onnx_teacher_merges_before_it_suppresses(kind: str, tmp_path: Path) -> None:
    teacher = opened(tmp_path, kind)
    mapping = {"vehicle": ("bicycle", "car", "truck"), "person": ("person",)}
    class_map = ClassMap.build(("vehicle", "person"), teacher.classes, mapping)
    mapped = in_classes(teacher, class_map)
    assert isinstance(mapped, OnnxTeacher)
    assert isinstance(teacher, MappableTeacher)
    picture, _ = street(1)
    plain, found = teacher.label(picture), mapped.label(picture)
    assert (teacher.classes, mapped.classes) == (("person", "bicycle", "car", "truck"), ("vehicle", "person"))

    def doubles(answer: Detections) -> int:
        overlap = np.triu(iou_matrix(answer.boxes, answer.boxes), 1)
        same = answer.classes[:, None] == answer.classes[None, :]
        return int(((overlap > teacher.spec.nms_iou) & same).sum())

    # Renaming the suppressed answers would leave double ones; merging first does not.
    assert kind == "grid" or doubles(class_map.apply(plain)) > 0
    assert doubles(found) == 0
    assert teacher.label(picture).to_json() == plain.to_json()


def test_a_labeller_asks_in_the_cameras_classes(tmp_path: Path) -> None:
    found = Labeller(Both(), MAP, 0.8).label_picture(PICTURE)
    assert found.labels.classes.tolist() == [0]
    assert found.unsure.classes.tolist() == [0]
    assert np.allclose(found.unsure.scores, [0.7])
    assert found.agreement is None


def test_protocols() -> None:
    teacher: Teacher = Both()
    assert not isinstance(teacher, MappableTeacher)
    assert isinstance(
        in_classes(in_classes(teacher, MAP), ClassMap.build(("v",), ("vehicle",), {"v": ("vehicle",)})), RenamedTeacher
    )
