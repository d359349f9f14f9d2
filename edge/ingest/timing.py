"""Pure timing rules of a reader: when to try again, how far behind we are, when a picture was taken, when it froze.

Nothing here reads a clock or sleeps: times come in.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class BackOff:
    """Delays between attempts: `first_s` once, then `min_s` doubling up to `max_s`, each shortened by up to 20 %.

    The jitter keeps cameras that were lost together (one switch) from coming back in one burst; no delay after the
    first is shorter than `min_s`.
    """

    def __init__(self, first_s: float, min_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s, self._min_s, self._max_s, self._rng = first_s, min_s, max_s, rng
        self._tries = 0

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        self._tries += 1
        if self._tries == 1:
            return self._first_s
        full = min(self._max_s, self._min_s * 2.0 ** min(self._tries - 2, 30))
        return max(self._min_s, full * (1.0 - 0.2 * self._rng.random()))

    def reset(self) -> None:
        """The stream was good for a while: the next failure begins anew."""
        self._tries = 0


class LagMeter:
    """How many seconds of stream we are behind what could be had, from stream times and arrival times alone.

    Lag is `(now - stream time)` against the smallest such difference seen on this connection, so it needs no
    camera clock. The reference forgets at 0.1 %, which covers the drift of a cheap clock. Where the reader had to
    *wait* for eight packets in a row nothing is queued: the remaining delay is the network's own, and becomes the new
    reference. A stream time that stands still, or goes back further than reordered pictures do, says nothing about lag:
    the reference goes along with it.
    """

    DRIFT = 0.001
    WAITS = 8
    REORDERED_S = 1.0

    def __init__(self, waited_s: float = 0.01) -> None:
        self._waited_s = waited_s
        self._reference: float | None = None
        self._at = 0.0
        self._stream_s = 0.0
        self._waits = 0

    def packet(self, now_s: float, stream_s: float, waited_s: float) -> float:
        """Lag in seconds (>= 0) at this packet, which the reader waited `waited_s` for."""
        gap = now_s - stream_s
        if self._reference is None:
            self._reference, self._at, self._stream_s = gap, now_s, stream_s
        self._reference += max(0.0, now_s - self._at) * self.DRIFT
        ahead_s = stream_s - self._stream_s
        if ahead_s == 0.0 or ahead_s < -self.REORDERED_S:
            self._reference += max(0.0, now_s - self._at) - ahead_s
        self._at, self._stream_s = now_s, stream_s
        self._reference = min(self._reference, gap)
        self._waits = self._waits + 1 if waited_s >= self._waited_s else 0
        if self._waits >= self.WAITS:
            self._reference = gap
        return gap - self._reference


class KeyFrameSkipper:
    """Which packets to decode: all while `lag <= limit_s`; beyond it none up to the next key frame.

    A key frame is always decoded, so that a reader that never catches up still sees one picture per key interval.
    """

    def __init__(self, limit_s: float = 1.0) -> None:
        self._limit_s = limit_s
        self._skipping = False

    def take(self, lag_s: float, key: bool) -> bool:
        """True: decode this packet; False: drop it (and count it)."""
        if key:
            self._skipping = False
        elif lag_s > self._limit_s:
            self._skipping = True
        return not self._skipping


@dataclass(frozen=True)
class FrameTime:
    """Both times of a frame and how long it was on its way (0 where the camera does not say)."""

    monotonic_s: float
    utc_s: float
    delay_s: float


class CaptureClock:
    """Times of frames: the camera's own wall clock where it is within `tolerance_s` of ours, else arrival.

    Both times go strictly forward per connection and over reconnections, even if the camera's clock jumps. One that
    stands still (cameras that give every picture the same time) is none.
    """

    def __init__(self, tolerance_s: float = 5.0) -> None:
        self._tolerance_s = tolerance_s
        self._last_monotonic_s = float("-inf")
        self._last_utc_s = float("-inf")
        self._last_camera_s: float | None = None

    def frame(self, arrival_s: float, arrival_utc_s: float, camera_utc_s: float | None) -> FrameTime:
        """Times of the frame that arrived at `arrival_s` (monotonic) and carries `camera_utc_s` (None: unknown)."""
        delay = 0.0
        stands, self._last_camera_s = camera_utc_s == self._last_camera_s, camera_utc_s
        if camera_utc_s is not None and not stands:
            age = arrival_utc_s - camera_utc_s
            if -self._tolerance_s <= age <= self._tolerance_s:
                delay = max(0.0, age)  # a clock slightly ahead of ours: it cannot come before it was taken
        monotonic = max(arrival_s - delay, self._last_monotonic_s + 1e-6)
        utc = arrival_utc_s - delay
        # Our own UTC clock may be set back by more than jitter (NTP, by hand): then follow it.
        if self._last_utc_s - self._tolerance_s < utc <= self._last_utc_s:
            utc = self._last_utc_s + 1e-6
        self._last_monotonic_s, self._last_utc_s = monotonic, utc
        return FrameTime(monotonic, utc, delay)


class PlayTimes:
    """When each picture of a file is due, in seconds since its first: as the file says, where it does.

    Pictures without a time, and those whose time goes back or leaps by more than `leap_s` (recordings put one behind
    another, a clock that was set), come one period after the picture before.
    """

    def __init__(self, period_s: float, leap_s: float) -> None:
        self._period_s, self._leap_s = period_s, leap_s
        self._due_s: float | None = None
        self._own_s: float | None = None

    def picture(self, own_s: float | None) -> float:
        """When the next picture is due, whose time in the file is `own_s` (None: it has none)."""
        before_s = self._own_s
        if own_s is None or self._due_s is None or before_s is None:
            step_s, self._own_s = self._period_s, own_s
        elif own_s <= before_s and before_s - own_s <= self._period_s:
            step_s = 0.0  # a little out of order
        else:
            step_s, self._own_s = own_s - before_s, own_s
            if not 0.0 <= step_s <= self._leap_s:
                step_s = self._period_s
        self._due_s = 0.0 if self._due_s is None else self._due_s + step_s
        return self._due_s


class FrozenWatch:
    """Tells for how long the picture has been the same.

    Compares the mean brightness of blocks with that at the beginning of the stretch. A frozen picture that is coded
    again and again wobbles by a grey level or two; in living scenes some block always changes by more (measured: a
    still at three bitrates stays within 2 for its whole length, seven fixed cameras, an empty yard at night among
    them, never for longer than 1 s).
    """

    TOLERANCE = 2

    def __init__(self, every_s: float = 0.0) -> None:
        """Pictures nearer than `every_s` seconds to the last one that was `due` need no look."""
        self._reference: NDArray[np.uint8] | None = None
        self._since_s = 0.0
        self._every_s, self._due_s = every_s, float("-inf")

    def due(self, now_s: float) -> bool:
        """Whether the picture of now is to be looked at; the next is due `every_s` later."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + self._every_s
        return True

    def restart(self) -> None:
        """Another connection: its first picture is not compared with those before."""
        self._reference, self._since_s = None, 0.0

    def picture(self, now_s: float, blocks: NDArray[np.uint8]) -> float:
        """Seconds for which the picture has been the same; 0 at a change. `blocks`: uint8 (rows, columns)."""
        if self._reference is None or self._reference.shape != blocks.shape or self._changed(blocks):
            self._reference, self._since_s = blocks, now_s
        return now_s - self._since_s

    def _changed(self, blocks: NDArray[np.uint8]) -> bool:
        assert self._reference is not None
        return int(np.abs(blocks.astype(np.int16) - self._reference).max(initial=0)) > self.TOLERANCE


