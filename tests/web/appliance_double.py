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
from cameras_double import DictCameras
from capacity_double import DictCapacity
from clips_double import DictClips
from counts_double import DictCounts
from events_double import DictEvents
from fleet_double import DictAllBoxes, DictFleet, DictFleetJobs
from model_files_double import TupleModelFiles
from outputs_double import OUTPUT_STATE, DictOutputs
from served_double import DictServedModels
from tenants_double import DictTenants
from truth_double import DictTruth

from edge.appliance.answers.access import AuditAnswer, SecretAnswer
from edge.appliance.answers.cameras import PictureHeader
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
from edge.core.errors import Conflict, NotFound, Unavailable
from edge.core.facts import RuntimeFact
from edge.logs import LogRing
from edge.settings import CameraSettings, RetrainingSettings, merge, parse
from web.examples.fleet import FLEET, JOBS
from web.examples.models import RETRAINING
from web.examples.pictures import CLASSES, DISAGREEMENT
from web.examples.retraining import LEARNING
from web.examples.state import DOCTOR, OVERVIEW
from web.examples.system import SYSTEM
from web.examples.truth import TRUTH
from web.examples.windows import EXPLAINED, WHAT_IF, WINDOW

NOW = 1790000040.0
SILENCE = {"longest_s": 72.0, "longest_in_hour_s": 3.5, "count": 4, "seconds": 80.25}


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
    """Implements `ApplianceService` without workers: each service keeps the state of its noun."""

    def __init__(self, cameras: tuple[str, ...] = ("north", "south"), utc_s: float = NOW) -> None:
        self.state = DictState(self, utc_s)
        self.cameras, self.live = DictCameras(self), DictLive(self)
        self.labelled = DictLabelled(self)
        self.retraining = DictRetraining(self)
        self.windows = DictWindows(self)
        self.models = DictModels(self)
        self.served = DictServedModels(self)
        self.events, self.secrets = DictEvents(self), DictSecrets(self)
        self.alarms = DictAlarms(lambda: self.cameras.kept, jpeg(1))
        self.counts = DictCounts(lambda camera: self.cameras.one(camera))
        self.clips = DictClips(lambda: self.cameras.kept, utc_s)
        self.model_files = TupleModelFiles()
        self.outputs = DictOutputs()
        self.truth: TruthService = DictTruth(lambda camera: self.cameras.one(camera), jpeg(1))
        self.tenants = DictTenants(self)
        self.fleet, self.fleet_jobs = DictFleet(), DictFleetJobs()
        self.all_boxes = DictAllBoxes(jpeg(1))
        for camera in cameras:
            self.cameras.put(parse(CameraSettings, settings(camera)))


