"""Calls of the store beside the loop: in order, with what they raise, and what goes wrong behind is said."""

from __future__ import annotations

import asyncio
import threading

import pytest

from edge.core.errors import Conflict
from edge.runtime.store_thread import StoreThread


@pytest.fixture
def complaints() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def records(complaints: list[tuple[str, str]]) -> StoreThread:
    return StoreThread(lambda code, words: complaints.append((code, words)))


async def test_calls_are_made_in_order_beside_the_loop(records: StoreThread) -> None:
    made: list[int] = []
    threads: set[int] = set()

    def call(n: int) -> int:
        made.append(n)
        threads.add(threading.get_ident())
        return 10 * n

    for n in range(50):
        records.write(call, n)
    assert await records.ask(call, 50) == 500
    assert made == list(range(51))
    assert threads.isdisjoint({threading.get_ident()})
    assert len(threads) == 1
    await records.close()


async def test_who_asks_gets_the_error(records: StoreThread, complaints: list[tuple[str, str]]) -> None:
    def broken() -> None:
        raise Conflict("it is pinned")

    with pytest.raises(Conflict, match="pinned"):
        await records.ask(broken)
    assert complaints == []
    await records.close()


async def test_what_goes_wrong_behind_is_complained_about_and_the_next_is_written(
    records: StoreThread, complaints: list[tuple[str, str]]
) -> None:
    written: list[str] = []

    def refused() -> None:
        raise Conflict("it is pinned")

    def broken() -> None:
        raise OSError("no space")

    records.write(refused)
    records.write(broken)
    records.write(written.append, "next")
    await records.ask(lambda: None)
    await asyncio.sleep(0)  # the futures' callbacks
    assert [code for code, _ in complaints] == ["conflict", "store"]
    assert "refused: it is pinned" in complaints[0][1]
    assert "broken failed: no space" in complaints[1][1]
    assert written == ["next"]
    await records.close()


async def test_what_was_written_is_done_before_the_end_and_nothing_after_it(records: StoreThread) -> None:
    began, go, written = threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        assert go.wait(30)
        written.append("slow")

    records.write(slow)
    assert await asyncio.to_thread(began.wait, 30)
    records.refuse_writes()
    records.write(written.append, "late")
    go.set()
    await records.close()
    assert written == ["slow"]
    await records.close()
