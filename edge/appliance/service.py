"""What transports (REST, page) may ask of the appliance, by noun. Values are plain JSON; errors are edge.core.errors.

Every coroutine runs on the control process's event loop; what is marked as blocking is called in a thread. Times are
UTC epoch seconds, shares are 0-1 of one device, accuracies 0-1, boxes normalised xyxy.
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


class StateService(Protocol):
    """How the appliance is."""

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
        "serving": as `served.status` or null, "statistics": the inference protocol's statistics of each served version,
        or null where none came, "truth": {camera: newest true accuracy}}."""

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
        what the control process logged and is still in memory (edge.logs.LogRing.records). Blocking."""

    def doctor(self) -> Json:
        """What this machine can enforce, and why not more. Blocking."""


class CamerasService(Protocol):
    """Cameras, their settings and their state."""

    def all(self) -> list[Json]:
        """[{"id", "settings": {...}, "state": {...CameraStatus, "answers_per_s", "inference_ms", "lambda",
        "model_version", "accuracy": last realised or null, "frozen_accuracy", "losses": {...}}}]."""

    def one(self, camera: str) -> Json:
        """One of `all()`. Raises NotFound."""

    async def add(self, settings: Mapping[str, Any], by: str) -> Json:
        """Raises InvalidValues, Conflict, LabelError (a class that the teacher cannot produce), WeightsError."""

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch of the settings (id cannot change). Raises as `add`, and NotFound."""

    async def remove(self, camera: str, by: str) -> None:
        """Raises NotFound."""

    async def test(self, settings: Mapping[str, Any]) -> Json:
        """Try to connect: {"ok", "width", "height", "fps", "codec", "message", "picture": JPEG in base64, or null};
        raises InvalidValues."""


class LiveService(Protocol):
    """Pictures of now."""

    def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        """Live pictures of the named cameras (all if empty), at most `fps` each. Nothing is encoded unless watched.
        Raises NotFound, InvalidValue."""

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        """One JPEG of now. Raises NotFound, Unavailable (no picture yet)."""


class LabelledService(Protocol):
    """Pictures that the teacher labelled. Every method blocks and raises NotFound for a camera that is not there."""

    def disagreements(self, camera: str, limit: int) -> list[Json]:
        """Labelled pictures about which student and teacher differ, newest first: [{"window", "frame", "utc_s",
        "model_version", "answer_age_s", "width", "height", "student": objects, "teacher": objects, "kinds": of
        "missed", "extra", "class"}]; objects: [{"box", "class", "score", "verdict"}]."""

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """JPEG of such a picture. Raises NotFound also when retention deleted it."""

    def classes(self, camera: str, windows: int) -> list[Json]:
        """Objects per class that teacher and student saw in the labelled pictures of a window, newest window first:
        [{"window", "start_utc_s", "frames", "teacher": {class: n}, "student": {class: n}}]."""


class RetrainingService(Protocol):
    """How the box retrains."""

    def settings(self) -> Json:
        """{"current": settings in force, "next": settings from the next boundary on, "next_boundary_utc_s"}."""

    def learning(self) -> Json:
        """What this box can learn (edge.core.learning.LearningReport): the budget in force, measured costs, the window
        length that it would choose, and how promises were kept."""

    async def change(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch; in force from the next boundary; kept over restarts. Raises InvalidValues."""


class WindowsService(Protocol):
    """Retraining windows that were and the one that is. `recent` and `one` block."""

    def recent(self, limit: int, before: int | None) -> list[Json]:
        """Newest first: number, start, length, policy, per-camera realised and frozen accuracy, state."""

    def one(self, number: int) -> Json:
        """One window with plans (problem, plan, cause, at), profiles, jobs, shares asked/given/used, losses, costs.
        Raises NotFound."""

    async def explained(self, number: int) -> Json:
        """The window for people (edge.appliance.explained): the shares over time, the plans and why they were made in
        words, what was considered, expected and reached for each camera; small. Raises NotFound."""

    async def what_if(self, number: int, policy: str) -> Json:
        """The window's problem answered by another policy: {"policy", "plan", "objective", "original_objective",
        "comparison": both plans as timelines, with each camera's predicted accuracy}. Raises NotFound."""


class ModelsService(Protocol):
    """Versions of the cameras' students. `versions` and `lineage` block."""

    def versions(self, camera: str) -> list[Json]:
        """Versions of a camera's student, newest first. Raises NotFound."""

    def lineage(self, version: str) -> list[Json]:
        """The version and its ancestors up to the first. Raises NotFound."""

    async def pin(self, version: str, pinned: bool, by: str) -> Json:
        """A pinned model stays in force until unpinned: nothing is promoted over it. Raises NotFound, Conflict."""

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> Json:
        """Put an earlier version (default: the parent) in force now. Raises NotFound, Conflict."""


class ServedModelsService(Protocol):
    """Other models that the box serves."""

    def status(self) -> Json:
        """{"front": {"up", "http", "grpc", "turned_away"}, "settings": what `change` changes, "share", "reorganising",
        "models": [{"name", "state", "reason", "version", "slo_ms", "rate", "planned_rate", "latency_ms", ...}],
        "executors": [...], "plan", "problem"}. Raises NotFound where the site serves none."""

    async def change(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch of rates, SLOs, priorities and shares; in force at once, kept over restarts; answers as
        `status`. Raises InvalidValues, InvalidValue (no such model), NotFound."""

    async def admission(self, request: Mapping[str, Any]) -> Json:
        """What adding {"camera": {...}} or {"model": {...}} would do (scheduler.admission.Admission as JSON). Raises
        InvalidValues, InvalidValue (no latencies of the model are known, a camera that is there)."""


class EventsService(Protocol):
    """The journal."""

    def recent(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[Json]:
        """Newest first: {"id", "utc_s", "kind", "camera", "window", "data"}. Blocking."""

    def subscribe(self) -> AsyncIterator[Json]:
        """Journal entries from now on. A slow reader loses its own entries and is told how many."""


class SecretsService(Protocol):
    """Secrets that settings refer to, and the record of changes. Every method blocks."""

    def names(self) -> list[Json]:
        """[{"name", "used_by": [what refers to it]}]; never a value."""

    def put(self, name: str, value: str, by: str) -> None:
        """Keep or replace a secret. Raises InvalidValue, StoreError."""

    def delete(self, name: str, by: str) -> None:
        """Raises NotFound, Conflict (something refers to it), StoreError."""

    def audit(self, limit: int, before: int | None) -> list[Json]:
        """Newest first: [{"id", "utc_s", "by", "from", "subject", "action", "value"}]."""


class ApplianceService(Protocol):
    """The one inner service behind thin transports: a part for each noun."""

    @property
    def state(self) -> StateService: ...

    @property
    def cameras(self) -> CamerasService: ...

    @property
    def live(self) -> LiveService: ...

    @property
    def labelled(self) -> LabelledService: ...

    @property
    def retraining(self) -> RetrainingService: ...

    @property
    def windows(self) -> WindowsService: ...

    @property
    def models(self) -> ModelsService: ...

    @property
    def served(self) -> ServedModelsService: ...

    @property
    def events(self) -> EventsService: ...

    @property
    def secrets(self) -> SecretsService: ...

    @property
    def alarms(self) -> AlarmsService: ...

    @property
    def model_files(self) -> ModelFilesService: ...

    @property
    def outputs(self) -> OutputsService: ...

    @property
    def truth(self) -> TruthService: ...
