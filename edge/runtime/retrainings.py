"""Retrainings that run: started, followed, ended, and their results handed to the gate."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edge.core import events as ev
from edge.core.errors import MagpieError
from edge.core.facts import RetrainingStepped
from edge.core.journal_kinds import JournalNote
from edge.core.profiles import RetrainingProfile
from edge.core.workers import Worker
from edge.runtime import messages as m
from edge.runtime.borrowing import Borrowing
from edge.runtime.box_groups import BoxGroups
from edge.runtime.camera import CameraRuntime
from edge.runtime.groups import Groups
from edge.runtime.judging import Gate, Judged
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.mains import training_worker
from edge.runtime.preparation import Preparation
from edge.runtime.promotion import discard
from edge.runtime.running_job import RunningJob
from edge.runtime.siblings import Siblings
from edge.store.values import JobState
from scheduler.box_groups import taught_boxes
from scheduler.groups import group_work


class Retrainings:
    """The runtime's hands for the controller's retrainings. `dispatch` hands an event to the controller, `note`
    journals, `spawn(work, name)` runs beside the loop's main work."""

    def __init__(
        self,
        parts: LeafParts,
        preparation: Preparation,
        siblings: Siblings,
        groups: Groups,
        box_groups: BoxGroups,
        borrowing: Borrowing,
        gate: Gate,
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        spawn: Callable[..., None],
    ) -> None:
        self._parts, self._preparation, self._siblings = parts, preparation, siblings
        self._groups, self._box_groups, self._borrowing, self._gate = groups, box_groups, borrowing, gate
        self._dispatch, self._note, self._spawn = dispatch, note, spawn
        #: By camera: those that train, and those that are judged.
        self.running: dict[str, RunningJob] = {}
        #: By camera: the next one, while the one before is not judged or its process is not gone.
        self._waiting: dict[str, ev.StartRetraining] = {}
        #: Jobs that are at the gate, and jobs whose trainer was asked to hand over its result.
        self._judging: set[str] = set()
        self._finishing: set[str] = set()

    def forget_camera(self, camera: str) -> None:
        """The camera is gone, and its retraining ends without a result."""
        self._waiting.pop(camera, None)
        running = self.running.get(camera)
        if running is not None:
            self._end(camera, running.job, "stopped", "the camera was removed or changed")

    def start(self, order: ev.StartRetraining) -> None:
        """Start a worker for a job, as soon as the camera's earlier one has ended; where its data are gone the
        controller is notified that it failed."""
        parts = self._parts
        camera = parts.cameras.get(order.camera)
        data = None if camera is None else camera.closed.get(order.window)
        profile = None if camera is None else camera.profiles.get(order.config)
        if camera is None or data is None or profile is None:
            reason = "its data are gone" if data is None else "nothing is known of its configuration"
            failed = ev.RetrainingFailed(parts.clock.monotonic(), order.camera, order.job, reason)
            asyncio.get_running_loop().call_soon(self._dispatch, failed)
            return
        if order.camera in self.running:
            self._wait(order, camera)
            return
        if not order.lender and parts.supervisor.has(camera.trainer):
            self._wait(order, camera)
            self._spawn(self._start_when_gone(camera.trainer, order), f"start {order.job}")
            return
        job = self._job(order, camera, profile)
        parts.learning.unprofiled_retrainings += not profile.profiled
        self.running[order.camera] = RunningJob(
            order.job,
            order.camera,
            profile.config,
            order.window,
            order.share,
            parts.clock.utc(),
            profile.end_accuracy.value,
            profile.device_seconds.value * _work(job),
            plan=order.plan,
            box=order.lender,
        )
        self._record_start(order, camera, profile, job)
        if order.lender:
            self._borrowing.ask(order, job, profile.device_seconds.value)
            return
        parts.supervisor.start(
            Worker.trainer_of(camera.id),
            self._granted(order.share),
            training_worker,
            lambda: dataclasses.replace(job, finish=job.job in self._finishing),
            partial(self.received, order.camera),
            on_given_up=partial(self.given_up, order.camera, order.job),
            max_restarts=2,
            killable=True,
            finishes=True,
        )

    def stop(self, order: ev.StopRetraining) -> None:
        """End a job: with what it has, or without a result."""
        parts = self._parts
        camera = parts.cameras.get(order.camera)
        if camera is None:
            return
        waiting = self._waiting.get(order.camera)
        if waiting is not None and waiting.job == order.job:
            del self._waiting[order.camera]  # it never began
            self._nothing_comes(order)
            return
        self._note("retraining.stopped", camera=order.camera, data={"job": order.job, "reason": order.reason})
        parts.fact(RetrainingStepped(order.camera, "stopped"))
        if order.job in self._judging or (order.keep and self._borrowing.judges(order.job)):
            return
        if self._borrowing.has(order.job):
            self._borrowing.drop(order.job)
            self._end(order.camera, order.job, "stopped", order.reason)
            return
        running = self.running.get(order.camera)
        if running is None or running.job != order.job:
            return  # the trainer is another job's
        if order.keep and parts.supervisor.send(camera.trainer, m.FinishNow(keep=True)):
            self._finishing.add(order.job)
            return
        self._end(order.camera, order.job, "stopped", order.reason)
        self._nothing_comes(order)
        self._spawn(parts.supervisor.stop(camera.trainer, 1.0, m.FinishNow(keep=False)), f"stop {order.job}")

    def _nothing_comes(self, order: ev.StopRetraining) -> None:
        """Report to the controller, once it has given its orders: members of a group would wait for its result."""
        now = self._parts.clock.monotonic()
        failed = ev.RetrainingFailed(now, order.camera, order.job, order.reason)
        asyncio.get_running_loop().call_soon(self._dispatch, failed)

    def shares(self, shares: Mapping[str, float]) -> None:
        """The shares by camera that are in force now; a job that waits begins with its own."""
        for camera, share in shares.items():
            waiting, job = self._waiting.get(camera), self.running.get(camera)
            if waiting is not None and not waiting.lender:
                self._waiting[camera] = dataclasses.replace(waiting, share=share)
            if job is not None and not job.box and job.job not in self._judging:
                self.running[camera] = dataclasses.replace(job, share=share)

    # -- inside

    def _granted(self, share: float) -> float:
        shares = self._parts.shares
        return max(shares.quantized(share), shares.partitioner.caps.min_share)

    def _wait(self, order: ev.StartRetraining, camera: CameraRuntime) -> None:
        """The next one of the camera; the trainer of the one before goes on with its share. Where shares cannot be
        resized live that would start the trainer anew, which is about to end."""
        self._waiting[order.camera] = order
        job = self.running.get(order.camera)
        if order.lender or self._parts.shares.partitioner.caps.resize != "live":
            return
        self._parts.supervisor.resize(camera.trainer, self._granted(order.share))
        if job is not None and not job.box and job.job not in self._judging:
            self.running[order.camera] = dataclasses.replace(job, share=order.share)

    def _job(self, order: ev.StartRetraining, camera: CameraRuntime, profile: RetrainingProfile) -> m.RetrainingJob:
        parts = self._parts
        folder = Path(parts.site.data_dir) / "jobs"
        return m.RetrainingJob(
            job=order.job,
            camera=order.camera,
            data=camera.closed[order.window],
            parent=parts.student(camera.version),
            config=profile.config,
            spec=camera.version.spec,
            seed=order.window,
            checkpoint=folder / f"{order.camera}-{order.window}-{profile.config.id}.ckpt",
            output=folder / f"{order.job}.safetensors",
            cores=parts.shares.cores,
            download=parts.download(camera),
            region=camera.region,
            siblings=self._siblings.starts(camera),
            members=self._groups.members(order),
            guests=self._box_groups.guests(order.guests) if order.guests else (),
        )

    def _record_start(
        self, order: ev.StartRetraining, camera: CameraRuntime, profile: RetrainingProfile, job: m.RetrainingJob
    ) -> None:
        window = self._parts.controller.state.window
        self._parts.records.write(
            self._parts.store.windows.start_job,
            order.job,
            window,
            order.camera,
            order.config,
            order.share,
            accuracy_before=profile.start_accuracy,
            model_version=camera.version.id,
        )
        self._note(
            "retraining.started",
            camera=order.camera,
            window=window,
            data={
                "job": order.job,
                "config": order.config,
                "retraining": profile.config.to_json(),
                "share": order.share,
                "expected_accuracy": profile.end_accuracy.to_json(),
                "expected_device_seconds": profile.device_seconds.times(_work(job)).to_json(),
                "profiled": profile.profiled,
                "members": [one.camera for one in job.members],
                "lender": order.lender,
                "boxes": list(taught_boxes([one.camera for one in job.guests])),
            },
        )
        self._parts.fact(RetrainingStepped(order.camera, "started"))

    # -- what comes of them

    def received(self, camera: str, message: Any) -> None:
        """A worker, or another box, says how far a camera's retraining is, or hands its result over."""
        parts = self._parts
        job = self.running.get(camera)
        if job is None or message.job != job.job:
            if isinstance(message, m.TrainingDone):
                discard(message)
            return
        if isinstance(message, m.TrainingProgress):
            self.running[camera] = dataclasses.replace(
                job, fraction=message.fraction, held_out=message.held_out, device_seconds=message.device_seconds
            )
            parts.records.write(
                parts.store.windows.update_job,
                job.job,
                fraction=message.fraction,
                device_seconds=message.device_seconds,
            )
            self._dispatch(
                ev.RetrainingProgressed(
                    parts.clock.monotonic(), camera, job.job, message.device_seconds, message.fraction, message.held_out
                )
            )
        elif isinstance(message, m.TrainingDone):
            if job.job in self._judging:
                return  # handed over twice, in the same files
            self._judging.add(job.job)
            self._spawn(self._judge(camera, job, message), f"gate {job.job}")
        elif isinstance(message, m.TrainingDropped):
            self._end(camera, job.job, "stopped", "ended without a result")

    def given_up(self, camera: str, job: str, reason: str) -> None:
        """A retraining has no result."""
        if camera in self.running and self.running[camera].job == job:
            self._end(camera, job, "failed", reason)
            self._note("retraining.failed", camera=camera, data={"job": job, "reason": reason})
            self._parts.fact(RetrainingStepped(camera, "failed"))
            self._dispatch(ev.RetrainingFailed(self._parts.clock.monotonic(), camera, job, reason))

    def _ended(self, camera: str, name: str) -> RunningJob | None:
        """The retraining `name` of the camera is over, where it is still the one that runs: the next one may begin."""
        self._finishing.discard(name)
        job, order = self.running.get(camera), self._waiting.get(camera)
        if job is None or job.job != name:
            return None
        del self.running[camera]
        if order is not None:
            self._spawn(self._start_when_gone(Worker.trainer_of(camera).name, order), f"start {order.job}")
        return job

    async def _start_when_gone(self, trainer: str, order: ev.StartRetraining) -> None:
        """Start a job that waits, once the process of the one before has ended."""
        await self._parts.supervisor.stop(trainer)
        waiting = self._waiting.get(order.camera)
        if waiting is not None and waiting.job == order.job:
            del self._waiting[order.camera]
            self.start(waiting)  # its share may have changed since

    def _end(self, camera: str, name: str, state: JobState, reason: str) -> None:
        job = self._ended(camera, name)
        if job is not None:
            self._parts.records.write(
                self._parts.store.windows.end_job, job.job, state, device_seconds=job.device_seconds, reason=reason
            )

    async def _judge(self, name: str, job: RunningJob, done: m.TrainingDone) -> None:
        try:
            await self._through_gate(name, job, done)
        except Exception:
            # Nothing else ends it, and the camera's next one would wait for ever.
            self.given_up(name, job.job, "it could not be judged")
            raise
        finally:
            self._judging.discard(job.job)

    async def _through_gate(self, name: str, job: RunningJob, done: m.TrainingDone) -> None:
        """Through the gate, and its group's members after it; the controller is notified when all are judged."""
        parts = self._parts
        camera = parts.cameras.get(name)
        if camera is None:
            discard(done)
            return
        if done.for_guests is not None:
            self._spawn(self._box_groups.trained(job, done), f"students of {job.job} for other boxes")
        window = parts.controller.state.window
        try:
            judged = await self._gate.judge(
                camera, done, job.config, job.window, parts.window.settings.gate_tolerance, f"p{job.plan}"
            )
        except MagpieError as error:
            await self._groups.judge(job, done)
            self.given_up(name, job.job, str(error))
            return
        # Where its trainer was given up while it was judged, its end is recorded already.
        recorded = self._ended(name, job.job) is None
        self._record_result(job, done, judged, window, recorded)
        self._preparation.retrained(camera, job, done, judged.learned)
        try:
            await self._groups.judge(job, done, judged.version if judged.learned else "")
        finally:
            # One that was added again meanwhile has no part in it.
            if parts.cameras.get(name) in (camera, None):
                self._dispatch(judged.completed(parts.clock.monotonic(), name, job.job))

    def _record_result(
        self, job: RunningJob, done: m.TrainingDone, judged: Judged, window: int, end_recorded: bool
    ) -> None:
        parts = self._parts
        parts.records.write(
            parts.store.windows.add_cost, window, "retraining", camera=job.camera, device_seconds=done.device_seconds
        )
        if not end_recorded:
            parts.records.write(
                parts.store.windows.end_job,
                job.job,
                "completed",
                device_seconds=done.device_seconds,
                accuracy_after=judged.accuracy,
                promoted=judged.promoted,
                reason=judged.reason,
                model_version=judged.version,
            )
        self._note(
            judged.kind,
            camera=job.camera,
            window=window,
            data=judged.facts(job.config)
            | {"expected_accuracy": job.predicted_accuracy, "device_seconds": done.device_seconds},
        )
        parts.fact(judged.fact(job.camera, done.device_seconds))


def _work(job: m.RetrainingJob) -> float:
    """Of a retraining, as a multiple of the leader's own."""
    return group_work(len(job.members) + len(job.guests))
