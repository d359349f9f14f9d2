"""Deadlines of the requests that wait: a request that no executor can answer in time any more is dropped at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from edge.core.batching import Batching
from edge.serving.lanes import Served
from edge.serving.open_requests import OpenRequests

#: No request waits so short that a timer could tell.
TICK_S = 0.001


class DeadlineWatch:
    """A timer for each version: it looks at the queue again when the earliest deadline comes too close. `on_left` is
    called when requests of a version that leaves may have ended."""

    def __init__(
        self, batching: Batching, requests: OpenRequests, clock: Callable[[], float], on_left: Callable[[], None]
    ) -> None:
        self._batching, self._requests, self._clock, self._on_left = batching, requests, clock, on_left
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Served, tuple[asyncio.TimerHandle, float]] = {}  # with the deadline that each is for
        self._closed = False

    def sooner(self, served: Served, deadline_s: float, now_s: float) -> None:
        """A request waits for this version; if its deadline is the earliest, look sooner."""
        timer = self._timers.get(served)
        if deadline_s < (math.inf if timer is None else timer[1]):
            self.watch(served, now_s)

    def watch(self, served: Served, now_s: float) -> None:
        """Look at the queue again when its earliest deadline comes too close."""
        earliest_s = served.queue.earliest_s()
        self.forget(served)
        if earliest_s is None or self._closed:
            return
        least_s = min((lane.times.upper_s[0] for lane in served.lanes), default=0.0)
        timer = self._loop.call_later(max(TICK_S, earliest_s - least_s - now_s), self._look, served)
        self._timers[served] = timer, earliest_s

    def forget(self, served: Served) -> None:
        """Look at this version's queue no more, until something waits in it again."""
        timer = self._timers.pop(served, None)
        if timer is not None:
            timer[0].cancel()

    def close(self) -> None:
        """Set no timer any more."""
        self._closed = True

    def _look(self, served: Served) -> None:
        now_s = self._clock()
        del self._timers[served]
        lanes = [lane.view(now_s) for lane in served.live_lanes()]
        gone = self._batching.overdue(served.queue.waiting, lanes, now_s)
        for request in served.queue.pop(gone):
            self._requests.drop(served, request, now_s)
        self.watch(served, now_s)
        if served.queue.leaving:
            self._on_left()
