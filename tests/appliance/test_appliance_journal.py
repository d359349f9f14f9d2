"""The journal: each entry is written, counted and sent to listeners, also one that cannot be written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.appliance.answers.events import JournalEntry
from edge.appliance.journal import Journal
from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue
from edge.store.journal import JournalBuffer
from edge.store.store import Store


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data, clock=ManualClock()) as store:
        yield store


@pytest.fixture
def journal(store: Store) -> Journal:
    clock = ManualClock()
    return Journal(JournalBuffer(store.journal, clock=clock), store, clock)


async def _next(journal: Journal) -> asyncio.Task[JournalEntry]:
    task = asyncio.ensure_future(anext(journal.subscribe()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return task  # type: ignore[return-value]


@pytest.mark.asyncio
async def test_an_entry_is_reported_now_counted_and_written(journal: Journal) -> None:
    heard = await _next(journal)
    journal.note("model.promoted", "north", 3, {"version": "v2"})
    entry = await heard
    assert (entry.kind, entry.camera, entry.window, entry.data) == (
        "model.promoted", "north", 3, {"version": "v2"},
    )  # fmt: skip
    assert journal.tally.to_json()["events"] == {"model.promoted": 1}
    assert journal.tally.to_json()["cameras"] == {}, "counts of cameras come from facts, not from entries"
    assert journal.recent(10, None, None, None) == [], "it is written behind"
    journal.buffer.flush()
    (kept,) = journal.recent(10, None, None, None)
    assert isinstance(kept.id, int)
    assert kept.data == {"version": "v2"}


@pytest.mark.asyncio
async def test_what_is_only_reported_is_neither_written_nor_counted(journal: Journal) -> None:
    heard = await _next(journal)
    journal.send_live("object.new", "north", {"id": 1})
    assert (await heard).kind == "object.new"
    journal.buffer.flush()
    assert journal.recent(10, None, None, None) == []
    assert journal.tally.to_json()["events"] == {}


@pytest.mark.asyncio
async def test_an_entry_that_the_store_refuses_is_reported(journal: Journal) -> None:
    heard = await _next(journal)
    journal.note("worker.worker_lost", "north", data={"reason": object()})
    assert (await heard).camera == "north"
    journal.buffer.flush()
    assert journal.recent(10, None, None, None) == []


def test_an_unknown_kind_is_refused_and_not_counted(journal: Journal) -> None:
    with pytest.raises(InvalidValue, match=r"event\.kind"):
        journal.note("worker.lost", "north")  # type: ignore[arg-type]
    journal.buffer.flush()
    assert journal.recent(10, None, None, None) == []
    assert journal.tally.to_json()["events"] == {}
