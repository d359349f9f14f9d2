"""The watch of deadlines: what cannot be in time any more is dropped, without another request having to come."""

from __future__ import annotations

import pytest
from front_kit import pending, served

from edge.core.clock import ManualClock
from edge.core.errors import DeadlineMissed
from edge.serving.deadlines import DeadlineWatch
from edge.serving.lanes import Served
from edge.serving.open_requests import OpenRequests
from edge.serving.queues import Pending
from scheduler.gpulets.batching import DeadlineBatching


class Watched:
    """A queue under watch, with a clock that is moved by hand; timers run by the loop's own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.left = 0
        self.requests = OpenRequests(self.clock.monotonic)
        self.served: Served = served()
        self.watch = DeadlineWatch(DeadlineBatching(), self.requests, self.clock.monotonic, self._on_left)

    def _on_left(self) -> None:
        self.left += 1

    def ask(self, within_s: float, number: int) -> Pending:
        request = pending(self.served, within_s=within_s, number=number)
        self.requests.admit(self.served, request)
        self.watch.sooner(self.served, request.deadline_s, self.clock.monotonic())
        return request


async def test_a_request_is_dropped_when_its_time_is_up_and_later_ones_wait_on() -> None:
    w = Watched()
    late, soon = w.ask(3600.0, 1), w.ask(0.002, 2)
    w.clock.advance(1.0)
    with pytest.raises(DeadlineMissed):
        await soon.future
    assert w.served.queue.waiting == [late]
    assert w.left == 0


async def test_the_end_of_requests_of_a_version_that_leaves_is_reported() -> None:
    w = Watched()
    w.served.queue.leaving = True
    request = w.ask(0.002, 1)
    w.clock.advance(1.0)
    with pytest.raises(DeadlineMissed):
        await request.future
    assert w.left == 1


async def test_what_is_forgotten_is_looked_at_again_when_something_comes() -> None:
    w = Watched()
    first = w.ask(0.002, 1)
    w.watch.forget(w.served)
    w.watch.forget(w.served)
    w.clock.advance(1.0)
    second = w.ask(1.002, 2)  # a later deadline than the first one's
    with pytest.raises(DeadlineMissed):
        await first.future
    assert w.served.queue.waiting == [second]


async def test_a_closed_watch_sets_no_timers() -> None:
    closed, open_ = Watched(), Watched()
    closed.watch.close()
    left = closed.ask(0.002, 1)
    later = open_.ask(0.005, 1)
    closed.clock.advance(1.0)
    open_.clock.advance(1.0)
    with pytest.raises(DeadlineMissed):
        await later.future
    assert not left.settled
