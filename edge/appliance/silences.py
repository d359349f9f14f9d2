"""How long the control process' event loop was silent: it answered no request, and heard no worker, timer or camera."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

from edge.core.clock import Clock

log = logging.getLogger(__name__)

#: The loop is looked at so often; a silence that lasts longer than this is counted and logged.
_EVERY_S: Final = 0.25
_COUNTED_S: Final = 1.0
_HOUR_S: Final = 3600.0


class Silences:
    """The longest silence since the start and of the last hour, and how many were longer than a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_s = clock.monotonic()
        #: (when, seconds) of the last hour, each longer than all that came later: the first is the longest.
        self._recent: deque[tuple[float, float]] = deque()
        self.longest_s = 0.0
        self.count = 0
        self.seconds = 0.0

    async def run(self) -> None:
        """Look again and again, until it is cancelled."""
        self._due_s = self._clock.monotonic() + _EVERY_S
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()

    def look(self) -> None:
        """The loop runs now; it should have looked at the latest by when it was due."""
        now_s = self._clock.monotonic()
        silent_s = max(0.0, now_s - self._due_s)
        self._due_s = now_s + _EVERY_S
        self.longest_s = max(self.longest_s, silent_s)
        while self._recent and self._recent[-1][1] <= silent_s:
            self._recent.pop()
        self._recent.append((now_s, silent_s))
        self._forget(now_s)
        if silent_s > _COUNTED_S:
            self.count += 1
            self.seconds += silent_s
            log.warning("the control loop was silent for %.1f s", silent_s)

    def to_json(self) -> dict[str, Any]:
        """{"longest_s", "longest_in_hour_s", "count" and "seconds" of those longer than a second}. One that goes on
        cannot be counted: this is asked on the same loop.
        """
        self._forget(self._clock.monotonic())
        return {
            "longest_s": round(self.longest_s, 3),
            "longest_in_hour_s": round(self._recent[0][1], 3) if self._recent else 0.0,
            "count": self.count,
            "seconds": round(self.seconds, 3),
        }

    def _forget(self, now_s: float) -> None:
        while self._recent and now_s - self._recent[0][0] > _HOUR_S:
            self._recent.popleft()
