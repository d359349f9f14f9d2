"""Cameras that feed applications: the control process's look at them, and the orders to their workers and the front."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.core.application_sources import SOURCE_FAULTS, ApplicationSource, ExpectCamera
from edge.core.applications import Application
from edge.core.errors import InvalidValue
from edge.core.journal_kinds import JournalNote
from edge.core.workers import FRONT
from edge.runtime import messages as m
from edge.runtime.application_status import SourceStatus
from edge.runtime.camera import CameraRuntime
from edge.runtime.serving_models import OfferedModels
from scheduler.gpulets.source_rates import SourceState, fault_of

#: Seconds between two looks at the cameras.
_LOOK_S = 1.0
#: A stream's frames per second that differ by less are as before.
_SAME_FPS = 0.1


@dataclass
class SourceCameras:
    """The cameras of the box as sources of applications. `running()` are they by id, `feeds` what each of them feeds:
    a worker that is started again goes by it."""

    running: Callable[[], Mapping[str, CameraRuntime]] = dict
    feeds: dict[str, m.FeedApplications] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fps: dict[str, float] = {}

    def now(self) -> dict[str, SourceState]:
        """Each of them now."""
        cameras = self.running()
        self._fps = {name: fps for name, fps in self._fps.items() if name in cameras}
        return {name: self._state(camera) for name, camera in cameras.items()}

    def _state(self, camera: CameraRuntime) -> SourceState:
        settings = camera.settings
        fps = camera.report.status.fps if camera.report is not None else 0.0
        known = self._fps.get(camera.id, 0.0)
        if fps > 0 and abs(fps - known) > _SAME_FPS * known:
            self._fps[camera.id] = fps
        return SourceState(
            settings.classes,
            settings.enabled,
            None if camera.inference is None else camera.inference.frame_rate,
            max(settings.inference.frame_rates),
            self._fps.get(camera.id),
        )


class ServingSources:
    """Follows the cameras that `models` name as sources: an application whose camera is not there, or is another one
    now, is planned anew. `send(worker, message)` reaches the front and the cameras' workers, which connect to the front
    at `socket`; `note(kind, ...)` journals."""

    def __init__(
        self,
        cameras: SourceCameras,
        models: OfferedModels,
        send: Callable[[str, Any], bool],
        socket: Path,
        note: JournalNote,
    ) -> None:
        self.cameras, self._models, self._send, self._socket, self._note = cameras, models, send, socket, note
        #: The workers of cameras that the front lets in, by camera.
        self.expected: dict[str, ExpectCamera] = {}
        self._noted: dict[str, tuple[str, str]] = {}

    async def watch(self) -> None:
        """Look once a second, until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Take in what cameras are there, how often they answer, and which applications they feed."""
        self._models.take_sources(self.cameras.now())
        self._journal()
        wanted: dict[str, list[m.FedApplication]] = {}
        for application in self._fed():
            assert application.source is not None
            if application.unfed is None:
                fed = m.FedApplication(application.name, application.source.max_rate)
                wanted.setdefault(application.source.camera, []).append(fed)
        for name in [n for n in self.expected if n not in wanted]:
            del self.expected[name]
            self._send(FRONT.name, ExpectCamera(name, ""))
        cameras = self.cameras.running()
        for name, applications in wanted.items():
            self._expect(name)
            feed = m.FeedApplications(self._socket, self.expected[name].token, tuple(applications))
            self._feed(cameras[name], feed)
        for name, camera in cameras.items():
            known = self.cameras.feeds.get(name)
            if name not in wanted and known is not None and known.applications:
                self._feed(camera, m.FeedApplications(self._socket, known.token))

    def check(self, source: ApplicationSource | None) -> None:
        """Raises InvalidValue for a camera that is not there, and for classes that it does not have. The error names no
        other camera, as clients of the front get it."""
        fault = None if source is None else fault_of(source, self.cameras.now())
        if source is not None and fault == "unknown_camera":
            raise InvalidValue("source.camera", source.camera, "a camera that this box has")
        if source is not None and fault == "unknown_class":
            raise InvalidValue("source.classes", list(source.classes), "classes that this camera has")

    def status(self, application: Application) -> SourceStatus | None:
        """The application's source now; None: clients ask it."""
        source = application.source
        if source is None:
            return None
        camera = self.cameras.running().get(source.camera)
        states = self.cameras.now()
        return SourceStatus(
            fault=fault_of(source, states),
            rate=round(application.rate, 3),
            max_rate=source.max_rate,
            classes=source.classes,
            min_score=source.min_score,
            most=source.most,
            lost=0 if camera is None or camera.report is None else camera.report.answers_not_fed,
        )

    def _fed(self) -> Iterable[Application]:
        return (a for a in self._models.demands()[1] if a.source is not None)

    def _expect(self, camera: str) -> None:
        if camera not in self.expected:
            self.expected[camera] = ExpectCamera(camera, secrets.token_urlsafe(24))
            self._send(FRONT.name, self.expected[camera])

    def _feed(self, camera: CameraRuntime, feed: m.FeedApplications) -> None:
        if self.cameras.feeds.get(camera.id) != feed:
            self.cameras.feeds[camera.id] = feed
            self._send(camera.worker, feed)

    def _journal(self) -> None:
        """Note for each application that its camera feeds it now, or no more and why."""
        now = {}
        for a in self._fed():
            assert a.source is not None
            now[a.name] = (a.source.camera, "" if a.unfed is None else SOURCE_FAULTS[a.unfed])
        for name, (camera, reason) in now.items():
            if self._noted.get(name) != (camera, reason):
                self._note("serving.source", camera=camera, data={"application": name, "reason": reason})
        self._noted = now


def check_source(source: ApplicationSource | None, cameras: Mapping[str, tuple[str, ...]]) -> None:
    """Raises InvalidValue for a source that is none of these cameras (id -> classes), and for a class that it does not
    have."""
    if source is None:
        return
    if source.camera not in cameras:
        raise InvalidValue("source.camera", source.camera, f"a camera: {', '.join(sorted(cameras)) or 'there is none'}")
    classes = cameras[source.camera]
    for n, name in enumerate(source.classes):
        if name not in classes:
            raise InvalidValue(f"source.classes[{n}]", name, f"a class of {source.camera}: {', '.join(classes)}")
