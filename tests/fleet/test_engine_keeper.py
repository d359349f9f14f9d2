"""The process of the fleet's engine beside an agent: one that hangs is ended and begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.core.clock import ManualClock
from edge.fleet import engine_messages as msg
from edge.fleet.engine_keeper import EngineKeeper
from edge.settings import FleetSettings


class _Started:
    """A process that is not there."""

    pid = 1

    def __init__(self, said: Callable[[Any], None], exited: Callable[[int], None]) -> None:
        self.said, self.exited, self.killed = said, exited, 0

    def send(self, message: Any) -> bool:
        return True

    def join(self, timeout_s: float) -> bool:
        return True

    def kill(self) -> None:
        self.killed += 1


async def test_a_process_that_shows_no_life_is_killed_and_begun_again(tmp_path: Path) -> None:
    started: list[_Started] = []

    def start(log: Path, said: Callable[[Any], None], exited: Callable[[int], None]) -> _Started:
        started.append(_Started(said, exited))
        return started[-1]

    settings = FleetSettings.model_validate({"name": "b1", "token": "env:X"})
    clock = ManualClock()
    keeper = EngineKeeper(settings, tmp_path, clock, tuple, lambda message: None, start)
    await keeper.look("")
    (first,) = started
    clock.advance(400.0)
    await keeper.look("")
    assert first.killed == 0, "it is still being opened"
    first.said(msg.EngineUp())
    await asyncio.sleep(0)
    for _ in range(3):
        clock.advance(250.0)
        first.said(msg.EngineAlive())
        await asyncio.sleep(0)
        await keeper.look("")
    assert (keeper.phase, first.killed) == ("up", 0)
    clock.advance(301.0)
    await keeper.look("")
    assert first.killed == 1
    first.exited(-9)
    await asyncio.sleep(0)
    assert (keeper.phase, keeper.why) == ("failed", "its process showed no life for 300 s")
    clock.advance(120.0)
    await keeper.look("")
    assert len(started) == 2
