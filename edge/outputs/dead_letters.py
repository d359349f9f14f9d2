"""Messages that were given up: kept with the reason, sent again or deleted on request."""

from __future__ import annotations

import asyncio

from edge.core.clock import Clock
from edge.outputs.messages import DeadLetter, WaitingMessage
from edge.outputs.outbox_table import OutboxTable
from edge.outputs.queues import Queues
from edge.outputs.turns import Turns


class DeadLetters:
    """Dead letters of all destinations. Every change keeps the counters of `queues` right. Methods raise as
    OutboxTable."""

    def __init__(self, table: OutboxTable, queues: Queues, turns: Turns, clock: Clock) -> None:
        self._table, self._queues, self._turns, self._clock = table, queues, turns, clock

    async def bury(self, message: WaitingMessage, tries: int, reason: str) -> None:
        """Give a message up: it becomes a dead letter."""
        await self._turns.take(self._bury, message, tries, reason)

    async def _bury(self, message: WaitingMessage, tries: int, reason: str) -> None:
        name = message.destination
        sizes, dropped = await asyncio.to_thread(self._table.bury, message.id, self._clock.utc(), tries, reason)
        self._queues.gone(name, sizes)
        if name in self._queues and sizes:
            self._queues.counts(name).dead += 1 - dropped
            self._queues.lose(name, "dead_letters", dropped)

    async def newest(self, limit: int, before: int | None = None) -> tuple[DeadLetter, ...]:
        """Up to `limit` dead letters with ids below `before`, the newest first."""
        return await asyncio.to_thread(self.below, limit, before)

    def below(self, limit: int, before: int | None = None) -> tuple[DeadLetter, ...]:
        """As `newest`; blocks."""
        return self._table.dead(limit, before)

    async def one(self, id_: int) -> DeadLetter:
        """A dead letter by its id. Raises NotFound."""
        return await asyncio.to_thread(self._table.dead_letter, id_)

    async def retry(self, id_: int) -> None:
        """Put a dead letter at the end of its queue. Raises NotFound."""
        await self._turns.take(self._retry, id_)

    async def _retry(self, id_: int) -> None:
        message = await asyncio.to_thread(self._table.revive, id_, self._clock.utc())
        if message.destination in self._queues:
            counts = self._queues.counts(message.destination)
            counts.waiting += 1
            counts.bytes += message.bytes
            counts.dead = max(0, counts.dead - 1)
            self._queues.wake_of(message.destination).set()

    async def drop(self, id_: int) -> None:
        """Delete a dead letter. Raises NotFound."""
        await self._turns.take(self._drop, id_)

    async def _drop(self, id_: int) -> None:
        destination = await asyncio.to_thread(self._table.drop_dead, id_)
        if destination in self._queues:
            counts = self._queues.counts(destination)
            counts.dead = max(0, counts.dead - 1)
