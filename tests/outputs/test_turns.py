"""Changes one at a time: in order, with what they raise, and to their end."""

from __future__ import annotations

import asyncio

import pytest

from edge.core.errors import Conflict
from edge.outputs.turns import Turns


async def test_one_at_a_time_and_in_order() -> None:
    turns, steps = Turns(), list[str]()
    began, go = asyncio.Event(), asyncio.Event()

    async def change(name: str) -> str:
        steps.append(f"{name} begins")
        began.set()
        await go.wait()
        steps.append(f"{name} ends")
        return name

    asked = [asyncio.create_task(turns.take(change, name)) for name in ("first", "second")]
    await began.wait()
    for _ in range(5):
        await asyncio.sleep(0)  # the second could begin now
    assert steps == ["first begins"]
    go.set()
    assert await asyncio.gather(*asked) == ["first", "second"]
    assert steps == ["first begins", "first ends", "second begins", "second ends"]


async def test_an_error_is_raised_and_the_next_has_its_turn() -> None:
    turns = Turns()

    async def broken() -> None:
        raise Conflict("no")

    async def good() -> int:
        return 7

    with pytest.raises(Conflict, match="no"):
        await turns.take(broken)
    assert await turns.take(good) == 7


async def test_a_change_goes_to_its_end_although_the_caller_is_cancelled() -> None:
    turns, done = Turns(), list[str]()
    began, go = asyncio.Event(), asyncio.Event()

    async def change() -> None:
        began.set()
        await go.wait()
        done.append("change")

    asked = asyncio.create_task(turns.take(change))
    await began.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert done == []
    go.set()
    await turns.ended()
    assert done == ["change"]
