"""Commands that come from a broker: switches that are turned, and Home Assistant's birth message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalKind
from edge.outputs.link import Received
from edge.outputs.messages import MQTT, Json
from edge.outputs.retained import RetainedTopics
from edge.outputs.topics import switch

_COMMANDS = 100
_REPORT_EVERY_S = 10.0


class Switches:
    """Carries commands out one after another; the oldest of too many are lost.

    `command(topic, on)` handles a switch and says why it is ignored, or ""; it may raise MagpieError. `birth`: (topic,
    payload) on which everything in `retained` is published again. `note(kind, data)` journals commands that are
    ignored, at most one entry in 10 s.
    """

    def __init__(
        self,
        retained: RetainedTopics,
        command: Callable[[str, bool], Awaitable[str]],
        birth: tuple[str, bytes] | None,
        clock: Clock,
        note: Callable[[JournalKind, Json], None],
    ) -> None:
        self._retained, self._command, self._birth = retained, command, birth
        self._clock, self._note = clock, note
        self._received: deque[Received] = deque(maxlen=_COMMANDS)
        self._came = asyncio.Event()
        self._ignored = 0
        self._ignored_reported_s = float("-inf")

    def receive(self, received: Received) -> None:
        """Take a command; never waits."""
        self._received.append(received)
        self._came.set()

    async def run(self) -> None:
        """Carry commands out until cancelled."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._received:
                await self._handle(self._received.popleft())

    async def _handle(self, received: Received) -> None:
        if self._birth is not None and received.topic == self._birth[0]:
            if received.payload == self._birth[1] and not received.retained:
                self._retained.repeat()
            return
        wanted = switch(received.payload)
        if received.retained:
            why = "it was retained: an old command is not carried out"
        elif wanted is None:
            why = "not ON or OFF"
        else:
            try:
                why = await self._command(received.topic, wanted)
            except MagpieError as error:
                why = str(error)
        # The sender of the command sees what is in force, also where it was not followed.
        self._retained.repeat_one(received.topic.removesuffix("/set"))
        if why:
            self._ignore(received, why)

    def _ignore(self, received: Received, why: str) -> None:
        self._ignored += 1
        now = self._clock.monotonic()
        if now - self._ignored_reported_s < _REPORT_EVERY_S:
            return
        self._ignored_reported_s = now
        count, self._ignored = self._ignored, 0
        shown = ascii(received.payload[:60].decode("utf-8", "replace"))
        self._note(
            "output.command_ignored",
            {"destination": MQTT, "topic": received.topic[:200], "payload": shown, "reason": why, "messages": count},
        )
