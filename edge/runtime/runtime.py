"""The runtime: carries out the controller's instructions with real workers and hands back what happened as events.

Everything here runs on the control process's event loop; blocking calls of the store go through one thread, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, singledispatchmethod
from pathlib import Path
from typing import Any, TypeVar

from edge.core import events as ev
from edge.core.access import SECRETS_FILE
from edge.core.accuracy import realised
from edge.core.baseline import Baseline
from edge.core.clock import Clock
from edge.core.configs import WHOLE
from edge.core.errors import Conflict, MagpieError, NotFound
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow
from edge.core.learning import LEARNED_DOCUMENT
from edge.core.models import ModelVersion
from edge.core.profiles import RetrainingProfile
from edge.core.shares import Partitioner, Role, ShareCaps, Usage
from edge.core.window import WindowPlan, WindowProblem
from edge.recording.exemplars import read_exemplars
from edge.recording.kept_out import read_kept_out
from edge.recording.labelled_windows import (
    manifest_path,
    pictured_windows,
    read_manifest,
    window_bytes,
    write_manifest,
)
from edge.recording.split import build_labelled_window
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, assumed_profile, looking_at
from edge.runtime.golden_worker import GoldenWorkerSpec, golden_worker
from edge.runtime.groups import GROUPS_DOCUMENT, Groups
from edge.runtime.judging import Gate
from edge.runtime.labelling import LabelQueue
from edge.runtime.learning import Learning, drift_per_s, history_of, with_late_labels
from edge.runtime.mains import camera_worker, profiler_worker, training_worker
from edge.runtime.preparation import Preparation
from edge.runtime.promotion import discard
from edge.runtime.siblings import Hands, Siblings
from edge.runtime.supervisor import Supervisor
from edge.runtime.tasks import BackgroundTasks
from edge.settings import CameraSettings, RetrainingSettings, SiteSettings
from edge.store.journal import JournalBuffer
from edge.store.store import Store
from edge.store.values import OpenWindow, ShareUsage
from scheduler.bounded import BoundedPolicy, Limits
from scheduler.controller import PlanFunction, WindowController
from scheduler.degrade import choose_inference
from scheduler.granted import grant
from scheduler.policies import WindowPolicy, window_policy
from scheduler.promotion import roll_back
from scheduler.regions import next_region
from scheduler.serving_floor import keep_serving

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Waiting for the last labels of a closed sample, and for its exemplars, may take these parts of a window.
LABEL_WAIT, MEMORY_WAIT = 0.08, 0.05
#: Shares under which a worker would hardly move.
MIN_SHARE = 0.02
_MAX_COMPLAINTS = 50
#: Retrainings that gain less than half a point are not worth their noise; a plan in force stays for a second.
LIMITS = Limits(min_gain=0.005, improve_by=0.002, dwell_s=1.0)


@dataclass(frozen=True)
class RunningJob:
    """A retraining that runs now."""

    job: str
    camera: str
    config: str
    window: int
    share: float
    started_utc_s: float
    predicted_accuracy: float | None
    total_device_s: float
    fraction: float = 0.0
    held_out: float | None = None
    device_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class _Granted:
    """A policy whose plans are in shares that can be granted, with every camera answering."""

    def __init__(self, policy: WindowPolicy, caps: ShareCaps) -> None:
        self._policy, self._caps = policy, caps

    @property
    def name(self) -> str:
        return self._policy.name

    def plan(self, problem: WindowProblem) -> WindowPlan:
        return keep_serving(problem, grant(problem, self._policy.plan(problem), self._caps))


def planner(caps: ShareCaps) -> PlanFunction:
    """The planning function that the controller is given: a policy by its name, within limits, as it can be granted."""

    def plan(name: str, problem: WindowProblem, current: WindowPlan | None, age_s: float) -> WindowPlan:
        began = time.perf_counter()
        policy = BoundedPolicy(_Granted(window_policy(name), caps), LIMITS)
        followed = policy.replan(problem, current, age_s).plan
        return dataclasses.replace(followed, decision_seconds=time.perf_counter() - began)

    return plan


class Runtime:
    """Owns cameras, workers, labels, models and jobs. `note(kind, ...)` journals; `on_preview` takes live pictures,
    `on_answer` each camera's answers and the pictures that `take_pictures` asked for."""

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
        self.jobs: dict[str, RunningJob] = {}
        self.complaints: deque[dict[str, Any]] = deque(maxlen=_MAX_COMPLAINTS)
        self.evaluated: dict[int, set[str]] = {}
        self.window_start_utc_s = 0.0
        self.expected_cameras = 0
        self.golden_ready = False
        #: The golden model and the profilers run; a site without cameras needs neither.
        self.labelling = False
        #: Of the device, held by served models and by the process that takes their requests.
        self.serving_share = self.front_share = 0.0
        self._teacher, self._note, self._on_preview = teacher, note, on_preview
        self._on_answer = on_answer
        self._data = Path(site.data_dir)
        self._loop = asyncio.get_running_loop()
        self.supervisor = Supervisor(partitioner, clock, self._worker_event)
        self.labels = LabelQueue(
            lambda label: self.supervisor.send("golden", label), lambda: self.preparation.usable_golden_share()
        )
        self.preparation = Preparation(self, note, self._write, self._share_profilers)
        self.learning = Learning(partial(self._keep_document, LEARNED_DOCUMENT))
        self.controller = WindowController(
            self._window_settings(site.retraining), self.camera_capacity(), planner(partitioner.caps)
        )
        self._db = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._tasks = BackgroundTasks(self.complain)
        self._timers: list[asyncio.TimerHandle] = []
        self._waiting_close: dict[tuple[str, int], asyncio.Future[tuple[Any, ...]]] = {}
        self._requests: dict[tuple[str, int, str], dict[str, Any]] = {}
        self._profilers = tuple(f"profiler-{n}" for n in range(max(1, min(2, math.ceil(self.cores)))))
        self._profiler_queue: list[Any] = []
        self._remembering: dict[str, asyncio.Future[None]] = {}
        self._profiler_with: dict[str, Any] = {}
        self._swaps: dict[str, asyncio.Future[m.Swapped]] = {}
        self._watching: dict[str, float] = {}
        self._boundary_utc_s = 0.0
        self._closing = False
        self._gate = Gate(store, clock, self._ask, self._put_in_force, self.complain)
        self.siblings = Siblings(
            Hands(
                store, clock, lambda: self.cameras, self._student, self._ask, self._write, self._ask_profiler,
                self._put_in_force, self._rejoin, self._tasks.spawn, note, self.complain,
            )
        )  # fmt: skip
        self.groups = Groups(self, self._gate, self._student, note, partial(self._keep_document, GROUPS_DOCUMENT))

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

    @property
    def profilers(self) -> int:
        """Profilers that run side by side."""
        return len(self._profilers)

    def set_serving_share(self, share: float) -> None:
        """Served models hold `share` of the device from now on: cameras and retrainings yield, or get it back, at once.

        Where shares can be changed live nothing of it is left to do when this returns.
        """
        if abs(share - self.serving_share) < 1e-6:
            return
        self.serving_share = share
        self.dispatch(ev.CapacityChanged(self.clock.monotonic(), self.camera_capacity()))
        state = self.controller.state
        if state.phase == "preparing":
            self.preparation.share()

    @staticmethod
    def _window_settings(s: RetrainingSettings) -> ev.WindowSettingsChanged:
        return ev.WindowSettingsChanged(0.0, s.window_s, s.a_min, s.policy, s.enabled, s.delta)

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
        for name in self._profilers:
            self.supervisor.start(
                name,
                "profiling",
                max(self._quantized(self.retraining.evaluation_share / len(self._profilers)), MIN_SHARE),
                profiler_worker,
                self.cores,
                partial(self._profiler_message, name),
                on_lost=partial(self._profiler_lost, name),
                killable=True,
            )

    async def close(self) -> None:
        """Drain: stop jobs (their checkpoints stay), stop cameras, write what is left to write."""
        self._closing = True
        for timer in self._timers:
            timer.cancel()
        await self._tasks.end()
        await self.supervisor.close()
        await self._loop.run_in_executor(self._db, lambda: None)
        self._db.shutdown(wait=True)

    def add_camera(
        self, settings: CameraSettings, version: ModelVersion, frozen: ModelVersion, baseline: Baseline | None = None
    ) -> None:
        """Take a camera in, with what earlier windows taught of its download; its worker starts if it is enabled."""
        self.start_labelling()
        camera = CameraRuntime(settings, version, frozen, assumed_profile(settings.inference, self.cores))
        camera.baseline = baseline if camera.published else None
        fixed = camera.fixed_region()
        learned = WHOLE if camera.baseline is None else next_region(camera.baseline, camera.baseline.region)
        camera.take_region(learned if fixed is None else fixed)
        camera.pictured = pictured_windows(self._data, settings.id)
        self.cameras[settings.id] = camera
        self.labels.set_classes(settings.id, settings.classes, settings.class_map)
        if not settings.enabled:
            return
        fair = self.camera_capacity() / max(1, self.expected_cameras, len(self.cameras))
        camera.share = self.partitioner.caps.quantize(max(self.partitioner.caps.min_share, min(1.0, fair)))
        camera.inference = settings.inference.space(camera.region)[0]
        self.supervisor.start(
            camera.worker,
            "inference",
            camera.share,
            camera_worker,
            partial(self._camera_spec, settings.id),
            partial(self._camera_message, settings.id),
            on_lost=partial(self._camera_lost, settings.id),
        )
        self.dispatch(
            ev.CameraJoined(
                self.clock.monotonic(),
                camera.id,
                self._start_accuracy(camera),
                camera.profile,
                settings.retraining.every_kth_window,
                version.id,
                settings.retraining.enabled and not version.pinned,
            )
        )

    async def remove_camera(self, camera: str) -> None:
        """Stop everything of a camera. The caller deletes its record."""
        found = self.camera(camera)
        del self.cameras[camera]
        self.dispatch(ev.CameraLeft(self.clock.monotonic(), camera))
        self.labels.forget_camera(camera)
        self.learning.forget(camera)
        self.siblings.forget(camera)
        await asyncio.gather(
            self.supervisor.stop(found.trainer, 1.0, m.FinishNow(keep=False)), self.supervisor.stop(found.worker)
        )
        self.jobs.pop(camera, None)

    def settle_camera(self, settings: CameraSettings) -> None:
        """Settings that only the control process looks at are in force at once, without another worker."""
        camera = self.camera(settings.id)
        before, camera.settings = camera.settings, settings
        if before.retraining == settings.retraining or not settings.enabled:
            return
        known = self.controller.state.cameras.get(settings.id)
        accuracy = self._start_accuracy(camera) if known is None else known.accuracy
        self._join(camera, accuracy)

    def take_pictures(self, camera: str, order: m.TakePictures) -> bool:
        """Ask a camera's worker for pictures of an answered frame; False if it cannot be asked."""
        found = self.cameras.get(camera)
        return found is not None and self.supervisor.send(found.worker, order)

    def camera(self, camera: str) -> CameraRuntime:
        """Raises NotFound."""
        if camera not in self.cameras:
            raise NotFound(f"camera {camera} does not exist")
        return self.cameras[camera]

    def _start_accuracy(self, camera: CameraRuntime) -> float:
        scores = camera.version.scores
        return min(1.0, max(0.0, scores.get("held_out", scores.get("accuracy", 0.5))))

    def _camera_spec(self, camera: str) -> m.CameraWorkerSpec:
        c = self.cameras[camera]
        state = self.controller.state
        left_s = max(1.0, state.window_start_s + self.retraining.window_s - self.clock.monotonic())
        return m.CameraWorkerSpec(
            settings=c.settings,
            student=m.Student(c.version.id, self.store.blobs.path(c.version.blob)),
            inference=c.inference or c.settings.inference.space(c.region)[0],
            record_root=self._data / "pictures",
            recording=self.site.recording,
            # Before the first boundary it is not known which window goes on.
            window=0 if state.phase == "idle" else state.window,
            window_left_s=left_s,
            # After a restart of the worker its sample goes on with what is left of time and budget.
            target_frames=max(1, round(self._label_budget(c) * min(1.0, left_s / self.retraining.window_s))),
            cores=self.cores,
            watch_fps=self._watching.get(camera, 0.0),
            secrets=self._data / SECRETS_FILE,
            score=c.score_of(c.version.id),
        )

    def _label_budget(self, camera: CameraRuntime) -> int:
        return self.learning.labels(self.retraining, camera.settings)

    # -- events in, instructions out

    def dispatch(self, event: ev.Event) -> None:
        """Hand an event to the controller and carry out what it orders."""
        if self._closing:
            return
        for instruction in self.controller.handle(event):
            self._carry_out(instruction)

    def _carry_out(self, instruction: ev.Instruction) -> None:
        try:
            self._do(instruction)
        except MagpieError as error:
            self.complain(error.code, str(error))

    @singledispatchmethod
    def _do(self, instruction: ev.Instruction) -> None:
        raise TypeError(f"no way to carry out {type(instruction).__name__}")

    @_do.register
    def _(self, order: ev.ScheduleBoundary) -> None:
        settings = self.next_retraining
        if settings is not None:
            self.retraining, self.next_retraining = settings, None
        s = self.retraining
        self.window_start_utc_s = self.clock.utc() - (self.clock.monotonic() - self.controller.state.window_start_s)
        self._boundary_utc_s = self.window_start_utc_s + s.window_s
        self._later(order.at_s, self._boundary)
        if order.resumed:
            self._note("window.resumed", window=order.window)
            for camera in self.cameras.values():
                spec = self._camera_spec(camera.id)
                going_on = m.NextWindow(0, order.window, spec.window_left_s, spec.target_frames)
                self.supervisor.send(camera.worker, going_on)
            return
        self.preparation.open_window(order.window)
        self._write(
            self.store.open_window,
            self.window_start_utc_s,
            s.window_s,
            s.policy,
            s.model_dump(mode="json") | {"golden_share": self.golden_share},
            number=order.window,
        )
        self._note("window.opened", window=order.window, data={"length_s": s.window_s, "policy": s.policy})
        if order.window == 1 or not self.controller.state.awaiting_labels:
            for camera in self.cameras.values():
                self.supervisor.send(
                    camera.worker, m.NextWindow(order.window - 1, order.window, s.window_s, self._label_budget(camera))
                )

    @_do.register
    def _(self, order: ev.ScheduleDeadline) -> None:
        self._later(order.at_s, lambda: self.dispatch(ev.DeadlinePassed(self.clock.monotonic(), order.window)))

    @_do.register
    def _(self, order: ev.ScheduleHandIn) -> None:
        self._later(order.at_s, lambda: self.dispatch(ev.HandInDue(self.clock.monotonic(), order.window)))

    @_do.register
    def _(self, order: ev.ScheduleReplan) -> None:
        self._later(order.at_s, lambda: self.dispatch(ev.SegmentDue(self.clock.monotonic(), order.plan_number)))

    @_do.register
    def _(self, order: ev.CloseWindow) -> None:
        usages = self.supervisor.usage()
        self.partitioner.reset_usage()
        rows = [(u, self._role_of(u.worker), self._camera_of(u.worker)) for u in usages]
        self._write(self.store.add_usage, order.window, rows)
        for camera in self.cameras.values():
            self._write(self.store.put_camera_window, order.window, camera.id, losses=camera.losses())
        self._write(self.store.close_window, order.window, dict(order.details))
        self._note("window.closed", window=order.window)

    @_do.register
    def _(self, order: ev.CloseSample) -> None:
        self.preparation.share()
        self._tasks.spawn(self._close_sample(order.camera, order.window), f"close {order.camera}/{order.window}")

    @_do.register
    def _(self, order: ev.StartProfiling) -> None:
        camera = self.cameras.get(order.camera)
        data = None if camera is None else camera.closed.get(order.window)
        if camera is None or data is None:
            self.dispatch(ev.Profiled(self.clock.monotonic(), order.camera, order.window, ()))
            return
        if (order.hurry and self.preparation.knows()) or not self.preparation.tries(camera):
            self._loop.call_soon(self.preparation.from_history, data)
            return
        seed = sum(map(ord, order.camera)) * 1000 + order.window
        message = m.Profile(
            data,
            self._student(camera.version),
            self.retraining.configs(camera.published),
            self.learning.profiling_s(),
            camera.history,
            self.cores,
            seed,
            self._download(camera),
            camera.region,
        )
        self.preparation.share(order.share)
        self._ask_profiler(message)

    @_do.register
    def _(self, order: ev.HandIn) -> None:
        self._hand_in(order.last)

    @_do.register
    def _(self, order: ev.StopProfiling) -> None:
        self._hand_in()

    def _hand_in(self, last: bool = False) -> None:
        """Profilers answer with what they have; what is not begun (or, at last, not handed in) is answered from what
        past windows taught. While no camera knows anything, what is not begun waits for the first that does."""
        knows = self.preparation.knows()
        unbegun = [j for j in self._profiler_queue if isinstance(j, m.Profile) and knows]
        self._profiler_queue = [j for j in self._profiler_queue if not (isinstance(j, m.Profile) and knows)]
        for name, job in self._profiler_with.items():
            if isinstance(job, m.Profile):
                self.supervisor.send(name, m.HandIn(job.data.camera, job.data.window))
                if last and knows:
                    unbegun.append(job)
        for job in unbegun:
            self._loop.call_soon(self.preparation.from_history, job.data)

    @_do.register
    def _(self, order: ev.SetShares) -> None:
        wanted: list[tuple[str, float]] = []
        for name, share in order.inference.items():
            camera = self.cameras.get(name)
            if camera is None:
                continue
            wanted.append((camera.worker, share))
            camera.share = share
            self._choose_inference(camera)
        wanted += [(self.cameras[c].trainer, s) for c, s in order.retraining.items() if c in self.cameras]
        if self.controller.state.phase != "preparing":
            wanted += [(name, self.retraining.evaluation_share / len(self._profilers)) for name in self._profilers]
            wanted += [("golden", self.golden_share)]
        # Those that give go first, so that at no instant more is granted than there is.
        now = {u["name"]: u["share"] for u in self.supervisor.workers()}
        for name, share in sorted(wanted, key=lambda w: w[1] - now.get(w[0], 0.0)):
            self.supervisor.resize(name, max(self._quantized(share), self.partitioner.caps.min_share))
        for name, share in order.retraining.items():
            job = self.jobs.get(name)
            if job is not None:
                self.jobs[name] = dataclasses.replace(job, share=share)

    @_do.register
    def _(self, order: ev.StartRetraining) -> None:
        camera = self.cameras.get(order.camera)
        data = None if camera is None else camera.closed.get(order.window)
        profile = None if camera is None else camera.profiles.get(order.config)
        if camera is None or data is None or profile is None or self.supervisor.has(camera.trainer):
            reason = "its data are gone" if data is None else "an earlier retraining has not ended yet"
            at = self.clock.monotonic()
            self._loop.call_soon(lambda: self.dispatch(ev.RetrainingFailed(at, order.camera, order.job, reason)))
            return
        folder = self._data / "jobs"
        job = m.RetrainingJob(
            job=order.job,
            camera=order.camera,
            data=data,
            parent=self._student(camera.version),
            config=profile.config,
            spec=camera.version.spec,
            seed=order.window,
            checkpoint=folder / f"{order.camera}-{order.window}-{profile.config.id}.ckpt",
            output=folder / f"{order.job}.safetensors",
            cores=self.cores,
            download=self._download(camera),
            region=camera.region,
            siblings=self.siblings.starts(camera),
            members=self.groups.members(order),
        )
        self.learning.unprofiled_retrainings += not profile.profiled
        self.jobs[order.camera] = RunningJob(
            order.job,
            order.camera,
            order.config,
            order.window,
            order.share,
            self.clock.utc(),
            profile.end_accuracy.value,
            profile.gpu_seconds.value,
        )
        self._write(
            self.store.start_job,
            order.job,
            self.controller.state.window,
            order.camera,
            order.config,
            order.share,
            accuracy_before=profile.start_accuracy,
            model_version=camera.version.id,
        )
        self._note(
            "retraining.started",
            camera=order.camera,
            window=self.controller.state.window,
            data={
                "job": order.job,
                "config": order.config,
                "share": order.share,
                "expected_accuracy": profile.end_accuracy.to_json(),
                "expected_gpu_s": profile.gpu_seconds.to_json(),
                "profiled": profile.profiled,
                "members": [one.camera for one in job.members],
            },
        )
        self.supervisor.start(
            camera.trainer,
            "retraining",
            max(self._quantized(order.share), self.partitioner.caps.min_share),
            training_worker,
            job,
            partial(self._training_message, order.camera),
            on_given_up=partial(self._training_given_up, order.camera, order.job),
            max_restarts=2,
            killable=True,
            finishes=True,
        )

    @_do.register
    def _(self, order: ev.StopRetraining) -> None:
        camera = self.cameras.get(order.camera)
        if camera is None:
            return
        self._note("retraining.stopped", camera=order.camera, data={"job": order.job, "reason": order.reason})
        if order.keep and self.supervisor.send(camera.trainer, m.FinishNow(keep=True)):
            return
        self._end_job(order.camera, "stopped", order.reason)
        self._tasks.spawn(self.supervisor.stop(camera.trainer, 1.0, m.FinishNow(keep=False)), f"stop {order.job}")

    @_do.register
    def _(self, order: ev.RecordPlan) -> None:
        self._write(self.store.add_plan, order.window, order.problem, order.plan, order.cause)
        self.preparation.planned(order)
        self._note(
            "plan",
            window=order.window,
            data={
                "policy": order.plan.policy,
                "cause": order.cause,
                "objective": order.plan.objective,
                "decision_s": order.plan.decision_seconds,
                "reasons": dict(order.plan.reasons),
            },
        )

    @_do.register
    def _(self, order: ev.Complain) -> None:
        self.complain(order.code, order.message, order.camera)

    # -- time

    def _later(self, at_s: float, call: Callable[[], None]) -> None:
        # On Linux the loop's clock is CLOCK_MONOTONIC, as is ours.
        delay = max(0.0, at_s - self.clock.monotonic())
        self._timers = [t for t in self._timers if not t.cancelled() and t.when() > self._loop.time()]
        self._timers.append(self._loop.call_later(delay, call))

    def _boundary(self) -> None:
        settings = self.next_retraining or self.retraining
        local = self.clock.local_minute()
        self.dispatch(self.groups.alike(settings.groups))
        self.dispatch(ev.BoundaryReached(self.clock.monotonic(), settings.retraining_allowed(local)))

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
            self._carry_out(instruction)

    def begin(self) -> None:
        """Open the first window now."""
        self._boundary()

    # -- settings

    def change_retraining(self, settings: RetrainingSettings) -> None:
        """In force from the next boundary."""
        self.next_retraining = settings
        self.dispatch(dataclasses.replace(self._window_settings(settings), at_s=self.clock.monotonic()))

    @property
    def next_boundary_utc_s(self) -> float:
        """When the running window ends."""
        return self._boundary_utc_s

    # -- cameras' workers

    def _camera_message(self, name: str, message: Any) -> None:
        camera = self.cameras.get(name)
        if camera is None:
            return
        if not camera.worker_up:
            camera.worker_up = True
            self._note("camera.worker_up", camera=name)
        if isinstance(message, m.CameraReport):
            before = camera.report
            camera.report = message
            if (
                before is None
                or before.status.state != message.status.state
                or before.status.fault != message.status.fault
            ):
                self._note(
                    f"camera.{message.status.state}",
                    camera=name,
                    data={"fault": message.status.fault, "message": message.status.message},
                )
        elif isinstance(message, m.Preview):
            self._on_preview(name, message)
        elif isinstance(message, m.Answered | m.Picture):
            self._on_answer(name, message)
        elif isinstance(message, m.Sampled):
            self.labels.add(message.frame)
            self.siblings.sampled(camera, message.frame)
        elif isinstance(message, m.SampleClosed):
            for frame in message.frames:
                self.labels.add(frame)
            waiting = self._waiting_close.pop((name, message.window), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.frames)
        elif isinstance(message, m.Measured):
            camera.profile = looking_at(message.profile, camera.region)
            if not camera.announced:
                camera.announced = True
                self.dispatch(
                    ev.CameraJoined(
                        self.clock.monotonic(),
                        name,
                        self.controller.state.cameras[name].accuracy,
                        camera.profile,
                        camera.settings.retraining.every_kth_window,
                        camera.version.id,
                        camera.settings.retraining.enabled and not camera.version.pinned,
                    )
                )
        elif isinstance(message, m.Swapped):
            camera.swap_gaps_s.append(message.gap_s)
            camera.frames_lost_in_swaps += message.frames_lost
            self._resolve_swap(name, message)
        elif isinstance(message, m.SwapFailed):
            self._resolve_swap(
                name, MagpieError(f"{name}: {message.version} could not be put in force: {message.reason}")
            )

    def _camera_lost(self, name: str, reason: str) -> None:
        camera = self.cameras.get(name)
        if camera is not None:
            camera.worker_up, camera.report = False, None
            self._resolve_swap(name, MagpieError(f"{name}: its worker died while the model was switched"))

    def _share_profilers(self, share: float) -> None:
        for name in self._profilers:
            self.supervisor.resize(name, max(self._quantized(share / len(self._profilers)), MIN_SHARE))

    def _choose_inference(self, camera: CameraRuntime) -> None:
        chosen = choose_inference(camera.profile, camera.share, camera.inference)
        if chosen != camera.inference:
            camera.inference = chosen
            self.supervisor.send(camera.worker, m.SetInference(chosen))
            self._note("inference.changed", camera=camera.id, data={"lambda": chosen.to_json(), "share": camera.share})

    def watch(self, camera: str, fps: float) -> None:
        """Ask a camera's worker for encoded pictures (0: none)."""
        if self._watching.get(camera, 0.0) != fps:
            self._watching[camera] = fps
            self.supervisor.send(self.camera(camera).worker, m.Watch(fps))

    # -- the boundary: close, label, measure

    async def _close_sample(self, name: str, window: int) -> None:
        began = self.clock.monotonic()
        camera = self.camera(name)
        looked = camera.inference
        future: asyncio.Future[tuple[Any, ...]] = self._loop.create_future()
        self._waiting_close[(name, window)] = future
        s = self.retraining
        sent = self.supervisor.send(
            camera.worker, m.NextWindow(window, window + 1, s.window_s, self._label_budget(camera))
        )
        if sent:
            try:
                async with asyncio.timeout(5.0):
                    await future
            except TimeoutError:
                self._note(
                    "sample.not_closed", camera=name, window=window, data={"reason": "the worker did not answer"}
                )
        self._waiting_close.pop((name, window), None)
        self._look(camera)
        camera.profiles = {}
        # Only now, between two windows: no retraining reads the pictures that the memory lets go.
        _, frames = await asyncio.gather(
            self._remember(camera), self.labels.complete(name, window, LABEL_WAIT * s.window_s)
        )
        self.preparation.share()
        data = await self._labelled_window(camera, window, frames)
        delay = self.clock.monotonic() - began
        objects = sum(len(f.labels) for f in frames)
        self._write(
            self.store.put_camera_window,
            window,
            name,
            model_version=camera.version.id,
            frames_labelled=len(frames),
            objects_labelled=objects,
            labelling_delay_s=delay,
        )
        if self.cameras.get(name) is not camera:
            return
        if data is None:
            await self._weigh(camera, window)
            self._measured(window, name)
            self._labelled(camera, window, None, None)
            return
        camera.closed = {window: data}
        await asyncio.to_thread(write_manifest, self._data, data)
        measured = await asyncio.to_thread(realised, data.task, data.all_sampled, len(data.classes))
        self.learning.seen(name, window, measured.value, await asyncio.to_thread(drift_per_s, data))
        self._labelled(camera, window, data, measured)
        # The students in shadow can wait: the plan does not need them.
        parent = await self._parent(camera.version)
        self._ask_profiler(
            m.Evaluate(
                data,
                self._student(camera.frozen),
                self._student(camera.version),
                None if parent is None else self._student(parent),
                self.cores,
                looked,
                (camera.baseline or Baseline()) if camera.published else None,
                camera.published and camera.fixed_region() is None,
            )
        )
        await self._weigh(camera, window)

    async def _weigh(self, camera: CameraRuntime, window: int) -> None:
        """Tell the store what the window takes on disk, and what is left of those whose pictures the recorder dropped
        since; retention goes by it."""
        before = camera.pictured
        camera.pictured = await asyncio.to_thread(pictured_windows, self._data, camera.id)
        for number in {window} | (before - camera.pictured):
            size = await asyncio.to_thread(window_bytes, self._data, camera.id, number)
            self._write(self._put_weight, number, camera.id, size)

    def _put_weight(self, window: int, camera: str, size: int) -> None:
        path = manifest_path(self._data, camera, window).relative_to(self._data)
        with contextlib.suppress(NotFound):  # retention has deleted the window
            self.store.put_camera_window(window, camera, manifest=str(path), picture_bytes=size)

    async def _remember(self, camera: CameraRuntime) -> None:
        """Pick exemplars of the data that the camera was retrained on last; waits, at most a little."""
        if not camera.closed or not (self.retraining.exemplars or camera.published):
            return
        data = camera.closed[max(camera.closed)]
        done: asyncio.Future[None] = self._loop.create_future()
        self._remembering[camera.id] = done
        student = self._student(camera.version)
        kept_out = self._kept_out_root(camera.id) if camera.published else None
        root, most = self._exemplar_root(camera.id), self.retraining.exemplars
        self._ask_profiler(m.Remember(data, student, root, most, self.cores, kept_out))
        try:
            async with asyncio.timeout(MEMORY_WAIT * self.retraining.window_s):
                await asyncio.shield(done)
        except TimeoutError:
            before = len(self._profiler_queue)
            self._profiler_queue = [
                j for j in self._profiler_queue if not (isinstance(j, m.Remember) and j.data.camera == camera.id)
            ]
            self._note("exemplars.late", camera=camera.id, window=data.window)
            if len(self._profiler_queue) == before:
                # It has begun, and lets pictures go: what is trained on next must not name them.
                await self._remembering[camera.id]
        finally:
            self._remembering.pop(camera.id, None)

    def _remembered(self, camera: str) -> None:
        done = self._remembering.get(camera)
        if done is not None and not done.done():
            done.set_result(None)

    async def _labelled_window(
        self, camera: CameraRuntime, window: int, frames: tuple[LabelledFrame, ...]
    ) -> LabelledWindow | None:
        if not frames:
            self._note("window.no_labels", camera=camera.id, window=window)
            return None
        s = camera.settings
        root = self._exemplar_root(camera.id)
        try:
            data = await asyncio.to_thread(
                build_labelled_window,
                s.id,
                window,
                s.task,
                s.classes,
                frames,
                self.retraining.held_out,
                read_exemplars(root),
                0.0,
                read_kept_out(self._kept_out_root(s.id)) if camera.published else None,
            )
        except MagpieError as error:
            self.complain(error.code, str(error), camera.id)
            return None
        with_late = with_late_labels(data, self.labels.take_late(camera.id))
        self.learning.late_labels_used += len(with_late.exemplars) - len(data.exemplars)
        return with_late

    def _exemplar_root(self, camera: str) -> Path:
        return self._data / "exemplars" / camera

    def _kept_out_root(self, camera: str) -> Path:
        return self._data / "kept-out" / camera

    def _download(self, camera: CameraRuntime) -> m.Student | None:
        return self._student(camera.frozen) if camera.published else None

    def _look(self, camera: CameraRuntime) -> None:
        """A window ends: look at another part of the picture from here on, where that was learned."""
        if camera.next_region == camera.region:
            return
        camera.take_region(camera.next_region)
        if camera.inference is not None:
            self.supervisor.send(camera.worker, m.SetInference(camera.inference))
        self._note("region.changed", camera=camera.id, data={"region": list(camera.region)})

    async def _parent(self, version: ModelVersion) -> ModelVersion | None:
        if version.parent is None:
            return None
        try:
            return await self._ask(self.store.version, version.parent)
        except MagpieError:
            return None

    def _labelled(
        self, camera: CameraRuntime, window: int, data: LabelledWindow | None, measured: Accuracy | None
    ) -> None:
        self.dispatch(
            ev.SampleLabelled(
                self.clock.monotonic(),
                camera.id,
                window,
                0 if data is None else len(data.train),
                0 if data is None else len(data.held_out),
                None if measured is None else measured.value,
                camera.profile,
                self.learning.correction(
                    camera.id, window + 1, self.retraining, None if data is None else len(data.held_out)
                ),
            )
        )

    def _measured(self, window: int, camera: str) -> None:
        """All that is measured of a camera's window is known (or will never be)."""
        self.evaluated.setdefault(window, set()).add(camera)
        for old in [n for n in self.evaluated if n < window - 100]:
            del self.evaluated[old]

    def _evaluated(self, result: m.Evaluated) -> None:
        camera = self.cameras.get(result.camera)
        if camera is None:
            return
        camera.realised, camera.frozen_accuracy = result.realised, result.frozen
        details: dict[str, Any] = {"quality": result.quality, "class_counts": result.class_counts}
        if result.download is not None:
            details["download"] = result.download.to_json()
        camera.download = result.download
        if result.baseline is not None:
            self._learned_baseline(camera, result.baseline)
        if result.score is not None:
            camera.score = (result.version, result.score)
            self.supervisor.send(camera.worker, m.SetScore(result.version, result.score))
        promise = self.learning.kept(result.camera, result.window)
        if promise is not None:
            details["promise"] = promise
        self.siblings.learned(camera.id, result.look)
        if result.current_live is not None:
            details["current_fresh"] = result.current_live.to_json()
        self._write(
            self.store.put_camera_window,
            result.window,
            camera.id,
            realised=result.realised,
            frozen=result.frozen,
            details=details,
        )
        self._note(
            "window.measured",
            camera=camera.id,
            window=result.window,
            data={
                "realised": _value(result.realised),
                "frozen": _value(result.frozen),
                "download": _value(result.download),
            },
        )
        judged = result.version == camera.version.id and not camera.version.pinned
        if judged and result.current_live is not None and result.parent_live is not None:
            decision = roll_back(
                result.current_live.value,
                result.parent_live.value,
                result.current_live.frames,
                self.retraining.rollback_margin,
            )
            if decision.yes:
                self._tasks.spawn(self._roll_back_auto(camera, decision.reason), f"roll back {camera.id}")
        self._measured(result.window, camera.id)

    def _learned_baseline(self, camera: CameraRuntime, baseline: Baseline) -> None:
        camera.baseline = baseline
        if camera.fixed_region() is None:
            camera.next_region = next_region(baseline, camera.region)
        put = partial(self.store.put_settings, audited=False)
        self._write(put, f"baseline/{camera.id}", baseline.to_json(), "baseline")

    async def _roll_back_auto(self, camera: CameraRuntime, reason: str) -> None:
        await self.roll_back(camera.id, None, "automatic roll-back", reason)

    # -- golden worker

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

    # -- profilers

    def _ask_profiler(self, message: Any) -> None:
        """What the plan waits for goes first: exemplars, then looks and profiles; evaluations have time."""
        rank = self.learning.urgency
        at = next(
            (n for n, j in enumerate(self._profiler_queue) if rank(j) > rank(message)),
            len(self._profiler_queue),
        )
        self._profiler_queue.insert(at, message)
        self._feed_profilers()

    def _feed_profilers(self) -> None:
        for name in self._profilers:
            if self._profiler_queue and name not in self._profiler_with and self.supervisor.ready(name):
                job = self._profiler_queue.pop(0)
                self._profiler_with[name] = job
                self.supervisor.send(name, job)
        if self._profiler_queue and not self._profiler_with and not self._closing:
            # All are being started again: look after them in a second.
            self._loop.call_later(1.0, self._feed_profilers)

    def _profiler_message(self, name: str, message: Any) -> None:
        job = self._profiler_with.get(name)
        if isinstance(message, m.Evaluated):
            self._profiler_with.pop(name, None)
            self.learning.evaluated(message.seconds, message.frames)
            self._evaluated(message)
        elif isinstance(message, m.ProfileDone):
            self._profiler_with.pop(name, None)
            self._profiled(message)
            if self.controller.state.handed_in:
                self._hand_in()
        elif isinstance(message, m.Looked):
            self._profiler_with.pop(name, None)
            self.siblings.looked(message)
        elif isinstance(message, m.JobFailed):
            self._profiler_with.pop(name, None)
            self.complain("profiling_failed", f"{message.camera}: {message.what}: {message.reason}", message.camera)
            self._profiler_job_failed(job)
        elif isinstance(message, m.Remembered):
            self._profiler_with.pop(name, None)
            self.learning.memorised(message.seconds)
            self._remembered(message.camera)
        self._feed_profilers()

    def _profiler_lost(self, name: str, reason: str) -> None:
        job = self._profiler_with.pop(name, None)
        self._profiler_job_failed(job)

    def _profiler_job_failed(self, job: Any) -> None:
        """A job that its worker could not do is answered without a result, so that nothing waits for it."""
        if isinstance(job, m.Profile):
            self.preparation.from_history(job.data)
        elif isinstance(job, m.Evaluate):
            self._measured(job.data.window, job.data.camera)
        elif isinstance(job, m.Remember):
            self._remembered(job.data.camera)

    def _profiled(self, done: m.ProfileDone) -> None:
        camera = self.cameras.get(done.camera)
        if camera is None:
            return
        self.learning.profiled(done, history_of(camera.history))
        camera.history = done.history
        camera.profiles |= {p.config.id: p for p in done.profiles}
        window = self.controller.state.window
        self._keep_document(f"profiler/{done.camera}", done.history)
        self._write(self.store.add_profiles, window, done.camera, done.profiles)
        self._write(self.store.add_cost, window, "profiling", camera=done.camera, gpu_seconds=done.gpu_seconds)
        self._note(
            "profiled",
            camera=done.camera,
            window=window,
            data={
                "configs": len(done.profiles),
                "trials": done.trials,
                "handed_in": done.handed_in,
                "pruned": done.pruned,
                "gpu_s": done.gpu_seconds,
                "note": done.note,
            },
        )
        self.dispatch(
            ev.Profiled(
                self.clock.monotonic(),
                done.camera,
                done.window,
                tuple(done.profiles),
                done.start_accuracy,
                done.gpu_seconds,
            )
        )

    # -- retraining and promotion

    def _training_message(self, name: str, message: Any) -> None:
        job = self.jobs.get(name)
        if job is None or message.job != job.job:
            if isinstance(message, m.TrainingDone):
                discard(message)
            return
        if isinstance(message, m.TrainingProgress):
            self.jobs[name] = dataclasses.replace(
                job, fraction=message.fraction, held_out=message.held_out, device_seconds=message.device_seconds
            )
            self._write(self.store.update_job, job.job, fraction=message.fraction, gpu_seconds=message.device_seconds)
            self.dispatch(
                ev.RetrainingProgressed(
                    self.clock.monotonic(), name, job.job, message.device_seconds, message.fraction, message.held_out
                )
            )
        elif isinstance(message, m.TrainingDone):
            self._tasks.spawn(self._promote_or_not(name, job, message), f"gate {job.job}")
        elif isinstance(message, m.TrainingDropped):
            self._end_job(name, "stopped", "ended without a result")

    def _training_given_up(self, name: str, job: str, reason: str) -> None:
        if name in self.jobs and self.jobs[name].job == job:
            self._end_job(name, "failed", reason)
            self._note("retraining.failed", camera=name, data={"job": job, "reason": reason})
            self.dispatch(ev.RetrainingFailed(self.clock.monotonic(), name, job, reason))

    def _end_job(self, name: str, state: Any, reason: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            self._write(self.store.end_job, job.job, state, gpu_seconds=job.device_seconds, reason=reason)

    async def _promote_or_not(self, name: str, job: RunningJob, done: m.TrainingDone) -> None:
        camera = self.cameras.get(name)
        if camera is None:
            discard(done)
            return
        window = self.controller.state.window
        short = job.job.rsplit("-", 1)[-1]
        try:
            judged = await self._gate.judge(camera, done, job.config, job.window, self.retraining.gate_tolerance, short)
        except MagpieError as error:
            await self.groups.judge(job, done)
            self._training_given_up(name, job.job, str(error))
            return
        self._write(self.store.add_cost, window, "retraining", camera=name, gpu_seconds=done.device_seconds)
        self._write(
            self.store.end_job,
            job.job,
            "completed",
            gpu_seconds=done.device_seconds,
            accuracy_after=judged.accuracy,
            promoted=judged.promoted,
            reason=judged.reason,
            model_version=judged.version,
        )
        self.jobs.pop(name, None)
        self.preparation.retrained(camera, job, done, judged.learned)
        self._note(
            judged.kind,
            camera=name,
            window=window,
            data=judged.facts(job.config) | {"expected_accuracy": job.predicted_accuracy, "gpu_s": done.device_seconds},
        )
        try:
            await self.groups.judge(job, done)
        finally:
            self.dispatch(judged.completed(self.clock.monotonic(), name, job.job))

    def _keep_document(self, name: str, document: dict[str, Any]) -> None:
        put = partial(self.store.put_settings, audited=False)
        self._write(put, name, document, "micro-profiler")

    async def _put_in_force(
        self, camera: CameraRuntime, version: ModelVersion, by: str, reason: str, scores: Mapping[str, float]
    ) -> None:
        """Record first, then switch: after a power loss the recorded model is the one that starts."""
        before = camera.version
        camera.version = await self._ask(self.store.promote, version.id, by, reason, scores=dict(scores))
        try:
            await self._swap(camera, camera.version)
        except MagpieError as error:
            if not camera.worker_up:
                return  # its next start loads the version in force
            camera.version = await self._ask(self.store.roll_back, camera.id, "swap", str(error), to=before.id)
            raise

    async def _swap(self, camera: CameraRuntime, version: ModelVersion) -> None:
        """Have the camera's worker switch; returns when the new student answers. Raises MagpieError."""
        path = await self._ask(self.store.blobs.verify, version.blob)
        if not self.supervisor.send(camera.worker, m.Swap(version.id, path)):
            return
        future: asyncio.Future[m.Swapped] = self._loop.create_future()
        self._swaps[camera.id] = future
        try:
            async with asyncio.timeout(60.0):
                swapped = await future
        except TimeoutError:
            raise MagpieError(f"{camera.id}: the switch to {version.id} was not confirmed within 60 s") from None
        finally:
            self._swaps.pop(camera.id, None)
        self._note(
            "model.switched",
            camera=camera.id,
            data={"version": version.id, "gap_s": swapped.gap_s, "frames_lost": swapped.frames_lost},
        )

    def _resolve_swap(self, name: str, result: m.Swapped | MagpieError) -> None:
        future = self._swaps.get(name)
        if future is None or future.done():
            return
        if isinstance(result, MagpieError):
            future.set_exception(result)
        else:
            future.set_result(result)

    async def roll_back(self, name: str, to: str | None, by: str, reason: str) -> ModelVersion:
        """Put an earlier version in force now. Raises NotFound, Conflict, MagpieError."""
        camera = self.camera(name)
        if to is not None and (await self._ask(self.store.version, to)).spec != camera.version.spec:
            raise Conflict(f"{to} is another kind of student than the camera's settings ask for")
        camera.version = await self._ask(self.store.roll_back, name, by, reason, to=to)
        await self._swap(camera, camera.version)
        self._note(
            "model.rolled_back",
            camera=name,
            window=self.controller.state.window,
            data={"version": camera.version.id, "by": by, "reason": reason},
        )
        self._rejoin(camera)
        return camera.version

    async def pin(self, version: str, pinned: bool, by: str) -> ModelVersion:
        """Pin or unpin. A pinned version in force is not replaced: the camera is not retrained. Raises NotFound."""
        found = await self._ask(self.store.set_pinned, version, pinned, by)
        camera = self.cameras.get(found.camera)
        if camera is not None and camera.version.id == found.id:
            camera.version = found
            self._rejoin(camera)
        self._note(
            "model.pinned" if pinned else "model.unpinned", camera=found.camera, data={"version": version, "by": by}
        )
        return found

    def _rejoin(self, camera: CameraRuntime) -> None:
        if camera.settings.enabled:
            self._join(camera, self._start_accuracy(camera))

    def _join(self, camera: CameraRuntime, accuracy: float) -> None:
        retrain = camera.settings.retraining
        self.dispatch(
            ev.CameraJoined(
                self.clock.monotonic(),
                camera.id,
                accuracy,
                camera.profile,
                retrain.every_kth_window,
                camera.version.id,
                retrain.enabled and not camera.version.pinned,
            )
        )

    # -- small things

    def complain(self, code: str, message: str, camera: str | None = None) -> None:
        """Something the operator must know: kept for the page and /readyz, journaled."""
        log.warning("%s: %s", code, message)
        now = self.clock.utc()
        self.complaints = deque((c for c in self.complaints if c["message"] != message), _MAX_COMPLAINTS)
        self.complaints.append({"code": code, "message": message, "camera": camera, "utc_s": now})
        self._note(f"complaint.{code}", camera=camera, data={"message": message})

    def _worker_event(self, kind: str, data: dict[str, Any]) -> None:
        camera = self._camera_of(data.get("worker", ""))
        self._note(f"worker.{kind}", camera=camera, data=data)

    def _camera_of(self, worker: str) -> str | None:
        for prefix in ("camera-", "retrain-"):
            if worker.startswith(prefix) and worker.removeprefix(prefix) in self.cameras:
                return worker.removeprefix(prefix)
        return None

    @staticmethod
    def _role_of(worker: str) -> Role:
        if worker.startswith("camera-"):
            return "inference"
        if worker.startswith("retrain-"):
            return "retraining"
        if worker == "golden":
            return "golden"
        return "inference" if worker.startswith(("executor-", "front")) else "profiling"

    def _student(self, version: ModelVersion) -> m.Student:
        return m.Student(version.id, self.store.blobs.path(version.blob))

    def _quantized(self, share: float) -> float:
        return self.partitioner.caps.quantize(min(1.0, max(0.0, share)))

    def usage(self) -> tuple[Usage, ...]:
        """Shares asked, given and used since the window began."""
        return self.supervisor.usage()

    def share_usage(self, window: int) -> tuple[ShareUsage, ...]:
        """`usage` as it will be recorded when the window closes."""
        now = self.clock.utc()
        return tuple(
            ShareUsage(
                0, window, now, u.worker, self._role_of(u.worker), self._camera_of(u.worker), u.asked, u.granted,
                u.used_share, u.device_seconds, u.wall_s, u.throttled_fraction,
            )
            for u in self.usage()
        )  # fmt: skip

    async def _ask(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """A blocking call of the store, in its thread, in order."""
        return await self._loop.run_in_executor(self._db, partial(call, *args, **kwargs))

    def _write(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Write behind, in order; a failure is complained about and the appliance goes on."""
        if self._closing:
            return

        def done(future: asyncio.Future[Any]) -> None:
            error = None if future.cancelled() else future.exception()
            if isinstance(error, MagpieError):
                self.complain(error.code, f"{getattr(call, '__name__', 'write')}: {error}")
            elif error is not None:
                log.error("store: %s failed", getattr(call, "__name__", "write"), exc_info=error)
                self.complain("store", f"{getattr(call, '__name__', 'write')} failed: {error}")

        self._loop.run_in_executor(self._db, partial(call, *args, **kwargs)).add_done_callback(done)


def _value(accuracy: Accuracy | None) -> float | None:
    return None if accuracy is None else round(accuracy.value, 4)
