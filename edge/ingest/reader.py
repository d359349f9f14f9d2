"""One camera, read by its own threads: the newest picture for its users, and the state of the stream.

A supervisor thread owns the camera. Each connection is an *attempt* in a thread of its own; the supervisor watches it
from outside, because FFmpeg can be stuck (a name lookup, a peer that stopped) for twice its timeouts and longer. An
attempt that gives nothing for the stall time is abandoned: its reports are ignored from then on, it ends by FFmpeg's
own timeouts, and a new attempt begins after the back-off.
"""

from __future__ import annotations

import logging
import random
import threading
import traceback
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge.core.camera import CameraFault, CameraState, CameraStatus
from edge.core.clips import PacketTap
from edge.core.clock import Clock, SystemClock
from edge.core.errors import CameraError
from edge.core.memory import give_back
from edge.core.vision import Frame
from edge.ingest import knock
from edge.ingest.convert import Converter, block_means
from edge.ingest.masking import Masker
from edge.ingest.newest import NewestFrame, RawFrame
from edge.ingest.secrets import redact
from edge.ingest.source import CameraSource
from edge.ingest.streams import Picture, open_stream
from edge.ingest.timing import BackOff, CaptureClock, FrameTime, FrozenWatch, Pace, RecentTimes

log = logging.getLogger("magpie.ingest")

KNOCK_EVERY_S = 1.0
KNOCK_TIMEOUT_S = 0.9
#: A stream that was good for this long makes the next failure begin with an immediate attempt again.
STABLE_S = 2.0
#: Abandoned attempts that may be unfinished at a time before new ones wait for them.
MAX_HANGING = 3
CLOSE_WITHIN_S = 2.0
#: Without a decodable picture for this many stall times (media does come) the camera is connected anew.
UNDECODABLE_STALLS = 3.0
FPS_WINDOW_S = 5.0


@dataclass(frozen=True)
class _Failure:
    """How an attempt ended."""

    fault: CameraFault
    message: str
    came_back: bool = False  # it did not answer before, and does now


