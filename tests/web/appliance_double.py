"""An appliance in dictionaries: the Protocol with the real settings models, for the web tests."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import cv2
import numpy as np
from alarms_double import DictAlarms
from capacity_double import DictCapacity
from clips_double import DictClips
from counts_double import DictCounts
from discovery_double import OneDiscovery
from events_double import DictEvents
from fleet_double import DictAllBoxes, DictFleet, DictFleetJobs
from model_files_double import TupleModelFiles
from outputs_double import OUTPUT_STATE, DictOutputs
from served_double import DictServedModels
from tenants_double import DictTenants
from truth_double import DictTruth

from edge.appliance.answers.access import AuditAnswer, SecretAnswer
from edge.appliance.answers.cameras import CameraAnswer, CameraTest, PictureHeader, StateOfCamera
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.models import VersionAnswer
from edge.appliance.answers.pictures import DisagreementAnswer, WindowClasses
from edge.appliance.answers.read import read
from edge.appliance.answers.retraining import LearningAnswer, RetrainingAnswer
from edge.appliance.answers.state import BoxHealth, Doctor, Overview, Reason
from edge.appliance.answers.system import LogAnswer, SystemAnswer
from edge.appliance.answers.windows import ExplainedWindow, WhatIfAnswer, WindowAnswer, WindowStory
from edge.appliance.metrics import Tally
from edge.appliance.service import Json, LivePicture
from edge.appliance.system import losses
from edge.appliance.truth_service import TruthService
from edge.core.errors import Conflict, InvalidValue, LabelError, NotFound, Unavailable
from edge.core.facts import RuntimeFact
from edge.logs import LogRing
from edge.settings import CameraSettings, RetrainingSettings, ServingPlanning, merge, parse
from web.examples.cameras import CAMERA_STATE, CAMERA_TEST
from web.examples.fleet import FLEET, JOBS
from web.examples.models import MODEL, RETRAINING
from web.examples.pictures import CLASSES, DISAGREEMENT
from web.examples.retraining import LEARNING
from web.examples.state import DOCTOR, OVERVIEW
from web.examples.system import SYSTEM
from web.examples.truth import TRUTH
from web.examples.windows import EXPLAINED, WHAT_IF, WINDOW

NOW = 1790000040.0
SILENCE = {"longest_s": 72.0, "longest_in_hour_s": 3.5, "count": 4, "seconds": 80.25}
TEACHER = ("car", "bus", "truck", "person", "bicycle")


def settings(camera: str, **more: Any) -> Json:
    """Settings of a detection camera."""
    return {"id": camera, "url": f"rtsp://192.0.2.1/{camera}", "classes": ["car", "bus", "person"], **more}


def jpeg(number: int, width: int = 320, height: int = 180) -> bytes:
    """A street-like picture that differs with its number."""
    picture = np.full((height, width, 3), (150, 140, 120), np.uint8)
    picture[height // 2 :] = (82, 84, 88)
    x = (number * 9) % width
    picture[height // 2 + 12 : height // 2 + 44, x : x + 60] = (40, 60, 190)
    ok, encoded = cv2.imencode(".jpg", picture)
    assert ok
    return bytes(encoded.tobytes())


class DictAppliance:
    """Implements `ApplianceService` without workers."""

    def __init__(self, cameras: tuple[str, ...] = ("north", "south"), utc_s: float = NOW) -> None:
        self.utc_s = utc_s
        self.kept: dict[str, CameraSettings] = {}
        self.states: dict[str, Json] = {}
        self.versions: dict[str, Json] = {}
        self.in_force: dict[str, str] = {}
        self.facts: list[RuntimeFact] = []
        self.journal: list[Json] = []
        self.listeners: list[asyncio.Queue[Json]] = []
        self.watching: list[tuple[tuple[str, ...], float]] = []
        self.now, self.next = RetrainingSettings(), RetrainingSettings()
        self.planning: ServingPlanning | None = ServingPlanning()
        self.ring = LogRing()
        self.secret_values: dict[str, str] = {}
        self.audited: list[tuple[str, str]] = []
        self.reasons: list[Json] = []
        self.ready = True
        self.complaints: list[Json] = []
        self.fail: Exception | None = None
        self.picture_pause_s = 0.02
        self.calls: list[str] = []
        self.statistics: list[Json] | None = None
        self.minutes: list[Json] = []
        #: The overview's part of what is served; None: the page shows a site that serves nothing.
        self.serving_now: Json | None = None
        self.outputs = DictOutputs()
        self.model_files = TupleModelFiles()
        self.alarms = DictAlarms(lambda: self.kept, jpeg(1))
        self.counts = DictCounts(lambda camera: self.cameras.one(camera))
        self.clips = DictClips(lambda: self.kept, utc_s)
        self.truth: TruthService = DictTruth(lambda camera: self.cameras.one(camera), jpeg(1))
        self._events = itertools.count(1)
        self.state = DictState(self)
        self.cameras, self.live = DictCameras(self), DictLive(self)
        self.labelled = DictLabelled(self)
        self.retraining = DictRetraining(self)
        self.windows = DictWindows(self)
        self.models = DictModels(self)
        self.served = DictServedModels(self)
        self.tenants = DictTenants(self)
        self.fleet, self.fleet_jobs = DictFleet(), DictFleetJobs()
        self.all_boxes = DictAllBoxes(jpeg(1))
        self.events, self.secrets = DictEvents(self), DictSecrets(self)
        for camera in cameras:
            self.put(parse(CameraSettings, settings(camera)))

    # -- for the tests

    def put(self, camera: CameraSettings) -> None:
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
                "created_utc_s": self.utc_s - 300 if parent is None else self.utc_s - 60,
                "frames": 0 if parent is None else 31,
                "device_seconds": 0.0 if parent is None else 21.5,
                "blob_kept": True,
            }
        self.in_force[camera.id] = second

    def note(self, kind: str, /, camera: str | None = None, **data: Any) -> None:
        """Journal an event and tell the listeners."""
        number = next(self._events)
        entry = {"id": number, "utc_s": self.utc_s, "kind": kind, "camera": camera, "window": 3, "data": data}
        self.journal.append(entry)
        for queue in self.listeners:
            queue.put_nowait(entry)

    def look(self, call: str) -> None:
        self.calls.append(call)
        if self.fail is not None:
            raise self.fail

    def check(self, camera: CameraSettings) -> None:
        for name in camera.classes:
            if name not in TEACHER and name not in camera.class_map:
                raise LabelError(f"camera {camera.id}: the teacher cannot produce {name}")


class DictState:
    """Implements `StateService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def health(self) -> BoxHealth:
        return BoxHealth(
            live=True,
            ready=self.box.ready,
            reasons=tuple(read(Reason, r) for r in self.box.reasons),
            uptime_s=61.5,
            version="0.1.0",
        )

    def overview(self) -> Overview:
        return read(Overview, self._overview())

    def _overview(self) -> Json:
        self.box.look("overview")
        jobs = []
        if self.box.kept:
            camera = next(iter(self.box.kept))
            jobs = [
                {
                    "job": f"w3-{camera}-1",
                    "camera": camera,
                    "config": "all-e10-b8-d1-lr0.002",
                    "retraining": RETRAINING,
                    "window": 3,
                    "share": 0.45,
                    "started_utc_s": self.box.utc_s - 12,
                    "predicted_accuracy": 0.76,
                    "total_device_s": 30.0,
                    "fraction": 0.4,
                    "held_out": 0.69,
                    "device_seconds": 12.0,
                    "box": "",
                }
            ]
        return {
            "site": "junction",
            "utc_s": self.box.utc_s,
            "window": {
                "number": 3,
                "start_utc_s": self.box.utc_s - 40,
                "length_s": 200.0,
                "end_utc_s": self.box.utc_s + 160,
                "phase": "running",
            },
            "policy": self.box.now.policy,
            "plan": {"objective": 0.66, "reasons": {}},
            "device": OVERVIEW["device"],
            "shares": {
                c: {
                    "inference": 0.08,
                    "retraining": 0.36 if n == 0 else 0.0,
                    "config": "all-e10-b8-d1-lr0.002" if n == 0 else None,
                    "lambda": "5fps-x1",
                }
                for n, c in enumerate(self.box.kept)
            },
            "golden_share": 0.12,
            "profiling_share": 0.03,
            "lent_share": 0.0,
            "control_share": 0.08,
            "serving": self.box.serving_now,
            "usage": [],
            "cameras": [{"name": s.name or c, **self.box.cameras.state(c), "id": c} for c, s in self.box.kept.items()],
            "jobs": jobs,
            "complaints": self.box.complaints,
            "workers": [],
            "losses": {"labels": {}, "journal": 0, "labels_waiting": 2, "live_pictures": 0, "alarms": {}, "clips": 0},
        }

    async def metrics(self) -> MetricsSnapshot:
        self.box.look("metrics")
        counts = Tally()
        counted = {k: v for k, v in OUTPUT_STATE.items() if k not in ("connected", "message", "down_s")}
        for entry in self.box.journal:
            counts.written(entry["kind"])
        for fact in self.box.facts:
            counts.fact(fact)
        snapshot = {
            "health": self.health(),
            "overview": self.overview(),
            "expected_accuracy": {
                c: self.box.versions[v]["scores"].get("held_out") for c, v in self.box.in_force.items()
            },
            "counts": counts.to_json() | {"silence": SILENCE},
            "live_pictures": dict.fromkeys(self.box.kept, 12),
            "records_unreadable": {"plan": 2},
            "disk": {"free_bytes": 12_000_000_000, "total_bytes": 64_000_000_000},
            "serving": None if self.box.planning is None else self.box.served.status(),
            "statistics": None if self.box.planning is None else self.box.statistics,
            "alarms": {
                "raised": {"object": 3, "disk": 0},
                "active": {"object": 1, "disk": 0},
                "held_back": 2,
                "objects": dict.fromkeys(self.box.kept, 7),
                "objects_now": dict.fromkeys(self.box.kept, 1),
                "lost": {"records": 0, "pictures_not_taken": 4},
            },
            "tenants": self.box.tenants.all(),
            "lending": FLEET["lending"],
            "fleet_jobs": JOBS,
            "counting": {"counted": [], "lost": 0, "minutes": self.box.minutes},
            "clips": {"made": 2, "shared": 1, "failed": {"not_in_ring": 1}, "not_taken": 0, "bytes": 5_000_000},
            "truth": {c: TRUTH["estimate"] | {"window": 3} for c in self.box.kept},
            "outputs": [
                {"destination": "mqtt", "up": True} | counted,
                {"destination": "webhook/pager", "up": None} | counted,
            ],
        }
        return read(MetricsSnapshot, snapshot)

    async def system(self) -> SystemAnswer:
        self.box.look("system")
        serving = None if self.box.planning is None else self.box.served.status()
        found = copy.deepcopy(SYSTEM) | {"health": self.health(), "losses": losses(self._overview(), serving, 0)}
        return read(SystemAnswer, found)

    def log(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> LogAnswer:
        self.box.look("log")
        found = {
            "records": self.box.ring.records(limit, level, before, after, text),
            "capacity": self.box.ring.capacity,
            "forgotten": self.box.ring.forgotten,
            "level": "DEBUG",
        }
        return read(LogAnswer, found)

    def doctor(self) -> Doctor:
        return read(Doctor, DOCTOR)


class DictCameras:
    """Implements `CamerasService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box, self.discovery = box, OneDiscovery()

    def all(self) -> list[CameraAnswer]:
        return [self.one(c) for c in self.box.kept]

    def one(self, camera: str) -> CameraAnswer:
        state = read(StateOfCamera, self.state(camera))
        return CameraAnswer(id=camera, settings=self.box.kept[camera], state=state)

    def state(self, camera: str) -> Json:
        self.box.look(f"camera {camera}")
        if camera not in self.box.kept:
            raise NotFound(f"camera {camera} does not exist")
        in_force = self.box.versions[self.box.in_force[camera]]
        return (
            CAMERA_STATE
            | {
                "camera": camera,
                "state": "live",
                "fault": None,
                "message": "",
                "fps": 10.0,
                "delay_s": 0.18,
                "width": 1280,
                "height": 720,
                "codec": "h264",
                "retry_in_s": 0.0,
                "model_version": in_force["id"],
                "model_origin": in_force["origin"],
                "model_window": in_force["window"],
                "frozen_version": f"{camera}-first-1",
                "share": 0.16,
                "accuracy": 0.712,
                "frozen_accuracy": 0.523,
                "answers_per_s": 5.0,
                "inference_ms": 20.0,
                "recorder": "",
                "ring": CAMERA_STATE["ring"],
                "losses": {"frames_damaged": 0, "stalls": 0},
            }
            | self.box.states.get(camera, {})
        )

    async def add(self, settings: Mapping[str, Any], by: str) -> CameraAnswer:
        self.box.look("add_camera")
        camera = parse(CameraSettings, dict(settings))
        if camera.id in self.box.kept:
            raise Conflict(f"camera {camera.id} exists already")
        self.box.check(camera)
        self.box.put(camera)
        self.box.note("camera.added", camera.id, by=by)
        return self.one(camera.id)

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        found = self.one(camera).settings.model_dump(mode="json")
        if patch.get("id", camera) != camera:
            raise InvalidValue("id", patch["id"], f"{camera} (an id does not change)")
        merged = merge(found, patch)
        if isinstance(merged.get("class_map"), Mapping):
            merged["class_map"] = {k: v for k, v in merged["class_map"].items() if v is not None}
        changed = parse(CameraSettings, merged)
        self.box.check(changed)
        self.box.kept[camera] = changed
        self.box.note("camera.changed", camera, by=by, fields=sorted(patch))
        return self.one(camera)

    async def remove(self, camera: str, by: str) -> None:
        self.one(camera)
        del self.box.kept[camera]
        self.box.note("camera.removed", camera, by=by)

    async def test(self, settings: Mapping[str, Any]) -> CameraTest:
        parse(CameraSettings, dict(settings))
        nothing = CAMERA_TEST | {"ok": False, "width": 0, "height": 0, "fps": 0.0, "codec": "", "picture": None}
        return read(CameraTest, nothing | {"fault": "unreachable", "message": "nothing answers there"})


