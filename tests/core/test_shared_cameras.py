"""What boxes of a group over boxes tell each other is checked before it is used."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from edge.core.box_groups import MOST_SHARED, GroupStudent, SharedCamera, SharedCameras, SharedManifest, kind_of
from edge.core.camera_look import CameraLook
from edge.core.configs import StudentSpec
from edge.core.errors import InvalidValue
from edge.core.fleet_links import GroupsAnswer
from edge.fleet.wire import decoded, encoded

LOOK = CameraLook("tiny", 4, (1.0,), (1.0,), -2.0, 0.4, 2.0, (0.5, 0.6), 0.4, 1.78)
CAMERA = SharedCamera("b1", "north", "a" * 64, LOOK, 3, "f" * 64, 8, 1000)
STUDENT = GroupStudent("b1", "b2", "yard", "f" * 64, 1000, {"epochs": 2}, ("b1",))


@pytest.mark.parametrize("other", [
    {"box": "a/b"}, {"camera": "../north"}, {"kind": "a"}, {"manifest": "../key"}, {"pictures": 0},
    {"pictures": MOST_SHARED + 1}, {"size": -1}, {"look": replace(LOOK, features=(math.nan,))},
    {"look": replace(LOOK, height=math.inf)}, {"look": replace(LOOK, shape=0.0)},
    {"look": replace(LOOK, brightness=2.0)},
])  # fmt: skip
def test_a_camera_that_is_none_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        replace(CAMERA, **other)


@pytest.mark.parametrize("other", [
    {"trainer": "a/b"}, {"camera": "../yard"}, {"digest": "f"}, {"size": 0}, {"boxes": ()}, {"fraction": 2.0},
    {"train_frames": -1},
])  # fmt: skip
def test_a_student_that_is_none_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        replace(STUDENT, **other)


def test_no_camera_is_shared_twice_and_a_description_names_pictures() -> None:
    with pytest.raises(InvalidValue):
        SharedCameras((CAMERA, CAMERA))
    with pytest.raises(InvalidValue):
        SharedManifest({}, (0.0, 0.0, 1.0, 1.0), {})
    with pytest.raises(InvalidValue):
        SharedManifest({}, (0.0, 0.0, 1.0, 1.0), {"../key": 3})


def test_they_travel_and_what_a_later_version_adds_is_left_out() -> None:
    told = GroupsAnswer((CAMERA,), (STUDENT,))
    assert decoded(GroupsAnswer, encoded(told)) == told
    later = encoded(told).replace(b'"cameras":[{', b'"cameras":[{"later":1,')
    assert decoded(GroupsAnswer, later) == told
    with pytest.raises(InvalidValue):
        decoded(GroupsAnswer, encoded(told).replace(b'"shape":1.78', b'"shape":-1.78'))


def test_students_of_other_classes_are_of_another_kind() -> None:
    one = StudentSpec("detection", "ssdlite_mobilenet_v3", ("car",), (192, 320))
    assert kind_of(one) == kind_of(replace(one))
    assert kind_of(one) != kind_of(replace(one, classes=("car", "van")))
