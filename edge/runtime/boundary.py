"""The end of a camera's window: its sample is closed, labelled, kept and measured."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.core import events as ev
from edge.core.accuracy import realised
from edge.core.alarms import AccuracyMeasured
from edge.core.baseline import Baseline
from edge.core.errors import MagpieError, NotFound
from edge.core.journal_kinds import JournalNote
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow, SampledFrame
from edge.core.roll_backs import AUTOMATIC
from edge.recording.exemplars import read_exemplars
from edge.recording.kept_out import read_kept_out
from edge.recording.labelled_windows import manifest_path, pictured_windows, window_bytes, write_manifest
from edge.recording.remembering import MemoryFolders, remember_by_labels
from edge.recording.split import build_labelled_window
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, WindowAccuracy
from edge.runtime.camera_workers import CameraWorkers
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.learning import drift_per_s, with_late_labels
from edge.runtime.preparation import Preparation
from edge.runtime.siblings import Siblings
from edge.runtime.versions import Versions
from scheduler.learning.budget import MEMORY_WAIT, TRIED_EACH, looks_in_time
from scheduler.promotion import roll_back

#: Waiting for the last labels of a closed sample may take this part of a window.
LABEL_WAIT = 0.08
#: A camera's worker hands the last frames of its sample over within so many seconds.
CLOSE_S = 5.0
#: Windows whose measured cameras are remembered.
_REMEMBERED = 100


class Boundary:
    """The runtime's hands at a window's end. `dispatch` hands an event to the controller, `note` journals,
    `spawn(work, name)` runs beside the loop's main work."""

    def __init__(
        self,
        parts: LeafParts,
        preparation: Preparation,
        camera_workers: CameraWorkers,
        versions: Versions,
        siblings: Siblings,
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        spawn: Callable[..., None],
        close_s: float = CLOSE_S,
    ) -> None:
        self._parts, self._preparation, self._camera_workers = parts, preparation, camera_workers
        self._versions, self._siblings = versions, siblings
        self._dispatch, self._note, self._spawn, self._close_s = dispatch, note, spawn, close_s
        self._data = Path(parts.site.data_dir)
        #: Cameras of which all that is measured of a window is known (or will never be), by window.
        self.measured: dict[int, set[str]] = {}
        self._closing: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._remembering: dict[str, asyncio.Future[bool]] = {}

    def close(self, order: ev.CloseSample) -> None:
        """Begin to close a camera's sample."""
        self._preparation.share()
        self._spawn(self._close_sample(order.camera, order.window), f"close {order.camera}/{order.window}")

    def sample_closed(self, camera: str, window: int, frames: tuple[SampledFrame, ...]) -> None:
        """The camera's worker handed the last frames of its sample over."""
        for frame in frames:
            self._parts.golden.labels.add(frame)
        waiting = self._closing.pop((camera, window), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def remembered(self, camera: str, looked: bool = True) -> None:
        """The camera's exemplars were picked, or no profiler could look at its pictures (`looked` is False)."""
        done = self._remembering.get(camera)
        if done is not None and not done.done():
            done.set_result(looked)

    def not_measured(self, window: int, camera: str) -> None:
        """Nothing more will be known of the camera's window."""
        self.measured.setdefault(window, set()).add(camera)
        for old in [n for n in self.measured if n < window - _REMEMBERED]:
            del self.measured[old]

    def evaluated(self, result: m.Evaluated) -> None:
        """The students in shadow were measured: update the camera, its record and its version in force."""
        parts = self._parts
        camera = parts.cameras.get(result.camera)
        if camera is None:
            return
        camera.measured = WindowAccuracy(result.realised, result.frozen, result.download, result.download_whole)
        if result.baseline is not None:
            self._learned_baseline(camera, result.baseline)
        now = camera.inference
        looks = now is None or result.looked is None or now == replace(result.looked, frame_rate=now.frame_rate)
        if result.score is not None and looks:  # a score of another look is no better than the one in force
            self._camera_workers.choose_score(camera, result.version, result.score)
        self._siblings.learned(camera.id, result.look)
        self._record(camera, result)
        judged = result.version == camera.version.id and not camera.version.pinned
        if judged and result.current_live is not None and result.parent_live is not None:
            reason = roll_back(
                result.current_live.value,
                result.parent_live.value,
                result.current_live.frames,
                parts.window.settings.rollback_margin,
            )
            if reason is not None:
                back = self._versions.roll_back(camera, None, AUTOMATIC, reason, judged=result.version)
                self._spawn(back, f"roll back {camera.id}")
        self.not_measured(result.window, camera.id)

    # -- inside

    async def _close_sample(self, name: str, window: int) -> None:
        parts = self._parts
        began = parts.clock.monotonic()
        camera = parts.camera(name)
        looked = camera.inference
        await self._last_frames(camera, window)
        self._camera_workers.look(camera)
        camera.profiles = {}
        # Only now, between two windows: no retraining reads the pictures that the memory lets go.
        _, frames = await asyncio.gather(
            self._remember(camera),
            parts.golden.labels.complete(name, window, LABEL_WAIT * parts.window.settings.window_s),
        )
        self._preparation.share()
        data = await self._labelled_window(camera, window, frames)
        parts.records.write(
            parts.store.windows.put_camera_window,
            window,
            name,
            model_version=camera.version.id,
            frames_labelled=len(frames),
            objects_labelled=sum(len(f.labels) for f in frames),
            labelling_delay_s=parts.clock.monotonic() - began,
        )
        if parts.cameras.get(name) is not camera:
            return
        if data is None:
            await self._weigh(camera, window)
            self.not_measured(window, name)
            self._labelled(camera, window, None, None)
            return
        camera.closed = {window: data}
        await asyncio.to_thread(write_manifest, self._data, data)
        measured = await asyncio.to_thread(realised, data.task, data.all_sampled, len(data.classes))
        parts.learning.seen(name, window, measured.value, await asyncio.to_thread(drift_per_s, data))
        self._labelled(camera, window, data, measured)
        # One that was asked for at the last boundary and has not begun would only put this one off.
        for late in parts.profilers.withdraw(lambda job: isinstance(job, m.Evaluate) and job.data.camera == camera.id):
            self.not_measured(late.data.window, camera.id)
            parts.complaints.add("measuring_late", "a window was not measured before the next was over", camera.id)
        # The students in shadow can wait: the plan does not need them.
        parent = await self._versions.parent(camera.version)
        parts.profilers.ask(
            m.Evaluate(
                data,
                parts.student(camera.frozen),
                parts.student(camera.version),
                None if parent is None else parts.student(parent),
                parts.shares.cores,
                looked,
                (camera.baseline or Baseline()) if camera.published else None,
                camera.published and camera.fixed_region() is None,
                camera.settings.places(),
            )
        )
        await self._weigh(camera, window)

    async def _last_frames(self, camera: CameraRuntime, window: int) -> None:
        """Have the worker begin the next window's sample and wait for what is left of this one."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing[(camera.id, window)] = future
        if self._camera_workers.next_window(camera, window, window + 1):
            try:
                async with asyncio.timeout(self._close_s):
                    await future
            except TimeoutError:
                why = {"reason": "the worker did not answer"}
                self._note("sample.not_closed", camera=camera.id, window=window, data=why)
        self._closing.pop((camera.id, window), None)

    async def _remember(self, camera: CameraRuntime) -> None:
        """Pick exemplars of the data that the camera was retrained on last; waits, at most a little. Where profilers
        have no time to look at its pictures, its labels tell which of them are typical."""
        parts = self._parts
        if not camera.closed or not (parts.window.settings.exemplars or camera.published):
            return
        data, s = camera.closed[max(camera.closed)], parts.window.settings
        kept_out = self._kept_out_root(camera.id) if camera.published else None
        folders = MemoryFolders(self._exemplar_root(camera.id), s.exemplars, kept_out)
        enabled = sum(c.settings.enabled for c in parts.cameras.values())
        speed = parts.profilers.speed(self._preparation.thread)
        budget = parts.learning.budget
        in_time = looks_in_time(parts.learning.facts.memory_s, enabled, speed, s.window_s)
        in_time = in_time and (budget is None or budget.looks)
        if not in_time and data.window % TRIED_EACH:
            await self._remember_by_labels(camera, folders, data)
            return
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._remembering[camera.id] = done
        parts.profilers.ask(m.Remember(data, parts.student(camera.version), folders, parts.shares.cores))
        try:
            async with asyncio.timeout(MEMORY_WAIT * s.window_s):
                looked = await asyncio.shield(done)
        except TimeoutError:
            if parts.profilers.withdraw(lambda j: isinstance(j, m.Remember) and j.data.camera == camera.id):
                self._note("exemplars.late", camera=camera.id, window=data.window)
                looked = False
            else:
                # It has begun, and lets pictures go: the next training data must not name them.
                looked = await done
        finally:
            self._remembering.pop(camera.id, None)
        if not looked:
            await self._remember_by_labels(camera, folders, data)

    async def _remember_by_labels(self, camera: CameraRuntime, folders: MemoryFolders, data: LabelledWindow) -> None:
        if self._parts.cameras.get(camera.id) is not camera or camera.closed.get(data.window) is not data:
            return  # it left, or its labels are of other classes now
        try:
            await asyncio.to_thread(remember_by_labels, folders, data)
        except MagpieError as error:
            self._parts.complaints.add(error.code, str(error), data.camera)

    async def _labelled_window(
        self, camera: CameraRuntime, window: int, frames: tuple[LabelledFrame, ...]
    ) -> LabelledWindow | None:
        parts = self._parts
        if not frames:
            self._note("window.no_labels", camera=camera.id, window=window)
            return None
        s = camera.settings
        try:
            data = await asyncio.to_thread(
                build_labelled_window,
                s.id,
                window,
                s.task,
                s.classes,
                frames,
                parts.window.settings.held_out,
                read_exemplars(self._exemplar_root(s.id)),
                0.0,
                read_kept_out(self._kept_out_root(s.id)) if camera.published else None,
            )
        except MagpieError as error:
            parts.complaints.add(error.code, str(error), camera.id)
            return None
        with_late = with_late_labels(data, parts.golden.labels.take_late(camera.id))
        parts.learning.late_labels_used += len(with_late.exemplars) - len(data.exemplars)
        return with_late

    def _labelled(
        self, camera: CameraRuntime, window: int, data: LabelledWindow | None, measured: Accuracy | None
    ) -> None:
        parts = self._parts
        held_out = 0 if data is None else len(data.held_out)
        self._dispatch(
            ev.SampleLabelled(
                parts.clock.monotonic(),
                camera.id,
                window,
                0 if data is None else len(data.train),
                held_out,
                None if measured is None else measured.value,
                camera.profile,
                parts.learning.correction(camera.id, window + 1, parts.window.settings, held_out),
            )
        )

    async def _weigh(self, camera: CameraRuntime, window: int) -> None:
        """Record the window's size on disk, and the present size of those whose pictures the recorder dropped since;
        retention goes by it.
        """
        before = camera.pictured
        camera.pictured = await asyncio.to_thread(pictured_windows, self._data, camera.id)
        for number in {window} | (before - camera.pictured):
            size = await asyncio.to_thread(window_bytes, self._data, camera.id, number)
            self._parts.records.write(self._put_weight, number, camera.id, size)

    def _put_weight(self, window: int, camera: str, size: int) -> None:
        path = manifest_path(self._data, camera, window).relative_to(self._data)
        with contextlib.suppress(NotFound):  # retention has deleted the window
            self._parts.store.windows.put_camera_window(window, camera, manifest=str(path), picture_bytes=size)

    def _learned_baseline(self, camera: CameraRuntime, baseline: Baseline) -> None:
        camera.baseline = baseline
        self._parts.keep_document(f"baseline/{camera.id}", baseline.to_json(), "baseline")

    def _record(self, camera: CameraRuntime, result: m.Evaluated) -> None:
        parts = self._parts
        details: dict[str, Any] = {"quality": result.quality, "class_counts": result.class_counts}
        if result.download is not None:
            details["download"] = result.download.to_json()
        if result.download_whole is not None:
            details["download_whole"] = result.download_whole.to_json()
        promise = parts.learning.kept(result.camera, result.window)
        if promise is not None:
            details["promise"] = promise
        if result.current_live is not None:
            details["current_fresh"] = result.current_live.to_json()
        parts.records.write(
            parts.store.windows.put_camera_window,
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
                "download_whole": _value(result.download_whole),
            },
        )
        if result.realised is not None:
            parts.fact(AccuracyMeasured(camera.id, result.window, result.realised.value))

    def _exemplar_root(self, camera: str) -> Path:
        return self._data / "exemplars" / camera

    def _kept_out_root(self, camera: str) -> Path:
        return self._data / "kept-out" / camera


def _value(accuracy: Accuracy | None) -> float | None:
    return None if accuracy is None else round(accuracy.value, 4)
