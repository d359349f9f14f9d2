"""Cameras and the versions of their students in dictionaries, with the real settings model, for the web tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discovery_double import OneDiscovery

from edge.appliance.answers.cameras import CameraAnswer, CameraTest, StateOfCamera
from edge.appliance.answers.read import read
from edge.appliance.service import Json
from edge.core.errors import Conflict, InvalidValue, LabelError, NotFound
from edge.settings import CameraSettings, merge, parse
from web.examples.cameras import CAMERA_STATE, CAMERA_TEST
from web.examples.models import MODEL, RETRAINING

if TYPE_CHECKING:
    from appliance_double import DictAppliance

TEACHER = ("car", "bus", "truck", "person", "bicycle")


class DictCameras:
    """Implements `CamerasService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box, self.discovery = box, OneDiscovery()
        self.kept: dict[str, CameraSettings] = {}
        self.states: dict[str, Json] = {}
        #: The versions of every camera's student by id, and the one in force by camera.
        self.versions: dict[str, Json] = {}
        self.in_force: dict[str, str] = {}

    def put(self, camera: CameraSettings) -> None:
        """Keep the camera, with a first version of its student and a retrained one in force."""
        self.kept[camera.id] = camera
        first, second = f"{camera.id}-first-1", f"{camera.id}-w2-1-2"
        for version, parent, window, scores in (
            (first, None, None, {}),
            (second, first, 2, {"held_out": 0.72, "parent_held_out": 0.55, "frames": 14.0}),
        ):
            self.versions[version] = MODEL | {
                "id": version,
                "camera": camera.id,
                "parent": parent,
                "origin": "first" if window is None else "retrained",
                "window": window,
                "config": None if window is None else "all-e10-b8-d1-lr0.002",
                "retraining": None if window is None else RETRAINING,
                "scores": scores,
                "state": "retired" if parent is None else "promoted",
                "decided_by": "first model" if parent is None else "gate",
                "reason": "" if parent is None else "held-out 0.72 against 0.55",
                "pinned": False,
                "created_utc_s": self.box.state.utc_s - 300 if parent is None else self.box.state.utc_s - 60,
                "frames": 0 if parent is None else 31,
                "device_seconds": 0.0 if parent is None else 21.5,
                "blob_kept": True,
            }
        self.in_force[camera.id] = second

    def _check(self, camera: CameraSettings) -> None:
        for name in camera.classes:
            if name not in TEACHER and name not in camera.class_map:
                raise LabelError(f"camera {camera.id}: the teacher cannot produce {name}")

    def all(self) -> list[CameraAnswer]:
        return [self.one(c) for c in self.kept]

    def one(self, camera: str) -> CameraAnswer:
        state = read(StateOfCamera, self.state(camera))
        return CameraAnswer(id=camera, settings=self.kept[camera], state=state)

    def state(self, camera: str) -> Json:
        self.box.state.look(f"camera {camera}")
        if camera not in self.kept:
            raise NotFound(f"camera {camera} does not exist")
        in_force = self.versions[self.in_force[camera]]
        live = {
            "connection": {"retry_in_s": 0.0},
            "stream": {"fps": 10.0, "delay_s": 0.18, "width": 1280, "height": 720, "codec": "h264"},
            "model": {
                "version": in_force["id"], "origin": in_force["origin"], "window": in_force["window"],
                "frozen_version": f"{camera}-first-1",
            },
            "inference": {"share": 0.16, "answers_per_s": 5.0, "inference_ms": 20.0},
            "accuracy": {"realised": 0.712, "frozen": 0.523},
        }  # fmt: skip
        changed = self.states.get(camera, {})
        state = merge(merge(CAMERA_STATE, live), changed)
        return state | {"losses": changed.get("losses", {"frames_damaged": 0, "stalls": 0})}

    async def add(self, settings: Mapping[str, Any], by: str) -> CameraAnswer:
        self.box.state.look("add_camera")
        camera = parse(CameraSettings, dict(settings))
        if camera.id in self.kept:
            raise Conflict(f"camera {camera.id} exists already")
        self._check(camera)
        self.put(camera)
        self.box.events.note("camera.added", camera.id, by=by)
        return self.one(camera.id)

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        found = self.one(camera).settings.model_dump(mode="json")
        if patch.get("id", camera) != camera:
            raise InvalidValue("id", patch["id"], f"{camera} (an id does not change)")
        merged = merge(found, patch)
        if isinstance(merged.get("class_map"), Mapping):
            merged["class_map"] = {k: v for k, v in merged["class_map"].items() if v is not None}
        changed = parse(CameraSettings, merged)
        self._check(changed)
        self.kept[camera] = changed
        self.box.events.note("camera.changed", camera, by=by, fields=sorted(patch))
        return self.one(camera)

    async def remove(self, camera: str, by: str) -> None:
        self.one(camera)
        del self.kept[camera]
        self.box.events.note("camera.removed", camera, by=by)

    async def test(self, settings: Mapping[str, Any]) -> CameraTest:
        parse(CameraSettings, dict(settings))
        nothing = CAMERA_TEST | {"ok": False, "width": 0, "height": 0, "fps": 0.0, "codec": "", "picture": None}
        return read(CameraTest, nothing | {"fault": "unreachable", "message": "nothing answers there"})
