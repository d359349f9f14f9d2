"""The token bucket: a worker's share, kept in its own batch or step loop, never cutting a batch in the middle.

The owner (control process) writes the rate into a small memory-mapped file; the worker reads it between batches,
so a resize costs one store and is seen within one waiting slice. The worker writes its counters into the same file,
so they outlive it. Every field has exactly one writer and is one aligned 8-byte store.

The clock of a bucket is *device time*: process CPU time on a CPU, CUDA-event time on a GPU. On a loaded machine that
keeps the share within a few percent where a wall clock does not.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edge.core.errors import ShareError

#: The environment variable (LaunchSpec.env) that names the worker's bucket file.
ENVIRONMENT = "MAGPIE_SHARE_BUCKET"

#: Between two looks at its rate a worker sleeps SLICE_S at most, in seconds; up to MOST_SLICE_S where looking that
#: often would use more than WAKE_PART of its share.
SLICE_S, MOST_SLICE_S, WAKE_PART = 0.010, 0.050, 0.02
#: Device time that may be saved up while idle, in seconds; one batch if that is more, but never above MAX_BURST_S.
BURST_S = 0.020
MAX_BURST_S = 0.250

_MAGIC = 20261.0
_SLOTS = 32
# Written by the owner.
_F_MAGIC, _F_RATE, _F_THREADS, _F_RELEASED, _F_SLOT, _F_ATTACHED, _F_CREDIT = 0, 1, 2, 3, 4, 5, 6
# Written by the worker.
_F_USED, _F_WAITED, _F_DECLINED, _F_STARVED, _F_BATCHES = 8, 9, 10, 11, 12
_F_BEAT, _F_PID, _F_STATE, _F_UNITS, _F_SEEN, _F_FAILED = 13, 14, 15, 16, 17, 18

_IDLE, _BUSY, _WAITING = 0.0, 1.0, 2.0


@dataclass(frozen=True)
class Counters:
    """The counts of a worker's bucket since the file was made (all times in seconds, device time where named so)."""

    used_s: float  # device time
    waited_s: float  # wall time spent waiting for tokens
    declined_s: float  # device time offered while the worker had nothing to do
    starved_s: float  # device time owed to the worker that the machine did not deliver
    batches: int
    beat_s: float  # monotonic time of the last entry, 0: never
    pid: int
    visible_units: float | None  # SMs that a GPU worker sees
    seen_generation: int  # layout generation in force in the worker
    failed_generation: int  # last layout generation that the worker could not take


