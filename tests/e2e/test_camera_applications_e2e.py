"""A camera as the source of an application: real RTSP, a real front, a real network, attributes of followed objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from running_kit import running, until
from serving_kit import lenet, table

from edge.appliance.appliance import Appliance
from edge.core.errors import InvalidValue
from edge.settings import ServingSettings, SiteSettings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]
DIGITS = [str(n) for n in range(10)]


def application(folder: Path, name: str, camera: str, **source: Any) -> None:
    """Each object of the camera is looked at by the model `digits`."""
    cut = {"boxes": "boxes", "scores": "scores", "most": 4, "size": [28, 28]}
    described = {
        "platform": "pipeline",
        "slo_ms": 800,
        "source": {"camera": camera} | source,
        "stages": [
            {
                "name": "look",
                "model": "digits",
                "per_request": 2,
                "inputs": {
                    "x": {
                        "from": "picture",
                        "do": [{"crop_boxes": cut}, "grey", {"normalise": {"mean": [0.0], "std": [1.0]}}],
                    }
                },
            }
        ],
        "outputs": [
            {
                "name": "digit",
                "datatype": "FP32",
                "shape": [-1, 4, 10],
                "from": "look.y",
                "attribute": {"labels": DIGITS, "softmax": True},
            }
        ],
    }
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "model.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")


def row(box: Appliance, name: str) -> Any:
    return next(a for a in box.services.served.status().applications if a.name == name)


def model(box: Appliance, name: str) -> Any:
    return next(m for m in box.services.served.status().models if m.name == name)


async def test_a_cameras_objects_get_attributes_and_the_camera_may_go(
    site: Callable[..., SiteSettings], tmp_path: Path
) -> None:
    models = tmp_path / "models"
    lenet(models, "digits", slo_ms=800.0)
    application(models, "names", "junction")
    application(models, "lost", "nowhere")
    serving = ServingSettings.model_validate(
        {
            "folder": str(models), "http": {"port": 0}, "grpc": {"port": 0}, "measure": False,
            "tables": [str(table(tmp_path, "digits"))],
        }
    )  # fmt: skip
    made = site(window_s=60.0)
    junction = tuple(c for c in made.cameras if c.id == "junction")
    made = made.model_copy(update={"serving": serving, "cameras": junction})
    async with running(made) as box:
        await until(lambda: model(box, "names").total.answered > 5, "answers of the camera are asked about")
        await it_is_planned_at_the_cameras_rate(box)
        objects = box.services.alarms.objects

        def described() -> list[Any]:
            return [o for o in objects(50, None, "junction", None, None, None) if "digit" in o.attributes]

        named = await until(described, "objects have attributes")
        value = named[0].attributes["digit"]
        assert value.value in DIGITS
        assert value.score is not None
        assert 0 < value.score <= 1
        gone = model(box, "lost")
        assert gone.reason is not None
        assert (gone.state, gone.reason.code, gone.reason.message) == (
            "waiting", "unknown_camera", "source: there is no such camera",
        )  # fmt: skip
        await it_goes_on_after_it_ended(box, "front")
        assert box.services.cameras.one("junction").state.losses["answers_not_fed"] > 0, "what was lost is counted"
        await it_goes_on_after_it_ended(box, "camera-junction")
        await the_camera_goes(box)
        assert not [c for c in box.runtime.complaints.recent if c["code"] == "internal"]


async def it_is_planned_at_the_cameras_rate(box: Appliance) -> None:
    def in_force() -> float:
        chosen = box.runtime.cameras["junction"].inference
        return 0.0 if chosen is None else chosen.frame_rate

    # Sources are looked at once a second, so that the rate follows a new lambda, or a new measure of the stream, late.
    await until(lambda: 0 < row(box, "names").source.rate <= in_force(), "asked at the rate of the lambda in force")
    fed = row(box, "names")
    assert (fed.camera, fed.source.fault) == ("junction", None)
    assert fed.planned_rate > fed.source.rate, "planned with head-room"
    answer = await box.services.served.admission({"pipeline": {"name": "names", "slo_ms": 700}})
    assert answer.admitted, answer.reasons
    assert 0 < answer.rate <= in_force()
    assert "junction" in {c.camera for c in answer.cameras}, "its own share counts beside the stages"
    with pytest.raises(InvalidValue, match="a camera is the source"):
        await box.services.served.change({"models": {"names": {"rate": 3}}}, "test")


async def it_goes_on_after_it_ended(box: Appliance, worker: str) -> None:
    process = box.runtime.supervisor.pid(worker)
    box.runtime.supervisor.kill(worker, "a test")
    await until(lambda: box.runtime.supervisor.pid(worker) not in (None, process), f"another {worker}")
    before = model(box, "names").total.answered
    await until(lambda: model(box, "names").total.answered > before, f"it goes on after {worker} ended")


async def the_camera_goes(box: Appliance) -> None:
    await box.services.cameras.remove("junction", "test")
    await until(lambda: model(box, "names").state == "waiting", "it waits for its camera")
    assert row(box, "names").source.fault == "unknown_camera"
    assert row(box, "names").planned_rate == 0
    waiting = [r for r in box.services.state.health().reasons if r.code == "model_source"]
    assert {r.camera for r in waiting} == {"junction", "nowhere"}
    box.services.events.buffer.flush()
    entries = box.services.events.recent(20, None, None, "serving.source")
    reasons = {(e.data["application"], e.camera, e.data["reason"]) for e in entries}
    absent = "source: there is no such camera"
    assert reasons == {("names", "junction", ""), ("names", "junction", absent), ("lost", "nowhere", absent)}
