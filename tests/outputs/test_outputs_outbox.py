"""The outbox: order, bounds, counted losses, restarts, and a database that is away."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue, NotFound
from edge.outputs.messages import QueueLimits, size_of
from edge.outputs.outbox import Outbox
from edge.store.database import Database
from edge.store.store import Store, default_url

BIG = QueueLimits(1000, 10_000_000, 1000.0)


class WallClock(ManualClock):
    """One whose time of day the test sets, as a host's is set right."""

    wrong_s = 0.0

    def utc(self) -> float:
        return super().utc() + self.wrong_s


def _outbox(database: Database, **more: Any) -> tuple[Outbox, list[tuple[str, dict[str, Any]]], WallClock]:
    notes: list[tuple[str, dict[str, Any]]] = []
    clock = WallClock()
    return Outbox(database, clock, lambda kind, data: notes.append((kind, data)), **more), notes, clock


def _numbers(page: tuple[Any, ...]) -> list[int]:
    return [m.body["n"] for m in page]


_lanes = st.sampled_from(["north", "south", None])
_actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _lanes, st.integers(1, 400)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("deliver"), st.integers(1, 5)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("age"), st.integers(1, 60)),
        st.tuples(st.just("bury")),
        st.tuples(st.just("revive")),
    ),
    max_size=40,
)


_Row = tuple[int, str, float, int]  # number, lane, time, bytes


class _Mirror:
    """An outbox beside plain lists of what is in memory, kept, dead and sent. Each action is done to both."""

    def __init__(self, database: Database, limits: QueueLimits) -> None:
        self.database, self.limits = database, limits
        self.box, _, self.clock = _outbox(database)
        self.box.queues.add("d", limits)
        self.memory: list[_Row] = []
        self.kept: list[_Row] = []
        self.dead: list[_Row] = []
        self.sent: list[tuple[int, str]] = []
        self.number = self.lost = self.sent_before = self.lost_before = 0

    async def do(self, action: tuple[Any, ...]) -> None:
        name, *given = action
        await getattr(self, name)(*given)
        if name in ("flush", "restart"):
            over = _over(self.kept, self.limits)
            self.kept, self.lost = self.kept[over:], self.lost + over

    async def put(self, camera: str | None, size: int) -> None:
        self.number += 1
        body = {"n": self.number, "pad": "x" * size}
        self.box.put("d", "object", camera, body)
        self.memory.append((self.number, camera or "", self.clock.utc(), size_of(body)))

    async def flush(self) -> None:
        assert await self.box.flush()
        self.kept, self.memory = self.kept + self.memory, []

    async def deliver(self, count: int) -> None:
        page = await self.box.page("d", count)
        assert _numbers(page) == [m[0] for m in self.kept[:count]]
        await self.box.delivered("d", [m.id for m in page])
        self.sent += [(m.body["n"], m.lane) for m in page]
        self.kept = self.kept[count:]

    async def restart(self) -> None:
        await self.box.close()
        self.sent_before = len(self.sent)
        self.lost_before = self.lost + _over(self.kept + self.memory, self.limits)
        self.kept, self.memory = self.kept + self.memory, []
        waiting = len(self.kept) - _over(self.kept, self.limits)
        self.box = Outbox(self.database, self.clock, lambda *_: None)
        self.box.queues.add("d", self.limits)
        await self.box.read_sums()
        assert self.box.queues.counts("d").waiting == waiting

    async def age(self, seconds: int) -> None:
        self.clock.advance(seconds)
        await self.box.expire()
        old = [m for m in self.kept if m[2] < self.clock.utc() - self.limits.age_s]
        self.kept = [m for m in self.kept if m not in old]
        self.lost += len(old)

    async def bury(self) -> None:
        for message in await self.box.page("d", 1):
            await self.box.dead_letters.bury(message, 1, "no")
            self.dead.append(self.kept.pop(0))

    async def revive(self) -> None:
        if self.dead:
            letters = await self.box.dead_letters.newest(1)
            await self.box.dead_letters.retry(letters[0].id)
            n, lane, _, size = self.dead.pop()
            self.kept.append((n, lane, self.clock.utc(), size))

    def compare(self) -> None:
        counts = self.box.queues.counts("d")
        assert counts.waiting == len(self.kept) + len(self.memory)
        assert counts.bytes == sum(m[3] for m in self.kept + self.memory)
        assert counts.dead == len(self.dead)
        assert counts.sent == len(self.sent) - self.sent_before
        assert sum(counts.lost.values()) == self.lost - self.lost_before


