"""Queues of requests: their order, rows that are cut, given back and joined, and the count of what is open."""

from __future__ import annotations

import numpy as np
import pytest
from front_kit import pending, served

from edge.core.errors import Unavailable
from edge.core.oip import Tensor
from edge.serving.queues import Pending


def doubled(rows: list[float]) -> dict[str, Tensor]:
    return {"y": Tensor("y", "FP32", np.array([[2 * r] * 4 for r in rows], np.float32))}


async def test_priority_goes_first_then_the_deadline_then_the_coming() -> None:
    s = served()
    for n, (level, within_s) in enumerate([(100, 5.0), (100, 3.0), (1, 9.0), (100, 3.0), (200, 1.0)]):
        s.queue.admit(pending(s, within_s=within_s, level=level, number=n))
    assert [r.order[2] for r in s.queue.waiting] == [2, 1, 3, 0, 4]
    assert s.queue.earliest_s() == 1.0, "of all levels"
    assert (s.queue.rows, s.queue.open) == (5, 5)
    assert s.queue.rows_before((100, 4.0, 9)) == 3


async def test_rows_leave_when_they_are_taken_and_come_back_when_they_were_not_computed() -> None:
    s = served()
    first, second = pending(s, rows=3, number=1), pending(s, rows=2, number=2)
    s.queue.admit(first)
    s.queue.admit(second)
    taken = s.queue.take(((0, 3), (1, 1)))
    assert taken == [(first, [(0, 3)]), (second, [(0, 1)])]
    assert (s.queue.waiting, s.queue.rows, s.queue.open) == ([second], 1, 2)
    s.queue.give_back(first, [(0, 3)])
    s.queue.give_back(second, [(0, 1)])
    assert (s.queue.waiting, s.queue.rows) == ([first, second], 5)
    assert s.queue.take(((1, 2),)) == [(second, [(1, 1), (0, 1)])], "what was lost comes after what never ran"


async def test_a_request_that_ends_leaves_the_queue_and_lets_go_of_its_tensors() -> None:
    s = served()
    kept, gone = pending(s, number=1), pending(s, number=2)
    s.queue.admit(kept)
    s.queue.admit(gone)
    s.queue.end(gone, "cancelled")
    assert s.queue.waiting == [kept]
    assert (s.queue.open, s.counts.open, s.counts.cancelled) == (1, 1, 1)
    assert (gone.inputs, gone.nbytes) == (None, 0)


async def test_requests_are_handed_over_to_another_version() -> None:
    old, new = served(), served()
    requests = [pending(old, number=n) for n in range(3)]
    for request in requests:
        old.queue.admit(request)
    assert old.queue.hand_over([0, 2], new.queue) == [requests[0], requests[2]]
    assert (old.queue.waiting, old.queue.open) == ([requests[1]], 1)
    assert (new.queue.waiting, new.queue.open) == ([requests[0], requests[2]], 2)
    assert requests[0].queue is new.queue


async def test_a_request_that_was_cut_is_complete_when_all_its_rows_have_come() -> None:
    s = served()
    request = pending(s, 1.0, rows=3)
    s.queue.admit(request)

    def computed(pieces: list[tuple[int, int]]) -> None:
        request.running -= sum(count for _, count in pieces)

    ((_, first),), ((_, second),) = s.queue.take(((0, 2),)), s.queue.take(((0, 1),))
    assert [a[:, 0].tolist() for a in request.pieces_of(0, second)] == [[3.0]]
    computed(second)
    assert request.collect(s.version, second, doubled([9.0, 3.0]), 1) is None
    computed(first)
    (answer,) = request.collect(s.version, first, doubled([1.0, 2.0]), 0) or ()
    assert (answer.name, answer.array[:, 0].tolist()) == ("y", [2.0, 4.0, 6.0])


async def test_rows_of_another_width_cannot_be_joined() -> None:
    s = served()
    request: Pending = pending(s, rows=2)
    s.queue.admit(request)
    s.queue.take(((0, 2),))
    assert request.collect(s.version, [(0, 1)], doubled([1.0]), 0) is None
    narrow = {"y": Tensor("y", "FP32", np.zeros((1, 3), np.float32))}
    with pytest.raises(Unavailable, match=r"y is \[3\] per row in one batch and \[4\] in another"):
        request.collect(s.version, [(1, 1)], narrow, 0)