class DictLive:
    """Implements `LiveService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    async def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        entry = (cameras, fps)
        self.box.watching.append(entry)
        try:
            for number in itertools.count(1):
                for camera in [c for c in self.box.kept if not cameras or c in cameras]:
                    x = ((number * 9) % 320) / 320
                    header = {
                        "camera": camera,
                        "number": number,
                        "utc_s": self.box.utc_s,
                        "width": 320,
                        "height": 180,
                        "model_version": self.box.in_force[camera],
                        "stale": False,
                        "classes": ["car", "bus", "person"],
                        "boxes": [[x, 0.56, min(1.0, x + 60 / 320), 0.75]],
                        "scores": [0.91],
                        "labels": [0],
                        "delay_s": 0.18,
                        "state": "live",
                    }
                    yield LivePicture(camera, read(PictureHeader, header), jpeg(number))
                await asyncio.sleep(self.box.picture_pause_s)
        finally:
            self.box.watching.remove(entry)

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        if self.box.cameras.one(camera).state.state != "live":
            raise Unavailable(f"camera {camera} has no picture now")
        return jpeg(1, width or 320)


class DictLabelled:
    """Implements `LabelledService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def disagreements(self, camera: str, limit: int) -> list[DisagreementAnswer]:
        self.box.cameras.one(camera)
        return [read(DisagreementAnswer, DISAGREEMENT | {"frame": 9 - n}) for n in range(3)][:limit]

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        self.box.cameras.one(camera)
        if (window, frame) not in {(DISAGREEMENT["window"], 9 - n) for n in range(3)}:
            raise NotFound(f"there is no picture of frame {frame} in window {window} of camera {camera} (any more)")
        return jpeg(frame)

    def classes(self, camera: str, windows: int) -> list[WindowClasses]:
        self.box.cameras.one(camera)
        return [read(WindowClasses, CLASSES | {"window": 3 - n}) for n in range(3)][:windows]


class DictRetraining:
    """Implements `RetrainingService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def settings(self) -> RetrainingAnswer:
        return RetrainingAnswer(current=self.box.now, next=self.box.next, next_boundary_utc_s=self.box.utc_s + 160)

    def learning(self) -> LearningAnswer:
        self.box.look("learning")
        return read(LearningAnswer, LEARNING)

    async def change(self, patch: Mapping[str, Any], by: str) -> RetrainingAnswer:
        self.box.look("change_retraining")
        self.box.next = parse(RetrainingSettings, merge(self.box.next.model_dump(mode="json"), patch))
        self.box.note("retraining.settings", by=by, fields=sorted(patch))
        return self.settings()


