"""Hot swap of a camera's student: loaded and warmed beside the one in force, switched to between two frames."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edge.core.errors import MagpieError
from edge.inference import LiveStudent
from edge.runtime import messages as m
from edge.students.weights import AnyStudent


class HotSwap:
    """`send` gets Swapped or SwapFailed of each order, unless the next order comes before. `frames_come()` says whether
    the camera gives any. Used from the worker's loop; loading happens in a thread."""

    def __init__(
        self, live: LiveStudent, send: Callable[[m.Swapped | m.SwapFailed], None], frames_come: Callable[[], bool]
    ) -> None:
        self._live, self._send, self._frames_come = live, send, frames_come
        self._pending: tuple[str, AnyStudent] | None = None
        self._failed: tuple[str, str] | None = None
        self._watch: _SwapWatch | None = None

    @property
    def under_way(self) -> bool:
        """True from the order until it was answered."""
        return self._watch is not None

    def begin(self, order: m.Swap) -> None:
        """Load and warm beside the student in force; the switch itself happens between two frames."""

        def load() -> None:
            try:
                self._pending = (order.version, self._live.prepare(order.path))
            except MagpieError as error:
                self._failed = (order.version, str(error))

        self._watch = _SwapWatch(order.version, time.monotonic())
        threading.Thread(target=load, name=f"load-{order.version}", daemon=True).start()

    def switch_if_ready(self) -> None:
        """Switch to the student that is loaded, if one is."""
        if self._failed is not None:
            failed, self._failed, self._watch = self._failed, None, None
            self._send(m.SwapFailed(*failed))
        if self._pending is None:
            return
        (version, student), self._pending = self._pending, None
        try:
            self._live.swap(student, version)
        except MagpieError as error:
            self._watch = None
            self._send(m.SwapFailed(version, str(error)))
            return
        if not self._frames_come() and self._watch is not None:
            # No frames come: there is no gap to measure, the new student simply is in force.
            self._watch = None
            self._send(m.Swapped(version, 0.0, 0))

    def answered(self, version: str, now_s: float) -> None:
        """`version` answered a frame: the first answer of the new student ends the swap."""
        if self._watch is not None and self._watch.answered(version, now_s):
            watch, self._watch = self._watch, None
            self._send(m.Swapped(watch.version, watch.longest_gap_s, watch.frames_lost))


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
