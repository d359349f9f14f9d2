"""The outbox: what is to be delivered is in the database before it is sent, and leaves it when it was delivered.

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
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.clock import Clock
from edge.core.errors import InvalidValue, MagpieError, NotFound, StoreError, Unavailable
from edge.outputs.messages import Counts, DeadLetter, Json, Limits, NewMessage, Waiting, size_of, surplus
from edge.store import tables as t
from edge.store.database import Database, retried
from edge.store.parts import document, page, text, words

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Dead letters that are kept of each destination; beyond, the oldest go.
MAX_DEAD = 1000
_BATCH = 500
_STEP = 500  # rows that are looked at, at a time, when a queue is cut
_CLOCK_SET_S = 60.0  # UTC that goes ahead of the steady clock by more was set
_MEMORY_MESSAGES = 10_000
_MEMORY_BYTES = 16_000_000


class OutboxTable:
    """The tables `outbox` and `dead_letters`. Every public method is one short transaction and blocks.

    They raise the errors of the store: DiskFull, Unavailable, StoreError, NotFound, InvalidValue.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def sums(self) -> dict[str, tuple[int, int, int]]:
        """By destination: messages that wait, their bytes, dead letters."""
        own, dead = t.outbox.c, t.dead_letters.c
        rows = sa.select(own.destination, sa.func.count(), sa.func.sum(own.bytes)).group_by(own.destination)
        out: dict[str, tuple[int, int, int]] = {}
        with self.database.read() as c:
            for destination, count, size in c.execute(rows):
                out[destination] = (int(count), int(size), 0)
            for destination, count in c.execute(
                sa.select(dead.destination, sa.func.count()).group_by(dead.destination)
            ):
                waiting, size, _ = out.get(destination, (0, 0, 0))
                out[destination] = (waiting, size, int(count))
        return out

    @retried
    def add(self, messages: Sequence[NewMessage], cuts: Mapping[str, tuple[Limits, int, int]]) -> dict[str, list[int]]:
        """Add messages, then cut each queue of `cuts` (limits, messages and bytes with the new ones) to its limits.
        Returns the sizes of the messages that were cut, by destination."""
        lost: dict[str, list[int]] = {}
        with self.database.write() as c:
            if messages:
                c.execute(sa.insert(t.outbox), [_row(m) for m in messages])
            for destination, (limits, count, size) in cuts.items():
                lost[destination] = _cut(c, destination, limits, count, size)
        return lost

    @retried
    def page(self, destination: str, limit: int, without: Collection[str] = ()) -> tuple[Waiting, ...]:
        """The oldest messages of a queue, but none of the lanes `without`."""
        own = t.outbox.c
        query = sa.select(t.outbox).where(own.destination == destination).order_by(own.id).limit(page(limit))
        if without:
            query = query.where(own.lane.not_in(sorted(without)))
        with self.database.read() as c:
            return tuple(Waiting(**row) for row in c.execute(query).mappings())

    @retried
    def take_out(self, ids: Iterable[int]) -> list[int]:
        """Delete messages and return the sizes of those that were still there."""
        with self.database.write() as c:
            return _delete(c, t.outbox.c.id.in_(list(ids)))

    @retried
    def expire(self, destination: str, before_utc_s: float) -> list[int]:
        """Delete messages that were made before an instant, and return their sizes."""
        own = t.outbox.c
        with self.database.write() as c:
            return _delete(c, (own.destination == destination) & (own.at_utc_s < before_utc_s))

    @retried
    def bury(self, id_: int, now_utc_s: float, tries: int, reason: str) -> tuple[list[int], int]:
        """Make a message a dead letter. Returns its size (none if it is gone), and how many old dead letters went."""
        own, dead = t.outbox.c, t.dead_letters.c
        with self.database.write() as c:
            row = c.execute(sa.select(t.outbox).where(own.id == id_)).mappings().first()
            if row is None:
                return [], 0
            about = {k: v for k, v in row.items() if k != "id"}
            about |= {"died_utc_s": now_utc_s, "tries": tries, "reason": words(reason)[:500]}
            c.execute(sa.insert(t.dead_letters).values(**about))
            sizes = _delete(c, own.id == id_)
            mine = dead.destination == row["destination"]
            kept = sa.select(dead.id).where(mine).order_by(dead.id.desc()).limit(1).offset(MAX_DEAD - 1)
            last = c.execute(kept).scalar()
            gone = 0 if last is None else c.execute(sa.delete(t.dead_letters).where(mine, dead.id < last)).rowcount
            return sizes, int(gone)

    @retried
    def dead(self, limit: int, before: int | None) -> tuple[DeadLetter, ...]:
        """Dead letters, the newest first."""
        own = t.dead_letters.c
        columns = [c for c in own if c.name != "bytes"]
        query = sa.select(*columns).order_by(own.id.desc()).limit(page(limit))
        if before is not None:
            query = query.where(own.id < before)
        with self.database.read() as c:
            return tuple(DeadLetter(**row) for row in c.execute(query).mappings())

    @retried
    def dead_letter(self, id_: int) -> DeadLetter:
        """One dead letter. Raises NotFound."""
        own = t.dead_letters.c
        with self.database.read() as c:
            row = c.execute(sa.select(*[c for c in own if c.name != "bytes"]).where(own.id == id_)).mappings().first()
        if row is None:
            raise _no_letter(id_)
        return DeadLetter(**row)

    @retried
    def revive(self, id_: int, now_utc_s: float) -> Waiting:
        """Put a dead letter at the end of its queue; its age counts anew. Raises NotFound."""
        own = t.dead_letters.c
        with self.database.write() as c:
            row = c.execute(sa.select(t.dead_letters).where(own.id == id_)).mappings().first()
            if row is None:
                raise _no_letter(id_)
            about = {k: row[k] for k in ("destination", "lane", "kind", "message", "bytes", "body")}
            about["at_utc_s"] = now_utc_s
            new = int(c.execute(sa.insert(t.outbox).values(**about).returning(t.outbox.c.id)).scalar_one())
            c.execute(sa.delete(t.dead_letters).where(own.id == id_))
        return Waiting(id=new, **about)

    @retried
    def drop_dead(self, id_: int) -> str:
        """Delete a dead letter and return its destination. Raises NotFound."""
        own = t.dead_letters.c
        with self.database.write() as c:
            gone = sa.delete(t.dead_letters).where(own.id == id_).returning(own.destination)
            found = c.execute(gone).scalar()
        if found is None:
            raise _no_letter(id_)
        return str(found)

    @retried
    def forget(self, destination: str) -> tuple[int, int]:
        """Delete everything of a destination: messages and dead letters that went."""
        with self.database.write() as c:
            waiting = c.execute(sa.delete(t.outbox).where(t.outbox.c.destination == destination)).rowcount
            dead = c.execute(sa.delete(t.dead_letters).where(t.dead_letters.c.destination == destination)).rowcount
        return int(waiting), int(dead)


