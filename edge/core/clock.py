"""Time comes in as a value: anything that needs to know it takes a Clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times: `monotonic()` for durations, `utc()` (epoch seconds) for people."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary instant; never goes back."""

    def utc(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump when the clock is set."""

    def local_minute(self) -> int:
        """Minute of the day (0-1439) in the box's time zone, for quiet hours."""


class SystemClock:
    """The machine's clocks. CLOCK_MONOTONIC is the same for all processes of one boot."""

    def monotonic(self) -> float:
        return time.monotonic()

    def utc(self) -> float:
        return time.time()

    def local_minute(self) -> int:
        now = time.localtime()
        return now.tm_hour * 60 + now.tm_min


class ManualClock:
    """A clock that a test or the simulator moves by hand."""

    def __init__(self, start_s: float = 0.0, utc_offset_s: float = 1_700_000_000.0) -> None:
        self._now_s = start_s
        self._utc_offset_s = utc_offset_s

    def monotonic(self) -> float:
        return self._now_s

    def utc(self) -> float:
        return self._utc_offset_s + self._now_s

    def local_minute(self) -> int:
        return int(self.utc() // 60) % 1440

    def advance(self, seconds: float) -> None:
        """Move on by `seconds` (>= 0)."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back: {seconds}")
        self._now_s += seconds