class DictState:
    """Implements `StateService`."""

    def __init__(self, box: DictAppliance, utc_s: float) -> None:
        self.box, self.utc_s = box, utc_s
        self.ready = True
        self.reasons: list[Json] = []
        self.complaints: list[Json] = []
        self.facts: list[RuntimeFact] = []
        self.ring = LogRing()
        self.calls: list[str] = []
        self.fail: Exception | None = None

    def look(self, call: str) -> None:
        """Note the call; raise the error that a test wants of every call."""
        self.calls.append(call)
        if self.fail is not None:
            raise self.fail

    def health(self) -> BoxHealth:
        return BoxHealth(
            live=True,
            ready=self.ready,
            reasons=tuple(read(Reason, r) for r in self.reasons),
            uptime_s=61.5,
            version="0.1.0",
        )

    def overview(self) -> Overview:
        return read(Overview, self._overview())

    def _overview(self) -> Json:
        self.look("overview")
        jobs = []
        if self.box.cameras.kept:
            camera = next(iter(self.box.cameras.kept))
            jobs = [
                {
                    "job": f"w3-{camera}-1",
                    "camera": camera,
                    "config": "all-e10-b8-d1-lr0.002",
                    "retraining": RETRAINING,
                    "window": 3,
                    "share": 0.45,
                    "started_utc_s": self.utc_s - 12,
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
            "utc_s": self.utc_s,
            "window": {
                "number": 3,
                "start_utc_s": self.utc_s - 40,
                "length_s": 200.0,
                "end_utc_s": self.utc_s + 160,
                "phase": "running",
            },
            "policy": self.box.retraining.now.policy,
            "plan": {"objective": 0.66, "reasons": {}},
            "device": OVERVIEW["device"],
            "shares": {
                c: {
                    "inference": 0.08,
                    "retraining": 0.36 if n == 0 else 0.0,
                    "config": "all-e10-b8-d1-lr0.002" if n == 0 else None,
                    "lambda": "5fps-x1",
                }
                for n, c in enumerate(self.box.cameras.kept)
            },
            "golden_share": 0.12,
            "profiling_share": 0.03,
            "lent_share": 0.0,
            "control_share": 0.08,
            "serving": self.box.served.now,
            "usage": [],
            "cameras": [
                {"id": c, "name": s.name or c, "state": self.box.cameras.state(c)}
                for c, s in self.box.cameras.kept.items()
            ],
            "jobs": jobs,
            "complaints": self.complaints,
            "workers": [],
            "losses": {"labels": {}, "journal": 0, "labels_waiting": 2, "live_pictures": 0, "alarms": {}, "clips": 0},
        }

    async def metrics(self) -> MetricsSnapshot:
        self.look("metrics")
        counts = Tally()
        counted = {k: v for k, v in OUTPUT_STATE.items() if k not in ("connected", "message", "down_s")}
        for entry in self.box.events.journal:
            counts.written(entry["kind"])
        for fact in self.facts:
            counts.fact(fact)
        snapshot = {
            "health": self.health(),
            "overview": self.overview(),
            "expected_accuracy": {
                c: self.box.cameras.versions[v]["scores"].get("held_out") for c, v in self.box.cameras.in_force.items()
            },
            "counts": counts.to_json() | {"silence": SILENCE},
            "live_pictures": dict.fromkeys(self.box.cameras.kept, 12),
            "records_unreadable": {"plan": 2},
            "disk": {"free_bytes": 12_000_000_000, "total_bytes": 64_000_000_000},
            "serving": None if self.box.served.planning is None else self.box.served.status(),
            "statistics": None if self.box.served.planning is None else self.box.served.statistics,
            "alarms": {
                "raised": {"object": 3, "disk": 0},
                "active": {"object": 1, "disk": 0},
                "held_back": 2,
                "objects": dict.fromkeys(self.box.cameras.kept, 7),
                "objects_now": dict.fromkeys(self.box.cameras.kept, 1),
                "lost": {"records": 0, "pictures_not_taken": 4},
            },
            "tenants": self.box.tenants.all(),
            "lending": FLEET["lending"],
            "fleet_jobs": JOBS,
            "counting": {"counted": [], "lost": 0, "minutes": self.box.counts.minutes},
            "clips": {"made": 2, "shared": 1, "failed": {"not_in_ring": 1}, "not_taken": 0, "bytes": 5_000_000},
            "truth": {c: TRUTH["estimate"] | {"window": 3} for c in self.box.cameras.kept},
            "outputs": [
                {"destination": "mqtt", "up": True} | counted,
                {"destination": "webhook/pager", "up": None} | counted,
            ],
        }
        return read(MetricsSnapshot, snapshot)

    async def system(self) -> SystemAnswer:
        self.look("system")
        serving = None if self.box.served.planning is None else self.box.served.status()
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
        self.look("log")
        found = {
            "records": self.ring.records(limit, level, before, after, text),
            "capacity": self.ring.capacity,
            "forgotten": self.ring.forgotten,
            "level": "DEBUG",
        }
        return read(LogAnswer, found)

    def doctor(self) -> Doctor:
        return read(Doctor, DOCTOR)


class DictLive:
    """Implements `LiveService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box
        self.watching: list[tuple[tuple[str, ...], float]] = []

    async def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        entry = (cameras, fps)
        self.watching.append(entry)
        try:
            for number in itertools.count(1):
                for camera in [c for c in self.box.cameras.kept if not cameras or c in cameras]:
                    x = ((number * 9) % 320) / 320
                    header = {
                        "camera": camera,
                        "number": number,
                        "utc_s": self.box.state.utc_s,
                        "width": 320,
                        "height": 180,
                        "model_version": self.box.cameras.in_force[camera],
                        "stale": False,
                        "classes": ["car", "bus", "person"],
                        "boxes": [[x, 0.56, min(1.0, x + 60 / 320), 0.75]],
                        "scores": [0.91],
                        "labels": [0],
                        "delay_s": 0.18,
                        "state": "live",
                    }
                    yield LivePicture(camera, read(PictureHeader, header), jpeg(number))
                await asyncio.sleep(0.02)
        finally:
            self.watching.remove(entry)

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
        self.now, self.next = RetrainingSettings(), RetrainingSettings()

    def settings(self) -> RetrainingAnswer:
        return RetrainingAnswer(current=self.now, next=self.next, next_boundary_utc_s=self.box.state.utc_s + 160)

    def learning(self) -> LearningAnswer:
        self.box.state.look("learning")
        return read(LearningAnswer, LEARNING)

    async def change(self, patch: Mapping[str, Any], by: str) -> RetrainingAnswer:
        self.box.state.look("change_retraining")
        self.next = parse(RetrainingSettings, merge(self.next.model_dump(mode="json"), patch))
        self.box.events.note("retraining.settings", by=by, fields=sorted(patch))
        return self.settings()


class DictWindows:
    """Implements `WindowsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box, self.capacity = box, DictCapacity(box)

    def recent(self, limit: int, before: int | None) -> list[WindowAnswer]:
        self.box.state.look("windows")
        return [self.one(n).window for n in (3, 2, 1) if before is None or n < before][:limit]

    def one(self, number: int) -> WindowStory:
        if number not in (1, 2, 3):
            raise NotFound(f"window {number} does not exist")
        rows = []
        for k, camera in enumerate(self.box.cameras.kept):
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
            "start_utc_s": self.box.state.utc_s - 40 - 200 * (3 - number),
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
        self.box.state.look("explained")
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
        found = [v for v in self.box.cameras.versions.values() if v["camera"] == camera]
        return [read(VersionAnswer, v) for v in sorted(found, key=lambda v: -v["created_utc_s"])]

    def _version(self, version: str) -> Json:
        if version not in self.box.cameras.versions:
            raise NotFound(f"model version {version} does not exist")
        return self.box.cameras.versions[version]

    def lineage(self, version: str) -> list[VersionAnswer]:
        out = [self._version(version)]
        while out[-1]["parent"] is not None:
            out.append(self._version(out[-1]["parent"]))
        return [read(VersionAnswer, v) for v in out]

    async def pin(self, version: str, pinned: bool, by: str) -> VersionAnswer:
        found = self._version(version)
        found["pinned"] = pinned
        self.box.events.note(
            "model.pinned" if pinned else "model.unpinned", found["camera"], version=version, origin=found["origin"],
            trained_on=found["window"], by=by,
        )  # fmt: skip
        return read(VersionAnswer, found)

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> VersionAnswer:
        self.box.cameras.one(camera)
        before = self._version(self.box.cameras.in_force[camera])
        target = version or before["parent"]
        if target is None:
            raise Conflict(f"{before['id']} is the first model: there is nothing before it")
        found = self._version(target)
        if before["pinned"]:
            raise Conflict(f"{before['id']} is pinned")
        before["state"], found["state"] = "rolled_back", "promoted"
        self.box.cameras.in_force[camera] = target
        self.box.events.note(
            "model.rolled_back", camera, version=target, origin=found["origin"], trained_on=found["window"], by=by,
            reason=reason, automatic=False,
        )  # fmt: skip
        return read(VersionAnswer, found)


class DictSecrets:
    """Implements `SecretsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box
        self.values: dict[str, str] = {}
        self.audited: list[tuple[str, str]] = []

    def names(self) -> list[SecretAnswer]:
        return [SecretAnswer(name=name, used_by=()) for name in sorted(self.values)]

    def put(self, name: str, value: str, by: str) -> None:
        self.audited.append((f"secret/{name}", by))
        self.values[name] = value

    def delete(self, name: str, by: str) -> None:
        if name not in self.values:
            raise NotFound(f"secret {name} does not exist")
        del self.values[name]

    def audit(self, limit: int, before: int | None) -> list[AuditAnswer]:
        self.box.state.look("audit")
        found = [
            {"id": n, "utc_s": self.box.state.utc_s, "by": str(by), "from": getattr(by, "address", None),
             "subject": subject, "action": "changed", "value": None}
            for n, (subject, by) in enumerate(self.audited, 1)
        ]  # fmt: skip
        return [read(AuditAnswer, r) for r in reversed(found) if before is None or r["id"] < before][:limit]
