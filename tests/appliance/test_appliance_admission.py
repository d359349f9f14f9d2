"""The appliance's admission answer: head-room, the front's cost, the share that models may take at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edge.appliance.admission import ServedLoad, admit_camera, admit_model, admit_pipeline, with_coming
from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue, InvalidValues
from edge.core.profiles import InferencePoint
from edge.core.serving import DeviceTable, ServedModel
from edge.core.window import StreamProblem, WindowProblem
from edge.runtime.camera import profile_from_points
from edge.runtime.serving_cameras import CamerasNow
from edge.serving.pipeline_files import parse_application
from edge.settings import AdmissionCamera, AdmissionRequest, ModelCandidate, PipelineAdmission, ServingPlanning
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.source_rates import SourceState
from scheduler.tenant_admission import TenantRoom

ROWS = {p: (200.0 / p, 400.0 / p) for p in range(5, 101, 5)}
SERVED = ServedLoad((ServedModel("plates", 20.0, 100.0),), DeviceTable("toy", {"plates": ROWS, "faces": ROWS}, {}))
PROFILE = profile_from_points((InferencePoint(InferenceConfig(5.0, 1.0), 0.2, 1.0),))
WINDOW = WindowProblem("w", 1.0, 100.0, (StreamProblem("gate", 0.6, PROFILE, ()),))
FACES = ModelCandidate(name="faces", rate=50, slo_ms=100)


def test_rates_are_planned_with_head_room_and_reported_as_asked() -> None:
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
    (reason,) = answer["reasons"]
    assert (reason["code"], reason["numbers"]["allowed"]) == ("max_share", 0.1)


def test_cameras_keep_their_floor_and_tell_what_they_lose() -> None:
    answer = admit_model(FACES, SERVED, CamerasNow(0.9, WINDOW))
    assert answer["admitted"]
    assert [c["camera"] for c in answer["cameras"]] == ["gate"]
    refused = admit_model(FACES, SERVED, CamerasNow(0.25, WINDOW))
    assert not refused["admitted"], "the camera alone needs a fifth of the device"
    assert refused["reasons"][0]["code"] in ("refused", "part_of_rate", "floors")


def test_a_camera_is_like_another_or_as_described() -> None:
    like = admit_camera(AdmissionCamera(id="yard"), PROFILE, SERVED, CamerasNow(0.9, WINDOW))
    assert like["admitted"]
    assert {c["camera"] for c in like["cameras"]} == {"gate", "yard"}
    first = admit_camera(AdmissionCamera(id="yard"), PROFILE, SERVED, CamerasNow(0.9))
    assert first["admitted"]
    with pytest.raises(InvalidValue, match="there is none"):
        admit_camera(AdmissionCamera(id="yard", like="gate"), PROFILE, SERVED, CamerasNow(0.9))


def test_cameras_on_their_way_are_counted_as_if_they_were_there() -> None:
    now = CamerasNow(0.5, WINDOW)
    assert admit_camera(AdmissionCamera(id="yard"), PROFILE, SERVED, now)["admitted"]
    coming = (AdmissionCamera(id="dock"), AdmissionCamera(id="gate"), AdmissionCamera(id="dock"))
    served, later = with_coming(coming, lambda camera: PROFILE, SERVED, now)
    assert later.window is not None
    assert [s.id for s in later.window.streams] == ["gate", "dock"], "one that is there already counts once"
    assert served == SERVED
    answer = admit_camera(AdmissionCamera(id="yard"), PROFILE, served, later)
    assert not answer["admitted"]
    assert {c["camera"] for c in answer["cameras"]} == {"gate", "dock", "yard"}
    _, first = with_coming((AdmissionCamera(id="dock"),), lambda camera: PROFILE, SERVED, CamerasNow(0.9))
    assert first.window is not None, "also where there is no camera yet"
    cameras = TenantRoom("default-cameras", 0.3, 0.3, 0.1, 0.2, frozenset({"gate"}), False)
    rooms = (cameras, TenantRoom("shop", 0.3, 0.3, 0.1, 0.2))
    shared, _ = with_coming(coming, lambda camera: PROFILE, replace(SERVED, rooms=rooms), now)
    assert [r.members for r in shared.rooms] == [{"gate", "dock"}, set()]


def test_latencies_may_come_with_the_question() -> None:
    poses = ModelCandidate(name="poses", rate=5, slo_ms=100)
    with pytest.raises(InvalidValue, match="plates"):
        admit_model(poses, SERVED, CamerasNow(0.9))
    table = DeviceTable("other", {"poses": ROWS}, {}).to_json()
    assert admit_model(poses.model_copy(update={"table": table}), SERVED, CamerasNow(0.9))["admitted"]


def described(per_request: float = 2.0, slo_ms: float = 100.0) -> dict[str, Any]:
    """Find with `plates`, then look at what was found with `faces`."""
    cut = {"from": "picture", "do": [{"crop_boxes": {"boxes": "find.boxes", "size": [8, 8], "most": 4}}]}
    return {
        "platform": "pipeline",
        "slo_ms": slo_ms,
        "inputs": [{"name": "picture", "datatype": "UINT8", "shape": [-1, 8, 8, 3]}],
        "outputs": [{"name": "names", "datatype": "FP32", "shape": [-1, 4, 3], "from": "look.names"}],
        "stages": [
            {"name": "find", "model": "plates", "inputs": {"picture": "picture"}},
            {"name": "look", "model": "faces", "per_request": per_request, "inputs": {"picture": cut}},
        ],
    }


ALARM = PipelineAdmission(name="alarm", description=described(), rate=10.0)


def test_an_application_that_fits_has_budgets_within_its_objective() -> None:
    answer = admit_pipeline(ALARM, SERVED, CamerasNow(0.9, WINDOW))
    assert answer["admitted"], answer["reasons"]
    planned = answer["planned_rate"]
    assert (answer["kind"], answer["rate"]) == ("pipeline", 10.0)
    assert planned > 12.0, "head-room is part of it"
    assert [b["stage"] for b in answer["budgets"]] == ["find", "look"]
    assert sum(b["budget_ms"] for b in answer["budgets"]) <= 100.0 + 1e-6
    assert [b["even_ms"] for b in answer["budgets"]] == [50.0, 50.0]
    assert answer["serving_share_after"] > answer["serving_share_before"]
    rates = {m["model"]: m["rate"] for m in answer["models"]}
    assert rates == pytest.approx({"plates": 20.0 + planned, "faces": 2 * planned}, rel=1e-3), (
        "rates are added, with the fan-out"
    )
    assert [c["camera"] for c in answer["cameras"]] == ["gate"]


def test_an_application_that_does_not_fit_and_the_rate_that_would() -> None:
    much = admit_pipeline(ALARM.model_copy(update={"rate": 1500.0}), SERVED, CamerasNow(0.9))
    assert not much["admitted"]
    assert 0 < much["most_rate"] < 1500
    less = ALARM.model_copy(update={"rate": 0.9 * much["most_rate"]})
    assert admit_pipeline(less, SERVED, CamerasNow(0.9))["admitted"]


def test_an_objective_that_only_the_share_left_cannot_keep_is_refused_and_not_said_to_be_too_short() -> None:
    quick = ALARM.model_copy(update={"description": described(slo_ms=60.0)})
    heavy = replace(SERVED, front_share_per_rate=0.0133)
    answer = admit_pipeline(quick, heavy, CamerasNow(0.9))
    assert not answer["admitted"], "the front takes nearly all of the device at this rate"
    assert answer["reasons"]
    assert admit_pipeline(quick, SERVED, CamerasNow(0.9))["admitted"]


def test_a_served_application_is_asked_about_with_another_objective_or_rate() -> None:
    application = parse_application("alarm", described())
    models = (ServedModel("plates", 32.0, 100.0), ServedModel("faces", 24.0, 100.0))
    served = replace(SERVED, models=models, pipelines=(PipelineDemand(application, 12.0),))
    now = CamerasNow(0.9)
    same = admit_pipeline(PipelineAdmission(name="alarm"), served, now)
    assert same["admitted"]
    assert (same["rate"], same["planned_rate"]) == (None, 12.0)
    assert same["serving_share_after"] == pytest.approx(same["serving_share_before"]), "it is there already"
    double = admit_pipeline(PipelineAdmission(name="alarm", rate=100.0), served, now)
    assert double["admitted"]
    planned = double["planned_rate"]
    rates = {m["model"]: m["rate"] for m in double["models"]}
    assert rates == pytest.approx({"plates": 20.0 + planned, "faces": 2 * planned}, rel=1e-3), "instead of its own"
    assert double["serving_share_after"] > same["serving_share_after"]
    stricter = admit_pipeline(PipelineAdmission(name="alarm", slo_ms=60.0), served, now)
    assert stricter["admitted"]
    assert stricter["serving_share_after"] > same["serving_share_after"]
    assert sum(b["budget_ms"] for b in stricter["budgets"]) <= 60.0 + 1e-6


def test_what_was_measured_of_a_served_application_counts_in_a_question_about_it() -> None:
    """It looks at half a row per row of a request, where its file says two."""
    application = parse_application("alarm", described())
    models = (ServedModel("plates", 32.0, 100.0), ServedModel("faces", 6.0, 100.0))
    fan_out = {"look": 0.5}
    served = replace(SERVED, models=models, pipelines=(PipelineDemand(application, 12.0, fan_out),))
    now = CamerasNow(0.9)
    for asked in (
        PipelineAdmission(name="alarm"),
        PipelineAdmission(name="alarm", slo_ms=90.0),
        PipelineAdmission(name="alarm", description=described(), rate=10.0),
    ):
        answer = admit_pipeline(asked, served, now)
        rates = {m["model"]: m["rate"] for m in answer["models"]}
        assert rates["faces"] == pytest.approx(0.5 * answer["planned_rate"], rel=1e-3), asked
    changed = admit_pipeline(PipelineAdmission(name="alarm", description=described(3.0), rate=10.0), served, now)
    rates = {m["model"]: m["rate"] for m in changed["models"]}
    assert rates["faces"] == pytest.approx(3 * changed["planned_rate"], rel=1e-3), "another stage, not measured yet"
    # The front counts the same rows: with two of each request it would leave too little.
    busy = replace(served, front_share_per_rate=0.008)
    assert admit_pipeline(PipelineAdmission(name="alarm", rate=20.0), busy, now)["admitted"]


def test_the_worst_case_counts_requests_that_come_at_once() -> None:
    """Four cut-outs of a picture ask `faces` at the same instant."""
    answer = admit_pipeline(ALARM, SERVED, CamerasNow(0.9))
    at_once = 3 * 1000 / max(2 * answer["planned_rate"], 3 * 2000 / 50.0)
    worst = {m["model"]: m["after_ms"] for m in answer["models"]}
    budget = {b["model"]: b["budget_ms"] for b in answer["budgets"]}
    assert at_once + 4.0 < worst["faces"] <= budget["faces"] + 1e-3
    assert worst["plates"] <= budget["plates"] + 1e-3


def test_an_application_that_no_share_left_answers_in_time_is_refused_although_its_models_are_served() -> None:
    """A short one that asks a model which another application keeps."""
    slow = {p: (2000.0 / p, 3000.0 / p) for p in range(5, 101, 5)}
    table = DeviceTable("toy", {"plates": slow, "faces": slow}, {})
    kept = parse_application("kept", described(per_request=1.0, slo_ms=900.0))
    models = (ServedModel("plates", 2.0, 900.0), ServedModel("faces", 2.0, 900.0))
    served = replace(SERVED, models=models, table=table, pipelines=(PipelineDemand(kept, 2.0),))
    short = PipelineAdmission(name="short", description=described(per_request=1.0, slo_ms=130.0), rate=0.5)
    answer = admit_pipeline(short, served, CamerasNow(0.5))
    assert not answer["admitted"]
    codes = {r["code"] for r in answer["reasons"]}
    assert codes == {"unreachable", "most_rate"}


def test_another_policy_is_compared_with_what_is_in_force() -> None:
    """Stages of unequal length: the even split gives the short one time that the long one needs."""
    rows = {p: (800.0 / p, 900.0 / p, 1000.0 / p, 1100.0 / p) for p in range(5, 101, 5)}
    table = DeviceTable("toy", {"plates": ROWS, "faces": rows}, {})
    application = parse_application("alarm", described(per_request=1.0, slo_ms=80.0), "1")
    models = (ServedModel("plates", 20.0, 100.0), ServedModel("faces", 20.0, 100.0))
    served = ServedLoad(models, table, (PipelineDemand(application, 20.0),))
    now = CamerasNow(0.9)
    question = AdmissionRequest(pipeline=PipelineAdmission(name="alarm"), split="even")
    asked = PipelineAdmission(name="alarm")
    even = admit_pipeline(asked, served, now, question.planning(served.planning))
    joint = admit_pipeline(asked, served, now)
    assert [b["budget_ms"] for b in even["budgets"]] == [40.0, 40.0]
    assert [b["budget_ms"] for b in joint["budgets"]] != [40.0, 40.0]
    assert even["serving_share_before"] == joint["serving_share_before"] == joint["serving_share_after"], "now"
    assert even["serving_share_after"] > even["serving_share_before"], "what the even split would take instead"
    strict = FACES.model_copy(update={"slo_ms": 20.0})
    load = replace(SERVED, models=(ServedModel("plates", 60.0, 50.0),))
    other = AdmissionRequest(model=strict, policy="squishy")
    found, usual = admit_model(strict, load, now, other.planning(load.planning)), admit_model(strict, load, now)
    assert found["serving_share_before"] == usual["serving_share_before"]
    assert found["serving_share_after"] > usual["serving_share_after"] + 0.2, "models only share a device in time"


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (PipelineAdmission(name="nobody"), "pipeline.name"),
        (PipelineAdmission(name="alarm", description=described()), "pipeline.rate"),
        (PipelineAdmission(name="alarm", description=described(), rate=10, slo_ms=4.0), "pipeline.slo_ms"),
        (PipelineAdmission(name="alarm", description=described() | {"slo_ms": 0}), "pipeline.description.slo_ms"),
        (
            PipelineAdmission(name="alarm", description=described(per_request=0)),
            "pipeline.description.stages.1.per_request",
        ),
        (
            PipelineAdmission(name="alarm", description=described(per_request=10_000_000)),
            "pipeline.description.stages.1.per_request",
        ),
    ],
)
def test_bad_questions_about_applications_name_the_field(asked: PipelineAdmission, path: str) -> None:
    with pytest.raises((InvalidValue, InvalidValues)) as error:
        admit_pipeline(asked, SERVED, CamerasNow(0.9))
    problems = error.value.problems if isinstance(error.value, InvalidValues) else [error.value]
    assert [p.path for p in problems] == [path]


def test_an_application_of_models_that_were_not_measured_names_the_stage() -> None:
    table = DeviceTable("toy", {"plates": ROWS}, {})
    with pytest.raises(InvalidValue, match=r"pipeline\.stages\[1\]\.model"):
        admit_pipeline(ALARM, replace(SERVED, table=table), CamerasNow(0.9))
    asked = ALARM.model_copy(update={"table": DeviceTable("toy", {"faces": ROWS}, {}).to_json()})
    assert admit_pipeline(asked, replace(SERVED, table=table), CamerasNow(0.9))["admitted"]


def from_camera(camera: str = "gate", **source: Any) -> dict[str, Any]:
    """`described` with a camera as its source."""
    cut = {"from": "picture", "do": [{"crop_boxes": {"boxes": "boxes", "scores": "scores", "most": 4, "size": [4, 4]}}]}
    return {
        "platform": "pipeline",
        "slo_ms": 100.0,
        "source": {"camera": camera} | source,
        "outputs": [{"name": "names", "datatype": "FP32", "shape": [-1, 4, 3], "from": "look.names"}],
        "stages": [{"name": "look", "model": "faces", "per_request": 2.0, "inputs": {"picture": cut}}],
    }


CAMERAS = {"gate": SourceState(("car",), True, 5.0, 10.0), "off": SourceState(("car",), False)}
FED = replace(SERVED, cameras=CAMERAS)


def test_an_application_of_a_camera_is_asked_about_at_the_cameras_rate() -> None:
    asked = PipelineAdmission(name="alarm", description=from_camera())
    answer = admit_pipeline(asked, FED, CamerasNow(0.9, WINDOW))
    assert answer["admitted"], answer["reasons"]
    assert answer["rate"] == 5.0, "that of the lambda in force"
    assert answer["planned_rate"] > 6.0
    rates = {m["model"]: m["rate"] for m in answer["models"]}
    assert rates["faces"] == pytest.approx(2 * answer["planned_rate"], rel=1e-3)
    assert [c["camera"] for c in answer["cameras"]] == ["gate"], "its own share counts, too"
    slower = PipelineAdmission(name="alarm", description=from_camera(max_rate=1.5))
    assert admit_pipeline(slower, FED, CamerasNow(0.9, WINDOW))["rate"] == 1.5


@pytest.mark.parametrize(
    ("source", "rate", "path"),
    [({"camera": "yard"}, None, "pipeline.description.source.camera"),
     ({"camera": "off"}, None, "pipeline.description.source"),
     ({"camera": "gate", "classes": ["ship"]}, None, "pipeline.description.source"),
     ({"camera": "gate"}, 4.0, "pipeline.rate")],
)  # fmt: skip
def test_bad_sources_name_the_field(source: dict[str, Any], rate: float | None, path: str) -> None:
    asked = PipelineAdmission(name="alarm", description=from_camera(**source), rate=rate)
    with pytest.raises(InvalidValue) as caught:
        admit_pipeline(asked, FED, CamerasNow(0.9, WINDOW))
    assert caught.value.path == path


def test_a_camera_brings_the_applications_that_wait_for_it() -> None:
    waiting = replace(parse_application("alarm", from_camera("yard")), unfed="unknown_camera")
    served = replace(FED, pipelines=(PipelineDemand(waiting, 0.0),))
    asked = AdmissionCamera(id="yard", like="gate")
    alone = admit_camera(asked, PROFILE, FED, CamerasNow(0.9, WINDOW))
    both = admit_camera(asked, PROFILE, served, CamerasNow(0.9, WINDOW))
    assert alone["admitted"]
    assert both["admitted"], both["reasons"]
    assert both["serving_share_after"] > alone["serving_share_after"], "the stages count"
    assert {c["camera"] for c in both["cameras"]} == {"gate", "yard"}, "and the camera's own share"
    rates = {m["model"]: m["rate"] for m in both["models"]}
    assert rates["faces"] > 2 * 5.0
    slow = replace(waiting, slo_ms=100.0, stages=tuple(replace(s, per_request=900.0) for s in waiting.stages))
    much = admit_camera(asked, PROFILE, replace(FED, pipelines=(PipelineDemand(slow, 0.0),)), CamerasNow(0.9, WINDOW))
    assert not much["admitted"], "what it feeds does not fit"
    assert any(reason["model"] == "faces" for reason in much["reasons"])
