"""The connection test: facts and a picture of a camera that answers, words for one that does not."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2
import numpy as np
from video_clips import HEIGHT, WIDTH, Clips, make_clips

from edge.ingest.probe import probe_camera
from edge.ingest.source import CameraSource


def test_a_camera_that_answers_shows_itself(tmp_path: Path) -> None:
    clips: Clips = make_clips(tmp_path)
    found = probe_camera(CameraSource("gate", str(clips.h264)))
    assert (found["ok"], found["width"], found["height"]) == (True, WIDTH, HEIGHT)
    assert found["fault"] is None
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(found["picture"]), np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert WIDTH <= 640
    assert picture.std() > 1, "a picture of something"


def test_a_camera_that_does_not_answer_says_why_and_shows_nothing(tmp_path: Path) -> None:
    found = probe_camera(CameraSource("gate", str(tmp_path / "absent.mp4"), stall_timeout_s=1.0))
    assert not found["ok"]
    assert found["picture"] is None
    assert found["message"]
