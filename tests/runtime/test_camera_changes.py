"""A camera that changes tells the controller what changed of it: it does not join again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from detectors.tiny_detectors import tiny_grid
from leaf_kit import UNASKED, ignored, leaf_parts

from edge.core import events as ev
from edge.core.configs import WHOLE, StudentSpec
from edge.core.models import ModelVersion
from edge.core.plan_causes import CameraChange
from edge.detectors.description import published_spec
from edge.runtime.camera import CameraRuntime, assumed_profile, score_document
from edge.runtime.camera_workers import CameraWorkers
from edge.settings import CameraSettings


class Box:
    """Cameras whose workers are not there, and the controller's events of them."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Any] = []
        given = CameraSettings(id="gate", name="Gate", url="rtsp://127.0.0.1/x", classes=["car"])
        version = ModelVersion("m1", "gate", "", StudentSpec("classification", "resnet18", ("car",), (64, 64)), 1.0)
        self.camera = CameraRuntime(given, version, version, assumed_profile(given.inference, 1.0))
        self.kept: dict[str, Any] = {}
        settings = SimpleNamespace(put_settings=lambda name, value, by, audited: self.kept.update({name: value}))
        records = SimpleNamespace(write=lambda call, *args: call(*args))
        store = SimpleNamespace(settings=settings)
        parts = leaf_parts(folder, cameras={"gate": self.camera}, records=records, store=store)
        parts.controller.handle(ev.CameraJoined(0.0, "gate", 0.625, self.camera.profile))
        self.workers = CameraWorkers(
            parts, UNASKED, UNASKED, ignored, ignored, self.events.append, ignored, ignored, ignored
        )

    def change(self, **retraining: Any) -> None:
        settings = self.camera.settings
        self.workers.settle(
            settings.model_copy(update={"retraining": settings.retraining.model_copy(update=retraining)})
        )


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_changed_settings_of_retraining_are_reported_with_the_accuracy_that_is_known(box: Box) -> None:
    box.change(every_kth_window=3)
    (changed,) = box.events
    assert isinstance(changed, ev.CameraChanged)
    assert (changed.what, changed.camera, changed.accuracy, changed.every_kth_window) == (
        "camera_settings",
        "gate",
        0.625,
        3,
    )
    box.workers.settle(box.camera.settings)
    assert len(box.events) == 1, "nothing changed"


@pytest.mark.parametrize("what", ["camera_pinned", "camera_rolled_back"])
def test_another_version_in_force_is_reported_as_what_it_is(box: Box, what: CameraChange) -> None:
    box.camera.version = replace(box.camera.version, pinned=what == "camera_pinned")
    box.workers.changed(box.camera, what)
    (changed,) = box.events
    assert isinstance(changed, ev.CameraChanged)
    assert (changed.what, changed.model_version, changed.retraining) == (what, "m1", what != "camera_pinned")


def test_of_a_camera_that_is_switched_off_nothing_is_reported(box: Box) -> None:
    box.camera.settings = box.camera.settings.model_copy(update={"enabled": False})
    box.workers.changed(box.camera, "camera_unpinned")
    assert box.events == []


def test_a_region_that_is_fixed_by_hand_is_looked_at_at_once(box: Box) -> None:
    box.camera.version = replace(box.camera.version, spec=published_spec(tiny_grid()[1], ("car",), {}))
    box.camera.inference = box.camera.settings.inference.space(WHOLE)[0]

    def look(region: str) -> tuple[float, ...]:
        settings = box.camera.settings
        inference = settings.inference.model_copy(update={"region": region})
        box.workers.settle(settings.model_copy(update={"inference": inference}))
        assert box.camera.inference is not None
        assert box.camera.inference.region == box.camera.region
        assert {p.config.region for p in box.camera.profile.points} == {box.camera.region}
        return box.camera.region

    part = (0.1, 0.2, 0.9, 0.8)
    assert look("0.1,0.2,0.9,0.8") == part
    assert look("auto") == part, "it is learned when a window ends"
    assert look("off") == WHOLE


def test_the_least_score_that_was_chosen_is_kept_with_its_version(box: Box) -> None:
    box.workers.choose_score(box.camera, "m0", 0.5)
    assert box.camera.score is None, "of another version"
    box.workers.choose_score(box.camera, "m1", 0.35)
    assert box.camera.score_of("m1") == 0.35
    assert box.kept == {score_document("gate"): {"version": "m1", "score": 0.35}}
