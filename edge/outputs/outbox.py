"""The outbox: a message is in the database before it is sent, and leaves it when it was delivered.

One queue per destination. `put` never waits: messages are written behind, a batch per transaction, off the event loop.
While the database is away they wait in bounded memory. Each queue is bounded by messages, bytes and age; beyond that
the oldest are lost, and counted. Delivery is at least once: a message that was sent, but not yet taken out when the
process ended, is sent again with the same id. Nothing but one page of a queue is ever in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import InvalidValue, MagpieError, StoreError, Unavailable
from edge.core.journal_kinds import JournalKind
from edge.outputs.clock_steps import ClockSteps
from edge.outputs.dead_letters import DeadLetters
from edge.outputs.messages import Json, NewMessage, WaitingMessage, size_of
from edge.outputs.outbox_table import MAX_DEAD, OutboxTable
from edge.outputs.queues import Queues
from edge.outputs.turns import Turns
from edge.outputs.unwritten import Unwritten
from edge.store.database import Database
from edge.store.parts import document, text

log = logging.getLogger(__name__)

_BATCH = 500
_MEMORY_MESSAGES = 10_000
_MEMORY_BYTES = 16_000_000


class Outbox:
    """The messages of all destinations. Used on one event loop; blocking calls run in threads.

    `queues` has the destinations, their limits and counters, `dead_letters` what was given up, `unwritten` what waits
    in memory for the database. `note(kind, data)` journals what an operator must know: "output.lost" with destination,
    cause and messages.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        note: Callable[[JournalKind, Json], None],
        *,
        memory_messages: int = _MEMORY_MESSAGES,
        memory_bytes: int = _MEMORY_BYTES,
        max_dead: int = MAX_DEAD,
    ) -> None:
        self._table, self._clock, self._note = OutboxTable(database, max_dead), clock, note
        self._turns, self._steps = Turns(), ClockSteps(clock)
        self.queues = Queues(note)
        self.dead_letters = DeadLetters(self._table, self.queues, self._turns, clock)
        self.unwritten = Unwritten(memory_messages, memory_bytes)
        self._came = asyncio.Event()
        self._failing = ""
        self._unsure = False  # a write failed half-way: waiting messages are counted anew

    @property
    def failing(self) -> str:
        """Why the database cannot be written now; empty while it can."""
        return self._failing

    # -- destinations

    async def read_sums(self) -> None:
        """Take over what an earlier run has left. Call once all destinations are known; messages for destinations that
        are there no longer are deleted, and journaled. Raises as OutboxTable.
        """
        for name in await self._turns.take(self._count_anew):
            await self.forget(name)

    async def _count_anew(self) -> list[str]:
        """Make the counters what the database has, and return the destinations there that are not known."""
        sums = await asyncio.to_thread(self._table.sums)
        self._unsure = False
        for name in self.queues:
            behind, counts = self.unwritten.sizes(name), self.queues.counts(name)
            waiting, size, counts.dead = sums.get(name, (0, 0, 0))
            counts.waiting, counts.bytes = waiting + len(behind), size + sum(behind)
            self.queues.wake_of(name).set()
        return [name for name in sums if name not in self.queues]

    async def forget(self, name: str) -> None:
        """Forget a destination and everything that waits for it. Raises as OutboxTable."""
        await self._turns.take(self._forget, name)

    async def _forget(self, name: str) -> None:
        self.queues.remove(name)
        unwritten = self.unwritten.forget(name)
        waiting, dead = await asyncio.to_thread(self._table.forget, name)
        if waiting + unwritten or dead:
            gone = {"destination": name, "cause": "removed", "messages": waiting + unwritten, "dead_letters": dead}
            self._note("output.lost", gone)

    # -- messages in

    def put(
        self, destination: str, kind: str, camera: str | None, body: Mapping[str, Any], message_id: str | None = None
    ) -> str:
        """Take a message for a known destination and return its id (None: a new one). Never waits. Raises NotFound, and
        InvalidValue for what can never be delivered (counted as lost)."""
        counts = self.queues.counts(destination)
        try:
            plain = document("body", body)
            size = size_of(plain)
            kind, lane = text("kind", kind), "" if camera is None else text("camera", camera)
        except InvalidValue:
            self.queues.lose(destination, "refused", 1)
            raise
        message = NewMessage(
            destination, lane, kind, message_id or uuid.uuid4().hex, self._clock.utc(), _without_nul(plain), size
        )
        counts.waiting += 1
        counts.bytes += size
        self._dropped(self.unwritten.put(message))
        self._came.set()
        return message.message

    def _dropped(self, messages: Iterable[NewMessage]) -> None:
        """Count messages that gave way in memory."""
        for message in messages:
            self.queues.gone(message.destination, [message.bytes])
            self.queues.lose(message.destination, "memory", 1)

    async def run(self, pause_s: float = 1.0, expire_every_s: float = 30.0) -> None:
        """Write behind until cancelled; every `expire_every_s` what is too old goes. `pause_s`: between tries while the
        database is away."""
        due = self._clock.monotonic()
        while True:
            wait = max(0.05, due - self._clock.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._came.wait()
            if not await self.flush():
                await asyncio.sleep(pause_s)
            if self._clock.monotonic() >= due:
                due = self._clock.monotonic() + expire_every_s
                await self.expire()

    async def flush(self) -> bool:
        """Write what waits; False (and everything kept) if the database cannot be written now."""
        return await self._turns.take(self._flush)

    async def _flush(self) -> bool:
        self._came.clear()
        while self.unwritten:
            batch = self.unwritten.take(_BATCH)
            if not await self._write(batch):
                self._dropped(self.unwritten.put_back(batch))
                return False
        self.queues.note_losses()
        return True

    async def _write(self, batch: list[NewMessage]) -> bool:
        # Messages in memory behind this batch are in the counts, too; they are cut with their own batch.
        names = {m.destination for m in batch if m.destination in self.queues}
        cuts = {n: (self.queues.limits(n), *self._written(n)) for n in names}
        try:
            lost = await asyncio.to_thread(self._table.add, batch, cuts)
        except (StoreError, Unavailable) as error:
            if not self._failing:
                log.warning("the outbox cannot be written: %s", error)
            self._failing, self._unsure = str(error), True
            return False
        except MagpieError as error:
            log.error("%d messages were refused by the database: %s", len(batch), error)
            for m in batch:
                self.queues.gone(m.destination, [m.bytes])
                self.queues.lose(m.destination, "refused", 1)
            return True
        self._failing = ""
        for name, sizes in lost.items():
            self.queues.gone(name, sizes)
            self.queues.lose(name, "limit", len(sizes))
        for name in names:
            self.queues.wake_of(name).set()
        return True

    def _written(self, name: str) -> tuple[int, int]:
        """Messages and bytes of a queue without those that are still only in memory."""
        counts, behind = self.queues.counts(name), self.unwritten.sizes(name)
        return counts.waiting - len(behind), counts.bytes - sum(behind)

    async def expire(self) -> None:
        """Delete what is older than its destination's limit, and count it as lost."""
        try:
            await self._turns.take(self._expire)
            if self._unsure:
                await self._turns.take(self._count_anew)
        except MagpieError as error:
            log.warning("old messages are not deleted now: %s", error)

    async def _expire(self) -> None:
        for name in self.queues:
            oldest_utc_s = self._steps.oldest_utc_s(self.queues.limits(name).age_s)
            sizes = await asyncio.to_thread(self._table.expire, name, oldest_utc_s)
            self.queues.gone(name, sizes)
            self.queues.lose(name, "age", len(sizes))
        self.queues.note_losses()

    # -- messages out

    async def page(self, destination: str, limit: int, without: Collection[str] = ()) -> tuple[WaitingMessage, ...]:
        """The oldest messages, but none of the lanes `without`. Raises as OutboxTable."""
        return await asyncio.to_thread(self._table.page, destination, limit, frozenset(without))

    async def delivered(self, destination: str, ids: Collection[int]) -> None:
        """Take delivered messages out. Raises as OutboxTable; then they stay, and are delivered again."""
        if ids:
            await self._turns.take(self._delivered, destination, tuple(ids))

    async def _delivered(self, destination: str, ids: tuple[int, ...]) -> None:
        sizes = await asyncio.to_thread(self._table.take_out, ids)
        self.queues.gone(destination, sizes)
        if destination in self.queues:
            self.queues.counts(destination).sent += len(ids)

    async def close(self) -> bool:
        """Write what waits, and end. False if that was not possible. `run` must be over."""
        await self._turns.ended()
        return await self.flush()


def _without_nul(value: Any) -> Any:
    # PostgreSQL takes no NUL inside JSON text that is read back as text.
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_without_nul(k): _without_nul(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nul(v) for v in value]
    return value