class BucketFile:
    """The owner's side: makes the file, sets the rate, reads the counters, removes the file.

    `rate` is device-seconds per second: share x cores on a CPU, share on a GPU, infinity for no limit, 0 for a pause.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ShareError(f"cannot make the bucket file {path}: {error.strerror}") from error
        try:
            os.ftruncate(fd, _SLOTS * 8)
            self._map = mmap.mmap(fd, _SLOTS * 8)
        except OSError as error:
            raise ShareError(f"cannot map the bucket file {path}: {error.strerror}") from error
        finally:
            os.close(fd)
        self._board = memoryview(self._map).cast("d")
        self._board[_F_RATE] = math.inf
        self._board[_F_THREADS] = 1.0
        self._board[_F_SLOT] = -1.0
        self._board[_F_SEEN] = self._board[_F_FAILED] = -1.0
        self._board[_F_MAGIC] = _MAGIC

    def set_rate(self, rate: float, threads: int = 1) -> None:
        """Device-seconds per second from now on, and the threads that make use of them."""
        if math.isnan(rate) or rate < 0:
            raise ShareError(f"a bucket's rate is 0 or more, not {rate!r}")
        self._board[_F_THREADS] = float(max(1, threads))
        self._board[_F_RATE] = rate

    def set_slot(self, slot: int) -> None:
        """The worker's place in the device's layout (green contexts)."""
        self._board[_F_SLOT] = float(slot)

    def set_credit(self, seconds: float) -> None:
        """Device time that the first batch of a worker may use without a wait after it (loading, warming up)."""
        self._board[_F_CREDIT] = seconds

    def attached(self, at_s: float) -> None:
        """The process was put under its share at this monotonic time; its start-up is accounted from here."""
        self._board[_F_ATTACHED] = at_s

    def release(self) -> None:
        """Let the worker run on without waiting (it is about to end)."""
        self._board[_F_RELEASED] = 1.0

    @property
    def rate(self) -> float:
        """Device-seconds per second now in force."""
        return self._board[_F_RATE]

    def counters(self, now_s: float | None = None) -> Counters:
        """The worker's counters. With `now_s`, an idle worker's unused offer is counted up to that monotonic time."""
        b = self._board
        declined = b[_F_DECLINED]
        if now_s is not None and b[_F_STATE] == _IDLE and b[_F_BEAT] > 0 and math.isfinite(b[_F_RATE]):
            declined += max(0.0, now_s - b[_F_BEAT]) * b[_F_RATE]
        return Counters(
            used_s=b[_F_USED],
            waited_s=b[_F_WAITED],
            declined_s=declined,
            starved_s=b[_F_STARVED],
            batches=int(b[_F_BATCHES]),
            beat_s=b[_F_BEAT],
            pid=int(b[_F_PID]),
            visible_units=b[_F_UNITS] or None,
            seen_generation=int(b[_F_SEEN]),
            failed_generation=int(b[_F_FAILED]),
        )

    def close(self) -> None:
        """Remove the file; a worker that still maps it keeps the last rate. Safe to repeat."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._board.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        # A closed owner must not fail in late callbacks: it goes on with private memory.
        self._map = mmap.mmap(-1, _SLOTS * 8)
        self._board = memoryview(self._map).cast("d")


class Meter(Protocol):
    """Cumulative device time of this process, in seconds."""

    def begin(self) -> None:
        """A batch begins."""

    def end(self) -> None:
        """The batch has been handed to the device."""

    def read(self) -> float:
        """Device seconds so far; never goes back."""

    def read_own(self) -> float:
        """Those of the calling thread: differences are what it costs to wait."""