class RecentTimes:
    """Times of the latest events, at most `most` of them, in seconds; they come in order."""

    def __init__(self, most: int = 1200) -> None:
        self._times: deque[float] = deque(maxlen=most)

    def add(self, at_s: float) -> None:
        """An event at `at_s`."""
        self._times.append(at_s)

    def count(self, now_s: float, within_s: float) -> int:
        """Events of the last `within_s` seconds."""
        return sum(1 for t in self._times if now_s - t <= within_s)

    def rate(self, now_s: float, within_s: float) -> float:
        """Events per second, over those of the last `within_s` seconds; 0 for fewer than two."""
        recent = [t for t in self._times if now_s - t <= within_s]
        return (len(recent) - 1) / max(now_s - recent[0], 0.2) if len(recent) > 1 else 0.0


class Pace:
    """Thins a stream to `max_fps` by stream time (None: nothing is thinned)."""

    def __init__(self, max_fps: float | None) -> None:
        self._period_s = 1.0 / max_fps if max_fps else 0.0
        self._due_s = float("-inf")

    def offer(self, at_s: float) -> bool:
        """True when the frame taken at `at_s` is to be used."""
        if not self._period_s:
            return True
        slack = 0.1 * self._period_s  # arrival jitter must not turn 5 of 10 fps into 4 of 10
        if at_s < self._due_s - slack:
            return False
        self._due_s = max(self._due_s + self._period_s, at_s + 0.5 * self._period_s)
        return True
