"""Which frames are answered: decided from their times alone."""

from __future__ import annotations

from edge.core import checks

# Cameras jitter: a frame that comes this part of a period early is taken, instead of waiting for the next one.
EARLY = 0.3


class Pacer:
    """Picks frames so that on average `frame_rate` per second are answered, never more over any longer time.

    Reads no clock. After a pause of the stream it goes on at its rate, without making up for what was missed.
    """

    def __init__(self, frame_rate: float) -> None:
        checks.in_range("inference_config.frame_rate", frame_rate, 0.0, 240.0, low_open=True)
        self.period_s = 1.0 / frame_rate
        self._next_s: float | None = None

    def due(self, time_s: float) -> bool:
        """Whether the frame of `time_s` (monotonic seconds, not decreasing) is to be answered."""
        if self._next_s is None:
            self._next_s = time_s
        if time_s < self._next_s - EARLY * self.period_s:
            return False
        self._next_s += self.period_s
        if self._next_s < time_s:
            self._next_s = time_s + self.period_s
        return True
