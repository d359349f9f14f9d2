"""Cameras come and go, and their workers' messages reach the parts that they are for. No worker runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import NoWorkers, ignored, leaf_parts
from test_label_queue import frame

from edge.core import events as ev
from edge.core.configs import WHOLE, StudentSpec
from edge.core.errors import MagpieError, NotFound
from edge.core.facts import FrameSampled
from edge.core.models import ModelVersion
from edge.core.workers import Worker
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.camera_workers import CameraWorkers
from edge.settings import CameraSettings

VERSION = ModelVersion("m1", "a", "", StudentSpec("classification", "resnet18", ("car",), (64, 64)), 1.0)


class Workers(NoWorkers):
    """Stands where the supervisor is: starts and stops are written down."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self.says: dict[str, Callable[[Any], None]] = {}
        self.lost: dict[str, Callable[[str], None]] = {}
        self.stopped: list[str] = []

    def start(self, worker: Worker, share: float, main: Any, spec: Any, says: Any, on_lost: Any, **_: Any) -> None:
        self.shares[worker.name] = share
        self.says[worker.name], self.lost[worker.name] = says, on_lost

    async def stop(self, name: str, *_: Any) -> None:
        self.stopped.append(name)


class Box:
    """The cameras' workers with real leaf parts; what versions, siblings and the boundary get is written down."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Any] = []
        self.facts: list[Any] = []
        self.ended: list[str] = []
        self.closed: list[Any] = []
        self.switched: list[Any] = []
        self.sampled: list[str] = []
        self.supervisor = Workers()
        self.parts = leaf_parts(folder, supervisor=self.supervisor, fact=self.facts.append)

        async def leave(camera: CameraRuntime) -> None:
            self.ended.append(f"switch of {camera.id}")

        versions: Any = SimpleNamespace(
            switched=lambda camera, result: self.switched.append((camera, result)), leave=leave
        )
        siblings: Any = SimpleNamespace(
            sampled=lambda camera, frame: self.sampled.append(camera.id),
            forget=lambda camera: self.ended.append(f"look of {camera}"),
        )
        self.workers = CameraWorkers(
            self.parts, versions, siblings, lambda camera: self.ended.append(f"retraining of {camera}"),
            lambda *sample: self.closed.append(sample), self.events.append, ignored, ignored, ignored,
        )  # fmt: skip

    def add(self, name: str, **more: Any) -> None:
        given = CameraSettings(id=name, name=name, url="rtsp://127.0.0.1/x", classes=["car"], **more)
        self.workers.add(given, VERSION, VERSION)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_a_camera_that_comes_has_its_part_of_the_device_and_the_controller_is_told(box: Box) -> None:
    box.workers.expected = 4
    box.add("a")
    camera = box.parts.camera("a")
    assert box.supervisor.shares[camera.worker] == pytest.approx(box.parts.shares.camera_capacity() / 4)
    assert box.parts.golden.started, "with the first camera labelling begins"
    (joined,) = box.events
    assert isinstance(joined, ev.CameraJoined)
    assert (joined.camera, joined.model_version) == ("a", "m1")


def test_a_camera_that_is_switched_off_has_no_worker(box: Box) -> None:
    box.add("a", enabled=False)
    assert box.parts.camera("a").worker not in box.supervisor.shares
    assert box.events == []


def test_a_learned_region_that_lacks_a_line_drawn_since_is_given_up(box: Box) -> None:
    taken: list[Any] = []
    camera: Any = SimpleNamespace(
        id="a", baseline=object(), fixed_region=lambda: None, record=None, region=(0.0, 0.0, 0.5, 1.0), inference=None,
        settings=SimpleNamespace(places=lambda: ((0.1, 0.5), (0.4, 0.5))), take_region=taken.append,
    )  # fmt: skip
    box.workers.look(camera)
    assert taken == [], "it has the line"
    camera.settings.places = lambda: ((0.1, 0.5), (0.8, 0.5))
    box.workers.look(camera)
    assert taken == [WHOLE]


async def test_of_a_camera_that_goes_nothing_is_left(box: Box) -> None:
    box.add("a")
    camera = box.parts.camera("a")
    await box.workers.remove("a")
    assert isinstance(box.events[-1], ev.CameraLeft)
    assert box.ended == ["look of a", "switch of a", "retraining of a"]
    assert box.supervisor.stopped == [camera.trainer, camera.worker]
    with pytest.raises(NotFound, match="camera a does not exist"):
        box.parts.camera("a")


def test_messages_of_a_worker_reach_the_parts_that_they_are_for(box: Box, tmp_path: Path) -> None:
    box.add("a")
    says, kept = box.supervisor.says["camera-a"], frame(tmp_path, 1)
    says(m.Sampled(kept))
    assert (box.parts.golden.labels.waiting(), box.sampled, box.facts) == (1, ["a"], [FrameSampled(kept)])
    says(m.SampleClosed(1, (kept,)))
    assert box.closed == [("a", 1, (kept,))]
    says(m.SwapFailed("m2", "it does not load"))
    ((camera, failed),) = box.switched
    assert (camera, str(failed)) == ("a", "a: m2 could not be put in force: it does not load")


def test_a_switch_that_fails_while_its_camera_is_removed_is_known(box: Box) -> None:
    box.add("a")
    says = box.supervisor.says["camera-a"]
    del box.parts.cameras["a"]
    says(m.SwapFailed("m2", "it does not load"))
    ((camera, failed),) = box.switched
    assert (camera, str(failed)) == ("a", "a: m2 could not be put in force: it does not load")


def test_a_worker_that_dies_ends_the_switch_of_its_model(box: Box) -> None:
    box.add("a")
    box.parts.camera("a").worker_up = True
    box.supervisor.lost["camera-a"]("killed")
    assert not box.parts.camera("a").worker_up
    assert isinstance(box.switched[0][1], MagpieError)
