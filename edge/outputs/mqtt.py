"""The MQTT output: states that are retained, events from the outbox, switches, availability with a last will.

States are levels: only the latest of each topic counts, so they live in memory and are published again at every new
connection. Events and alarms come from the outbox and leave it when the broker has acknowledged them. Topics that were
ever retained are remembered, so that those of a camera that is gone are cleared, also after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import MagpieError, Unavailable
from edge.outputs.link import Broker, Link, Received
from edge.outputs.messages import MQTT, Json, Pace, Waiting
from edge.outputs.outbox import Outbox
from edge.outputs.topics import Topics, switch

log = logging.getLogger(__name__)

PACE: Final = Pace(1.0, 60.0)
_PAGE = 50
#: A connection that held so long was a good one: the next pause is short again.
_STEADY_S = 10.0
#: A message that breaks the connection so often, sent alone, is given up.
_POISON = 5
_COMMANDS = 100
_TELL_EVERY_S = 10.0


@dataclass(frozen=True)
class MqttOptions:
    """What the sender needs to know beside the broker. `birth`: (topic, payload) on which everything retained is
    published again, as Home Assistant asks for it; None without discovery."""

    broker: Broker
    topics: Topics
    birth: tuple[str, bytes] | None = None


class MqttSender:
    """Keeps a connection, and sends what is to be sent. `run` until cancelled.

    `password()` is asked at each connection and may raise MagpieError. `command(topic, on)` handles a switch and says
    why it is ignored, or "". `remember(topics)` keeps the names of retained topics over restarts; `known` are those of
    earlier runs. `note(kind, data)` journals.
    """

    def __init__(
        self,
        options: MqttOptions,
        outbox: Outbox,
        clock: Clock,
        note: Callable[[str, Json], None],
        password: Callable[[], Awaitable[str]],
        command: Callable[[str, bool], Awaitable[str]],
        remember: Callable[[Sequence[str]], Awaitable[None]],
        known: Collection[str] = (),
        pace: Pace = PACE,
    ) -> None:
        self.options = options
        self._outbox, self._clock, self._note = outbox, clock, note
        self._password, self._command, self._remember = password, command, remember
        self._pace = pace
        self._known = set(known)
        self._retained: dict[str, str] = {}
        self._dirty: dict[str, None] = {}  # topics to be published, in order
        self._wake = outbox.wake_of(MQTT)
        self._received: deque[Received] = deque(maxlen=_COMMANDS)
        self._command_came = asyncio.Event()
        self._ignored = 0
        self._ignored_told_s = float("-inf")
        self._suspect: tuple[int, int] | None = None  # id of a message that broke the connection, and how often
        self.connected = False
        self.message = "not connected yet"
        self.down_since_s: float | None = clock.monotonic()
        self._told_down = False
        self._clearing = self._linked = False

    # -- states

    def retain(self, wanted: Mapping[str, str]) -> None:
        """Everything that is to be retained from now on, by topic. What changed is published, what is gone cleared."""
        changed = [topic for topic, payload in wanted.items() if self._retained.get(topic) != payload]
        gone = [topic for topic in (*self._retained, *self._known) if topic not in wanted]
        self._retained = dict(wanted)
        self._dirty.update(dict.fromkeys([*gone, *changed]))
        if gone or changed:
            self._wake.set()

    async def clear(self, timeout_s: float = 3.0) -> None:
        """Clear everything that is retained, if the broker can be reached within the time; then end `run`."""
        self._clearing = True
        self.retain({})
        ends = self._clock.monotonic() + timeout_s
        while self._known and self._linked and self._clock.monotonic() < ends:
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
        link = await Link.open(self.options.broker, password, (topics.available, "offline"), self._receive)
        commands = asyncio.create_task(self._handle_commands())
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
        gone = [topic for topic in self._known if topic not in self._retained]
        self._dirty = dict.fromkeys([*gone, *self._retained])
        await self._publish_states(link)
        await link.settle([link.publish(self.options.topics.available, b"online", retain=True)])

    async def _send(self, link: Link) -> None:
        """What there is to send; then wait for more."""
        self._wake.clear()
        if link.lost.done():
            raise Unavailable(link.lost.result())
        await self._publish_states(link)
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

    async def _publish_states(self, link: Link) -> None:
        while self._dirty:
            batch = [topic for topic, _ in zip(self._dirty, range(_PAGE), strict=False)]
            new = [topic for topic in batch if topic in self._retained and topic not in self._known]
            if new:
                # Remembered before the broker has it, so that it can always be cleared.
                self._known.update(self._retained)
                await self._remember(sorted(self._known))
            for topic in batch:
                del self._dirty[topic]
            cleared = [topic for topic in batch if topic not in self._retained]
            try:
                acks = [link.publish(t, self._retained.get(t, "").encode(), retain=True) for t in batch]
                await link.settle(acks)
            except MagpieError:
                self._dirty = dict.fromkeys([*batch, *self._dirty])
                raise
            gone = [topic for topic in cleared if topic not in self._retained and topic in self._known]
            if gone:
                self._known.difference_update(gone)
                await self._remember(sorted(self._known))

    async def _publish(self, link: Link, waiting: Sequence[Waiting]) -> None:
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
        self, waiting: Sequence[Waiting], acks: Sequence[tuple[int, Sequence[asyncio.Future[None]]]]
    ) -> None:
        """What is acknowledged leaves the outbox; up to the first gap, as what comes after it is sent again."""
        done = {number for number, each in acks if all(ack.done() for ack in each)}
        until_gap = itertools.takewhile(lambda number: number in done, (m.id for m in waiting))
        await self._outbox.delivered(MQTT, list(until_gap))

    async def _broke(self, waiting: Sequence[Waiting], reason: str) -> None:
        """The connection was lost while sending. If the first message does that again and again, it is given up."""
        first = waiting[0]
        before = self._suspect[1] if self._suspect is not None and self._suspect[0] == first.id else 0
        self._suspect = (first.id, before + (len(waiting) == 1))
        if self._suspect[1] >= _POISON:
            self._suspect = None
            words = f"the broker breaks the connection at this message ({reason})"
            await self._outbox.bury(first, _POISON, words)
            self._note("output.dead", {"destination": MQTT, "messages": 1, "reason": words})

    # -- switches

    def _receive(self, received: Received) -> None:
        self._received.append(received)
        self._command_came.set()

    async def _handle_commands(self) -> None:
        while True:
            await self._command_came.wait()
            self._command_came.clear()
            while self._received:
                await self._handle(self._received.popleft())

    async def _handle(self, received: Received) -> None:
        birth = self.options.birth
        if birth is not None and received.topic == birth[0]:
            if received.payload == birth[1] and not received.retained:
                self._dirty.update(dict.fromkeys(self._retained))
                self._wake.set()
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
        state = received.topic.removesuffix("/set")
        if state in self._retained:
            self._dirty[state] = None
            self._wake.set()
        if why:
            self._ignore(received, why)

    def _ignore(self, received: Received, why: str) -> None:
        self._ignored += 1
        now = self._clock.monotonic()
        if now - self._ignored_told_s < _TELL_EVERY_S:
            return
        self._ignored_told_s = now
        count, self._ignored = self._ignored, 0
        shown = ascii(received.payload[:60].decode("utf-8", "replace"))
        self._note(
            "output.command_ignored",
            {"destination": MQTT, "topic": received.topic[:200], "payload": shown, "reason": why, "messages": count},
        )

    # -- up and down

    def _up(self) -> None:
        self.connected, self.message, self.down_since_s = True, "", None
        if self._told_down:
            self._told_down = False
            self._note("output.up", {"destination": MQTT})

    def _down(self, reason: str) -> None:
        self.message = reason
        if self.down_since_s is None:
            self.down_since_s = self._clock.monotonic()
        if not self._told_down:
            self._told_down = True
            self._note("output.down", {"destination": MQTT, "reason": reason})

    def state(self) -> Json:
        """{"connected", "message", "down_s"}."""
        down = None if self.down_since_s is None else self._clock.monotonic() - self.down_since_s
        return {"connected": self.connected, "message": self.message, "down_s": down}