@settings(max_examples=40)
@given(actions=_actions, messages=st.integers(1, 12), most=st.integers(1000, 6000))
def test_the_outbox_is_a_bounded_queue(
    actions: list[tuple[Any, ...]], messages: int, most: int, sqlite_template: Path
) -> None:
    """Against plain lists: what is delivered, lost and waiting, whatever happens in which order."""

    async def play(folder: Path) -> None:
        shutil.copy(sqlite_template, folder / "magpie.db")
        database = Database(default_url(folder))
        both = _Mirror(database, QueueLimits(messages, most, 100.0))
        for action in actions:
            await both.do(action)
            both.compare()
        assert _numbers(await both.box.page("d", 1000)) == [m[0] for m in both.kept]
        # Nothing is in two places, and nothing is nowhere.
        found = len(both.sent) + both.lost + len(both.kept) + len(both.memory) + len(both.dead)
        assert found == both.number
        database.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))


def _over(kept: list[tuple[int, str, float, int]], limits: QueueLimits) -> int:
    gone = 0
    while len(kept) - gone > limits.messages or sum(m[3] for m in kept[gone:]) > limits.bytes:
        gone += 1
    return gone


async def test_lanes_that_wait_are_left_out(store: Store) -> None:
    box, _, _ = _outbox(store.database)
    box.queues.add("d", BIG)
    box.queues.add("e", BIG)
    for n in range(6):
        box.put("d", "alarm", ["north", "south", None][n % 3], {"n": n})
        box.put("e", "alarm", "north", {"n": 100 + n})
    await box.flush()
    assert _numbers(await box.page("d", 10)) == [0, 1, 2, 3, 4, 5]
    assert _numbers(await box.page("d", 10, ["north"])) == [1, 2, 4, 5]
    assert _numbers(await box.page("d", 10, ["north", ""])) == [1, 4]
    assert _numbers(await box.page("d", 2)) == [0, 1]


async def test_each_destination_has_limits_of_its_own(store: Store) -> None:
    box, notes, _ = _outbox(store.database)
    box.queues.add("small", QueueLimits(3, 10_000_000, 1000.0))
    box.queues.add("large", BIG)
    for n in range(10):
        box.put("small", "alarm", "north", {"n": n})
        box.put("large", "alarm", "north", {"n": n})
    await box.flush()
    assert _numbers(await box.page("small", 100)) == [7, 8, 9]
    assert len(await box.page("large", 100)) == 10
    assert notes == [("output.lost", {"destination": "small", "cause": "limit", "messages": 7})]


async def test_while_the_database_is_away_messages_wait_in_bounded_memory(store: Store) -> None:
    blocker = sqlite3.connect(store.data_dir / "magpie.db", isolation_level=None)
    blocker.execute("PRAGMA busy_timeout = 0")
    store.database.close()
    quick = Database(default_url(store.data_dir), busy_timeout_ms=50)
    box, notes, _ = _outbox(quick, memory_messages=20)
    box.queues.add("d", BIG)
    blocker.execute("BEGIN IMMEDIATE")
    for n in range(30):
        box.put("d", "alarm", "north", {"n": n})
    assert not await box.flush()
    assert len(box.unwritten) == 20
    assert "locked" in box.failing
    blocker.execute("ROLLBACK")
    assert await box.flush()
    assert box.failing == ""
    await box.expire()  # counts anew what a write that failed half-way might have left
    assert box.queues.counts("d").waiting == 20
    assert _numbers(await box.page("d", 100)) == list(range(10, 30))
    assert ("output.lost", {"destination": "d", "cause": "memory", "messages": 10}) in notes
    blocker.close()
    quick.close()


async def test_a_clock_that_is_set_right_makes_nothing_old(store: Store) -> None:
    box, _, clock = _outbox(store.database)
    box.queues.add("d", QueueLimits(100, 10_000_000, 1000.0))
    box.put("d", "alarm", "north", {"n": 1})
    await box.flush()
    clock.wrong_s += 86_400.0 * 365
    box.put("d", "alarm", "north", {"n": 2})
    await box.flush()
    await box.expire()
    clock.advance(990.0)
    await box.expire()
    assert _numbers(await box.page("d", 10)) == [1, 2], "neither is 1000 s old"
    clock.wrong_s -= 86_400.0
    await box.expire()
    assert _numbers(await box.page("d", 10)) == [1, 2]
    clock.wrong_s += 86_400.0
    await box.expire()
    clock.advance(2001.0)
    await box.expire()
    assert box.queues.counts("d").lost == {"age": 2}


