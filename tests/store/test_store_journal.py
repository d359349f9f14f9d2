"""The buffer in front of the journal: it never makes anybody wait, and what it loses it counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.clock import ManualClock
from edge.core.errors import DiskFull, InvalidValue, Unavailable
from edge.store.journal import JournalBuffer, JournalPart
from edge.store.store import Store
from edge.store.values import NewEvent


class Sink(JournalPart):
    """A journal whose disk can be filled: keeps what was written in a list."""

    def __init__(self) -> None:
        self.kept: list[NewEvent] = []
        self.full = False
        self.batches: list[int] = []

    def append_events(self, events: Sequence[NewEvent]) -> int:
        if self.full:
            raise DiskFull("the disk is full")
        self.batches.append(len(events))
        self.kept.extend(events)
        return len(self.kept)

    def notes(self) -> list[int]:
        return [e.data["n"] for e in self.kept if e.kind == "note"]

    def reported_lost(self) -> int:
        return sum(e.data["events"] for e in self.kept if e.kind == "journal.lost")


def test_events_go_to_the_real_store_in_order(lite: Store) -> None:
    buffer = JournalBuffer(lite.journal, batch=4)
    for n in range(10):
        buffer.append("note", camera="gate", window=3, data={"n": n}, at_utc_s=100.0 + n)
    assert lite.journal.events() == ()
    assert buffer.stats().waiting == 10
    assert buffer.flush()
    events = lite.journal.events(newest_first=False)
    assert [e.data["n"] for e in events] == list(range(10))
    assert {(e.kind, e.camera, e.window) for e in events} == {("note", "gate", 3)}
    assert [e.at_utc_s for e in events] == [100.0 + n for n in range(10)]
    assert (buffer.stats().waiting, buffer.stats().written, buffer.stats().lost) == (0, 10, 0)


def test_while_the_disk_is_full_events_wait_and_then_go(lite: Store) -> None:
    """A really full database: its file may not grow."""
    buffer = JournalBuffer(lite.journal)
    with lite.database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limit = [pages]

    @sa.event.listens_for(lite.database.engine, "begin")
    def small(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {limit[0]}")

    for n in range(50):
        buffer.append("note", data={"n": n, "text": "x" * 1000})
    assert not buffer.flush()
    stats = buffer.stats()
    assert (stats.waiting, stats.lost) == (50, 0)
    assert "no space left for the database" in stats.last_error
    assert stats.failing_since_utc_s is not None
    with pytest.raises(DiskFull):
        lite.settings.put_settings("big", {"text": "x" * 100_000}, "ann")
    assert lite.settings.get_settings("big") is None  # reading goes on, and nothing is half there
    limit[0] = 1_000_000
    assert buffer.flush()
    assert [e.data["n"] for e in lite.journal.events(newest_first=False)] == list(range(50))
    assert buffer.stats().failing_since_utc_s is None


def test_beyond_its_capacity_the_oldest_give_way_and_are_counted() -> None:
    sink = Sink()
    sink.full = True
    buffer = JournalBuffer(sink, capacity=3, clock=ManualClock())
    for n in range(5):
        buffer.append("note", data={"n": n})
    assert not buffer.flush()
    assert (buffer.stats().waiting, buffer.stats().lost) == (3, 2)
    sink.full = False
    assert buffer.flush()
    assert sink.notes() == [2, 3, 4]
    assert sink.reported_lost() == 2
    buffer.append("note", data={"n": 5})
    buffer.flush()
    assert sink.reported_lost() == 2  # reported once


def test_what_could_never_be_written_is_refused_at_once() -> None:
    buffer = JournalBuffer(Sink())
    with pytest.raises(InvalidValue, match=r"event\.data"):
        buffer.append("note", data={"bad": object()})
    with pytest.raises(InvalidValue, match=r"event\.kind"):
        buffer.append("")
    assert buffer.stats().waiting == 0


def test_a_later_change_of_the_data_does_not_reach_the_journal() -> None:
    sink, data = Sink(), {"n": 1}
    buffer = JournalBuffer(sink)
    buffer.append("note", data=data)
    data["n"] = 2
    buffer.flush()
    assert sink.notes() == [1]


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 6),
    batch=st.integers(1, 4),
    acts=st.lists(st.sampled_from(["append", "append", "flush", "fill", "free"]), max_size=40),
)
def test_every_event_is_written_or_waits_or_is_counted(capacity: int, batch: int, acts: list[str]) -> None:
    sink = Sink()
    buffer = JournalBuffer(sink, capacity=capacity, batch=batch, clock=ManualClock())
    given_events = 0
    for act in acts:
        if act == "append":
            buffer.append("note", data={"n": given_events})
            given_events += 1
        elif act == "flush":
            assert buffer.flush() == (not sink.full or given_events == len(sink.notes()) + buffer.stats().lost)
        else:
            sink.full = act == "fill"
        stats = buffer.stats()
        assert stats.written == len(sink.notes())
        assert stats.waiting <= capacity
        assert stats.written + stats.waiting + stats.lost == given_events
    sink.full = False
    assert buffer.close()
    assert sink.notes() == sorted(sink.notes())
    assert len(sink.notes()) + buffer.stats().lost == given_events


def test_the_thread_writes_by_itself_and_close_leaves_nothing_waiting() -> None:
    sink, written = Sink(), threading.Event()
    plain = sink.append_events

    def telling(events: Sequence[NewEvent]) -> int:
        last = plain(events)
        written.set()
        return last

    sink.append_events = telling  # type: ignore[method-assign]
    buffer = JournalBuffer(sink, batch=2, interval_s=3600.0)
    buffer.start()
    buffer.append("note", data={"n": 0})
    buffer.append("note", data={"n": 1})  # a whole batch wakes the thread
    assert written.wait(30)
    buffer.append("note", data={"n": 2})
    assert buffer.close()
    assert buffer.close()
    assert sink.notes() == [0, 1, 2]


def test_a_store_that_fails_does_not_end_the_thread() -> None:
    sink, asked = Sink(), threading.Semaphore(0)

    def refusing(events: Sequence[NewEvent]) -> int:
        asked.release()
        raise Unavailable("the database is locked")

    plain, sink.append_events = sink.append_events, refusing  # type: ignore[method-assign]
    buffer = JournalBuffer(sink, interval_s=0.001)
    buffer.start()
    buffer.append("note", data={"n": 0})
    assert asked.acquire(timeout=30)
    assert asked.acquire(timeout=30)  # it tries again
    sink.append_events = plain  # type: ignore[method-assign]
    assert buffer.close()
    assert sink.notes() == [0]