def _no_letter(id_: int) -> NotFound:
    return NotFound(f"dead letter {id_} does not exist", "it may have been sent or deleted meanwhile")


def _row(m: NewMessage) -> Json:
    return {
        "destination": m.destination,
        "lane": m.lane,
        "kind": m.kind,
        "message": m.message,
        "at_utc_s": m.at_utc_s,
        "bytes": m.bytes,
        "body": m.body,
    }


def _delete(c: Connection, where: sa.ColumnElement[bool]) -> list[int]:
    return [int(n) for n in c.execute(sa.delete(t.outbox).where(where).returning(t.outbox.c.bytes)).scalars()]


def _cut(c: Connection, destination: str, limits: Limits, count: int, size: int) -> list[int]:
    own, gone = t.outbox.c, list[int]()
    while count > limits.messages or size > limits.bytes:
        oldest = sa.select(own.id, own.bytes).where(own.destination == destination).order_by(own.id).limit(_STEP)
        rows = c.execute(oldest).all()
        over = surplus([r.bytes for r in rows], count, size, limits)
        if not over:
            break
        sizes = _delete(c, (own.destination == destination) & (own.id <= rows[over - 1].id))
        gone += sizes
        count, size = count - len(sizes), size - sum(sizes)
    return gone


class Outbox:
    """The queues of all destinations. Used on one event loop; what blocks runs in threads.

    `note(kind, data)` journals what an operator must know: "output.lost" with destination, cause and messages.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        note: Callable[[str, Json], None],
        *,
        memory_messages: int = _MEMORY_MESSAGES,
        memory_bytes: int = _MEMORY_BYTES,
    ) -> None:
        self._table, self._clock, self._note = OutboxTable(database), clock, note
        self._memory_messages, self._memory_bytes = memory_messages, memory_bytes
        self._limits: dict[str, Limits] = {}
        self._counts: dict[str, Counts] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._waiting: deque[NewMessage] = deque()
        self._waiting_bytes = 0
        self._unsaid: dict[tuple[str, str], int] = {}
        self._came = asyncio.Event()
        self._writing = asyncio.Lock()
        self._failing = ""
        self._unsure = False  # a write failed half-way: what waits is counted anew
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ahead_s = clock.utc() - clock.monotonic()
        self._clock_set: list[tuple[float, float]] = []  # when UTC was set forward (steady clock), and by how much

    # -- destinations

    def destination(self, name: str, limits: Limits) -> None:
        """A destination from now on (or new limits for it)."""
        self._limits[name] = limits
        self._counts.setdefault(name, Counts())
        self._wakes.setdefault(name, asyncio.Event())

    async def read_sums(self) -> None:
        """Take over what an earlier run has left. Call once all destinations are known; what waits for destinations
        that are there no longer is deleted, and journaled. Raises as OutboxTable."""
        for name in await self._whole(self._count_anew()):
            await self.forget(name)

    async def _count_anew(self) -> list[str]:
        """Make the counters what the database has, and return the destinations there that are not known."""
        async with self._writing:
            sums = await asyncio.to_thread(self._table.sums)
            self._unsure = False
            for name, counts in self._counts.items():
                behind = [m.bytes for m in self._waiting if m.destination == name]
                waiting, size, counts.dead = sums.get(name, (0, 0, 0))
                counts.waiting, counts.bytes = waiting + len(behind), size + sum(behind)
                self._wakes[name].set()
            return [name for name in sums if name not in self._counts]

    async def forget(self, name: str) -> None:
        """Forget a destination and everything that waits for it. Raises as OutboxTable."""
        await self._whole(self._forget(name))

    async def _forget(self, name: str) -> None:
        async with self._writing:
            self._limits.pop(name, None)
            self._counts.pop(name, None)
            self._wakes.pop(name, None)
            kept = [m for m in self._waiting if m.destination != name]
            unwritten = len(self._waiting) - len(kept)
            self._waiting = deque(kept)
            self._waiting_bytes = sum(m.bytes for m in kept)
            waiting, dead = await asyncio.to_thread(self._table.forget, name)
        if waiting + unwritten or dead:
            gone = {"destination": name, "cause": "removed", "messages": waiting + unwritten, "dead_letters": dead}
            self._note("output.lost", gone)

    def counts(self, name: str) -> Counts:
        """The counters of a destination. Raises NotFound."""
        try:
            return self._counts[name]
        except KeyError:
            raise NotFound(f"output {name} does not exist") from None

    def wake_of(self, name: str) -> asyncio.Event:
        """Set whenever something new may be in the queue."""
        return self._wakes[name]

    @property
    def failing(self) -> str:
        """Why the database cannot be written now; empty while it can."""
        return self._failing

    @property
    def unwritten(self) -> int:
        """Messages that wait in memory for the database."""
        return len(self._waiting)

    # -- messages in

    def put(self, destination: str, kind: str, camera: str | None, body: Mapping[str, Any]) -> str:
        """Take a message for a known destination and return its id. Never waits. Raises NotFound, and InvalidValue for
        what can never be delivered (counted as lost)."""
        counts = self.counts(destination)
        try:
            plain = document("body", body)
            size = size_of(plain)
            kind, lane = text("kind", kind), "" if camera is None else text("camera", camera)
        except InvalidValue:
            self._lose(destination, "refused", 1)
            raise
        message = NewMessage(destination, lane, kind, uuid.uuid4().hex, self._clock.utc(), _without_nul(plain), size)
        self._waiting.append(message)
        self._waiting_bytes += size
        counts.waiting += 1
        counts.bytes += size
        while len(self._waiting) > self._memory_messages or self._waiting_bytes > self._memory_bytes:
            self._drop_from_memory()
        self._came.set()
        return message.message

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
        return await self._whole(self._flush())

    async def _flush(self) -> bool:
        async with self._writing:
            self._came.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                self._waiting_bytes -= sum(m.bytes for m in batch)
                if not await self._write(batch):
                    self._waiting.extendleft(reversed(batch))
                    self._waiting_bytes += sum(m.bytes for m in batch)
                    while len(self._waiting) > self._memory_messages or self._waiting_bytes > self._memory_bytes:
                        self._drop_from_memory()
                    return False
            self._tell_losses()
            return True

    async def _write(self, batch: list[NewMessage]) -> bool:
        # What waits in memory behind this batch is in the counts, too; it is cut with its own batch.
        names = {m.destination for m in batch} & self._limits.keys()
        cuts = {n: (self._limits[n], *self._written(n)) for n in names}
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
                self._gone(m.destination, [m.bytes])
                self._lose(m.destination, "refused", 1)
            return True
        self._failing = ""
        for name, sizes in lost.items():
            self._gone(name, sizes)
            self._lose(name, "limit", len(sizes))
        for name in names:
            self._wakes[name].set()
        return True

    def _written(self, name: str) -> tuple[int, int]:
        """Messages and bytes of a queue without those that are still only in memory."""
        counts = self._counts[name]
        behind = [m.bytes for m in self._waiting if m.destination == name]
        return counts.waiting - len(behind), counts.bytes - sum(behind)

    async def expire(self) -> None:
        """Delete what is older than its destination's limit, and count it as lost."""
        try:
            await self._whole(self._expire())
            if self._unsure:
                await self._whole(self._count_anew())
        except MagpieError as error:
            log.warning("old messages are not deleted now: %s", error)

    def _oldest_utc_s(self, age_s: float) -> float:
        """When what is `age_s` old now was made, as it was dated then. A box without a clock of its own begins in the
        past and is set right later: what waits has not become older by that."""
        steady, now = self._clock.monotonic(), self._clock.utc()
        ahead, self._ahead_s = now - steady - self._ahead_s, now - steady
        if ahead > _CLOCK_SET_S:
            self._clock_set = [*self._clock_set[-9:], (steady, ahead)]
        return now - age_s - sum(by for at, by in self._clock_set if steady - at < age_s)

    async def _expire(self) -> None:
        async with self._writing:
            for name, limits in list(self._limits.items()):
                sizes = await asyncio.to_thread(self._table.expire, name, self._oldest_utc_s(limits.age_s))
                self._gone(name, sizes)
                self._lose(name, "age", len(sizes))
            self._tell_losses()

    # -- messages out

    async def page(self, destination: str, limit: int, without: Collection[str] = ()) -> tuple[Waiting, ...]:
        """The oldest messages, but none of the lanes `without`. Raises as OutboxTable."""
        return await asyncio.to_thread(self._table.page, destination, limit, frozenset(without))

    async def delivered(self, destination: str, ids: Collection[int]) -> None:
        """Take delivered messages out. Raises as OutboxTable; then they stay, and are delivered again."""
        if ids:
            await self._whole(self._delivered(destination, tuple(ids)))

    async def _delivered(self, destination: str, ids: tuple[int, ...]) -> None:
        async with self._writing:
            sizes = await asyncio.to_thread(self._table.take_out, ids)
            self._gone(destination, sizes)
            if destination in self._counts:
                self._counts[destination].sent += len(ids)

    async def bury(self, message: Waiting, tries: int, reason: str) -> None:
        """Give a message up: it becomes a dead letter. Raises as OutboxTable."""
        await self._whole(self._bury(message, tries, reason))

    async def _bury(self, message: Waiting, tries: int, reason: str) -> None:
        name = message.destination
        async with self._writing:
            sizes, dropped = await asyncio.to_thread(self._table.bury, message.id, self._clock.utc(), tries, reason)
            self._gone(name, sizes)
            if name in self._counts and sizes:
                self._counts[name].dead += 1 - dropped
                self._lose(name, "dead_letters", dropped)

    # -- dead letters

    async def dead_letters(self, limit: int, before: int | None = None) -> tuple[DeadLetter, ...]:
        """The newest first."""
        return await asyncio.to_thread(self._table.dead, limit, before)

    async def dead_letter(self, id_: int) -> DeadLetter:
        """One. Raises NotFound."""
        return await asyncio.to_thread(self._table.dead_letter, id_)

    async def retry(self, id_: int) -> None:
        """Put a dead letter at the end of its queue. Raises NotFound."""
        await self._whole(self._retry(id_))

    async def _retry(self, id_: int) -> None:
        async with self._writing:
            message = await asyncio.to_thread(self._table.revive, id_, self._clock.utc())
            counts = self._counts.get(message.destination)
            if counts is not None:
                counts.waiting += 1
                counts.bytes += message.bytes
                counts.dead = max(0, counts.dead - 1)
                self._wakes[message.destination].set()

    async def drop_dead(self, id_: int) -> None:
        """Delete a dead letter. Raises NotFound."""
        await self._whole(self._drop_dead(id_))

    async def _drop_dead(self, id_: int) -> None:
        async with self._writing:
            counts = self._counts.get(await asyncio.to_thread(self._table.drop_dead, id_))
            if counts is not None:
                counts.dead = max(0, counts.dead - 1)

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something to its end, whatever becomes of who asked: a database and its counters change together."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self) -> bool:
        """Write what waits, and end. False if that was not possible. `run` must be over."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return await self.flush()

    # -- counting

    def _drop_from_memory(self) -> None:
        message = self._waiting.popleft()
        self._waiting_bytes -= message.bytes
        self._gone(message.destination, [message.bytes])
        self._lose(message.destination, "memory", 1)

    def _gone(self, destination: str, sizes: Sequence[int]) -> None:
        counts = self._counts.get(destination)
        if counts is not None:
            counts.waiting -= len(sizes)
            counts.bytes -= sum(sizes)

    def _lose(self, destination: str, cause: str, messages: int) -> None:
        counts = self._counts.get(destination)
        if counts is not None and messages:
            counts.lose(cause, messages)
            key = (destination, cause)
            self._unsaid[key] = self._unsaid.get(key, 0) + messages

    def _tell_losses(self) -> None:
        unsaid, self._unsaid = self._unsaid, {}
        for (destination, cause), messages in unsaid.items():
            self._note("output.lost", {"destination": destination, "cause": cause, "messages": messages})


def _without_nul(value: Any) -> Any:
    # PostgreSQL takes no NUL inside JSON text that is read back as text.
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_without_nul(k): _without_nul(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nul(v) for v in value]
    return value
