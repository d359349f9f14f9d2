"""The runtime: the control process's workers and what is known of them, wired together.

Events go to the controller, its instructions to `Instructions`. Everything here runs on the control process's event
loop; blocking calls of the store go through one thread, in order.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edge.core import events as ev
from edge.core.clock import Clock
from edge.core.errors import MagpieError, NotFound
from edge.core.learning import LEARNED_DOCUMENT
from edge.core.models import ModelVersion
from edge.core.profiles import RetrainingProfile
from edge.core.shares import Partitioner, Role
from edge.core.window import WindowPlan, WindowProblem
from edge.recording.labelled_windows import read_manifest
from edge.runtime import messages as m
from edge.runtime.boundary import Boundary
from edge.runtime.camera import CameraRuntime
from edge.runtime.camera_workers import CameraWorkers
from edge.runtime.golden_worker import GoldenWorkerSpec, golden_worker
from edge.runtime.groups import GROUPS_DOCUMENT, Groups
from edge.runtime.instructions import Instructions
from edge.runtime.judging import Gate
from edge.runtime.labelling import LabelQueue
from edge.runtime.learning import Learning
from edge.runtime.preparation import Preparation
from edge.runtime.profilers import Answer, Job, Profilers
from edge.runtime.retrainings import Retrainings
from edge.runtime.siblings import Hands, Siblings
from edge.runtime.store_thread import StoreThread
from edge.runtime.supervisor import Supervisor
from edge.runtime.tasks import BackgroundTasks
from edge.runtime.versions import Versions
from edge.settings import RetrainingSettings, SiteSettings
from edge.store.journal import JournalBuffer
from edge.store.store import Store
from edge.store.values import OpenWindow, ShareUsage
from scheduler.controller import WindowController
from scheduler.follow import planner

log = logging.getLogger(__name__)

_MAX_COMPLAINTS = 50


class Runtime:
    """Owns cameras, workers, labels, models and jobs. `note(kind, ...)` journals; `on_preview` takes live pictures,
    `on_answer` each camera's answers and the pictures that `camera_workers.take_pictures` asked for."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        journal: JournalBuffer,
        partitioner: Partitioner,
        clock: Clock,
        teacher: GoldenWorkerSpec,
        note: Callable[..., None],
        on_preview: Callable[[str, m.Preview], None],
        on_answer: Callable[[str, m.Answered | m.Picture], None],
    ) -> None:
        self.site, self.store, self.journal, self.clock = site, store, journal, clock
        self.partitioner = partitioner
        # What turns seconds of work into device seconds: a CPU is shared by cores, a GPU counts its own time.
        self.cores = partitioner.caps.units if partitioner.caps.device == "cpu" else 1.0
        self.retraining = site.retraining
        self.next_retraining: RetrainingSettings | None = None
        self.cameras: dict[str, CameraRuntime] = {}
        self.complaints: deque[dict[str, Any]] = deque(maxlen=_MAX_COMPLAINTS)
        #: When the running window began and ends.
        self.window_start_utc_s = self.next_boundary_utc_s = 0.0
        self.expected_cameras = 0
        self.golden_ready = False
        #: The golden model and the profilers run; a site without cameras needs neither.
        self.labelling = False
        #: Of the device, held by served models and by the process that takes their requests.
        self.serving_share = self.front_share = 0.0
        self._teacher, self._note = teacher, note
        self._data = Path(site.data_dir)
        self._ending = False
        self.records = StoreThread(self.complain)
        self._tasks = BackgroundTasks(self.complain)
        self.supervisor = Supervisor(partitioner, clock, self._worker_event)
        self.labels = LabelQueue(
            lambda label: self.supervisor.send("golden", label), lambda: self.preparation.usable_golden_share()
        )
        self.learning = Learning(partial(self._keep_document, LEARNED_DOCUMENT))
        self.profilers = Profilers(
            self.supervisor, self.cores, self.quantized, self.learning.urgency,
            self._profiler_answered, self._profiler_failed,
        )  # fmt: skip
        self.preparation = Preparation(self, note, self.records.write)
        self.controller = WindowController(
            self._window_settings(site.retraining), self.camera_capacity(), planner(partitioner.caps, time.perf_counter)
        )
        self.camera_workers = CameraWorkers(self, note, on_preview, on_answer)
        self.versions = Versions(
            store, self.records, self.supervisor.send, self.cameras, note,
            lambda: self.controller.state.window, self.camera_workers.rejoin,
        )  # fmt: skip
        gate = Gate(store, clock, self.records.ask, self.versions.put_in_force, self.complain)
        self.siblings = Siblings(self._hands())
        self.groups = Groups(self, gate, self.student, note, partial(self._keep_document, GROUPS_DOCUMENT))
        self.retrainings = Retrainings(self, gate, note, self._tasks.spawn)
        self.boundary = Boundary(self, note, self._tasks.spawn)
        self.instructions = Instructions(self, note)

    def _hands(self) -> Hands:
        """What siblings ask of all this."""
        return Hands(
            self.store, self.clock, lambda: self.cameras, self.student, self.records.ask, self.records.write,
            self.profilers.ask, self.versions.put_in_force, self.camera_workers.rejoin, self._tasks.spawn, self._note,
            self.complain,
        )  # fmt: skip

    # -- shares of the box

    def shared_capacity(self) -> float:
        """The part of the device that cameras, their retraining and served models have together: all, less the control
        process, the front, and with cameras the golden model and evaluation."""
        s = self.site.retraining
        labels = self.golden_share + s.evaluation_share if self.labelling else 0.0
        return round(max(0.0, 1.0 - self.site.control_share - self.front_share - labels), 6)

    def camera_capacity(self) -> float:
        """Devices left to cameras and their retraining: `shared_capacity` less what served models hold."""
        s = self.site.retraining
        # Cameras are planned for before labelling begins: with all that they will cost.
        labels = 0.0 if self.labelling else self.golden_share + s.evaluation_share
        return round(max(0.05, self.shared_capacity() - labels - self.serving_share), 6)

    @property
    def golden_share(self) -> float:
        """Of the device, kept for labelling now."""
        return self.learning.golden_share(self.retraining)

    def set_serving_share(self, share: float) -> None:
        """Served models hold `share` of the device from now on: cameras and retrainings yield, or get it back, at once.

        Where shares can be changed live nothing of it is left to do when this returns.
        """
        if abs(share - self.serving_share) < 1e-6:
            return
        self.serving_share = share
        self.dispatch(ev.CapacityChanged(self.clock.monotonic(), self.camera_capacity()))
        if self.controller.state.phase == "preparing":
            self.preparation.share()

    def quantized(self, share: float) -> float:
        """The share that can be granted."""
        return self.partitioner.caps.quantize(min(1.0, max(0.0, share)))

    # -- life

    def open(self) -> None:
        """Begin to watch workers. `start_labelling` comes with the first camera."""
        # Candidates that nobody judged before the last run ended: their retrainings begin from checkpoints, or anew.
        for left in (self._data / "jobs").glob("w*-p*.safetensors"):
            left.unlink(missing_ok=True)
        self.supervisor.open()

    def start_labelling(self) -> None:
        """Start the golden worker and the profilers, once."""
        if self.labelling:
            return
        self.labelling = True
        self.supervisor.start(
            "golden",
            "golden",
            self.golden_share,
            golden_worker,
            self._teacher,
            self._golden_message,
            on_lost=self._golden_lost,
        )
        self.profilers.start(self.retraining.evaluation_share)

    async def close(self) -> None:
        """Drain: stop jobs (their checkpoints stay), stop cameras, write what is left to write."""
        self._ending = True
        self.records.refuse_writes()
        self.profilers.close()
        self.instructions.cancel_timers()
        await self._tasks.end()
        await self.supervisor.close()
        await self.records.close()

    # -- events in, instructions out

    def dispatch(self, event: ev.Event) -> None:
        """Hand an event to the controller and carry out what it orders."""
        if self._ending:
            return
        for instruction in self.controller.handle(event):
            self.carry_out(instruction)

    def carry_out(self, instruction: ev.Instruction) -> None:
        """Carry out one of the controller's instructions; what goes wrong is complained about."""
        try:
            self.instructions.do(instruction)
        except MagpieError as error:
            self.complain(error.code, str(error))

    # -- windows

    def boundary_reached(self) -> None:
        """The window that runs, if there is one, ends now, and the next begins."""
        settings = self.next_retraining or self.retraining
        local = self.clock.local_minute()
        self.dispatch(self.groups.alike(settings.groups))
        self.dispatch(ev.BoundaryReached(self.clock.monotonic(), settings.retraining_allowed(local)))

    def window_opens(self) -> None:
        """A window begins (or goes on): changed settings are in force, its times are known."""
        if self.next_retraining is not None:
            self.retraining, self.next_retraining = self.next_retraining, None
        began_s = self.controller.state.window_start_s
        self.window_start_utc_s = self.clock.utc() - (self.clock.monotonic() - began_s)
        self.next_boundary_utc_s = self.window_start_utc_s + self.retraining.window_s

    def resume(self, found: OpenWindow) -> None:
        """Go on inside the window that was open when the appliance ended: its plan, its jobs from their checkpoints."""
        record, now_s = found.window, self.clock.monotonic()
        start_s = now_s - (self.clock.utc() - record.start_utc_s)
        problem = plan = None
        if found.plan is not None:
            problem = WindowProblem.from_json(found.plan.problem)
            plan = WindowPlan.from_json(found.plan.plan)
        for camera in self.cameras.values():
            data = read_manifest(self._data, camera.id, record.id - 1)
            if data is not None:
                camera.closed = {record.id - 1: data}
            camera.profiles = {
                p.config: RetrainingProfile.from_json(p.profile)
                for p in self.store.profiles(camera.id)
                if p.window == record.id
            }
        finished = frozenset(j.camera for j in found.jobs if j.state in ("completed", "failed", "stopped"))
        for instruction in self.controller.restore(now_s, record.id, start_s, problem, plan, finished):
            self.carry_out(instruction)

    def change_retraining(self, settings: RetrainingSettings) -> None:
        """In force from the next boundary."""
        self.next_retraining = settings
        self.dispatch(dataclasses.replace(self._window_settings(settings), at_s=self.clock.monotonic()))

    @staticmethod
    def _window_settings(s: RetrainingSettings) -> ev.WindowSettingsChanged:
        return ev.WindowSettingsChanged(0.0, s.window_s, s.a_min, s.policy, s.enabled, s.delta)

    # -- cameras and their students

    def camera(self, camera: str) -> CameraRuntime:
        """Raises NotFound."""
        if camera not in self.cameras:
            raise NotFound(f"camera {camera} does not exist")
        return self.cameras[camera]

    def student(self, version: ModelVersion) -> m.Student:
        """A version and where its file is."""
        return m.Student(version.id, self.store.blobs.path(version.blob))

    def download(self, camera: CameraRuntime) -> m.Student | None:
        """The published detector that a camera's student began as; None: it began as one of our own."""
        return self.student(camera.frozen) if camera.published else None

    # -- golden model and profilers

    def _golden_message(self, message: Any) -> None:
        if isinstance(message, m.Labelled):
            self.labels.received(message)
            self.preparation.labelled(message)
        if not self.golden_ready:
            self.golden_ready = True
            self._note("golden.ready")
            self.labels.worker_ready()

    def _golden_lost(self, reason: str) -> None:
        self.golden_ready = False
        self.labels.worker_lost()

    def _profiler_answered(self, answer: Answer) -> None:
        if isinstance(answer, m.Evaluated):
            self.learning.evaluated(answer.seconds, answer.frames)
            self.boundary.evaluated(answer)
        elif isinstance(answer, m.ProfileDone):
            self.preparation.profiled(answer)
            if self.controller.state.handed_in:
                self.preparation.hand_in()
        elif isinstance(answer, m.Looked):
            self.siblings.looked(answer)
        else:
            self.learning.memorised(answer.seconds)
            self.boundary.remembered(answer.camera)

    def _profiler_failed(self, job: Job, why: m.JobFailed | None) -> None:
        """A job that its worker could not do is answered without a result, so that nothing waits for it."""
        if why is not None:
            self.complain("profiling_failed", f"{why.camera}: {why.what}: {why.reason}", why.camera)
        if isinstance(job, m.Profile):
            self.preparation.from_history(job.data)
        elif isinstance(job, m.Evaluate):
            self.boundary.not_measured(job.data.window, job.data.camera)
        elif isinstance(job, m.Remember):
            self.boundary.remembered(job.data.camera)

    def _keep_document(self, name: str, document: dict[str, Any]) -> None:
        put = partial(self.store.put_settings, audited=False)
        self.records.write(put, name, document, "micro-profiler")

    # -- what happened

    def complain(self, code: str, message: str, camera: str | None = None) -> None:
        """Something the operator must know: kept for the page and /readyz, journaled."""
        log.warning("%s: %s", code, message)
        now = self.clock.utc()
        self.complaints = deque((c for c in self.complaints if c["message"] != message), _MAX_COMPLAINTS)
        self.complaints.append({"code": code, "message": message, "camera": camera, "utc_s": now})
        self._note(f"complaint.{code}", camera=camera, data={"message": message})

    def _worker_event(self, kind: str, data: dict[str, Any]) -> None:
        camera = self.camera_of(data.get("worker", ""))
        self._note(f"worker.{kind}", camera=camera, data=data)

    def camera_of(self, worker: str) -> str | None:
        """The camera that a worker is for; None: for all, or for one that is gone."""
        for prefix in ("camera-", "retrain-"):
            if worker.startswith(prefix) and worker.removeprefix(prefix) in self.cameras:
                return worker.removeprefix(prefix)
        return None

    @staticmethod
    def role_of(worker: str) -> Role:
        """What a worker does."""
        if worker.startswith("camera-"):
            return "inference"
        if worker.startswith("retrain-"):
            return "retraining"
        if worker == "golden":
            return "golden"
        return "inference" if worker.startswith(("executor-", "front")) else "profiling"

    def share_usage(self, window: int) -> tuple[ShareUsage, ...]:
        """Shares asked, given and used since the window began, as they will be recorded when it closes."""
        now = self.clock.utc()
        return tuple(
            ShareUsage(
                0, window, now, u.worker, self.role_of(u.worker), self.camera_of(u.worker), u.asked, u.granted,
                u.used_share, u.device_seconds, u.wall_s, u.throttled_fraction,
            )
            for u in self.supervisor.usage()
        )  # fmt: skip
