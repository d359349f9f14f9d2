"""What transports (REST, page) may ask of the appliance. Values are plain JSON; errors are edge.core.errors.

Every coroutine runs on the control process's event loop. Times are UTC epoch seconds, shares are 0-1 of one device,
accuracies 0-1, boxes normalised xyxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edge.appliance.alarms_service import AlarmsService
from edge.appliance.model_files import ModelFilesService
from edge.appliance.outputs_service import OutputsService
from edge.appliance.truth_service import TruthService

Json = dict[str, Any]


@dataclass(frozen=True)
class LivePicture:
    """One encoded picture with the answers that belong to exactly it.

    `header` is JSON: {"camera", "number", "utc_s", "width", "height", "model_version", "stale", "classes": [names],
    "boxes": [[x1, y1, x2, y2]], "scores": [..], "labels": [class index], "delay_s", "state"}.
    """

    camera: str
    header: Json
    jpeg: bytes


class ApplianceService(Protocol):
    """The one inner service behind thin transports."""

    # -- state
    def health(self) -> Json:
        """{"live": true, "ready": bool, "reasons": [{"code", "message", "camera"?}], "uptime_s", "version"}."""

    def overview(self) -> Json:
        """For the page, small and cheap: {"site", "window": {"number", "start_utc_s", "length_s", "phase"}, "policy",
        "device": caps, "shares": {camera: {"inference", "retraining", "config"}}, "golden_share", "profiling_share",
        "serving": what models are served and how, or null,
        "cameras": [camera state...], "jobs": [...], "complaints": [...], "workers": [...], "losses": {...}}."""

    async def metrics(self) -> Json:
        """A snapshot for `/metrics`: {"health", "overview", "expected_accuracy": {camera: at promotion, or null},
        "counts": since the start, "live_pictures": {camera: encoded}, "disk": {"free_bytes", "total_bytes"},
        "serving": as `serving` or null, "statistics": the inference protocol's statistics of each served version, or
        null where none came, "truth": {camera: newest true accuracy}}."""

    async def system(self) -> Json:
        """{"site", "utc_s", "started_utc_s", "health", "devices", "notes", "shares": the share kind in force, what it
        promises and what is kept for Magpie's own work, "workers": with shares asked, granted and used and their
        memory, "disk": bytes free and used by what, limits of retention, "losses": every counter in words,
        "versions"}. For the system page."""

    def log(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> Json:
        """{"records": newest first {"id", "utc_s", "level", "logger", "message", "camera"?, "window"?, "cause"?,
        "event"?, "worker"?, "error"?: a traceback}, "capacity", "forgotten", "level": the least that is logged at all}:
        what the control process logged and is still in memory (edge.logs.LogRing.records)."""

    # -- cameras
    def cameras(self) -> list[Json]:
        """[{"id", "settings": {...}, "state": {...CameraStatus, "answers_per_s", "inference_ms", "lambda",
        "model_version", "accuracy": last realised or null, "frozen_accuracy", "losses": {...}}}]."""

    def camera(self, camera: str) -> Json:
        """One of `cameras()`. Raises NotFound."""

    async def add_camera(self, settings: Mapping[str, Any], by: str) -> Json:
        """Raises InvalidValues, Conflict, LabelError (a class that the teacher cannot produce), WeightsError."""

    async def change_camera(self, camera: str, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch of the settings (id cannot change). Raises as `add_camera`, and NotFound."""

    async def remove_camera(self, camera: str, by: str) -> None:
        """Raises NotFound."""

    async def test_camera(self, settings: Mapping[str, Any]) -> Json:
        """Try to connect: {"ok", "width", "height", "fps", "codec", "message", "picture": JPEG in base64, or null};
        raises InvalidValues."""

    # -- what the teacher said (blocking: transports call them in a thread)
    def disagreements(self, camera: str, limit: int) -> list[Json]:
        """Labelled pictures about which student and teacher differ, newest first: [{"window", "frame", "utc_s",
        "model_version", "answer_age_s", "width", "height", "student": objects, "teacher": objects, "kinds": of
        "missed", "extra", "class"}]; objects: [{"box", "class", "score", "verdict"}]. Raises NotFound."""

    def disagreement_picture(self, camera: str, window: int, frame: int) -> bytes:
        """JPEG of such a picture. Raises NotFound (also when retention deleted it)."""

    def classes(self, camera: str, windows: int) -> list[Json]:
        """Objects per class that teacher and student saw in the labelled pictures of a window, newest window first:
        [{"window", "start_utc_s", "frames", "teacher": {class: n}, "student": {class: n}}]. Raises NotFound."""

    # -- retraining settings
    def retraining(self) -> Json:
        """{"current": settings in force, "next": settings from the next boundary on, "next_boundary_utc_s"}."""

    def learning(self) -> Json:
        """What this box can learn (edge.core.learning.LearningReport): the budget in force, measured costs, the window
        length that it would choose, and how promises were kept."""

    async def change_retraining(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch; in force from the next boundary; kept over restarts. Raises InvalidValues."""

    # -- windows
    def windows(self, limit: int, before: int | None) -> list[Json]:
        """Newest first: number, start, length, policy, per-camera realised and frozen accuracy, state."""

    def window(self, number: int) -> Json:
        """One window with plans (problem, plan, cause, at), profiles, jobs, shares asked/given/used, losses, costs.
        Raises NotFound."""

    async def explained(self, number: int) -> Json:
        """The window for people (edge.appliance.explained): the shares over time, the plans and why they were made in
        words, what was considered, expected and reached for each camera; small. Raises NotFound."""

    async def what_if(self, number: int, policy: str) -> Json:
        """The window's problem answered by another policy: {"policy", "plan", "objective", "original_objective",
        "comparison": both plans as timelines, with each camera's predicted accuracy}. Raises NotFound."""

    # -- models
    def models(self, camera: str) -> list[Json]:
        """Versions of a camera's student, newest first. Raises NotFound."""

    def lineage(self, version: str) -> list[Json]:
        """The version and its ancestors up to the first. Raises NotFound."""

    async def pin_model(self, version: str, pinned: bool, by: str) -> Json:
        """A pinned model stays in force until unpinned: nothing is promoted over it. Raises NotFound, Conflict."""

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> Json:
        """Put an earlier version (default: the parent) in force now. Raises NotFound, Conflict."""

    # -- served models
    def serving(self) -> Json:
        """{"front": {"up", "http", "grpc"}, "settings": what `change_serving` changes, "share", "reorganising",
        "models": [{"name", "state", "reason", "version", "slo_ms", "rate", "planned_rate", "latency_ms", ...}],
        "executors": [...], "plan", "problem"}. Raises NotFound where the site serves none."""

    async def change_serving(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch of rates, SLOs, priorities and shares; in force at once, kept over restarts; answers as
        `serving`. Raises InvalidValues, InvalidValue (no such model), NotFound."""

    async def admission(self, request: Mapping[str, Any]) -> Json:
        """What adding {"camera": {...}} or {"model": {...}} would do (scheduler.admission.Admission as JSON). Raises
        InvalidValues, InvalidValue (no latencies of the model are known, a camera that is there)."""

    # -- history and live
    def events(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[Json]:
        """The journal, newest first: {"id", "utc_s", "kind", "camera", "window", "data"}."""

    def subscribe_events(self) -> AsyncIterator[Json]:
        """Journal entries from now on. A slow reader loses its own entries and is told how many."""

    def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        """Live pictures of the named cameras (all if empty), at most `fps` each. Nothing is encoded unless watched."""

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        """One JPEG of now. Raises NotFound, Unavailable (no picture yet)."""

    # -- secrets and the record of changes (blocking: transports call them in a thread)
    def secrets(self) -> list[Json]:
        """[{"name", "used_by": [what refers to it]}]; never a value."""

    def put_secret(self, name: str, value: str, by: str) -> None:
        """Keep or replace a secret. Raises InvalidValue, StoreError."""

    def delete_secret(self, name: str, by: str) -> None:
        """Raises NotFound, Conflict (something refers to it), StoreError."""

    def audit(self, limit: int, before: int | None) -> list[Json]:
        """Newest first: [{"id", "utc_s", "by", "from", "subject", "action", "value"}]."""

    # -- rules, alarms, objects
    @property
    def alarms(self) -> AlarmsService:
        """Rules, alarms and objects."""

    # -- model files of others
    @property
    def model_files(self) -> ModelFilesService:
        """Which are known, which are here."""

    # -- outputs
    @property
    def outputs(self) -> OutputsService:
        """Broker, webhooks, dead letters."""

    # -- true accuracy
    @property
    def truth(self) -> TruthService:
        """Questions to people, their answers, true accuracy."""

    def doctor(self) -> Json:
        """What this machine can enforce, and why not more."""
