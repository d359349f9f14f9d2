"""Limits, counters and losses of each destination."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import NotFound
from edge.outputs.messages import QueueLimits
from edge.outputs.queues import Queues


@pytest.fixture
def notes() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def queues(notes: list[tuple[str, dict[str, Any]]]) -> Queues:
    made = Queues(lambda kind, data: notes.append((kind, data)))
    made.add("d", QueueLimits(10, 1000, 60.0))
    return made


def test_new_limits_keep_the_counters_and_the_event(queues: Queues) -> None:
    queues.counts("d").waiting = 3
    wake = queues.wake_of("d")
    queues.add("d", QueueLimits(20, 2000, 60.0))
    assert queues.limits("d") == QueueLimits(20, 2000, 60.0)
    assert queues.counts("d").waiting == 3
    assert queues.wake_of("d") is wake


def test_a_destination_that_was_removed_is_not_known(queues: Queues) -> None:
    queues.add("e", QueueLimits())
    assert list(queues) == ["d", "e"]
    for name in queues:  # it may be changed meanwhile
        queues.remove(name)
    assert "d" not in queues
    with pytest.raises(NotFound, match="output d does not exist"):
        queues.counts("d")
    queues.gone("d", [5])
    queues.lose("d", "age", 1)
    queues.note_losses()


def test_losses_are_journaled_once_and_together_by_cause(
    queues: Queues, notes: list[tuple[str, dict[str, Any]]]
) -> None:
    queues.lose("d", "age", 2)
    queues.lose("d", "limit", 1)
    queues.lose("d", "age", 3)
    queues.lose("d", "memory", 0)
    assert notes == []
    queues.note_losses()
    queues.note_losses()
    assert notes == [
        ("output.lost", {"destination": "d", "cause": "age", "messages": 5}),
        ("output.lost", {"destination": "d", "cause": "limit", "messages": 1}),
    ]
    assert queues.counts("d").lost == {"age": 5, "limit": 1}


def test_messages_that_are_gone_wait_no_longer(queues: Queues) -> None:
    counts = queues.counts("d")
    counts.waiting, counts.bytes = 4, 100
    queues.gone("d", [30, 20])
    assert (counts.waiting, counts.bytes) == (2, 50)
