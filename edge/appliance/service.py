"""The services of the appliance for transports (REST, page), by noun. Values are edge.appliance.answers, frozen; their
docstrings have shapes and units; errors are edge.core.errors.

Every coroutine runs on the control process's event loop; functions marked as blocking are called in a thread. Times are
UTC epoch seconds, shares are 0-1 of one device, accuracies 0-1, boxes normalised xyxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edge.appliance.alarms_service import AlarmsService
from edge.appliance.all_boxes_service import AllBoxesService
from edge.appliance.answers.access import AuditAnswer, SecretAnswer
from edge.appliance.answers.cameras import CameraAnswer, CameraTest, PictureHeader
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.models import VersionAnswer
from edge.appliance.answers.pictures import DisagreementAnswer, WindowClasses
from edge.appliance.answers.retraining import LearningAnswer, RetrainingAnswer
from edge.appliance.answers.serving import AdmissionAnswer, Serving
from edge.appliance.answers.state import BoxHealth, Doctor, Overview
from edge.appliance.answers.system import LogAnswer, SystemAnswer
from edge.appliance.answers.windows import ExplainedWindow, WhatIfAnswer, WindowAnswer, WindowStory
from edge.appliance.capacity_service import CapacityService
from edge.appliance.clips_service import ClipsService
from edge.appliance.counts_service import CountsService
from edge.appliance.discovery_service import DiscoveryService
from edge.appliance.fleet import FleetService
from edge.appliance.fleet_jobs import FleetJobsService
from edge.appliance.model_files import ModelFilesService
from edge.appliance.outputs_service import OutputsService
from edge.appliance.tenants_service import TenantsService
from edge.appliance.truth_service import TruthService

Json = dict[str, Any]


@dataclass(frozen=True)
class LivePicture:
    """One encoded picture with the answers that belong to exactly it."""

    camera: str
    header: PictureHeader
    jpeg: bytes


class StateService(Protocol):
    """How the appliance is."""

    def health(self) -> BoxHealth:
        """Whether the appliance works, and its problems."""

    def overview(self) -> Overview:
        """For the page, small and cheap."""

    async def metrics(self) -> MetricsSnapshot:
        """For `/metrics`."""

    async def system(self) -> SystemAnswer:
        """For the system page."""

    def log(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> LogAnswer:
        """The log of the control process that is still in memory (edge.logs.LogRing.records). Blocking."""

    def doctor(self) -> Doctor:
        """The share kinds that this machine can enforce, and why not more. Blocking."""


class CamerasService(Protocol):
    """Cameras, their settings and their state."""

    @property
    def discovery(self) -> DiscoveryService: ...

    def all(self) -> list[CameraAnswer]:
        """Every camera."""

    def one(self, camera: str) -> CameraAnswer:
        """One of `all()`. Raises NotFound."""

    async def add(self, settings: Mapping[str, Any], by: str) -> CameraAnswer:
        """Raises InvalidValues, Conflict, LabelError (a class that the teacher cannot produce), WeightsError."""

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        """JSON merge patch of the settings (id cannot change). Raises as `add`, and NotFound."""

    async def remove(self, camera: str, by: str) -> None:
        """Raises NotFound."""

    async def test(self, settings: Mapping[str, Any]) -> CameraTest:
        """Try to connect. Raises InvalidValues."""


class LiveService(Protocol):
    """Pictures of now."""

    def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        """Live pictures of the named cameras (all if empty), at most `fps` each. Nothing is encoded unless watched.
        Raises NotFound, InvalidValue."""

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        """One JPEG of now. Raises NotFound, Unavailable (no picture yet)."""


class LabelledService(Protocol):
    """Pictures that the teacher labelled. Every method blocks and raises NotFound for a camera that is not there."""

    def disagreements(self, camera: str, limit: int) -> list[DisagreementAnswer]:
        """Labelled pictures with different answers of student and teacher, newest first."""

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """JPEG of such a picture. Raises NotFound also when retention deleted it."""

    def classes(self, camera: str, windows: int) -> list[WindowClasses]:
        """Objects per class that teacher and student saw in the labelled pictures of a window, newest window first."""


class RetrainingService(Protocol):
    """How the box retrains."""

    def settings(self) -> RetrainingAnswer:
        """Settings in force, and those from the next boundary on."""

    def learning(self) -> LearningAnswer:
        """The learning of this box: the budget in force, measured costs, the window length that it would choose, and
        how promises were kept."""

    async def change(self, patch: Mapping[str, Any], by: str) -> RetrainingAnswer:
        """JSON merge patch; in force from the next boundary; kept over restarts. Raises InvalidValues."""


class WindowsService(Protocol):
    """Retraining windows that were and the one that is. `recent` and `one` block."""

    @property
    def capacity(self) -> CapacityService: ...

    def recent(self, limit: int, before: int | None) -> list[WindowAnswer]:
        """Newest first."""

    def one(self, number: int) -> WindowStory:
        """One window with plans (problem, plan, cause, at), profiles, jobs, shares asked/given/used, losses, costs.
        Raises NotFound."""

    async def explained(self, number: int) -> ExplainedWindow:
        """The window for people (`window_explanation`): the shares over time, the plans and their reasons in words,
        options, expected and reached accuracy for each camera; small. Raises NotFound.
        """

    async def what_if(self, number: int, policy: str) -> WhatIfAnswer:
        """The window's problem answered by another policy. Raises NotFound."""


