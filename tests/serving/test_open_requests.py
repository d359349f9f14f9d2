"""Open requests: each ends once, with one outcome, and what it held is free."""

from __future__ import annotations

import pytest
from front_kit import pending, served

from edge.core.clock import ManualClock
from edge.core.errors import DeadlineMissed, Overloaded, Unavailable
from edge.core.oip import InferResponse
from edge.serving.open_requests import OpenRequests


async def test_what_is_admitted_is_held_until_it_ends_and_it_ends_once() -> None:
    clock, s = ManualClock(2.0), served()
    requests, request = OpenRequests(clock.monotonic), pending(s, rows=4)
    requests.admit(s, request)
    assert requests.held_bytes == 64
    requests.fail(s, request, Unavailable("lost"))
    requests.fail(s, request, Unavailable("lost again"))
    assert requests.held_bytes == 0
    assert (s.counts.failed, s.counts.open, s.queue.open, s.queue.waiting) == (1, 0, 0, [])
    assert (s.statistics.fail.count, s.statistics.fail.seconds) == (1, 2.0)
    with pytest.raises(Unavailable, match=r"^lost$"):
        await request.future


async def test_an_answer_and_a_cancel_are_counted_as_such() -> None:
    s = served()
    requests = OpenRequests(ManualClock().monotonic)
    answered, cancelled = pending(s, number=1), pending(s, number=2)
    for request in (answered, cancelled):
        requests.admit(s, request)
    answer = InferResponse("m", "1", (), "id")
    requests.answer(answered, answer)
    requests.cancel(cancelled)
    assert await answered.future is answer
    assert (s.counts.answered, s.counts.cancelled, requests.held_bytes) == (1, 1, 0)


def test_a_refused_request_was_never_open() -> None:
    s = served()
    error = Overloaded("full")
    assert OpenRequests(ManualClock().monotonic).refuse(s, "rejected", error) is error
    assert (s.counts.rejected, s.queue.open, s.statistics.fail.count) == (1, 0, 1)


async def test_a_dropped_request_says_how_long_it_waited() -> None:
    s = served()
    requests = OpenRequests(ManualClock(0.25).monotonic)
    request = pending(s, within_s=0.3)
    requests.admit(s, request)
    requests.drop(s, request, 0.25)
    with pytest.raises(DeadlineMissed, match=r"dropped after 250\.0 ms: .* within 300\.0 ms"):
        await request.future
    assert s.counts.dropped == 1


async def test_a_request_of_a_lost_batch_is_tried_once_more_and_alone_if_it_may_be_at_fault() -> None:
    s = served()
    requests = OpenRequests(ManualClock().monotonic)
    request = pending(s)
    requests.admit(s, request)
    lost = Unavailable("its executor was lost")
    requests.try_again(s, s.queue.take(((0, 1),)), lost, alone=True, worth=True)
    assert (s.queue.waiting, request.alone, request.retries) == ([request], True, 1)
    requests.try_again(s, s.queue.take(((0, 1),)), lost, alone=False, worth=True, counts=False)
    assert s.queue.waiting == [request], "that was no try of its own"
    requests.try_again(s, s.queue.take(((0, 1),)), lost, alone=False, worth=True)
    assert s.queue.waiting == []
    with pytest.raises(Unavailable, match="was lost"):
        await request.future


async def test_all_that_waits_for_a_version_without_executors_fails() -> None:
    s = served()
    requests = OpenRequests(ManualClock().monotonic)
    waiting = [pending(s, number=n) for n in range(3)]
    for request in waiting:
        requests.admit(s, request)
    requests.abandon(s, "its executors are gone")
    for request in waiting:
        with pytest.raises(Unavailable, match="m: its executors are gone"):
            await request.future
    assert (s.counts.failed, len(s.queue)) == (3, 0)
