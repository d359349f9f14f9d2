"""The MQTT output: states that are retained, events from the outbox, switches, availability with a last will.

Events and alarms come from the outbox and leave it when the broker has acknowledged them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import MagpieError, Unavailable
from edge.core.journal_kinds import JournalKind
from edge.core.retry_pace import RetryPace
from edge.outputs.link import Broker, Link
from edge.outputs.messages import MQTT, Json, WaitingMessage
from edge.outputs.outbox import Outbox
from edge.outputs.retained import RetainedTopics
from edge.outputs.switches import Switches
from edge.outputs.topics import Topics

log = logging.getLogger(__name__)

PACE: Final = RetryPace(1.0, 60.0)
_PAGE = 50
#: A connection that held so long was a good one: the next pause is short again.
_STEADY_S = 10.0
#: A message that breaks the connection so often, sent alone, is given up.
_POISON = 5


@dataclass(frozen=True)
class MqttOptions:
    """The sender's settings beside the broker. `birth`: (topic, payload) on which everything retained is
    published again, as Home Assistant asks for it; None without discovery."""

    broker: Broker
    topics: Topics
    birth: tuple[str, bytes] | None = None


class MqttSender:
    """Keeps a connection, and sends what is to be sent: `retained` has the states. `run` until cancelled.

    `password()` is asked at each connection and may raise MagpieError. `command(topic, on)` handles a switch and says
    why it is ignored, or "". `remember(topics)` keeps the names of retained topics over restarts; `known` are those of
    earlier runs. `note(kind, data)` journals.
    """

    def __init__(
        self,
        options: MqttOptions,
        outbox: Outbox,
        clock: Clock,
        note: Callable[[JournalKind, Json], None],
        password: Callable[[], Awaitable[str]],
        command: Callable[[str, bool], Awaitable[str]],
        remember: Callable[[Sequence[str]], Awaitable[None]],
        known: Collection[str] = (),
        pace: RetryPace = PACE,
    ) -> None:
        self.options = options
        self._outbox, self._clock, self._note = outbox, clock, note
        self._password, self._pace = password, pace
        self._wake = outbox.queues.wake_of(MQTT)
        self.retained = RetainedTopics(self._wake, remember, known)
        self._switches = Switches(self.retained, command, options.birth, clock, note)
        self._suspect: tuple[int, int] | None = None  # id of a message that broke the connection, and how often
        self.connected = False
        self.message = "not connected yet"
        self.down_since_s: float | None = clock.monotonic()
        self._reported_down = False
        self._clearing = self._linked = False

    async def clear(self, timeout_s: float = 3.0) -> None:
        """Clear everything that is retained, if the broker can be reached within the time; then end `run`."""
        self._clearing = True
        self.retained.replace({})
        ends = self._clock.monotonic() + timeout_s
        while self.retained.known and self._linked and self._clock.monotonic() < ends:
            await asyncio.sleep(0.05)

    # -- life

    async def run(self) -> None:
        """Connect, send, and connect again, until cancelled; then say goodbye."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self._session()
            except MagpieError as error:
                was, self.connected = self.connected, False
                if was and self._clock.monotonic() - began > _STEADY_S:
                    failures = 0
                failures += 1
                self._down(str(error))
            await asyncio.sleep(self._pace.pause_s(failures, random.random()))

    async def _session(self) -> None:
        """One connection, from its beginning to its loss. Raises MagpieError with the reason."""
        topics = self.options.topics
        password = await self._password()
        link = await Link.open(self.options.broker, password, (topics.available, "offline"), self._switches.receive)
        commands = asyncio.create_task(self._switches.run())
        self._linked = True
        try:
            await self._greet(link)
            self._up()
            link.lost.add_done_callback(lambda _: self._wake.set())
            while True:
                await self._send(link)
        except asyncio.CancelledError:
            await link.close((topics.available, "" if self._clearing else "offline"))
            raise
        finally:
            self._linked = False
            commands.cancel()
            await asyncio.wait({commands})
            await link.close()

    async def _greet(self, link: Link) -> None:
        """Subscriptions first, then everything retained, then "online"."""
        birth = self.options.birth
        await link.subscribe(self.options.topics.sets, *([birth[0]] if birth is not None else []))
        await self.retained.publish_all(link)
        await link.settle([link.publish(self.options.topics.available, b"online", retain=True)])

    async def _send(self, link: Link) -> None:
        """Send all messages that wait; then wait for more."""
        self._wake.clear()
        if link.lost.done():
            raise Unavailable(link.lost.result())
        await self.retained.publish(link)
        try:
            waiting = await self._outbox.page(MQTT, 1 if self._suspect is not None else _PAGE)
        except MagpieError as error:
            self.message = f"connected; the outbox cannot be read: {error}"
            await asyncio.sleep(1.0)
            return
        self.message = ""
        if waiting:
            await self._publish(link, waiting)
            return
        # A full page may have more behind it, so only an empty one is a reason to wait.
        await self._wake.wait()

    async def _publish(self, link: Link, waiting: Sequence[WaitingMessage]) -> None:
        acks: list[tuple[int, list[asyncio.Future[None]]]] = []
        try:
            for message in waiting:
                payload = json.dumps({"message_id": message.message, **message.body}, ensure_ascii=False).encode()
                names = self.options.topics.messages(message.kind, message.lane or None)
                acks.append((message.id, [link.publish(name, payload) for name in names]))
            await link.settle([ack for _, each in acks for ack in each])
        except Unavailable as error:
            await self._take_out(waiting, acks)
            await self._broke(waiting, str(error))
            raise
        except asyncio.CancelledError:
            with contextlib.suppress(MagpieError):
                await self._take_out(waiting, acks)
            raise
        await self._take_out(waiting, acks)
        self._suspect = None

    async def _take_out(
        self, waiting: Sequence[WaitingMessage], acks: Sequence[tuple[int, Sequence[asyncio.Future[None]]]]
    ) -> None:
        """Take acknowledged messages out of the outbox, up to the first gap: those after it are sent again."""
        done = {number for number, each in acks if all(ack.done() for ack in each)}
        until_gap = itertools.takewhile(lambda number: number in done, (m.id for m in waiting))
        await self._outbox.delivered(MQTT, list(until_gap))

    async def _broke(self, waiting: Sequence[WaitingMessage], reason: str) -> None:
        """The connection was lost while sending. If the first message does that again and again, it is given up."""
        first = waiting[0]
        before = self._suspect[1] if self._suspect is not None and self._suspect[0] == first.id else 0
        self._suspect = (first.id, before + (len(waiting) == 1))
        if self._suspect[1] >= _POISON:
            self._suspect = None
            words = f"the broker breaks the connection at this message ({reason})"
            await self._outbox.dead_letters.bury(first, _POISON, words)
            self._note("output.dead", {"destination": MQTT, "messages": 1, "reason": words})

    # -- up and down

    def _up(self) -> None:
        self.connected, self.message, self.down_since_s = True, "", None
        if self._reported_down:
            self._reported_down = False
            self._note("output.up", {"destination": MQTT})

    def _down(self, reason: str) -> None:
        self.message = reason
        if self.down_since_s is None:
            self.down_since_s = self._clock.monotonic()
        if not self._reported_down:
            self._reported_down = True
            self._note("output.down", {"destination": MQTT, "reason": reason})

    def state(self) -> Json:
        """{"connected", "message", "down_s"}."""
        down = None if self.down_since_s is None else self._clock.monotonic() - self.down_since_s
        return {"connected": self.connected, "message": self.message, "down_s": down}
