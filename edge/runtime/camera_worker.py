"""Worker main of one camera: decode, answer at the lambda in force, keep the sample, hot-swap the student.

Only frames that somebody will use are converted to RGB: those that are answered, recorded or watched.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
from numpy.typing import NDArray

from edge.core.errors import MagpieError
from edge.core.vision import Frame, Observation
from edge.inference import LiveStudent, Pacer, ProfileMeter, prepare
from edge.inference.looks import looks
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.recording.recorder import Recorder
from edge.runtime import messages as m
from edge.runtime.device import open_bucket
from edge.runtime.process import Channel, Retire, Stop, TakeOver
from edge.students.weights import AnyStudent

#: Recorded pictures are at most so wide: more than any teacher here looks at.
_RECORD_WIDTH = 1280
#: The live picture on the page.
_JPEG_QUALITY = 75
#: Answers told to whoever follows objects: at most so many a second. Answered frames kept for their pictures.
_TOLD_PER_S, _KEPT_FRAMES = 10.0, 3
#: Pictures of alarms are so wide; those of objects show the object and half its size around it.
_PICTURE_WIDTH, _CROP_WIDTH, _CROP_AROUND = 640, 320, 0.5
_REPORT_S = 1.0
#: Answers before cost and staleness are measured for the first time, and seconds between later measurements.
_MEASURE_AFTER, _MEASURE_EVERY_S = 12, 60.0
#: One that stands by is ready when it has answered a frame; after so long without one, when its student is warm.
_STANDBY_S = 10.0


def camera_worker(channel: Channel, spec: m.CameraWorkerSpec) -> None:
    """Runs until it is told to stop. A camera that cannot be read never ends it: its state says so."""
    worker = _CameraWorker(channel, spec)
    try:
        worker.run()
    finally:
        worker.close()


class _CameraWorker:
    def __init__(self, channel: Channel, spec: m.CameraWorkerSpec) -> None:
        s = spec.settings
        self._channel, self._spec = channel, spec
        self._share = open_bucket()
        self._device = self._share.device
        channel.beat()
        with self._share.batch(stop=channel.beating):
            student = prepare(spec.student.path, self._device)
        self._live = LiveStudent(
            student,
            spec.student.version,
            s.id,
            score=s.inference.score_threshold,
            probe_resolutions=s.inference.resolutions,
            cpu_clock=time.thread_time if self._device == "cpu" else self._share.used_s,
        )
        self._take_score(spec)
        self._config = spec.inference
        self._pacer = Pacer(spec.inference.frame_rate)
        self._reader = CameraReader(m.camera_source(s, spec.secrets), seed=sum(map(ord, s.id)))
        # Two that record the same camera would undo each other's work: one that stands by has no recorder.
        self._recorder = None if channel.standby else self._open_recorder(spec)
        self._standing_by = channel.standby
        self._ready_by = time.monotonic() + _STANDBY_S
        self._retiring = False
        self._meter = ProfileMeter(s.inference.space(spec.inference.region), spec.cores, self._profile_clock())
        self._pending_swap: tuple[str, AnyStudent] | None = None
        self._swap_failed: tuple[str, str] | None = None
        self._swap_watch: _SwapWatch | None = None
        self._answers = self._stale = self._unanswered = self._recorded = 0
        self._last_number = 0
        self._answered_frame: Frame | None = None
        self._answered_frames: deque[Frame] = deque(maxlen=_KEPT_FRAMES)
        self._told_at, self._not_told = 0.0, 0
        self._answer_times: deque[float] = deque(maxlen=600)
        self._costs: deque[float] = deque(maxlen=30)
        self._answering_s = 0.0
        self._last_answer_utc_s = 0.0
        self._watch_fps, self._watch_width, self._watch_due = spec.watch_fps, 640, 0.0
        self._report_due = 0.0
        self._measured_at: float | None = None

    def close(self) -> None:
        self._reader.close()
        self._share.close()

    def run(self) -> None:
        self._reader.start()
        self._channel.beat()
        self._tell_kept(self._spec.window)
        while True:
            if self._commands():
                return
            self._channel.beat()
            self._switch_if_ready()
            self._ready_if_warm()
            # Wait for the share first, then take the newest frame: an answer is never about an old picture.
            if not self._share.ready(timeout_s=0.25):
                self._report()
                continue
            raw = self._reader.latest(self._last_number, 0.2)
            if raw is not None:
                self._on_frame(raw)
            else:
                self._share.idle()
            self._report()

    # -- one camera, two processes for a moment

    def _open_recorder(self, spec: m.CameraWorkerSpec) -> Recorder:
        recorder = Recorder(
            spec.record_root,
            spec.settings.id,
            max_frames=spec.recording.max_frames,
            max_bytes=int(spec.recording.max_mb * 1e6),
            keep_windows=spec.recording.keep_windows,
        )
        if spec.window:
            recorder.open_window(spec.window, time.monotonic(), spec.window_left_s, spec.target_frames)
        return recorder

    def _tell_kept(self, window: int) -> None:
        """Frames of the open window that an earlier process kept: whoever labels them may not know them."""
        for frame in self._recorder.frames(window) if self._recorder is not None and window else ():
            self._channel.send(m.Sampled(frame))

    def _profile_clock(self) -> Callable[[], float]:
        """Device time of this process. On a GPU decoding costs none of it: only answers count."""
        return time.process_time if self._device == "cpu" else lambda: self._answering_s

    def _ready_if_warm(self) -> None:
        if self._ready_by and (self._answers or not self._standing_by or time.monotonic() > self._ready_by):
            self._ready_by = 0.0
            self._channel.ready()

    def _take_score(self, spec: m.CameraWorkerSpec) -> None:
        """The least score that past windows chose outlives the process that learned of it."""
        if spec.score is not None:
            self._live.choose_score(spec.student.version, spec.score)

    def _take_over(self, spec: m.CameraWorkerSpec) -> None:
        """The process before has stopped: record, report and show from now on, as things stand now."""
        self._standing_by = False
        self._config = spec.inference
        self._pacer = Pacer(spec.inference.frame_rate)
        self._watch_fps = spec.watch_fps
        self._take_score(spec)
        self._recorder = self._open_recorder(spec)
        self._tell_kept(spec.window)
        if spec.student.version != self._live.version:
            self._begin_swap(m.Swap(spec.student.version, spec.student.path))

    # -- frames

    def _on_frame(self, raw: RawFrame) -> None:
        self._last_number = raw.number
        now = raw.monotonic_s
        answer_due = self._pacer.due(now)
        record_due = self._recorder is not None and self._recorder.wants(now)
        watch_due = self._watch_fps > 0 and now >= self._watch_due and not self._standing_by
        if not (answer_due or record_due or watch_due):
            self._stale += 1
            self._live.skip_time(raw.number, now, raw.utc_s)
            return
        with self._share.batch():
            began = time.process_time()
            frame = self._convert(raw)
            converted = time.process_time() - began if self._device == "cpu" else 0.0
            if answer_due:
                look = self._config
                observation = self._live.answer(frame, look.resolution, look.region, look.shape)
                self._answered_frame = frame
                self._answered(observation, converted)
                self._tell_answer(frame, observation)
            else:
                observation = self._live.skip(frame)
                self._stale += 1
            if record_due and self._recorder is not None:
                self._record(self._recorder, frame, observation)
            if watch_due:
                self._preview(frame, observation)

    def _convert(self, raw: RawFrame) -> Frame:
        if raw.width <= _RECORD_WIDTH:
            return self._reader.convert(raw)
        return self._reader.convert(raw, _RECORD_WIDTH, max(2, round(raw.height * _RECORD_WIDTH / raw.width)))

    def _answered(self, observation: Observation, converting_s: float) -> None:
        now = time.monotonic()
        self._answers += 1
        self._answer_times.append(now)
        self._costs.append(observation.inference_s + converting_s)
        self._answering_s += observation.inference_s + observation.details.get("probe_s", 0.0)
        self._last_answer_utc_s = observation.utc_s
        self._meter.observe(observation)
        if self._swap_watch is not None and self._swap_watch.answered(observation.model_version, now):
            watch, self._swap_watch = self._swap_watch, None
            self._channel.send(m.Swapped(watch.version, watch.longest_gap_s, watch.frames_lost))

    def _tell_answer(self, frame: Frame, observation: Observation) -> None:
        """Objects are followed in the control process; a worker that stands by follows none."""
        if self._recorder is None:
            return
        if frame.monotonic_s - self._told_at < 0.9 / _TOLD_PER_S:
            self._not_told += 1
            return
        self._told_at = frame.monotonic_s
        self._answered_frames.append(frame)
        found = observation.detections
        look = looks(frame.picture, found.boxes)
        self._channel.send(m.Answered(frame.number, frame.monotonic_s, frame.utc_s, found, look))

    def _take_pictures(self, order: m.TakePictures) -> None:
        frame = next((f for f in self._answered_frames if f.number == order.number), None)
        for wanted in order.wanted:
            self._channel.send(m.Picture(wanted.key, b"" if frame is None else _jpeg(frame.picture, wanted.crop)))

    def _record(self, recorder: Recorder, frame: Frame, observation: Observation) -> None:
        age = max(0.0, frame.monotonic_s - observation.details.get("answered_at_s", frame.monotonic_s))
        kept = recorder.offer(frame, self._live.recorded_answer(), observation.model_version, age)
        if kept is not None:
            self._recorded += 1
            if observation.stale and self._answered_frame is not None:
                # What the answer was about: the students in shadow shall see the same picture, not a fresher one.
                self._keep_answered(kept.answered_path, self._answered_frame)
            self._channel.send(m.Sampled(kept))

    @staticmethod
    def _keep_answered(path: Path, frame: Frame) -> None:
        good, jpeg = cv2.imencode(".jpg", cv2.cvtColor(frame.picture, cv2.COLOR_RGB2BGR))
        if good:
            with contextlib.suppress(OSError):  # a full disk shows in the recorder's own state
                path.write_bytes(jpeg.tobytes())

    def _preview(self, frame: Frame, observation: Observation) -> None:
        self._watch_due = frame.monotonic_s + 0.9 / self._watch_fps
        picture: NDArray[Any] = frame.picture
        height, width = picture.shape[:2]
        if width > self._watch_width:
            size = (self._watch_width, max(2, round(height * self._watch_width / width)))
            picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        good, jpeg = cv2.imencode(
            ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
        )
        if good:
            self._channel.send(
                m.Preview(
                    frame.number,
                    frame.utc_s,
                    picture.shape[1],
                    picture.shape[0],
                    observation.detections,
                    observation.stale,
                    observation.model_version,
                    jpeg.tobytes(),
                )
            )

    # -- hot swap

    def _begin_swap(self, order: m.Swap) -> None:
        """Load and warm beside the student in force; the switch itself happens between two frames."""

        def load() -> None:
            try:
                self._pending_swap = (order.version, self._live.prepare(order.path))
            except MagpieError as error:
                self._swap_failed = (order.version, str(error))

        self._swap_watch = _SwapWatch(order.version, time.monotonic())
        threading.Thread(target=load, name=f"load-{order.version}", daemon=True).start()

    def _switch_if_ready(self) -> None:
        if self._swap_failed is not None:
            failed, self._swap_failed, self._swap_watch = self._swap_failed, None, None
            self._channel.send(m.SwapFailed(*failed))
        if self._pending_swap is None:
            return
        (version, student), self._pending_swap = self._pending_swap, None
        try:
            self._live.swap(student, version)
        except MagpieError as error:
            self._swap_watch = None
            self._channel.send(m.SwapFailed(version, str(error)))
            return
        status = self._reader.status()
        if status.state != "live" and self._swap_watch is not None:
            # No frames come: there is no gap to measure, the new student simply is in force.
            self._swap_watch = None
            self._channel.send(m.Swapped(version, 0.0, 0))

    # -- commands and reports

    def _commands(self) -> bool:
        while (order := self._channel.receive()) is not None:
            if isinstance(order, Stop):
                return True
            if isinstance(order, Retire):
                self._retiring = True
            elif isinstance(order, TakeOver):
                self._take_over(order.argument)
            elif isinstance(order, m.SetInference):
                self._config = order.config
                self._pacer = Pacer(order.config.frame_rate)
            elif isinstance(order, m.Swap):
                self._begin_swap(order)
            elif isinstance(order, m.SetScore):
                self._live.choose_score(order.version, order.score)
            elif isinstance(order, m.Watch):
                self._watch_fps, self._watch_width = order.fps, order.width
            elif isinstance(order, m.TakePictures):
                self._take_pictures(order)
            elif isinstance(order, m.NextWindow) and self._recorder is not None:
                frames = self._recorder.close_window(order.closing) if order.closing else ()
                self._recorder.open_window(order.opening, time.monotonic(), order.length_s, order.target_frames)
                if order.closing:
                    self._channel.send(m.SampleClosed(order.closing, frames))
                self._tell_kept(order.opening)
        if self._retiring and self._swap_watch is None:
            # What was begun is finished: nothing is recorded or answered here any more.
            self._channel.retired()
            return True
        return False

    def _report(self) -> None:
        now = time.monotonic()
        if now < self._report_due or self._recorder is None:
            return
        self._report_due = now + _REPORT_S
        recent = [t for t in self._answer_times if now - t <= 5.0]
        status = self._reader.status()
        recorder = self._recorder.status()
        wanted = min(self._config.frame_rate, status.fps or self._config.frame_rate)
        rate = len(recent) / 5.0
        if status.state == "live" and self._answers > 5 and rate < 0.8 * wanted:
            self._unanswered += round(wanted - rate)
        self._channel.send(
            m.CameraReport(
                status=status,
                model_version=self._live.version,
                inference=self._config,
                answers=self._answers,
                stale_answers=self._stale,
                answers_per_s=rate,
                inference_ms=1000 * sum(self._costs) / max(1, len(self._costs)),
                frames_lost_to_inference=self._unanswered,
                samples_recorded=self._recorded,
                samples_lost=sum(recorder.lost.values()),
                recorder_message=recorder.message,
                last_answer_utc_s=self._last_answer_utc_s,
                answers_not_told=self._not_told,
            )
        )
        due = self._measured_at is None or now - self._measured_at > _MEASURE_EVERY_S
        if due and self._answers >= _MEASURE_AFTER and status.state == "live":
            self._measured_at = now
            profile = self._meter.profile(status.fps)
            self._channel.send(m.Measured(profile, self._meter.seconds_per_answer))


def _jpeg(picture: NDArray[Any], crop: tuple[float, float, float, float] | None) -> bytes:
    """The picture, or the part of it around a box; b"" if it cannot be encoded."""
    height, width = picture.shape[:2]
    widest = _PICTURE_WIDTH
    if crop is not None:
        widest = _CROP_WIDTH
        around = [_CROP_AROUND * (crop[k + 2] - crop[k]) for k in range(2)]
        left, top = (max(0, round(n * (crop[k] - around[k]))) for k, n in ((0, width), (1, height)))
        right, bottom = (round(n * (crop[k + 2] + around[k])) for k, n in ((0, width), (1, height)))
        picture = picture[top : max(bottom, top + 8), left : max(right, left + 8)]
        height, width = picture.shape[:2]
        if not height or not width:
            return b""
    if width > widest:
        size = (widest, max(2, round(height * widest / width)))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    good, jpeg = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)
    return jpeg.tobytes() if good else b""


@dataclass
class _SwapWatch:
    """Watches the answers around a switch: `longest_gap_s` from the order to the first answer of the new student."""

    version: str
    last_s: float
    longest_gap_s: float = 0.0
    frames_lost: int = 0

    def answered(self, version: str, now_s: float) -> bool:
        """One answer; True if it is the new student's."""
        self.longest_gap_s = max(self.longest_gap_s, now_s - self.last_s)
        self.last_s = now_s
        return version == self.version
