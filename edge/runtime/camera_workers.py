"""The cameras' workers: it starts them with their settings, takes their messages, and sets what they look at and how
often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edge.core import events as ev
from edge.core.access import SECRETS_FILE
from edge.core.baseline import Baseline, RegionRecord
from edge.core.camera import CameraState
from edge.core.clips import ClipAsked, ClipFailed, ClipMade
from edge.core.configs import WHOLE, Region
from edge.core.errors import MagpieError
from edge.core.facts import FrameSampled
from edge.core.journal_kinds import JournalKind, JournalNote
from edge.core.labels import SampledFrame
from edge.core.models import ModelVersion
from edge.core.plan_causes import CameraChange
from edge.core.workers import Worker
from edge.recording.labelled_windows import pictured_windows
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, assumed_profile, looking_at, score_document
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.mains import camera_worker
from edge.runtime.siblings import Siblings
from edge.runtime.versions import Versions
from edge.settings import CameraSettings
from scheduler.degrade import choose_inference
from scheduler.regions import holds, next_region

#: The entries that a camera's states are journaled as.
_STATES: Mapping[CameraState, JournalKind] = {
    "connecting": "camera.connecting",
    "live": "camera.live",
    "stalled": "camera.stalled",
    "reconnecting": "camera.reconnecting",
    "refused": "camera.refused",
    "stopped": "camera.stopped",
}


class CameraWorkers:
    """The runtime's hands for its cameras. `forget_retraining(camera)` ends one's retraining without a result,
    `sample_closed(camera, window, frames)` takes the last frames of a sample. `dispatch` hands an event to the
    controller, `note` journals, `on_preview` takes live pictures, `on_answer` each camera's answers and the pictures
    that `take_pictures` asked for."""

    def __init__(
        self,
        parts: LeafParts,
        versions: Versions,
        siblings: Siblings,
        forget_retraining: Callable[[str], None],
        sample_closed: Callable[[str, int, tuple[SampledFrame, ...]], None],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        on_preview: Callable[[str, m.Preview], None],
        on_answer: Callable[[str, m.Answered | m.Picture], None],
    ) -> None:
        self._parts, self._versions, self._siblings = parts, versions, siblings
        self._forget_retraining, self._sample_closed = forget_retraining, sample_closed
        self._dispatch, self._note = dispatch, note
        self._on_preview, self._on_answer = on_preview, on_answer
        self._data = Path(parts.site.data_dir)
        self._watching: dict[str, float] = {}
        #: The applications that a camera's answers ask, by camera, and the way to the front.
        self.feeds: dict[str, m.FeedApplications] = {}
        #: How many cameras a start is about to take in: each is first given its part of the device by it.
        self.expected = 0

    # -- coming and going

    def add(
        self,
        settings: CameraSettings,
        version: ModelVersion,
        frozen: ModelVersion,
        baseline: Baseline | None = None,
        score: float | None = None,
    ) -> None:
        """Take a camera in, with what earlier windows taught of its download, and the least score that was chosen for
        its version; its worker starts if it is enabled."""
        parts = self._parts
        parts.start_labelling()
        camera = CameraRuntime(settings, version, frozen, assumed_profile(settings.inference, parts.shares.cores))
        camera.baseline = baseline if camera.published else None
        camera.score = None if score is None else (version.id, score)
        fixed = camera.fixed_region()
        # A record of an older version says nothing of retrained students: what the download's said then, held for them.
        record = camera.record or (None if camera.baseline is None else camera.baseline.download)
        # Which region was in force is not known any more: it must be better beyond the noise again.
        camera.take_region(self._region(camera, record, WHOLE) if fixed is None else fixed)
        camera.pictured = pictured_windows(self._data, settings.id)
        parts.cameras[settings.id] = camera
        parts.golden.labels.set_classes(settings.id, settings.classes, settings.class_map)
        if not settings.enabled:
            return
        fair = parts.shares.camera_capacity() / max(1, self.expected, len(parts.cameras))
        caps = parts.shares.partitioner.caps
        camera.share = caps.quantize(max(caps.min_share, min(1.0, fair)))
        camera.inference = settings.inference.space(camera.region)[0]
        parts.supervisor.start(
            Worker.of_camera(camera.id),
            camera.share,
            camera_worker,
            partial(self._spec, settings.id),
            partial(self._received, settings.id),
            on_lost=partial(self._lost, settings.id),
        )
        self._join(camera)

    async def remove(self, camera: str) -> None:
        """Stop everything of a camera. The caller deletes its record. Raises NotFound."""
        parts = self._parts
        found = parts.camera(camera)
        del parts.cameras[camera]
        self.feeds.pop(camera, None)
        self._dispatch(ev.CameraLeft(parts.clock.monotonic(), camera))
        parts.golden.labels.forget_camera(camera)
        parts.learning.forget(camera)
        self._siblings.forget(camera)
        await asyncio.gather(
            parts.supervisor.stop(found.trainer, 1.0, m.FinishNow(keep=False)), parts.supervisor.stop(found.worker)
        )
        await self._versions.leave(found)
        self._forget_retraining(camera)

    def settle(self, settings: CameraSettings) -> None:
        """Settings that only the control process looks at are in force at once, without another worker: a region that
        is fixed by hand, too; one that is to be learned again stays as it is until a window ends. Raises NotFound."""
        camera = self._parts.camera(settings.id)
        before, camera.settings = camera.settings, settings
        fixed = camera.fixed_region()
        if before.inference.region != settings.inference.region and fixed is not None:
            self._look_at(camera, fixed)
        if before.retraining == settings.retraining or not settings.enabled:
            return
        known = self._parts.controller.state.cameras.get(settings.id)
        self._changed(camera, "camera_settings", start_accuracy(camera) if known is None else known.accuracy)

    def changed(self, camera: CameraRuntime, what: CameraChange) -> None:
        """Notify the controller that another version is in force, or may be replaced from now on or not."""
        if camera.settings.enabled:
            self._changed(camera, what, start_accuracy(camera))

    # -- orders

    def next_window(self, camera: CameraRuntime, before: int, window: int) -> bool:
        """The sample of `window` begins; `before` is the one that ends (0: none). False if the worker is not there."""
        parts = self._parts
        begun = m.NextWindow(before, window, parts.window.settings.window_s, parts.labels(camera))
        return parts.supervisor.send(camera.worker, begun)

    def go_on(self, camera: CameraRuntime, window: int) -> None:
        """The sample of `window` goes on after a restart of the appliance."""
        spec = self._spec(camera.id)
        going_on = m.NextWindow(0, window, spec.window_left_s, spec.target_frames)
        self._parts.supervisor.send(camera.worker, going_on)

    def choose_inference(self, camera: CameraRuntime) -> None:
        """Answer in the way that the camera's share keeps up with."""
        chosen = choose_inference(camera.profile, camera.share, camera.inference)
        if chosen != camera.inference:
            camera.inference = chosen
            self._parts.supervisor.send(camera.worker, m.SetInference(chosen))
            facts = {"lambda": chosen.to_json(), "share": camera.share}
            self._note("inference.changed", camera=camera.id, data=facts)

    def choose_score(self, camera: CameraRuntime, version: str, score: float) -> None:
        """The least score of an answered object from now on, if `version` is in force still."""
        if version != camera.version.id:
            return
        camera.score = (version, score)
        self._parts.keep_document(score_document(camera.id), {"version": version, "score": score}, "score")
        self._parts.supervisor.send(camera.worker, m.SetScore(version, score))

    @staticmethod
    def _region(camera: CameraRuntime, record: RegionRecord | None, in_force: Region) -> Region:
        """The next region, where it has all lines and zones, which may have been drawn after it was learned."""
        region = in_force if record is None else next_region(record, in_force)
        return region if holds(region, camera.settings.places()) else WHOLE

    def look(self, camera: CameraRuntime) -> None:
        """A window ends: look at another part of the picture from here on, where that was learned."""
        if camera.baseline is None or camera.fixed_region() is not None:
            return
        self._look_at(camera, self._region(camera, camera.record, camera.region))

    def _look_at(self, camera: CameraRuntime, region: Region) -> None:
        if region == camera.region:
            return
        camera.take_region(region)
        if camera.inference is not None:
            self._parts.supervisor.send(camera.worker, m.SetInference(camera.inference))
        self._note("region.changed", camera=camera.id, data={"region": list(camera.region)})

    def take_pictures(self, camera: str, order: m.TakePictures) -> bool:
        """Ask a camera's worker for pictures of an answered frame; False if it cannot be asked."""
        found = self._parts.cameras.get(camera)
        return found is not None and self._parts.supervisor.send(found.worker, order)

    def make_clip(self, asked: ClipAsked) -> bool:
        """Ask a camera's worker for a clip; False if it cannot be asked."""
        found = self._parts.cameras.get(asked.camera)
        if found is None or not found.settings.enabled:
            return False
        return self._parts.supervisor.send(found.worker, asked)

    def watch(self, camera: str, fps: float) -> None:
        """Ask a camera's worker for encoded pictures (0: none). Raises NotFound."""
        if self._watching.get(camera, 0.0) != fps:
            self._watching[camera] = fps
            self._parts.supervisor.send(self._parts.camera(camera).worker, m.Watch(fps))

    # -- inside

    def _join(self, camera: CameraRuntime) -> None:
        retrain, learns = camera.settings.retraining, _learns(camera)
        self._dispatch(
            ev.CameraJoined(
                self._parts.clock.monotonic(), camera.id, start_accuracy(camera), camera.profile,
                retrain.every_kth_window, camera.version.id, learns,
            )
        )  # fmt: skip

    def _changed(self, camera: CameraRuntime, what: CameraChange, accuracy: float) -> None:
        retrain, learns = camera.settings.retraining, _learns(camera)
        self._dispatch(
            ev.CameraChanged(
                self._parts.clock.monotonic(), what, camera.id, accuracy, camera.profile, retrain.every_kth_window,
                camera.version.id, learns,
            )
        )  # fmt: skip

    def _spec(self, camera: str) -> m.CameraWorkerSpec:
        parts = self._parts
        c = parts.cameras[camera]
        state = parts.controller.state
        window_s = parts.window.settings.window_s
        left_s = max(1.0, state.window_start_s + window_s - parts.clock.monotonic())
        return m.CameraWorkerSpec(
            settings=c.settings,
            student=parts.student(c.version),
            inference=c.inference or c.settings.inference.space(c.region)[0],
            record_root=self._data / "pictures",
            recording=parts.site.recording,
            # Before the first boundary it is not known which window goes on.
            window=0 if state.phase == "idle" else state.window,
            window_left_s=left_s,
            # After a restart of the worker its sample goes on with what is left of time and budget.
            target_frames=max(
                1,
                round(parts.labels(c) * min(1.0, left_s / window_s)),
            ),
            cores=parts.shares.cores,
            watch_fps=self._watching.get(camera, 0.0),
            secrets=self._data / SECRETS_FILE,
            score=c.score_of(c.version.id),
            feed=self.feeds.get(camera),
            clips=parts.site.clips if parts.site.clips.enabled and c.settings.clips.enabled else None,
        )

    def _received(self, name: str, message: Any) -> None:
        parts = self._parts
        if isinstance(message, ClipMade | ClipFailed):  # also the last word of a worker that was asked to end
            parts.fact(message)
            return
        # The end of a switch counts also where the camera is being removed.
        if isinstance(message, m.Swapped):
            self._versions.switched(name, message)
        elif isinstance(message, m.SwapFailed):
            failed = MagpieError(f"{name}: {message.version} could not be put in force: {message.reason}")
            self._versions.switched(name, failed)
        camera = parts.cameras.get(name)
        if camera is None:
            return
        if not camera.worker_up:
            camera.worker_up = True
            self._note("camera.worker_up", camera=name)
        if isinstance(message, m.CameraReport):
            self._reported(camera, message)
        elif isinstance(message, m.Preview):
            self._on_preview(name, message)
        elif isinstance(message, m.Answered | m.Picture):
            self._on_answer(name, message)
        elif isinstance(message, m.Sampled):
            parts.golden.labels.add(message.frame)
            self._siblings.sampled(camera, message.frame)
            parts.fact(FrameSampled(message.frame))
        elif isinstance(message, m.SampleClosed):
            self._sample_closed(name, message.window, message.frames)
        elif isinstance(message, m.Measured):
            camera.profile = looking_at(message.profile, camera.region)
            if not camera.announced:
                camera.announced = True
                self._changed(camera, "camera_measured", parts.controller.state.cameras[name].accuracy)
        elif isinstance(message, m.Swapped):
            camera.swaps.add(message)

    def _reported(self, camera: CameraRuntime, report: m.CameraReport) -> None:
        before, camera.report = camera.report, report
        status = report.status
        if before is None or (before.status.state, before.status.fault) != (status.state, status.fault):
            facts = {"fault": status.fault, "message": status.message}
            self._note(_STATES[status.state], camera=camera.id, data=facts)

    def _lost(self, name: str, reason: str) -> None:
        camera = self._parts.cameras.get(name)
        if camera is not None:
            camera.worker_up, camera.report = False, None
            died = MagpieError(f"{name}: its worker died while the model was switched")
            self._versions.switched(name, died)


def start_accuracy(camera: CameraRuntime) -> float:
    """The known accuracy [0, 1] of a camera's version in force."""
    scores = camera.version.scores
    return min(1.0, max(0.0, scores.get("held_out", scores.get("accuracy", 0.5))))


def _learns(camera: CameraRuntime) -> bool:
    """Whether the camera's model may be retrained."""
    return camera.settings.retraining.enabled and not camera.version.pinned
