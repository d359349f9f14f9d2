"""Topics that are retained: only what changed is published, and what is gone is cleared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from edge.core.errors import Unavailable
from edge.outputs.link import Link
from edge.outputs.retained import RetainedTopics


class WrittenLink:
    """A connection that writes down what is published; while it is `broken` nothing is acknowledged."""

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []
        self.broken = False

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        assert retain
        self.published.append((topic, payload.decode()))

    async def settle(self, acks: Sequence[Any]) -> None:
        if self.broken:
            raise Unavailable("the connection is lost")

    def taken(self) -> list[tuple[str, str]]:
        """The messages published since the last time."""
        taken, self.published = self.published, []
        return taken


class Box:
    def __init__(self, known: Sequence[str] = ()) -> None:
        self.written, self.wake = WrittenLink(), asyncio.Event()
        self.link = cast(Link, self.written)
        self.remembered: list[list[str]] = []
        self.retained = RetainedTopics(self.wake, self._remember, known)

    async def _remember(self, topics: Sequence[str]) -> None:
        self.remembered.append(list(topics))


async def test_only_changes_are_published_and_what_is_gone_is_cleared() -> None:
    box = Box()
    box.retained.replace({"a": "1", "b": "1"})
    assert box.wake.is_set()
    await box.retained.publish(box.link)
    assert box.written.taken() == [("a", "1"), ("b", "1")]
    box.wake.clear()
    box.retained.replace({"a": "1", "b": "1"})
    assert not box.wake.is_set()
    assert box.retained.settled
    box.retained.replace({"a": "2"})
    assert not box.retained.settled
    await box.retained.publish(box.link)
    assert box.written.taken() == [("b", ""), ("a", "2")]
    assert box.retained.known == {"a"}
    assert box.remembered == [["a", "b"], ["a"]], "remembered before it is published, and until it is cleared"


async def test_topics_of_an_earlier_run_are_cleared_at_a_connection() -> None:
    box = Box(["old", "a"])
    box.retained.replace({"a": "1"})
    await box.retained.publish_all(box.link)
    assert box.written.taken() == [("old", ""), ("a", "1")]
    assert box.remembered == [["a"]]
    await box.retained.publish_all(box.link)
    assert box.written.taken() == [("a", "1")], "everything once more at each connection"


async def test_what_was_not_acknowledged_is_published_again() -> None:
    box = Box()
    box.retained.replace({"a": "1", "b": "1"})
    box.written.broken = True
    with pytest.raises(Unavailable):
        await box.retained.publish(box.link)
    box.written.taken()
    box.written.broken = False
    await box.retained.publish(box.link)
    assert box.written.taken() == [("a", "1"), ("b", "1")]


async def test_topics_are_repeated_on_demand() -> None:
    box = Box()
    box.retained.replace({"a": "1", "b": "1"})
    await box.retained.publish(box.link)
    box.written.taken()
    box.wake.clear()
    box.retained.repeat_one("unknown")
    assert not box.wake.is_set()
    box.retained.repeat_one("b")
    assert box.wake.is_set()
    await box.retained.publish(box.link)
    assert box.written.taken() == [("b", "1")]
    box.retained.repeat()
    await box.retained.publish(box.link)
    assert box.written.taken() == [("a", "1"), ("b", "1")]
