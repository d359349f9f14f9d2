"""Keeps the process of the fleet's engine beside an agent: begins it where it is wanted, again with growing pauses when
it ended by itself, and ends it where it is not wanted any more. All of it runs in the agent's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from edge.core.clock import Clock
from edge.core.fleet_jobs import EnginePhase
from edge.core.retry_pace import RetryPace
from edge.engines.child import Child, kinds_of
from edge.fleet import engine_messages as msg
from edge.settings import FleetSettings

log = logging.getLogger(__name__)

_PACE: Final = RetryPace(first_s=2.0, most_s=60.0)
#: A process that was up for so long had started well: the next pause is the first one again.
_WELL_S: Final = 60.0
_END_S: Final = 15.0
#: A process that is open and shows no life for so long hangs: it is killed, and begun again. Orders to an API server
#: that does not answer take a minute and more.
_HUNG_S: Final = 300.0
_LONGEST_LOG: Final = 1 << 20


class EngineChild(Protocol):
    """The owner's end of a process (`edge.engines.child.Child`)."""

    pid: int

    def send(self, message: Any) -> bool:
        """Send one message; False where it is gone."""

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; True if it has ended."""

    def kill(self) -> None:
        """End it now."""


#: Starts a process: its log, the callbacks for its messages and for its end, both called from another thread.
StartEngine = Callable[[Path, Callable[[Any], None], Callable[[int], None]], EngineChild]


def start_engine(log_file: Path, on_message: Callable[[Any], None], exited: Callable[[int], None]) -> EngineChild:
    """The real process. A log that has grown large begins anew."""
    with contextlib.suppress(OSError):
        if log_file.stat().st_size > _LONGEST_LOG:
            log_file.unlink()
    return Child("edge.fleet.engine_process", {}, log_file, kinds_of(msg), on_message, exited)


class EngineKeeper:
    """One process at most. `first` gives the messages that it gets after the first one; `heard` takes
    the messages that it sends."""

    def __init__(
        self,
        settings: FleetSettings,
        folder: Path,
        clock: Clock,
        first: Callable[[], Iterable[Any]],
        heard: Callable[[Any], None],
        start: StartEngine = start_engine,
    ) -> None:
        self._settings, self._folder, self._clock = settings, folder, clock
        self._first, self._heard, self._start_process = first, heard, start
        self._child: EngineChild | None = None
        #: Counts the processes: messages of one that is over mean nothing.
        self._number = 0
        self._began_s = self._alive_s = 0.0
        self._again_s = float("-inf")
        self._failures = 0
        self._part = ""
        self.phase: EnginePhase = "off"
        #: Said by the process that runs, since it ends.
        self._last_words = ""
        #: Why it failed last, or what it waits for; empty: neither.
        self.why = ""

    @property
    def part(self) -> str | None:
        """Of the process that runs: empty as the head's, else where the head's part listens; None: none runs."""
        return None if self._child is None else self._part

    @property
    def pid(self) -> int | None:
        """Of the process that runs."""
        return None if self._child is None else self._child.pid

    async def look(self, wanted: str | None) -> None:
        """Begin, change or end. `wanted`: as `part`."""
        if self._child is not None and wanted != self._part:
            await self.end()
        if wanted is None:
            self.phase, self.why = "off", ""
        elif self._child is None and self._clock.monotonic() >= self._again_s:
            self._begin(wanted)
        elif self._child is not None and self.phase == "up" and self._clock.monotonic() - self._alive_s > _HUNG_S:
            self._last_words = f"its process showed no life for {_HUNG_S:.0f} s"
            self._child.kill()

    def send(self, message: Any) -> None:
        """Send the process a message, where one runs."""
        if self._child is not None:
            self._child.send(message)

    async def end(self) -> None:
        """End the process, if one runs, with all that it started."""
        child, self._child = self._child, None
        self._number += 1
        self.phase, self.why, self._failures, self._again_s = "off", "", 0, float("-inf")
        if child is None:
            return
        child.send(msg.EngineStop())
        if not await asyncio.to_thread(child.join, _END_S):
            child.kill()
            await asyncio.to_thread(child.join, _END_S)
        log.info("the engine of the fleet is closed")

    def _begin(self, part: str) -> None:
        self._number += 1
        self._part, self._began_s, self.phase = part, self._clock.monotonic(), "starting"
        self._last_words = ""
        loop = asyncio.get_running_loop()
        on_message, exited = partial(self._received, self._number), partial(self._exited, self._number)
        try:
            self._child = self._start_process(
                self._folder / "engine.log",
                lambda message: _in_loop(loop, on_message, message),
                lambda code: _in_loop(loop, exited, code),
            )
        except OSError as error:  # no memory, a full disk
            self._failed(f"its process could not be started: {error}")
            return
        fleet = self._settings.model_dump(mode="json")
        self.send(msg.EngineBegin(fleet, part, str(self._folder)))
        for message in self._first():
            self.send(message)
        log.info("the engine %s of the fleet begins", self._settings.engine.kind)

    def _received(self, number: int, message: Any) -> None:
        if number != self._number:
            return
        self._alive_s = self._clock.monotonic()
        match message:
            case msg.EngineAlive():
                pass
            case msg.EngineUp():
                self.phase, self.why = "up", ""
            case msg.EngineWaits(why=why):
                self.why = why
            case msg.EngineFailed(why=why):
                self.why = self._last_words = why
            case _:
                self._heard(message)

    def _exited(self, number: int, code: int) -> None:
        if number != self._number:
            return
        self._failed(self._last_words or f"its process ended with code {code}")

    def _failed(self, why: str) -> None:
        now_s = self._clock.monotonic()
        well = self.phase == "up" and now_s - self._began_s > _WELL_S
        self._failures = 1 if well else self._failures + 1
        pause_s = _PACE.pause_s(self._failures, random.random())
        self._child, self._again_s, self.phase, self.why = None, now_s + pause_s, "failed", why
        log.warning("the engine of the fleet ended, it begins again in %.0f s: %s", pause_s, self.why)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[Any], None], value: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, value)
