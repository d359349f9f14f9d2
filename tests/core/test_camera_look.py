"""A camera's look, in numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from edge.core.camera_look import CameraLook, camera_look
from edge.core.errors import InvalidValue
from edge.core.vision import Detections


def _picture(value: int) -> np.ndarray:
    return np.full((90, 160, 3), value, np.uint8)


def _look(**changes: object) -> CameraLook:
    values = {
        "detector": "d", "pictures": 2, "features": (1.0, 3.0), "spread": (0.0, 1.0), "height": -2.0,
        "height_spread": 0.5, "crowd": 1.0, "place": (0.5, 0.5), "brightness": 0.5, "shape": 1.5,
    }  # fmt: skip
    return CameraLook(**(values | changes))  # type: ignore[arg-type]


def test_a_look_tells_of_features_objects_and_light() -> None:
    seen = Detections.build([[0.0, 0.0, 0.2, 0.1], [0.4, 0.5, 0.6, 0.9]], [0.9, 0.8], [0, 0])
    look = camera_look(
        "d", np.array([[1.0, 2.0], [3.0, 2.0]], np.float32), [seen, Detections.empty()], [_picture(0), _picture(255)]
    )
    assert look.features == (2.0, 2.0)
    assert look.spread == (1.0, 0.0)
    assert look.height == pytest.approx((math.log(0.1) + math.log(0.4)) / 2, abs=1e-5)
    assert look.height_spread == pytest.approx(math.log(4) / 2, abs=1e-5)
    assert look.crowd == pytest.approx(math.log(3) / 2)
    assert look.place == pytest.approx((0.3, 0.375))
    assert look.brightness == pytest.approx(0.5)
    assert look.shape == pytest.approx(16 / 9)
    assert look.pictures == 2


def test_a_camera_that_shows_nothing_has_a_look_too() -> None:
    look = camera_look("d", np.zeros((1, 2), np.float32), [Detections.empty()], [_picture(10)])
    assert look.crowd == 0.0
    assert math.isfinite(look.height)


def test_no_picture_is_no_look() -> None:
    with pytest.raises(InvalidValue, match=r"look\.pictures"):
        camera_look("d", np.zeros((0, 2), np.float32), [], [])


def test_a_later_look_renews_half() -> None:
    known = _look().after(_look(features=(3.0, 3.0), crowd=3.0, place=(0.7, 0.5)))
    assert known.features == (2.0, 3.0)
    assert known.crowd == 2.0
    assert known.place == (pytest.approx(0.6), 0.5)
    assert known.pictures == 4


def test_a_look_by_another_detector_replaces_what_was_known() -> None:
    later = _look(detector="e", features=(1.0,), spread=(1.0,))
    assert _look().after(later) is later


def test_a_look_survives_json() -> None:
    look = _look(features=(1.0 / 3, 2.0))
    back = CameraLook.from_json(json.loads(json.dumps(look.to_json())))
    assert back.features == pytest.approx(look.features, rel=1e-4)
    assert back == CameraLook.from_json(back.to_json())


def test_a_look_with_unknown_keys_is_refused() -> None:
    with pytest.raises(InvalidValue, match="look"):
        CameraLook.from_json(_look().to_json() | {"colour": 1})