class DictWindows:
    """Implements `WindowsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box, self.capacity = box, DictCapacity(box)

    def recent(self, limit: int, before: int | None) -> list[WindowAnswer]:
        self.box.look("windows")
        return [self.one(n).window for n in (3, 2, 1) if before is None or n < before][:limit]

    def one(self, number: int) -> WindowStory:
        if number not in (1, 2, 3):
            raise NotFound(f"window {number} does not exist")
        rows = []
        for k, camera in enumerate(self.box.kept):
            value = None if number == 3 else 0.5 + 0.1 * number - 0.03 * k
            rows.append(
                WINDOW["cameras"][0]
                | {
                    "window": number,
                    "camera": camera,
                    "details": {},
                    "realised": None if value is None else {"value": value, "frames": 40},
                    "frozen": None if value is None else {"value": 0.54 - 0.02 * number, "frames": 40},
                }
            )
        window = WINDOW | {
            "id": number,
            "start_utc_s": self.box.utc_s - 40 - 200 * (3 - number),
            "length_s": 200.0,
            "policy": "relay",
            "settings": {},
            "open": number == 3,
            "closed_utc_s": None,
            "outcome": "open" if number == 3 else "completed",
            "details": {},
            "cameras": rows,
        }
        return read(WindowStory, {"window": window, "plans": [], "profiles": [], "jobs": [], "usage": [], "costs": []})

    async def explained(self, number: int) -> ExplainedWindow:
        self.box.look("explained")
        return read(ExplainedWindow, EXPLAINED | {"window": self.one(number).window})

    async def what_if(self, number: int, policy: str) -> WhatIfAnswer:
        self.one(number)
        return read(WhatIfAnswer, WHAT_IF | {"policy": policy})


class DictModels:
    """Implements `ModelsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def versions(self, camera: str) -> list[VersionAnswer]:
        self.box.cameras.one(camera)
        found = [v for v in self.box.versions.values() if v["camera"] == camera]
        return [read(VersionAnswer, v) for v in sorted(found, key=lambda v: -v["created_utc_s"])]

    def _version(self, version: str) -> Json:
        if version not in self.box.versions:
            raise NotFound(f"model version {version} does not exist")
        return self.box.versions[version]

    def lineage(self, version: str) -> list[VersionAnswer]:
        out = [self._version(version)]
        while out[-1]["parent"] is not None:
            out.append(self._version(out[-1]["parent"]))
        return [read(VersionAnswer, v) for v in out]

    async def pin(self, version: str, pinned: bool, by: str) -> VersionAnswer:
        found = self._version(version)
        found["pinned"] = pinned
        self.box.note(
            "model.pinned" if pinned else "model.unpinned", found["camera"], version=version, origin=found["origin"],
            trained_on=found["window"], by=by,
        )  # fmt: skip
        return read(VersionAnswer, found)

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> VersionAnswer:
        self.box.cameras.one(camera)
        before = self._version(self.box.in_force[camera])
        target = version or before["parent"]
        if target is None:
            raise Conflict(f"{before['id']} is the first model: there is nothing before it")
        found = self._version(target)
        if before["pinned"]:
            raise Conflict(f"{before['id']} is pinned")
        before["state"], found["state"] = "rolled_back", "promoted"
        self.box.in_force[camera] = target
        self.box.note(
            "model.rolled_back", camera, version=target, origin=found["origin"], trained_on=found["window"], by=by,
            reason=reason, automatic=False,
        )  # fmt: skip
        return read(VersionAnswer, found)


class DictSecrets:
    """Implements `SecretsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def names(self) -> list[SecretAnswer]:
        return [SecretAnswer(name=name, used_by=()) for name in sorted(self.box.secret_values)]

    def put(self, name: str, value: str, by: str) -> None:
        self.box.audited.append((f"secret/{name}", by))
        self.box.secret_values[name] = value

    def delete(self, name: str, by: str) -> None:
        if name not in self.box.secret_values:
            raise NotFound(f"secret {name} does not exist")
        del self.box.secret_values[name]

    def audit(self, limit: int, before: int | None) -> list[AuditAnswer]:
        self.box.look("audit")
        found = [
            {"id": n, "utc_s": self.box.utc_s, "by": str(by), "from": getattr(by, "address", None), "subject": subject,
             "action": "changed", "value": None}
            for n, (subject, by) in enumerate(self.box.audited, 1)
        ]  # fmt: skip
        return [read(AuditAnswer, r) for r in reversed(found) if before is None or r["id"] < before][:limit]