class CameraReader:
    """Reads one camera until closed. Thread-safe; every method but `latest` and `close` returns at once.

    `seed` is that of the back-off's jitter; `tap` gets the packets of video as they came. `start` may be called once.
    """

    def __init__(
        self,
        source: CameraSource,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        tap: PacketTap | None = None,
        capture: CaptureClock | None = None,
    ) -> None:
        self.source = source
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._frames = threading.Condition(self._lock)
        self._control = threading.Condition(self._lock)
        self._stopping = False
        self._supervisor: threading.Thread | None = None
        self._attempt: _Attempt | None = None
        self._hanging: list[_Attempt] = []
        self._back_off = BackOff(
            source.retry_first_s, source.retry_min_s, source.retry_max_s, random.Random(f"{seed}:{source.camera}")
        )
        # Times go forward over reconnections: one clock of captures for all attempts.
        self._open_stream = partial(open_stream, source, self._clock, capture or CaptureClock(), tap)
        self._converter = Converter()
        self._pace = Pace(source.max_fps)
        self._frozen_watch = FrozenWatch(min(0.25, source.stall_timeout_s / 8))
        self._newest = NewestFrame(source.camera)
        self._decoded = RecentTimes()
        self._damage = RecentTimes()
        self._retry_at_s: float | None = None
        self._answering: bool | None = None  # as far as known; the supervisor's own
        self._status = CameraStatus(source.camera, "connecting", since_utc_s=self._clock.utc())

    def start(self) -> None:
        """Begin reading. :raises RuntimeError: called twice, or after `close`."""
        with self._lock:
            if self._supervisor is not None or self._stopping:
                raise RuntimeError("a CameraReader is started once")
            name = f"camera-{self.source.camera}"
            self._supervisor = threading.Thread(target=self._supervise, name=name, daemon=True)
            self._supervisor.start()

    def latest(self, after: int = 0, timeout_s: float = 0.0) -> RawFrame | None:
        """The newest frame with a number above `after` (numbers count from 1, over reconnections), waiting up to
        `timeout_s` for it; None when there is none by then, or when the reader is closed."""
        with self._lock:
            self._frames.wait_for(lambda: self._stopping or self._newest.has(after), timeout_s)
            return None if self._stopping else self._newest.take(after)

    def convert(self, raw: RawFrame, width: int | None = None, height: int | None = None) -> Frame:
        """The frame as RGB, at `width` x `height` pixels (its own size where left out)."""
        picture = self._converter.rgb(raw.picture, width, height)
        return Frame(raw.camera, raw.number, raw.monotonic_s, raw.utc_s, picture)

    def status(self) -> CameraStatus:
        """State and counters now. Never holds a password."""
        now_s = self._clock.monotonic()
        with self._lock:
            status = replace(
                self._status,
                fps=round(self._decoded.rate(now_s, FPS_WINDOW_S), 2),
                retry_in_s=round(max(0.0, self._retry_at_s - now_s), 2) if self._retry_at_s is not None else 0.0,
                attempts_hanging=sum(a.is_alive() for a in self._hanging),
            )
            damage = self._damage.count(now_s, self.source.stall_timeout_s)
        if damage and status.state == "live" and status.fault is None:
            text = f"{damage} damaged pictures in the last {self.source.stall_timeout_s:g} s, not used"
            return replace(status, fault="damaged", message=text)
        return status

    def close(self) -> None:
        """End reading, within about 2 s also where FFmpeg is stuck (its thread then ends by FFmpeg's timeouts)."""
        with self._lock:
            self._stopping = True
            self._abandon_attempt()
            self._newest.clear()
            self._set_state("stopped", None, "")
            self._retry_at_s = None
            self._frames.notify_all()
            self._control.notify_all()
        ends_s = self._clock.monotonic() + CLOSE_WITHIN_S
        for thread in [self._supervisor, *self._hanging]:
            if thread is not None and thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, ends_s - self._clock.monotonic()))

    def __enter__(self) -> CameraReader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- supervisor thread ---------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        while not self._stopping:
            failure = self._attempt_once()
            if failure is None:
                return
            self._wait_to_retry(failure)

    def _attempt_once(self) -> _Failure | None:
        """Read until it fails; None when closed."""
        with self._lock:
            self._control.wait_for(lambda: self._stopping or self._may_begin(), timeout=None)
            if self._stopping:
                return None
            attempt = self._attempt = _Attempt(self)
            self._retry_at_s = None
            self._status = replace(self._status, connects=self._status.connects + 1)
            self._frozen_watch.restart()
            attempt.start()
        failure = self._watch(attempt)
        with self._lock:
            good_s = attempt.last_picture_s - attempt.first_picture_s if attempt.first_picture_s else 0.0
            self._answering = True if attempt.first_picture_s else self._answering
        if good_s >= STABLE_S:
            self._back_off.reset()
        return failure

    def _may_begin(self) -> bool:
        self._hanging = [a for a in self._hanging if a.is_alive()]
        return len(self._hanging) < MAX_HANGING

    def _watch(self, attempt: _Attempt) -> _Failure | None:
        stall_s = max(self.source.stall_timeout_s, self._longest_period_s())
        asleep_s = 0.0  # time in which this very machine did not run (suspended, stopped): not the camera's fault
        while True:
            with self._lock:
                if self._stopping:
                    return None
                if attempt.ended:
                    return attempt.failure
                now_s = self._clock.monotonic()
                silent_s = now_s - max(attempt.last_packet_s, asleep_s)
                blind_s = now_s - max(attempt.last_picture_s or attempt.began_s, asleep_s)
                if silent_s >= stall_s or blind_s >= UNDECODABLE_STALLS * stall_s:
                    self._abandon_attempt()
                    self._count_stall(attempt)
                    break
                if blind_s >= stall_s and self._status.state in ("live", "connecting"):
                    self._count_stall(attempt)
                    text = f"media comes, but no picture could be decoded for {stall_s:g} s"
                    self._set_state("stalled", "damaged", text)
                wait_s = min(stall_s - silent_s, 0.5 * stall_s)
                self._control.wait(max(0.01, wait_s))
                overslept_s = self._clock.monotonic() - now_s - wait_s
                if overslept_s > max(1.0, 0.5 * stall_s):
                    asleep_s = self._clock.monotonic()
        return self._explain_stall(silent_s >= stall_s, stall_s)

    def _explain_stall(self, silent: bool, stall_s: float) -> _Failure:
        url = redact(self.source.url)
        if not silent:
            text = f"{url}: media comes, but no picture could be decoded for {UNDECODABLE_STALLS * stall_s:g} s"
            return _Failure("damaged", text)
        with self._lock:
            if self._status.state in ("live", "connecting"):
                self._set_state("stalled", "silent", f"{url}: nothing came for {stall_s:g} s")
        came_back = self._knock()
        if self._answering:
            return _Failure("silent", f"{url} answers, but sends no media for {stall_s:g} s", came_back)
        return _Failure("unreachable", f"{url} does not answer within {stall_s:g} s")

    def _longest_period_s(self) -> float:
        """A folder of stills may show one picture for longer than the stall time."""
        return 2.0 * self.source.seconds_per_picture if self.source.kind == "stills" else 0.0

    def _wait_to_retry(self, failure: _Failure) -> None:
        """Wait for the back-off, or until a camera that did not answer answers again."""
        delay_s = 0.0 if failure.came_back else self._back_off.next()
        until_s = self._clock.monotonic() + delay_s
        with self._lock:
            if self._stopping:
                return
            state: CameraState = "refused" if failure.fault in ("refused", "not_found") else "reconnecting"
            self._retry_at_s = until_s
            self._set_state(state, failure.fault, failure.message)
        if failure.fault == "unreachable":
            self._answering = False
        may_knock = failure.fault in ("unreachable", "silent", "ended", "damaged") and self.source.kind == "rtsp"
        while (left_s := until_s - self._clock.monotonic()) > 0:
            with self._lock:
                if self._control.wait_for(lambda: self._stopping, min(left_s, KNOCK_EVERY_S) if may_knock else left_s):
                    return
            if may_knock and self._clock.monotonic() < until_s and self._knock():
                return

    def _knock(self) -> bool:
        """Ask whether the camera answers; True when it does and did not the last time."""
        if self.source.kind != "rtsp":
            return False
        host, port = self.source.address
        before = self._answering
        tls = self.source.url.startswith("rtsps:")
        self._answering = knock.answers(host, port, tls, KNOCK_TIMEOUT_S)
        return self._answering and before is False

    # -- shared state; callers hold the lock ----------------------------------------------------------------------

    def _abandon_attempt(self) -> None:
        if self._attempt is not None and not self._attempt.ended:
            self._attempt.abandoned.set()
            self._hanging.append(self._attempt)

    def _count_stall(self, attempt: _Attempt) -> None:
        if not attempt.stall_counted:
            attempt.stall_counted = True
            self._status = replace(self._status, stalls=self._status.stalls + 1)

    def _set_state(self, state: CameraState, fault: CameraFault | None, message: str) -> None:
        old = self._status
        if self._stopping and state != "stopped":
            return
        if (old.state, old.fault) != (state, fault):
            level = logging.INFO if state in ("live", "stopped") else logging.WARNING
            log.log(level, "camera %s: %s%s", old.camera, state, f" ({fault}): {message}" if message else "")
            self._status = replace(old, state=state, fault=fault, message=message, since_utc_s=self._clock.utc())
        elif old.message != message:
            self._status = replace(old, message=message)

    # -- reports of attempts --------------------------------------------------------------------------------------

    def _on_picture(self, attempt: _Attempt, picture: Picture, at: FrameTime) -> None:
        """In the attempt's thread, with the picture as it came."""
        now_s = self._clock.monotonic()
        # Of the whole picture: where masks cover all that moves, the camera is no frozen one.
        blocks = self._blocks(picture, now_s)
        # Before anybody sees it: what is masked never leaves this thread.
        picture = attempt.masker.apply(picture)
        with self._lock:
            if attempt.abandoned.is_set() or self._stopping:
                return
            attempt.last_picture_s = now_s
            attempt.first_picture_s = attempt.first_picture_s or now_s
            attempt.stall_counted = False
            self._decoded.add(now_s)
            width, height = _size(picture)
            self._status = replace(
                self._status,
                frames_decoded=self._status.frames_decoded + 1,
                delay_s=round(at.delay_s, 3),
                width=width,
                height=height,
            )
            self._judge_picture(now_s, blocks)
            if not self._pace.offer(at.monotonic_s):
                return
            if self._newest.put(picture, at, width, height):
                self._status = replace(self._status, frames_replaced=self._status.frames_replaced + 1)
            self._frames.notify_all()

    def _judge_picture(self, now_s: float, blocks: NDArray[np.uint8] | None) -> None:
        if blocks is not None:
            same_s = self._frozen_watch.picture(now_s, blocks)
            if same_s >= self.source.stall_timeout_s:
                if self._status.fault != "frozen":
                    self._status = replace(self._status, freezes=self._status.freezes + 1)
                self._set_state("stalled", "frozen", f"the picture has not changed for {same_s:.0f} s")
                return
        if self._status.state != "live" and (blocks is not None or self._status.fault != "frozen"):
            self._set_state("live", None, "")

    def _blocks(self, picture: Picture, now_s: float) -> NDArray[np.uint8] | None:
        """The block means that show a frozen picture, for a few pictures per second; None for the others."""
        if not self.source.detect_frozen or isinstance(picture, np.ndarray) or not self._frozen_watch.due(now_s):
            return None
        return block_means(picture)

    def _on_damage(self, attempt: _Attempt) -> None:
        with self._lock:
            if not attempt.abandoned.is_set():
                self._damage.add(self._clock.monotonic())
                self._status = replace(self._status, frames_damaged=self._status.frames_damaged + 1)

    def _on_dropped(self, attempt: _Attempt) -> None:
        with self._lock:
            if not attempt.abandoned.is_set():
                self._status = replace(self._status, packets_dropped=self._status.packets_dropped + 1)

    def _on_opened(self, attempt: _Attempt, codec: str) -> None:
        with self._lock:
            if not attempt.abandoned.is_set():
                self._status = replace(self._status, codec=codec)

    def _on_ended(self, attempt: _Attempt, failure: _Failure) -> None:
        with self._lock:
            attempt.failure, attempt.ended = failure, True
            self._control.notify_all()