async def test_memory_is_bounded_by_bytes_too(store: Store) -> None:
    box, _, _ = _outbox(store.database, memory_bytes=20_000)
    box.queues.add("d", BIG)
    for n in range(50):
        box.put("d", "alarm", None, {"n": n, "pad": "x" * 1000})
        assert sum(box.unwritten.sizes("d")) <= 20_000
    await box.flush()
    assert box.queues.counts("d").lost["memory"] == 50 - box.queues.counts("d").waiting
    assert _numbers(await box.page("d", 1000))[-1] == 49


async def test_a_message_that_no_receiver_could_take_is_counted_and_stops_nothing(store: Store) -> None:
    box, _, _ = _outbox(store.database)
    box.queues.add("d", BIG)
    with pytest.raises(InvalidValue, match="body"):
        box.put("d", "alarm", "north", {"x": float("nan")})
    with pytest.raises(NotFound):
        box.put("nobody", "alarm", "north", {})
    box.put("d", "alarm", "north", {"n": 1, "nul": "a\x00b"})
    assert await box.flush()
    (message,) = await box.page("d", 10)
    assert message.body == {"n": 1, "nul": "ab"}
    assert box.queues.counts("d").lost == {"refused": 1}


async def test_the_same_id_however_often_it_is_read(store: Store) -> None:
    box, _, _ = _outbox(store.database)
    box.queues.add("d", BIG)
    given_id = box.put("d", "alarm", "north", {"n": 1})
    await box.flush()
    again, _, _ = _outbox(store.database)
    again.queues.add("d", BIG)
    await again.read_sums()
    (message,) = await again.page("d", 10)
    assert message.message == given_id
    await again.dead_letters.bury(message, 3, "the receiver answered 410\x00")
    (letter,) = await again.dead_letters.newest(10)
    assert (letter.message, letter.tries, letter.reason) == (given_id, 3, "the receiver answered 410")
    await again.dead_letters.retry(letter.id)
    (message,) = await again.page("d", 10)
    assert message.message == given_id


async def test_dead_letters_are_bounded(store: Store) -> None:
    box, _, _ = _outbox(store.database, max_dead=5)
    box.queues.add("d", BIG)
    for n in range(8):
        box.put("d", "alarm", "north", {"n": n})
    await box.flush()
    for message in await box.page("d", 10):
        await box.dead_letters.bury(message, 1, "no")
    letters = await box.dead_letters.newest(100)
    assert [letter.body["n"] for letter in letters] == [7, 6, 5, 4, 3]
    assert [letter.body["n"] for letter in await box.dead_letters.newest(2, letters[1].id)] == [5, 4]
    assert box.queues.counts("d").dead == 5
    assert box.queues.counts("d").lost == {"dead_letters": 3}
    await box.dead_letters.drop(letters[0].id)
    assert box.queues.counts("d").dead == 4
    for call in (box.dead_letters.drop, box.dead_letters.retry, box.dead_letters.one):
        with pytest.raises(NotFound, match="dead letter"):
            await call(letters[0].id)


async def test_what_waits_for_a_destination_that_is_gone_is_deleted(store: Store) -> None:
    box, _, _ = _outbox(store.database)
    box.queues.add("old", BIG)
    box.queues.add("new", BIG)
    box.put("old", "alarm", None, {"n": 1})
    box.put("new", "alarm", None, {"n": 2})
    await box.flush()
    again, notes, _ = _outbox(store.database)
    again.queues.add("new", BIG)
    await again.read_sums()
    assert await again.page("old", 10) == ()
    assert len(await again.page("new", 10)) == 1
    assert notes == [("output.lost", {"destination": "old", "cause": "removed", "messages": 1, "dead_letters": 0})]


async def test_a_sender_that_is_ended_half_way_leaves_the_counters_right(store: Store) -> None:
    box, _, _ = _outbox(store.database)
    box.queues.add("d", BIG)
    for n in range(5):
        box.put("d", "alarm", None, {"n": n})
    await box.flush()
    page = await box.page("d", 3)
    task = asyncio.create_task(box.delivered("d", [m.id for m in page]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await box.close()
    assert box.queues.counts("d").waiting == 2
    assert _numbers(await box.page("d", 10)) == [3, 4]
