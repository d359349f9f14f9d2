"""Tasks that are started again when they fail, and end when they are ended."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from edge.appliance.restarted_tasks import RestartedTasks


async def test_a_task_that_failed_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    tasks, starts, third = RestartedTasks("output", pause_s=0.0), list[int](), asyncio.Event()

    async def run() -> None:
        starts.append(len(starts))
        if len(starts) < 3:
            raise OSError("no route")
        third.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR):
        tasks.start("mqtt", run)
        await third.wait()
    await tasks.end("mqtt")
    assert starts == [0, 1, 2]
    assert [r.getMessage() for r in caplog.records] == ["output mqtt failed and is started again"] * 2


async def test_a_task_that_is_ended_has_cleaned_up_and_the_others_go_on() -> None:
    tasks, ended = RestartedTasks("output"), list[str]()
    began = {name: asyncio.Event() for name in ("mqtt", "states")}

    async def run(name: str) -> None:
        try:
            began[name].set()
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    for name in began:
        tasks.start(name, partial(run, name))
        await began[name].wait()
    await tasks.end("mqtt")
    assert ended == ["mqtt"]
    await tasks.end("mqtt")
    await tasks.end("never started")
    await tasks.end("states")
    assert ended == ["mqtt", "states"]
