"""The seconds of computing of a retraining, over restarts."""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """Counts on `clock` from now on; `seconds` are those up to the last reading, and those of earlier runs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._began = clock()
        self._earlier_seconds = self._read_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds up to the last reading."""
        return self._earlier_seconds + self._read_seconds

    def read(self) -> None:
        """Count up to now."""
        self._read_seconds = self.clock() - self._began

    def go_on_from(self, seconds: float) -> None:
        """Earlier runs took these seconds."""
        self._earlier_seconds = seconds
