"""Rounds that are done again and again."""

from __future__ import annotations

import asyncio

import pytest

from edge.core.errors import Unavailable
from edge.runtime.tasks import repeated


async def test_a_round_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    rounds = iter([Unavailable("away"), ValueError("odd"), None])
    over = asyncio.Event()

    async def once() -> None:
        error = next(rounds)
        if error is not None:
            raise error
        over.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(repeated(once, 0.0, "looks"))
    await over.wait()
    task.cancel()
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["looks", "looks"]
    assert "away" in caplog.text
    assert "odd" in caplog.text