class _Attempt(threading.Thread):
    """One connection. All fields but `last_packet_s` are guarded by the reader's lock."""

    def __init__(self, reader: CameraReader) -> None:
        super().__init__(name=f"camera-{reader.source.camera}-attempt", daemon=True)
        self._reader = reader
        self._clock = reader._clock
        self.abandoned = threading.Event()
        self.ended = False
        self.failure: _Failure | None = None
        self.began_s = self.last_packet_s = self._clock.monotonic()
        self.first_picture_s = self.last_picture_s = 0.0
        self.stall_counted = False
        self.masker = Masker(reader.source.masks)

    def run(self) -> None:
        source = self._reader.source
        failure = _Failure("ended", "no longer wanted")
        try:
            self._reader._open_stream().run(self)
        except CameraError as error:
            failure = _Failure(error.kind, redact(error))  # type: ignore[arg-type]
        except Exception as error:
            # Nothing that a camera sends may end its reader: report it, and connect anew.
            text = redact(traceback.format_exc(), [source.inline_password])
            log.error("camera %s: unexpected error in its reader\n%s", source.camera, text)
            failure = _Failure("damaged", f"unexpected error while reading: {type(error).__name__}")
        finally:
            self._reader._on_ended(self, failure)
            give_back()

    # The Sink that the stream reports to.

    def wanted(self) -> bool:
        return not self.abandoned.is_set()

    def wait(self, seconds: float) -> bool:
        return not self.abandoned.wait(seconds) if seconds > 0 else self.wanted()

    def opened(self, codec: str) -> None:
        self._reader._on_opened(self, codec)

    def packet(self) -> None:
        self.last_packet_s = self._clock.monotonic()

    def dropped(self) -> None:
        self._reader._on_dropped(self)

    def damaged(self) -> None:
        self._reader._on_damage(self)

    def picture(self, picture: Picture, at: FrameTime) -> None:
        self._reader._on_picture(self, picture, at)


def _size(picture: Picture) -> tuple[int, int]:
    if isinstance(picture, np.ndarray):
        return int(picture.shape[1]), int(picture.shape[0])
    return picture.width, picture.height