class ModelsService(Protocol):
    """Versions of the cameras' students. `versions` and `lineage` block."""

    def versions(self, camera: str) -> list[VersionAnswer]:
        """Versions of a camera's student, newest first. Raises NotFound."""

    def lineage(self, version: str) -> list[VersionAnswer]:
        """The version and its ancestors up to the first. Raises NotFound."""

    async def pin(self, version: str, pinned: bool, by: str) -> VersionAnswer:
        """A pinned model stays in force until unpinned: nothing is promoted over it. Raises NotFound, Conflict."""

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> VersionAnswer:
        """Put an earlier version (default: the parent) in force now. Raises NotFound, Conflict."""


class ServedModelsService(Protocol):
    """Other models that the box serves."""

    def status(self) -> Serving:
        """The served models: where, how fast, and those that cannot be served. Raises NotFound where there
        are none."""

    async def change(self, patch: Mapping[str, Any], by: str) -> Serving:
        """JSON merge patch of rates, SLOs, priorities and shares; in force at once, kept over restarts; answers as
        `status`. Raises InvalidValues, InvalidValue (no such model), NotFound."""

    async def admission(self, request: Mapping[str, Any]) -> AdmissionAnswer:
        """The effect of adding {"camera": {...}} or {"model": {...}} would do. Raises InvalidValues,
        InvalidValue (no latencies of the model are known, a camera that is there)."""


class EventsService(Protocol):
    """The journal."""

    def recent(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[JournalEntry]:
        """Newest first. Blocking."""

    def subscribe(self) -> AsyncIterator[JournalEntry]:
        """Journal entries from now on. A slow reader loses its own entries and gets their number."""


class SecretsService(Protocol):
    """Secrets that settings refer to, and the record of changes. Every method blocks."""

    def names(self) -> list[SecretAnswer]:
        """By name; never a value."""

    def put(self, name: str, value: str, by: str) -> None:
        """Keep or replace a secret. Raises InvalidValue, StoreError."""

    def delete(self, name: str, by: str) -> None:
        """Raises NotFound, Conflict (something refers to it), StoreError."""

    def audit(self, limit: int, before: int | None) -> list[AuditAnswer]:
        """Newest first."""


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
    def counts(self) -> CountsService: ...

    @property
    def clips(self) -> ClipsService: ...

    @property
    def model_files(self) -> ModelFilesService: ...

    @property
    def outputs(self) -> OutputsService: ...

    @property
    def truth(self) -> TruthService: ...

    @property
    def tenants(self) -> TenantsService: ...

    @property
    def fleet(self) -> FleetService: ...

    @property
    def all_boxes(self) -> AllBoxesService: ...

    @property
    def fleet_jobs(self) -> FleetJobsService: ...
