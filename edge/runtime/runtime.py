"""The runtime: the control process's workers and their state, wired together.

Events go to the controller, its instructions to `Instructions`. Everything here runs on the control process's event
loop; blocking calls of the store go through one thread, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edge.core import events as ev
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.facts import RuntimeFact, WorkerLost
from edge.core.journal_kinds import JournalNote, WorkerEntryKind
from edge.core.learning import LEARNED_DOCUMENT
from edge.core.plan_causes import CameraChange
from edge.core.profiles import RetrainingProfile
from edge.core.shares import Partitioner, Usage
from edge.core.window import WindowPlan, WindowProblem
from edge.core.workers import Activity, Worker
from edge.recording.labelled_windows import read_manifest
from edge.runtime import messages as m
from edge.runtime.borrowing import Borrowing
from edge.runtime.boundary import Boundary
from edge.runtime.box_groups import BoxGroups
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.camera import CameraRuntime
from edge.runtime.camera_workers import CameraWorkers
from edge.runtime.complaints import Complaints
from edge.runtime.device_shares import DeviceShares
from edge.runtime.golden_model import GoldenModel
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.groups import GROUPS_DOCUMENT, Groups
from edge.runtime.instructions import Instructions
from edge.runtime.judging import Gate
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.learning import Learning
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes
from edge.runtime.preparation import Preparation
from edge.runtime.profilers import Answer, Job, Profilers
from edge.runtime.retrainings import Retrainings
from edge.runtime.siblings import Hands, Siblings
from edge.runtime.store_thread import StoreThread
from edge.runtime.supervisor import Patience, Supervisor
from edge.runtime.tasks import BackgroundTasks
from edge.runtime.versions import Versions
from edge.runtime.window_in_force import WindowInForce
from edge.runtime.window_plans import WindowPlans
from edge.settings import RetrainingSettings, SiteSettings
from edge.store.store import Store
from edge.store.values import OpenWindow, ShareUsage
from scheduler.controller import WindowController
from scheduler.follow import planner


@dataclass(frozen=True)
class Students:
    """The parts that make and judge students."""

    versions: Versions
    siblings: Siblings
    groups: Groups
    retrainings: Retrainings
    borrowing: Borrowing
    box_groups: BoxGroups


class Runtime:
    """Owns cameras, workers, labels, models and jobs. `note(kind, ...)` journals; `on_preview` takes live pictures,
    `on_answer` each camera's answers and the pictures that `camera_workers.take_pictures` asked for, `on_fact` what
    alarms and counts go by. `patience` with workers that say nothing: the supervisor's own without one."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        partitioner: Partitioner,
        clock: Clock,
        teacher: GoldenWorkerSpec,
        note: JournalNote,
        on_preview: Callable[[str, m.Preview], None],
        on_answer: Callable[[str, m.Answered | m.Picture], None],
        on_fact: Callable[[RuntimeFact], None],
        patience: Patience | None = None,
    ) -> None:
        self.site, self.store, self.clock = site, store, clock
        self.parts = parts = self._leaf_parts(partitioner, teacher, note, on_fact, patience)
        self.window, self.cameras, self.complaints, self.records = (
            parts.window, parts.cameras, parts.complaints, parts.records
        )  # fmt: skip
        self.supervisor, self.golden, self.learning = parts.supervisor, parts.golden, parts.learning
        self.shares, self.profilers, self.controller = parts.shares, parts.profilers, parts.controller
        self._tasks = BackgroundTasks(self.complaints.add)
        spawn = self._tasks.spawn
        versions = self._versions(note)
        siblings = self._siblings(versions, note)
        self.camera_workers = CameraWorkers(
            parts, versions, siblings, lambda camera: self.students.retrainings.forget_camera(camera),
            lambda camera, window, frames: self.boundary.sample_closed(camera, window, frames), self.dispatch, note,
            on_preview, on_answer,
        )  # fmt: skip
        self.preparation = Preparation(
            parts, self.camera_workers.choose_score, lambda: self.students.borrowing.profiles.take_back(),
            self.dispatch, note,
        )  # fmt: skip
        self.boundary = Boundary(
            parts, self.preparation, self.camera_workers, versions, siblings, self.dispatch, note, spawn
        )
        self.students = self._students(versions, siblings, note)
        plans = WindowPlans(planner(partitioner.caps, time.perf_counter), clock, self.dispatch, spawn)
        self.instructions = Instructions(
            parts, self.preparation, self.camera_workers, self.boundary, self.students.retrainings,
            self.students.borrowing.profiles, self.boundary_reached, self.dispatch, note, plans.ask,
        )  # fmt: skip

    def _leaf_parts(
        self,
        partitioner: Partitioner,
        teacher: GoldenWorkerSpec,
        note: JournalNote,
        on_fact: Callable[[RuntimeFact], None],
        patience: Patience | None,
    ) -> LeafParts:
        site, clock = self.site, self.clock
        window, complaints = WindowInForce(site.retraining, clock), Complaints(clock, note)
        supervisor = Supervisor(
            partitioner, clock, partial(self._worker_event, note), patience,
            on_lost=lambda lost, cause: on_fact(WorkerLost(lost.kind, cause)),
            memory_limit_bytes=worker_limit_bytes(site.machine.worker_memory_mb, usable_bytes()),
        )  # fmt: skip
        golden = GoldenModel(
            supervisor, teacher, lambda: self.preparation.usable_golden_share(),
            lambda message: self.preparation.labelled(message), note,
        )  # fmt: skip
        learning = Learning(partial(self._keep_document, LEARNED_DOCUMENT))
        shares = DeviceShares(
            site, partitioner, lambda: golden.started, lambda: learning.golden_share(window.settings),
            lambda: learning.evaluation_share(window.settings),
        )  # fmt: skip
        profilers = Profilers(
            supervisor, shares.cores, shares.quantized, learning.urgency, self._profiler_answered,
            self._profiler_failed,
        )  # fmt: skip
        controller = WindowController(self._window_settings(site.retraining), shares.camera_capacity())
        return LeafParts(
            site, self.store, clock, on_fact, window, {}, complaints, StoreThread(complaints.add), supervisor, golden,
            learning, shares, profilers, controller,
        )  # fmt: skip

    def _versions(self, note: JournalNote) -> Versions:
        return Versions(
            self.store, self.records, self.supervisor.send, self.cameras, note, self.parts.fact,
            lambda: self.controller.state.window, self._camera_changed,
        )  # fmt: skip

    def _siblings(self, versions: Versions, note: JournalNote) -> Siblings:
        hands = Hands(
            self.store, self.clock, lambda: self.cameras, self.parts.student, self.records.ask, self.records.write,
            self.profilers.ask, versions.put_in_force, self._camera_changed, self._tasks.spawn, note,
            self.complaints.add,
        )  # fmt: skip
        return Siblings(hands)

    def _students(self, versions: Versions, siblings: Siblings, note: JournalNote) -> Students:
        parts, preparation, dispatch, spawn = self.parts, self.preparation, self.dispatch, self._tasks.spawn
        data = Path(self.site.data_dir)
        gate = Gate(self.store, self.clock, self.records.ask, versions.put_in_force, self.complaints.add)

        def retrains(camera: str) -> bool:
            return camera in self.students.retrainings.running

        groups = Groups(parts, siblings, gate, retrains, dispatch, note, partial(self._keep_document, GROUPS_DOCUMENT))
        box_groups = BoxGroups(parts, siblings, BoxGroupsFolder(data), gate, retrains, dispatch, note, spawn)
        borrowing = Borrowing(
            parts, preparation, LendingFolder(data),
            lambda camera, message: self.students.retrainings.received(camera, message),
            lambda camera, job, reason: self.students.retrainings.given_up(camera, job, reason), dispatch, note, spawn,
        )  # fmt: skip
        retrainings = Retrainings(
            parts, preparation, siblings, groups, box_groups, borrowing, gate, dispatch, note, spawn
        )
        return Students(versions, siblings, groups, retrainings, borrowing, box_groups)

    def _camera_changed(self, camera: CameraRuntime, what: CameraChange) -> None:
        self.camera_workers.changed(camera, what)

    def set_serving_share(self, share: float) -> None:
        """Served models hold `share` of the device from now on: cameras and retrainings yield, or get it back, at once.

        Where shares can be changed live the served models have theirs when this returns; the plan of how cameras and
        retrainings share the rest follows.
        """
        if abs(share - self.shares.serving) < 1e-6:
            return
        self.shares.serving = share
        self.dispatch(ev.CapacityChanged(self.clock.monotonic(), self.shares.camera_capacity()))
        if self.controller.state.phase == "preparing":
            self.preparation.share()

    # -- life

    def open(self) -> None:
        """Begin to watch workers. `start_labelling` comes with the first camera."""
        # Candidates not judged before the last run ended: their retrainings begin from checkpoints, or anew.
        for left in (Path(self.site.data_dir) / "jobs").glob("w*-p*.safetensors"):
            left.unlink(missing_ok=True)
        self.supervisor.open()

    def start_labelling(self) -> None:
        """Start the golden worker and the profilers, once."""
        self.parts.start_labelling()

    async def close(self) -> None:
        """Drain: stop jobs (their checkpoints stay), stop cameras, write what is left to write."""
        self.records.refuse_writes()
        self.profilers.close()
        self.instructions.stop()
        await self._tasks.end()
        await self.supervisor.close()
        await self.records.close()

    # -- events in, instructions out

    def dispatch(self, event: ev.Event) -> None:
        """Hand an event to the controller and carry out what it orders."""
        if self.instructions.stopped:
            return
        for instruction in self.controller.handle(event):
            self.carry_out(instruction)

    def carry_out(self, instruction: ev.Instruction) -> None:
        """Carry out one of the controller's instructions; errors become complaints."""
        try:
            self.instructions.do(instruction)
        except MagpieError as error:
            self.complaints.add(error.code, str(error))

    # -- windows

    def boundary_reached(self) -> None:
        """The window that runs, if there is one, ends now, and the next begins."""
        settings = self.window.following
        local = self.clock.local_minute()
        possible = self.students.groups.possible(settings.groups)
        self.dispatch(self.students.box_groups.possible(possible) if settings.groups else possible)
        allowed = settings.retraining_allowed(local)
        self.dispatch(ev.BoundaryReached(self.clock.monotonic(), allowed, self._window_settings(settings)))

    def resume(self, found: OpenWindow) -> None:
        """Go on inside the window that was open when the appliance ended: its plan, its jobs from their checkpoints."""
        record, now_s = found.window, self.clock.monotonic()
        start_s = now_s - (self.clock.utc() - record.start_utc_s)
        problem = plan = None
        if found.plan is not None:
            problem = WindowProblem.from_json(found.plan.problem)
            plan = WindowPlan.from_json(found.plan.plan)
        for camera in self.cameras.values():
            data = read_manifest(Path(self.site.data_dir), camera.id, record.id - 1)
            if data is not None:
                camera.closed = {record.id - 1: data}
            camera.profiles = {
                p.config: RetrainingProfile.from_json(p.profile)
                for p in self.store.windows.profiles(camera.id)
                if p.window == record.id
            }
        finished = frozenset(j.camera for j in found.jobs if j.state in ("completed", "failed", "stopped"))
        for instruction in self.controller.restore(now_s, record.id, start_s, problem, plan, finished):
            self.carry_out(instruction)

    def change_retraining(self, settings: RetrainingSettings) -> None:
        """In force from the next boundary."""
        self.window.change(settings)

    @staticmethod
    def _window_settings(s: RetrainingSettings) -> ev.WindowSettings:
        return ev.WindowSettings(s.window_s, s.a_min, s.policy, s.enabled, s.delta)

    # -- cameras

    def camera(self, camera: str) -> CameraRuntime:
        """Raises NotFound."""
        return self.parts.camera(camera)

    # -- profilers

    def _profiler_answered(self, answer: Answer) -> None:
        if isinstance(answer, m.Evaluated):
            self.learning.evaluated(answer.seconds, answer.frames)
            self.boundary.evaluated(answer)
        elif isinstance(answer, m.ProfileDone):
            self.preparation.profiled(answer)
            if self.controller.state.handed_in:
                self.preparation.hand_in()
        elif isinstance(answer, m.Looked):
            self.students.siblings.looked(answer)
        elif isinstance(answer, m.TrainingDone):
            of_group = self.students.box_groups.has(answer.job)
            (self.students.box_groups if of_group else self.students.borrowing).judged(answer)
        else:
            self.learning.memorised(answer.seconds)
            self.boundary.remembered(answer.camera)

    def _profiler_failed(self, job: Job, why: m.JobFailed | None) -> None:
        """A job that its worker could not do is answered without a result, so that nothing waits for it."""
        if why is not None:
            self.complaints.add("profiling_failed", f"{why.what}: {why.reason}", why.camera)
        if isinstance(job, m.Profile):
            self.preparation.from_history(job.data)
        elif isinstance(job, m.Evaluate):
            self.boundary.not_measured(job.data.window, job.data.camera)
        elif isinstance(job, m.Remember):
            self.boundary.remembered(job.data.camera, looked=False)
        elif isinstance(job, m.JudgeCandidate):
            of_group = self.students.box_groups.has(job.job.job)
            (self.students.box_groups if of_group else self.students.borrowing).not_judged(job)

    def _keep_document(self, name: str, document: dict[str, Any]) -> None:
        self.parts.keep_document(name, document, "micro-profiler")

    # -- what happened

    def _worker_event(self, note: JournalNote, kind: WorkerEntryKind, data: dict[str, Any]) -> None:
        worker = self.supervisor.known(data.get("worker", ""))
        about = {} if worker is None else {"kind": worker.kind}
        camera = None if worker is None else self._camera_of(worker)
        note(kind, camera=camera, data=data | about)
        if data.get("cause") == "memory":
            self.complaints.add("worker_memory", f"{data['worker']} was ended: {data['reason']}", camera)

    def _camera_of(self, worker: Worker) -> str | None:
        """The camera that a worker works for alone, if it is still there."""
        return worker.camera if worker.camera in self.cameras else None

    def usage(self) -> list[tuple[Usage, Activity, str | None]]:
        """(shares asked, given and used; purpose; camera) of each worker since the window began."""
        return self.parts.usage()

    def share_usage(self, window: int) -> tuple[ShareUsage, ...]:
        """Shares asked, given and used since the window began, as they will be recorded when it closes."""
        now = self.clock.utc()
        return tuple(
            ShareUsage(
                0, window, now, u.worker, activity, camera, u.asked, u.granted, u.used_share, u.device_seconds,
                u.wall_s, u.throttled_fraction,
            )
            for u, activity, camera in self.usage()
        )  # fmt: skip