class CpuMeter:
    """User and system time of all threads of this process (children not counted)."""

    def __init__(
        self, clock: Callable[[], float] = time.process_time, own_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._own_clock = clock, own_clock

    def begin(self) -> None:
        """Nothing to do: the kernel counts."""

    def end(self) -> None:
        """Nothing to do: the kernel counts."""

    def read(self) -> float:
        return self._clock()

    def read_own(self) -> float:
        return self._own_clock()


class CudaEventMeter:
    """Time between two CUDA events around each batch, in the current stream.

    `event` makes a timing event (`lambda: torch.cuda.Event(enable_timing=True)`); it is passed in so that this module
    needs no torch. At most `depth` batches are unread: the oldest is waited for, so a worker cannot run ahead of its
    bucket by more.
    """

    def __init__(self, event: Callable[[], Any], depth: int = 2) -> None:
        self._event = event
        self._depth = max(1, depth)
        self._total_s = 0.0
        self._open: Any = None
        self._pending: list[tuple[Any, Any]] = []

    def begin(self) -> None:
        self._open = self._event()
        self._open.record()

    def end(self) -> None:
        if self._open is None:
            return
        stop = self._event()
        stop.record()
        self._pending.append((self._open, stop))
        self._open = None

    def read(self) -> float:
        while self._pending:
            start, stop = self._pending[0]
            if not stop.query():
                if len(self._pending) <= self._depth:
                    break
                stop.synchronize()
            self._total_s += start.elapsed_time(stop) / 1000.0
            del self._pending[0]
        return self._total_s

    def read_own(self) -> float:
        """Nothing: waiting uses no device."""
        return 0.0


def run_delay_s() -> float | None:
    """Seconds that this process's threads were ready but had no core (Linux schedstat); None where it is not known."""
    total = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/self/task/{task}/schedstat") as f,
            ):
                total += int(f.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9


class Bucket:
    """The worker's side. Inference: `with bucket.batch(): ...`. Training: `bucket.pace()` between steps.

    An inference worker best calls `ready()` before it takes the newest frame, so that it never answers one that has
    grown old while it waited. All methods may be called from several threads of the worker.
    """

    def __init__(
        self,
        board: memoryview[float],
        meter: Meter | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        run_delay: Callable[[], float | None] = run_delay_s,
    ) -> None:
        self._board = board
        self._meter: Meter = meter or CpuMeter()
        self._now, self._sleep, self._run_delay = now, sleep, run_delay
        self._lock = threading.Lock()
        self._balance = 0.0
        self._largest = 0.0
        #: The cost of waking to look, in device seconds.
        self._wake_s = 0.0
        self._credit = board[_F_CREDIT]
        self._at = now()
        self._used_at = self._meter.read()
        self._delay_at = run_delay() or 0.0
        board[_F_PID] = float(os.getpid())
        attached = board[_F_ATTACHED]
        if 0.0 < attached < self._at and math.isfinite(board[_F_RATE]):
            # Start-up (loading a model, connecting) left the time that it neither used nor queued for.
            offered = (self._at - attached) * board[_F_RATE]
            board[_F_DECLINED] += max(0.0, offered - max(0.0, self._used_at) - self._delay_at)
        board[_F_STATE] = _IDLE
        board[_F_BEAT] = self._at

    # -- opening

    @staticmethod
    def attach(path: str | Path, meter: Meter | None = None) -> Bucket:
        """Open the bucket that the owner made at `path`. Raises ShareError if it is not there or is not a bucket."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ShareError(f"cannot open the bucket file {path}: {error.strerror}") from error
        try:
            if os.fstat(fd).st_size != _SLOTS * 8:
                raise ShareError(f"{path} is not a bucket file of this version")
            board = memoryview(mmap.mmap(fd, _SLOTS * 8)).cast("d")
        finally:
            os.close(fd)
        if board[_F_MAGIC] != _MAGIC:
            raise ShareError(f"{path} is not a bucket file of this version")
        return Bucket(board, meter)

    @staticmethod
    def from_environment(environ: Mapping[str, str] | None = None, meter: Meter | None = None) -> Bucket:
        """The bucket named by the launch environment, or one without a limit when none is named."""
        path = (os.environ if environ is None else environ).get(ENVIRONMENT)
        return Bucket.attach(path, meter) if path else Bucket.unlimited(meter)

    @staticmethod
    def unlimited(meter: Meter | None = None) -> Bucket:
        """A bucket of this process alone that never makes it wait (but counts)."""
        board = memoryview(mmap.mmap(-1, _SLOTS * 8)).cast("d")
        board[_F_RATE] = math.inf
        board[_F_THREADS] = 1.0
        board[_F_SLOT] = -1.0
        return Bucket(board, meter)

    # -- reading

    @property
    def rate(self) -> float:
        """Device-seconds per second now in force (infinity: no limit, 0: paused)."""
        return self._board[_F_RATE]

    @property
    def threads(self) -> int:
        """Threads that make use of the share now in force; set them when this changes."""
        return int(self._board[_F_THREADS])

    @property
    def slot(self) -> int | None:
        """This worker's place in the device's layout, if there is one."""
        slot = int(self._board[_F_SLOT])
        return slot if slot >= 0 else None

    def report_layout(self, seen: int, visible_units: float, failed: int = -1) -> None:
        """Tell the owner which layout generation is in force here and how many SMs it gives."""
        self._board[_F_UNITS] = visible_units
        self._board[_F_SEEN] = float(seen)
        if failed >= 0:
            self._board[_F_FAILED] = float(failed)

    # -- working

    def ready(self, stop: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Wait, as one with nothing to do so far, until the bucket lets a batch begin.

        `stop` is asked in every slice (at most 50 ms); it is also the place for a heartbeat. False: stopped or timed
        out.
        """
        with self._lock:
            self._settle(_IDLE)
            return self._wait(stop, timeout_s)

    @contextlib.contextmanager
    def batch(self, stop: Callable[[], bool] | None = None) -> Iterator[bool]:
        """Wait until allowed, run the body, charge what it used. Yields False if `stop` ended the wait."""
        go = self.ready(stop)
        with self._lock:
            self._board[_F_STATE] = _BUSY
            self._meter.begin()
        try:
            yield go
        finally:
            with self._lock:
                self._meter.end()
                self._charge()
                self._board[_F_STATE] = _IDLE

    def pace(self, stop: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Between two steps of continuous work: charge all since the last call, then wait until allowed again."""
        with self._lock:
            self._meter.end()
            self._charge()
            go = self._wait(stop, timeout_s)
            self._board[_F_STATE] = _BUSY
            self._meter.begin()
            return go

    def idle(self) -> None:
        """There was nothing to do until now: time offered meanwhile is declined, not owed."""
        with self._lock:
            self._settle(_IDLE)
            self._board[_F_STATE] = _IDLE

    # -- inside

    def _charge(self) -> None:
        used = self._settle(_BUSY)
        self._balance += min(self._credit, max(0.0, -self._balance))
        self._credit = 0.0
        self._largest = max(used, 0.9 * self._largest)
        self._board[_F_BATCHES] += 1.0

    def _settle(self, state: float) -> float:
        """Book the time since the last entry, spent in `state`. Returns the device time used in it."""
        now, used_now = self._now(), self._meter.read()
        elapsed, used = now - self._at, max(0.0, used_now - self._used_at)
        self._at, self._used_at = now, used_now
        board = self._board
        rate = board[_F_RATE]
        board[_F_USED] += used
        if math.isinf(rate):
            self._balance = 0.0
        else:
            self._balance += elapsed * rate - used
            full = max(BURST_S, min(self._largest, MAX_BURST_S))
            spilled = self._balance - full
            if spilled > 0:
                self._balance = full
                starved = self._starved(spilled, elapsed) if state != _IDLE else 0.0
                board[_F_STARVED] += starved
                board[_F_DECLINED] += spilled - starved
        board[_F_BEAT] = now
        return used

    def _starved(self, spilled: float, elapsed: float) -> float:
        """How much of what a busy worker did not take was for want of a core; the rest it could not use itself."""
        delay = self._run_delay()
        if delay is None:
            return spilled
        since, self._delay_at = delay - self._delay_at, delay
        return min(spilled, max(0.0, since), elapsed * max(1.0, self._board[_F_THREADS]))

    def _wait(self, stop: Callable[[], bool] | None, timeout_s: float | None) -> bool:
        began = self._at
        board = self._board
        while True:
            rate, own = board[_F_RATE], self._meter.read_own()
            if board[_F_RELEASED] or math.isinf(rate) or (self._balance >= 0.0 and rate > 0.0):
                return True
            if stop is not None and stop():
                return False
            left = math.inf if timeout_s is None else timeout_s - (self._at - began)
            if left <= 0:
                return False
            board[_F_STATE] = _WAITING
            before = self._at
            self._sleep(max(0.0005, min(self._slice_s(rate), left)))
            self._settle(_WAITING)
            board[_F_WAITED] += self._at - before
            self._wake_s += 0.2 * (self._meter.read_own() - own - self._wake_s)

    def _slice_s(self, rate: float) -> float:
        """How long to sleep before the next look: until the debt is paid, what the look costs included. Without that
        a small share never gets there: in half a millisecond it earns less than a look uses."""
        if rate <= 0.0:
            return MOST_SLICE_S
        longest = min(MOST_SLICE_S, max(SLICE_S, self._wake_s / (WAKE_PART * rate)))
        # Half more than the mean look: most looks shall be the last one.
        return min(longest, (1.5 * self._wake_s - self._balance) / rate)
