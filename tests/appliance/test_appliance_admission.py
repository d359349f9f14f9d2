"""The appliance's admission answer: head-room, the front's cost, the share that models may take at most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge.appliance.admission import ServedLoad, admit_camera, admit_model
from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.profiles import InferencePoint
from edge.core.serving import DeviceTable, ServedModel
from edge.core.window import StreamProblem, WindowProblem
from edge.runtime.camera import profile_from_points
from edge.runtime.serving_cameras import CamerasNow
from edge.settings import AdmissionCamera, ModelCandidate, ServingPlanning

ROWS = {p: (200.0 / p, 400.0 / p) for p in range(5, 101, 5)}
SERVED = ServedLoad((ServedModel("plates", 20.0, 100.0),), DeviceTable("toy", {"plates": ROWS, "faces": ROWS}, {}))
PROFILE = profile_from_points((InferencePoint(InferenceConfig(5.0, 1.0), 0.2, 1.0),))
WINDOW = WindowProblem("w", 1.0, 100.0, (StreamProblem("gate", 0.6, PROFILE, ()),))
FACES = ModelCandidate(name="faces", rate=50, slo_ms=100)


def test_rates_are_planned_with_head_room_and_told_as_asked() -> None:
    answer = admit_model(FACES, SERVED, CamerasNow(0.9))
    assert answer["admitted"]
    assert answer["planned_rate"] > 1.1 * FACES.rate
    much = admit_model(FACES.model_copy(update={"rate": 2000.0}), SERVED, CamerasNow(0.9))
    assert not much["admitted"]
    again = admit_model(FACES.model_copy(update={"rate": 0.95 * much["most_rate"]}), SERVED, CamerasNow(0.9))
    assert again["admitted"], "the rate that it names is one that fits"


def test_the_front_counts() -> None:
    heavy = replace(SERVED, front_share=0.05, front_share_per_rate=0.005)
    assert heavy.front_more(5.0) == 0.0
    assert heavy.front_more(100.0) == pytest.approx(0.45)
    assert admit_model(FACES, SERVED, CamerasNow(0.5))["admitted"]
    assert not admit_model(FACES, heavy, CamerasNow(0.5))["admitted"]


def test_models_take_no_more_than_they_may() -> None:
    bounded = replace(SERVED, planning=ServingPlanning(max_share=0.1))
    answer = admit_model(FACES, bounded, CamerasNow(0.9))
    assert not answer["admitted"]
    assert "max_share" in answer["reasons"][0]


def test_cameras_keep_their_floor_and_tell_what_they_lose() -> None:
    answer = admit_model(FACES, SERVED, CamerasNow(0.9, WINDOW))
    assert answer["admitted"]
    assert [c["camera"] for c in answer["cameras"]] == ["gate"]
    refused = admit_model(FACES, SERVED, CamerasNow(0.25, WINDOW))
    assert not refused["admitted"], "the camera alone needs a fifth of the device"
    assert refused["reasons"]


def test_a_camera_is_like_another_or_as_described() -> None:
    like = admit_camera(AdmissionCamera(id="yard"), PROFILE, SERVED, CamerasNow(0.9, WINDOW))
    assert like["admitted"]
    assert {c["camera"] for c in like["cameras"]} == {"gate", "yard"}
    first = admit_camera(AdmissionCamera(id="yard"), PROFILE, SERVED, CamerasNow(0.9))
    assert first["admitted"]
    with pytest.raises(InvalidValue, match="there is none"):
        admit_camera(AdmissionCamera(id="yard", like="gate"), PROFILE, SERVED, CamerasNow(0.9))


def test_latencies_may_come_with_the_question() -> None:
    poses = ModelCandidate(name="poses", rate=5, slo_ms=100)
    with pytest.raises(InvalidValue, match="plates"):
        admit_model(poses, SERVED, CamerasNow(0.9))
    table = DeviceTable("other", {"poses": ROWS}, {}).to_json()
    assert admit_model(poses.model_copy(update={"table": table}), SERVED, CamerasNow(0.9))["admitted"]
