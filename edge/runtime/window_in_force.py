"""The running window's settings and times, and the settings of the one after it."""

from __future__ import annotations

from edge.core.clock import Clock
from edge.settings import RetrainingSettings


class WindowInForce:
    """Times are UTC epoch seconds, 0.0 before the first window."""

    def __init__(self, settings: RetrainingSettings, clock: Clock) -> None:
        self.settings = settings
        self.start_utc_s = self.end_utc_s = 0.0
        self._changed: RetrainingSettings | None = None
        self._clock = clock

    @property
    def following(self) -> RetrainingSettings:
        """Settings from the next boundary on."""
        return self._changed or self.settings

    def change(self, settings: RetrainingSettings) -> None:
        """In force from the next boundary."""
        self._changed = settings

    def open(self, began_s: float) -> None:
        """A window begins (or goes on); it began at `began_s` of the monotonic clock. Changed settings are in force."""
        self.settings, self._changed = self.following, None
        self.start_utc_s = self._clock.utc() - (self._clock.monotonic() - began_s)
        self.end_utc_s = self.start_utc_s + self.settings.window_s
