"""Cameras as sources of applications in the control process: the reports when cameras come, go and change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from source_kit import described

from edge.core.application_sources import ApplicationSource, ExpectCamera
from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.serving_reasons import ServingReason
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_sources import ServingSources, SourceCameras, check_source
from edge.serving.pipeline_files import parse_application
from edge.settings import CameraSettings, ServingPlanning, parse
from scheduler.gpulets import reorganiser_events as r


class Tables:
    table = None


class CameraApplications:
    """Applications of cameras; `sent` has what workers were sent, `events` what the reorganiser was."""

    def __init__(self, *applications: dict[str, Any]) -> None:
        self.running: dict[str, CameraRuntime] = {}
        self.sent: list[tuple[str, Any]] = []
        self.events: list[r.ModelsChanged] = []
        self.notes: list[tuple[str | None, dict[str, Any]]] = []
        clock = cast(Any, type("Clock", (), {"monotonic": staticmethod(lambda: 1.0)}))
        self.models = OfferedModels(cast(Any, Tables()), ServingPlanning, clock, cast(Any, self.events.append))
        for n, content in enumerate(applications):
            app = parse_application(f"app{n}", content)
            self.models.offers[app.name] = Offer(app.name, "offered", application=app)
        self.cameras = SourceCameras(lambda: self.running)
        self.sources = ServingSources(
            self.cameras, self.models, self._send, Path("/run/front.sock"),
            lambda kind, camera=None, window=None, data=None: self.notes.append((camera, dict(data or {}))),
        )  # fmt: skip

    def _send(self, worker: str, message: Any) -> bool:
        self.sent.append((worker, message))
        return True

    def add(self, name: str = "gate", **change: Any) -> CameraRuntime:
        settings = parse(CameraSettings, {"id": name, "url": "rtsp://192.0.2.1/g", "classes": ["car"]} | change)
        made = CameraRuntime(settings, cast(Any, None), cast(Any, None), cast(Any, None))
        self.running[name] = made
        return made

    def taken(self) -> list[tuple[str, Any]]:
        sent, self.sent = self.sent, []
        return sent

    def rates(self) -> list[float]:
        return [a.rate for a in self.events[-1].applications]


def test_a_camera_that_comes_is_accepted_and_learns_what_it_feeds() -> None:
    limited = described(source={"camera": "gate", "max_rate": 2.0})
    world = CameraApplications(described(), limited, described(source={"camera": "yard"}))
    world.sources.look()
    assert world.taken() == []
    assert [n["reason"] for _, n in world.notes] == ["source: there is no such camera"] * 3
    world.add()
    world.sources.look()
    (front, expect), (worker, feed) = world.taken()
    assert (front, worker) == ("front", "camera-gate")
    assert isinstance(expect, ExpectCamera)
    assert world.sources.expected == {"gate": expect}
    assert feed == m.FeedApplications(
        Path("/run/front.sock"), expect.token, (m.FedApplication("app0"), m.FedApplication("app1", 2.0))
    )
    assert world.cameras.feeds == {"gate": feed}, "its worker is started again with it"
    world.sources.look()
    assert world.taken() == [], "nothing has changed"
    sources = [(camera, note["application"], note["reason"]) for camera, note in world.notes[3:]]
    assert sources == [("gate", "app0", ""), ("gate", "app1", "")]


def test_the_rate_is_that_of_the_lambda_in_force() -> None:
    world = CameraApplications(described())
    camera = world.add(inference={"frame_rates": [8.0, 2.0]})
    world.sources.look()
    assert world.rates() == [8.0], "the most that it may get, before a lambda is chosen"
    camera.inference = InferenceConfig(2.0, 1.0)
    world.sources.look()
    assert world.rates() == [2.0]
    assert world.events[-1].other_rates == (
        ServingReason("source_rate", application="app0", numbers={"before": 8.0, "now": 2.0}),
    )
    count = len(world.events)
    world.sources.look()
    assert len(world.events) == count
    (status,) = [world.sources.status(a) for a in world.models.demands()[1]]
    assert status is not None
    assert (status.rate, status.fault, status.lost) == (2.0, None, 0)


def test_a_camera_that_goes_is_let_in_no_more_and_one_that_is_off_feeds_no_model() -> None:
    world = CameraApplications(described())
    camera = world.add()
    world.sources.look()
    token = world.sources.expected["gate"].token
    world.taken()
    camera.settings = camera.settings.model_copy(update={"enabled": False})
    world.sources.look()
    assert world.taken() == [
        ("front", ExpectCamera("gate", "")),
        ("camera-gate", m.FeedApplications(Path("/run/front.sock"), token)),
    ]
    assert world.rates() == [0.0]
    assert world.events[-1].applications[0].unfed == "camera_off"
    del world.running["gate"]
    world.sources.look()
    assert world.sources.expected == {}
    assert world.notes[-1] == ("gate", {"application": "app0", "reason": "source: there is no such camera"})


def test_a_stream_slower_than_lambda_bounds_the_rate_and_jitter_does_not_replan() -> None:
    world = CameraApplications(described())
    camera = world.add(inference={"frame_rates": [8.0]})

    def streams(fps: float) -> None:
        status = type("Status", (), {"fps": fps})
        camera.report = cast(Any, type("Report", (), {"status": status, "answers_not_fed": 7}))

    streams(5.0)
    world.sources.look()
    assert world.rates() == [5.0]
    count = len(world.events)
    streams(5.2)
    world.sources.look()
    assert len(world.events) == count
    streams(25.0)
    world.sources.look()
    assert world.rates() == [8.0]
    (application,) = world.models.demands()[1]
    status = world.sources.status(application)
    assert status is not None
    assert status.lost == 7


def test_a_source_that_is_none_is_refused_with_the_field() -> None:
    cameras = {"gate": ("car",)}
    check_source(None, cameras)
    check_source(ApplicationSource("gate", ("car",)), cameras)
    with pytest.raises(InvalidValue, match=r"source\.camera: got 'yard'.*gate"):
        check_source(ApplicationSource("yard"), cameras)
    with pytest.raises(InvalidValue, match=r"source\.classes\[1\]: got 'ship'.*car"):
        check_source(ApplicationSource("gate", ("car", "ship")), cameras)
    with pytest.raises(InvalidValue, match="there is none"):
        check_source(ApplicationSource("gate"), {})


def test_clients_that_load_one_learn_of_no_other_camera() -> None:
    world = CameraApplications()
    world.add()
    world.sources.check(None)
    world.sources.check(ApplicationSource("gate", ("car",)))
    for source, path in (
        (ApplicationSource("yard"), "source.camera"),
        (ApplicationSource("gate", ("ship",)), "source.classes"),
    ):
        with pytest.raises(InvalidValue) as caught:
            world.sources.check(source)
        assert caught.value.path == path
        assert "gate" not in caught.value.allowed
        assert "car" not in caught.value.allowed.split()
