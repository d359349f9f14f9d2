"""Messages of an engine's other threads, with the times at which they came, for the one thread that uses the engine."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from edge.core.engine import EngineEvent


class Inbox:
    """Any thread puts, one takes. `clock` gives the caller's seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()

    def put(self, message: Any) -> None:
        """A message came now."""
        self._messages.put((self._clock(), message))

    def take(self, timeout_s: float) -> list[tuple[float, Any]]:
        """(time, message) of all messages since the last call; waits at most so long for the first."""
        found: list[tuple[float, Any]] = []
        try:
            found.append(self._messages.get(timeout=timeout_s) if timeout_s > 0.0 else self._messages.get_nowait())
            while True:
                found.append(self._messages.get_nowait())
        except queue.Empty:
            return found

    def events(self, timeout_s: float, heard: Callable[[float, Any], Iterable[EngineEvent]]) -> tuple[EngineEvent, ...]:
        """Take until `heard` makes an event of something, or the time is over."""
        ends_s = time.monotonic() + timeout_s
        found: list[EngineEvent] = []
        while True:
            left_s = ends_s - time.monotonic()
            for at_s, message in self.take(left_s):
                found += heard(at_s, message)
            if found or left_s <= 0.0:
                return tuple(found)

    def take_one(self, timeout_s: float) -> Any | None:
        """The first message that was not taken yet; None after so long."""
        try:
            return self._messages.get(timeout=timeout_s)[1]
        except queue.Empty:
            return None
