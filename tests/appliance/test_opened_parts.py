"""Parts that are opened in a thread are closed, also when no caller waits for them any more."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from edge.appliance.opened_parts import opened
from edge.core.errors import StoreError


class Part:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


async def test_a_part_is_given_and_closed_with_the_stack() -> None:
    part = Part()
    async with AsyncExitStack() as parts:
        assert await opened(parts, lambda: part) is part
        assert part.closed == 0
    assert part.closed == 1


async def test_a_part_that_opens_while_its_start_is_cancelled_is_closed() -> None:
    part, begun, go_on = Part(), threading.Event(), threading.Event()

    def slowly() -> Part:
        begun.set()
        go_on.wait(30)
        return part

    async def start(parts: AsyncExitStack) -> None:
        await opened(parts, slowly)

    async with AsyncExitStack() as parts:
        starting = asyncio.create_task(start(parts))
        await asyncio.to_thread(begun.wait, 30)
        starting.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert part.closed == 0
    assert part.closed == 1


async def test_an_error_of_opening_comes_through_and_nothing_is_closed() -> None:
    def fails() -> Part:
        raise StoreError("the disk is full")

    async with AsyncExitStack() as parts:
        with pytest.raises(StoreError, match="the disk is full"):
            await opened(parts, fails)
