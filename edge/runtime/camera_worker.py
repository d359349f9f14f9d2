"""Worker main of one camera: decode, answer at the lambda in force, keep the sample, hot-swap the student.

Only frames that will be used are converted to RGB: those that are answered, recorded or watched.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from edge.core.clips import ClipAsked
from edge.core.memory import give_back
from edge.core.vision import Frame, Observation
from edge.detectors.pictures import jpeg_bytes
from edge.inference import LiveStudent, Pacer, ProfileMeter, prepare
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.recording.recorder import Recorder
from edge.runtime import messages as m
from edge.runtime.answer_counts import AnswerCounts
from edge.runtime.answer_feed import AnswerFeed
from edge.runtime.answer_ways import AnswerWays
from edge.runtime.application_feed import ApplicationFeed
from edge.runtime.clip_maker import ClipMaker
from edge.runtime.device import open_bucket
from edge.runtime.hot_swap import HotSwap
from edge.runtime.live_preview import LivePreview
from edge.runtime.process import Channel, Retire, Stop, TakeOver

#: Recorded pictures are at most so wide: more than any teacher here looks at.
_RECORD_WIDTH = 1280
_REPORT_S = 1.0
#: Answers before cost and staleness are measured for the first time, and seconds between later measurements.
_MEASURE_AFTER, _MEASURE_EVERY_S = 12, 60.0
#: One that stands by is ready when it has answered a frame; after so long without one, when its student is warm.
_STANDBY_S = 10.0


def camera_worker(channel: Channel, spec: m.CameraWorkerSpec) -> None:
    """Runs until it gets the order to stop. A camera that cannot be read never ends it: its state says so."""
    worker = _CameraWorker(channel, spec)
    try:
        worker.run(spec.window)
    finally:
        worker.close()


class _CameraWorker:
    def __init__(self, channel: Channel, spec: m.CameraWorkerSpec) -> None:
        s = spec.settings
        self._channel = channel
        self._share = open_bucket()
        channel.beat()
        with self._share.batch(stop=channel.beating):
            student = prepare(spec.student.path, self._share.device)
        self._live = LiveStudent(
            student,
            spec.student.version,
            s.id,
            score=s.inference.score_threshold,
            probe_resolutions=s.inference.resolutions,
            cpu_clock=time.thread_time if self._share.device == "cpu" else self._share.used_s,
            follow=AnswerWays(s.id, s.classes).after,
        )
        self._take_score(spec)
        self._config = spec.inference
        self._pacer = Pacer(spec.inference.frame_rate)
        self._clips = None if spec.clips is None else ClipMaker(s, spec.clips, spec.record_root.parent)
        self._reader = CameraReader(
            m.camera_source(s, spec.secrets),
            seed=zlib.crc32(s.id.encode()),
            tap=None if self._clips is None else self._clips.ring,
        )
        # Two that record the same camera would undo each other's work: one that stands by has no recorder.
        self._recorder = None if channel.standby else self._open_recorder(spec)
        self._ready_by = time.monotonic() + _STANDBY_S
        self._retiring = False
        self._counts = AnswerCounts()
        self._meter = ProfileMeter(
            s.inference.space(spec.inference.region), spec.cores, self._profile_clock(),
            lambda: AnswerWays(s.id, s.classes, trusted=True).after,
        )  # fmt: skip
        self._swap = HotSwap(self._live, channel.send, lambda: self._reader.status().state == "live")
        self._feed = AnswerFeed(ApplicationFeed(s.id, s.classes, spec.feed))
        self._preview = LivePreview(spec.watch_fps)
        self._recorded = 0
        self._last_number = 0
        self._answered_frame: Frame | None = None
        self._report_due = 0.0
        self._measured_at: float | None = None

    def close(self) -> None:
        self._feed.applications.close()
        self._reader.close()
        if self._clips is not None:
            self._clips.close()
        self._share.close()

    def run(self, window: int) -> None:
        self._reader.start()
        self._channel.beat()
        self._send_kept(window)
        while True:
            if self._commands():
                return
            self._channel.beat()
            self._swap.switch_if_ready()
            self._ready_if_warm()
            self._make_clips()
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

    def _send_kept(self, window: int) -> None:
        """Frames of the open window that an earlier process kept: the labeller may not know them."""
        for frame in self._recorder.frames(window) if self._recorder is not None and window else ():
            self._channel.send(m.Sampled(frame))

    def _profile_clock(self) -> Callable[[], float]:
        """Device time of this process. On a GPU decoding costs none of it: only answers count."""
        return time.process_time if self._share.device == "cpu" else lambda: self._counts.answering_s

    def _ready_if_warm(self) -> None:
        if self._ready_by and (self._counts.answers or not self._channel.standby or time.monotonic() > self._ready_by):
            self._ready_by = 0.0
            self._channel.ready()

    def _take_score(self, spec: m.CameraWorkerSpec) -> None:
        """The least score that past windows chose outlives the process that learned of it."""
        if spec.score is not None:
            self._live.choose_score(spec.student.version, spec.score)

    def _take_over(self, spec: m.CameraWorkerSpec) -> None:
        """The process before has stopped: record, report and show from now on, as things stand now."""
        self._channel.standby = False
        self._config = spec.inference
        self._pacer = Pacer(spec.inference.frame_rate)
        self._preview.fps = spec.watch_fps
        self._take_score(spec)
        self._feed.applications.change(spec.feed)
        self._recorder = self._open_recorder(spec)
        self._send_kept(spec.window)
        if spec.student.version != self._live.version:
            self._swap.begin(m.Swap(spec.student.version, spec.student.path))

    # -- frames

    def _on_frame(self, raw: RawFrame) -> None:
        self._last_number = raw.number
        now = raw.monotonic_s
        answer_due = self._pacer.due(now)
        record_due = self._recorder is not None and self._recorder.wants(now)
        watch_due = self._preview.due(now) and not self._channel.standby
        if not (answer_due or record_due or watch_due):
            self._counts.stale += 1
            self._live.skip_time(raw.number, now, raw.utc_s)
            return
        with self._share.batch():
            began = time.process_time()
            frame = self._convert(raw)
            converted = time.process_time() - began if self._share.device == "cpu" else 0.0
            if answer_due:
                look = self._config
                observation = self._live.answer(frame, look.resolution, look.region, look.shape)
                self._answered_frame = frame
                self._answered(observation, converted)
                # Objects are followed in the control process; a worker that stands by follows none.
                if self._recorder is not None:
                    self._send_if(self._feed.offer(frame, observation))
                    self._feed.applications.offer(frame, observation)
            else:
                observation = self._live.skip(frame)
                self._counts.stale += 1
            if record_due and self._recorder is not None:
                self._record(self._recorder, frame, observation)
            if watch_due:
                self._send_if(self._preview.picture(frame, observation))

    def _convert(self, raw: RawFrame) -> Frame:
        if raw.width <= _RECORD_WIDTH:
            return self._reader.convert(raw)
        return self._reader.convert(raw, _RECORD_WIDTH, max(2, round(raw.height * _RECORD_WIDTH / raw.width)))

    def _answered(self, observation: Observation, converting_s: float) -> None:
        now = time.monotonic()
        self._counts.answered(observation, converting_s, now)
        if self._clips is not None:
            self._clips.answered(observation)
        self._meter.observe(observation)
        self._swap.answered(observation.model_version, now)

    def _make_clips(self, ending: bool = False) -> None:
        if self._clips is not None:
            for done in self._clips.finish() if ending else self._clips.step():
                self._channel.send(done)

    def _send_if(self, message: m.Answered | m.Preview | None) -> None:
        if message is not None:
            self._channel.send(message)

    def _record(self, recorder: Recorder, frame: Frame, observation: Observation) -> None:
        seen_s = observation.answered_at_s
        age = 0.0 if seen_s is None else max(0.0, frame.monotonic_s - seen_s)
        answer, going = self._live.recorded_answer(observation)
        kept = recorder.offer(frame, answer, observation.model_version, age, going=going)
        if kept is not None:
            self._recorded += 1
            if observation.stale and self._answered_frame is not None:
                # The picture of the answer: the students in shadow shall see the same one, not a fresher one.
                self._keep_answered(kept.answered_path, self._answered_frame)
            self._channel.send(m.Sampled(kept))

    @staticmethod
    def _keep_answered(path: Path, frame: Frame) -> None:
        jpeg = jpeg_bytes(frame.picture)
        if jpeg is not None:
            with contextlib.suppress(OSError):  # a full disk shows in the recorder's own state
                path.write_bytes(jpeg)

    # -- commands and reports

    def _commands(self) -> bool:
        while (order := self._channel.receive()) is not None:
            if isinstance(order, Stop):
                self._make_clips(ending=True)
                return True
            if isinstance(order, Retire):
                self._retiring = True
            elif isinstance(order, TakeOver):
                self._take_over(order.argument)
            elif isinstance(order, m.SetInference):
                self._config = order.config
                self._pacer = Pacer(order.config.frame_rate)
            elif isinstance(order, m.Swap):
                self._swap.begin(order)
            elif isinstance(order, m.SetScore):
                self._live.choose_score(order.version, order.score)
            elif isinstance(order, m.Watch):
                self._preview.fps, self._preview.width = order.fps, order.width
            elif isinstance(order, ClipAsked):
                if self._clips is not None:
                    self._clips.ask(order)
            elif isinstance(order, m.FeedApplications):
                self._feed.applications.change(order)
            elif isinstance(order, m.TakePictures):
                for picture in self._feed.pictures(order):
                    self._channel.send(picture)
            elif isinstance(order, m.NextWindow) and self._recorder is not None:
                frames = self._recorder.close_window(order.closing) if order.closing else ()
                self._recorder.open_window(order.opening, time.monotonic(), order.length_s, order.target_frames)
                if order.closing:
                    self._channel.send(m.SampleClosed(order.closing, frames))
                self._send_kept(order.opening)
                give_back()
        if self._retiring and not self._swap.under_way:
            # Begun work is finished: nothing is recorded or answered here any more.
            self._make_clips(ending=True)
            self._channel.retired()
            return True
        return False

    def _report(self) -> None:
        now = time.monotonic()
        if now < self._report_due or self._recorder is None:
            return
        self._report_due = now + _REPORT_S
        status = self._reader.status()
        recorder = self._recorder.status()
        wanted = min(self._config.frame_rate, status.fps or self._config.frame_rate)
        if status.state == "live":
            self._counts.expect(wanted, now)
        self._channel.send(
            m.CameraReport(
                status=status,
                model_version=self._live.version,
                inference=self._config,
                answers=self._counts.answers,
                stale_answers=self._counts.stale,
                answers_per_s=self._counts.rate(now),
                inference_ms=self._counts.mean_ms(),
                frames_lost_to_inference=self._counts.unanswered,
                samples_recorded=self._recorded,
                samples_lost=sum(recorder.lost.values()),
                recorder_message=recorder.message,
                last_answer_utc_s=self._counts.last_utc_s,
                answers_not_sent=self._feed.not_sent,
                answers_not_fed=self._feed.applications.lost,
                ring=None if self._clips is None else self._clips.now(),
            )
        )
        due = self._measured_at is None or now - self._measured_at > _MEASURE_EVERY_S
        if due and self._counts.answers >= _MEASURE_AFTER and status.state == "live":
            self._measured_at = now
            profile = self._meter.profile(status.fps)
            self._channel.send(m.Measured(profile, self._meter.seconds_per_answer))
