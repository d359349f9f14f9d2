"""The parts of the runtime that know no other part of it. Every other part is made with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import NotFound
from edge.core.facts import RuntimeFact
from edge.core.models import ModelVersion
from edge.core.shares import Usage
from edge.core.workers import Activity
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.complaints import Complaints
from edge.runtime.device_shares import DeviceShares
from edge.runtime.golden_model import GoldenModel
from edge.runtime.learning import Learning
from edge.runtime.profilers import Profilers
from edge.runtime.store_thread import StoreThread
from edge.runtime.supervisor import Supervisor
from edge.runtime.window_in_force import WindowInForce
from edge.settings import SiteSettings
from edge.store.store import Store
from scheduler.controller import WindowController


@dataclass(frozen=True)
class LeafParts:
    """`fact` takes what alarms and counts go by; `cameras` are those that are there, by id. A leaf that calls a part
    made later does so by a function."""

    site: SiteSettings
    store: Store
    clock: Clock
    fact: Callable[[RuntimeFact], None]
    window: WindowInForce
    cameras: dict[str, CameraRuntime]
    complaints: Complaints
    records: StoreThread
    supervisor: Supervisor
    golden: GoldenModel
    learning: Learning
    shares: DeviceShares
    profilers: Profilers
    controller: WindowController

    def start_labelling(self) -> None:
        """Start the golden worker and the profilers, once."""
        if self.golden.start(self.shares.golden):
            self.profilers.start(self.shares.evaluation)

    def keep_document(self, name: str, document: Any, by: str) -> None:
        """Keep what was learned under this name, in the store's thread; it leaves no audit record."""
        self.records.write(partial(self.store.settings.put_settings, audited=False), name, document, by)

    def camera(self, camera: str) -> CameraRuntime:
        """Raises NotFound."""
        if camera not in self.cameras:
            raise NotFound(f"camera {camera} does not exist")
        return self.cameras[camera]

    def student(self, version: ModelVersion) -> m.StudentFile:
        """A version and where its file is."""
        return m.StudentFile(version.id, self.store.blobs.path(version.blob))

    def download(self, camera: CameraRuntime) -> m.StudentFile | None:
        """The published detector that a camera's student began as; None: it began as one of our own."""
        return self.student(camera.frozen) if camera.published else None

    def labels(self, camera: CameraRuntime) -> int:
        """Frames of a camera's window that shall be labelled."""
        return self.learning.labels(self.window.settings, camera.settings)

    def usage(self) -> list[tuple[Usage, Activity, str | None]]:
        """(shares asked, given and used; purpose; camera) of each worker since the window began."""
        return [(u, w.activity, w.camera) for w, u in self.supervisor.usage()]
