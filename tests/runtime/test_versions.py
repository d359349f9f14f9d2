"""Versions in force: recorded, then switched to; taken back where the switch fails; rolled back; pinned."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_sibling_starts import SPEC

from edge.core.alarms import RolledBack
from edge.core.configs import StudentSpec
from edge.core.errors import Conflict, MagpieError, NotFound
from edge.core.models import ModelVersion
from edge.core.roll_backs import RollBackReason
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, assumed_profile
from edge.runtime.store_thread import StoreThread
from edge.runtime.versions import Versions
from edge.settings import CameraSettings
from edge.store.store import Store, default_url


class Site:
    """Versions over a real store; a worker that answers a switch as `worker` says."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.records = StoreThread(lambda code, words: None)
        self.cameras: dict[str, CameraRuntime] = {}
        self.notes: list[tuple[str, str, dict[str, Any]]] = []
        self.facts: list[Any] = []
        self.changed: list[tuple[str, str]] = []
        self.swaps: list[m.Swap] = []
        self.worker: Callable[[m.Swap], Any] = lambda swap: m.Swapped(swap.version, 0.04, 0)
        self.versions = Versions(
            store, self.records, self._send, self.cameras,
            lambda kind, **more: self.notes.append((kind, more["camera"], more["data"])), self.facts.append, lambda: 3,
            lambda camera, what: self.changed.append((camera.id, what)),
        )  # fmt: skip

    def _send(self, worker: str, message: m.Swap) -> bool:
        answer = self.worker(message)
        if answer is None:
            return False
        self.swaps.append(message)
        camera = worker.removeprefix("camera-")
        # As it comes in reality: after the message has gone out.
        asyncio.get_running_loop().call_soon(self.versions.switched, camera, answer)
        return True

    def camera(self, name: str = "a") -> CameraRuntime:
        first = self.store.versions.promote(self.made(f"{name}-first", name).id, "test", "")
        given = CameraSettings(id=name, name=name, url="rtsp://127.0.0.1/x", classes=["car"])
        camera = CameraRuntime(given, first, first, assumed_profile(given.inference, 1.0), worker_up=True)
        self.cameras[name] = camera
        return camera

    def made(self, version: str, camera: str, parent: str | None = None, spec: StudentSpec = SPEC) -> ModelVersion:
        made = ModelVersion(version, camera, "", spec, 1.0, parent=parent, window=1)
        return self.store.add_model(made, version.encode())

    async def put(self, camera: CameraRuntime, version: ModelVersion) -> None:
        await self.versions.put_in_force(camera, version, "gate", "better", {"held_out": 0.8})

    def in_force(self, camera: str = "a") -> str:
        found = self.store.versions.promoted(camera)
        assert found is not None
        return found.id


@pytest.fixture
def site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(default_url(tmp_path), tmp_path) as store:
        yield Site(store)


async def test_a_version_is_recorded_and_switched_to(site: Site) -> None:
    camera = site.camera()
    await site.put(camera, site.made("a-2", "a", "a-first"))
    assert site.in_force() == camera.version.id == "a-2"
    assert camera.version.scores["held_out"] == 0.8
    assert [s.version for s in site.swaps] == ["a-2"]
    assert site.notes == [("model.switched", "a", {"version": "a-2", "gap_s": 0.04, "frames_lost": 0})]
    assert site.changed == [], "the gate tells the controller itself"


async def test_a_switch_that_fails_leaves_what_was_in_force(site: Site) -> None:
    camera = site.camera()
    site.worker = lambda swap: MagpieError(f"{swap.version}: torch and onnxruntime differ")
    with pytest.raises(MagpieError, match="differ"):
        await site.put(camera, site.made("a-2", "a", "a-first"))
    assert site.in_force() == camera.version.id == "a-first"
    lost = next(v for v in site.store.versions.newest("a") if v.id == "a-2")
    assert lost.state == "rolled_back"
    assert site.notes == []


async def test_a_worker_that_dies_in_the_switch_starts_with_the_new_version(site: Site) -> None:
    camera = site.camera()

    def dies(swap: m.Swap) -> Any:
        camera.worker_up = False
        return MagpieError("its worker died while the model was switched")

    site.worker = dies
    await site.put(camera, site.made("a-2", "a", "a-first"))
    assert site.in_force() == camera.version.id == "a-2"


async def test_a_camera_without_a_worker_has_it_at_its_next_start(site: Site) -> None:
    camera = site.camera()
    site.worker = lambda swap: None
    await site.put(camera, site.made("a-2", "a", "a-first"))
    assert site.in_force() == camera.version.id == "a-2"
    assert site.notes == []


async def test_an_operator_rolls_back_to_the_parent(site: Site) -> None:
    camera = site.camera()
    await site.put(camera, site.made("a-2", "a", "a-first"))
    back = await site.versions.roll_back(camera, None, "olga", RollBackReason.asked("it misses buses"))
    assert back.id == site.in_force() == camera.version.id == "a-first"
    assert site.notes[-1] == (
        "model.rolled_back", "a",
        {
            "version": "a-first", "origin": "retrained", "trained_on": 1, "by": "olga", "reason": "it misses buses",
            "automatic": False,
        },
    )  # fmt: skip
    assert site.facts == [RolledBack("a", "a-first", RollBackReason.asked("it misses buses"))]
    assert site.changed == [("a", "camera_rolled_back")], "the controller plans with what is in force"
    assert [s.version for s in site.swaps] == ["a-2", "a-first"]


async def test_a_roll_back_to_another_kind_or_to_nothing_is_refused(site: Site) -> None:
    camera = site.camera()
    other = site.made("a-van", "a", spec=replace(SPEC, classes=("van",)))
    with pytest.raises(Conflict, match="another kind"):
        await site.versions.roll_back(camera, other.id, "olga", RollBackReason.asked(""))
    with pytest.raises(Conflict, match="no earlier"):
        await site.versions.roll_back(camera, None, "olga", RollBackReason.asked(""))
    with pytest.raises(NotFound):
        await site.versions.roll_back(camera, "a-99", "olga", RollBackReason.asked(""))
    assert site.in_force() == camera.version.id == "a-first"
    assert site.swaps == []


async def test_a_pin_is_known_to_the_camera_and_the_controller_where_it_is_in_force(site: Site) -> None:
    camera = site.camera()
    await site.put(camera, site.made("a-2", "a", "a-first"))
    await site.versions.pin("a-first", True, "olga")
    assert site.changed == [], "an old version"
    await site.versions.pin("a-2", True, "olga")
    assert camera.version.pinned
    assert site.changed == [("a", "camera_pinned")]
    await site.versions.pin("a-2", False, "olga")
    assert not camera.version.pinned
    assert site.changed[1:] == [("a", "camera_unpinned")]
    assert [kind for kind, _, _ in site.notes[-3:]] == ["model.pinned", "model.pinned", "model.unpinned"]


async def test_the_parent_of_a_version(site: Site) -> None:
    camera = site.camera()
    await site.put(camera, site.made("a-2", "a", "a-first"))
    found = await site.versions.parent(camera.version)
    assert found is not None
    assert found.id == "a-first"
    assert await site.versions.parent(found) is None
    assert await site.versions.parent(replace(found, parent="a-gone")) is None


async def test_a_confirmation_that_is_not_waited_for_is_let_be(site: Site) -> None:
    site.camera()
    site.versions.switched("a", m.Swapped("a-7", 0.1, 0))
    site.versions.switched("nobody", MagpieError("late"))
    assert site.notes == []
