"""The outbox in the database: messages that wait for their destinations, and dead letters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core.errors import NotFound
from edge.outputs.messages import DeadLetter, Json, NewMessage, QueueLimits, WaitingMessage, surplus
from edge.store import tables as t
from edge.store.database import Database, retried
from edge.store.parts import page, words

#: Dead letters that are kept of each destination; beyond, the oldest go.
MAX_DEAD: Final = 1000
_STEP = 500  # rows that are looked at, at a time, when a queue is cut


class OutboxTable:
    """The tables `outbox` and `dead_letters`. Every public method is one short transaction and blocks. `max_dead` dead
    letters are kept of each destination.

    They raise the errors of the store: DiskFull, Unavailable, StoreError, NotFound, InvalidValue.
    """

    def __init__(self, database: Database, max_dead: int = MAX_DEAD) -> None:
        self._database, self._max_dead = database, max_dead

    @retried
    def sums(self) -> dict[str, tuple[int, int, int]]:
        """By destination: messages that wait, their bytes, dead letters."""
        own, dead = t.outbox.c, t.dead_letters.c
        rows = sa.select(own.destination, sa.func.count(), sa.func.sum(own.bytes)).group_by(own.destination)
        out: dict[str, tuple[int, int, int]] = {}
        with self._database.read() as c:
            for destination, count, size in c.execute(rows):
                out[destination] = (int(count), int(size), 0)
            for destination, count in c.execute(
                sa.select(dead.destination, sa.func.count()).group_by(dead.destination)
            ):
                waiting, size, _ = out.get(destination, (0, 0, 0))
                out[destination] = (waiting, size, int(count))
        return out

    @retried
    def add(
        self, messages: Sequence[NewMessage], cuts: Mapping[str, tuple[QueueLimits, int, int]]
    ) -> dict[str, list[int]]:
        """Add messages, then cut each queue of `cuts` (limits, messages and bytes with the new ones) to its limits.
        Returns the sizes of the messages that were cut, by destination."""
        lost: dict[str, list[int]] = {}
        with self._database.write() as c:
            if messages:
                c.execute(sa.insert(t.outbox), [_row(m) for m in messages])
            for destination, (limits, count, size) in cuts.items():
                lost[destination] = _cut(c, destination, limits, count, size)
        return lost

    @retried
    def page(self, destination: str, limit: int, without: Collection[str] = ()) -> tuple[WaitingMessage, ...]:
        """The oldest messages of a queue, but none of the lanes `without`."""
        own = t.outbox.c
        query = sa.select(t.outbox).where(own.destination == destination).order_by(own.id).limit(page(limit))
        if without:
            query = query.where(own.lane.not_in(sorted(without)))
        with self._database.read() as c:
            return tuple(WaitingMessage(**row) for row in c.execute(query).mappings())

    @retried
    def take_out(self, ids: Iterable[int]) -> list[int]:
        """Delete messages and return the sizes of those that were still there."""
        with self._database.write() as c:
            return _delete(c, t.outbox.c.id.in_(list(ids)))

    @retried
    def expire(self, destination: str, before_utc_s: float) -> list[int]:
        """Delete messages that were made before an instant, and return their sizes."""
        own = t.outbox.c
        with self._database.write() as c:
            return _delete(c, (own.destination == destination) & (own.at_utc_s < before_utc_s))

    @retried
    def bury(self, id_: int, now_utc_s: float, tries: int, reason: str) -> tuple[list[int], int]:
        """Make a message a dead letter. Returns its size (none if it is gone), and how many old dead letters went."""
        own, dead = t.outbox.c, t.dead_letters.c
        with self._database.write() as c:
            row = c.execute(sa.select(t.outbox).where(own.id == id_)).mappings().first()
            if row is None:
                return [], 0
            about = {k: v for k, v in row.items() if k != "id"}
            about |= {"died_utc_s": now_utc_s, "tries": tries, "reason": words(reason)[:500]}
            c.execute(sa.insert(t.dead_letters).values(**about))
            sizes = _delete(c, own.id == id_)
            mine = dead.destination == row["destination"]
            kept = sa.select(dead.id).where(mine).order_by(dead.id.desc()).limit(1).offset(self._max_dead - 1)
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
        with self._database.read() as c:
            return tuple(DeadLetter(**row) for row in c.execute(query).mappings())

    @retried
    def dead_letter(self, id_: int) -> DeadLetter:
        """One dead letter. Raises NotFound."""
        own = t.dead_letters.c
        with self._database.read() as c:
            row = c.execute(sa.select(*[c for c in own if c.name != "bytes"]).where(own.id == id_)).mappings().first()
        if row is None:
            raise _no_letter(id_)
        return DeadLetter(**row)

    @retried
    def revive(self, id_: int, now_utc_s: float) -> WaitingMessage:
        """Put a dead letter at the end of its queue; its age counts anew. Raises NotFound."""
        own = t.dead_letters.c
        with self._database.write() as c:
            row = c.execute(sa.select(t.dead_letters).where(own.id == id_)).mappings().first()
            if row is None:
                raise _no_letter(id_)
            about = {k: row[k] for k in ("destination", "lane", "kind", "message", "bytes", "body")}
            about["at_utc_s"] = now_utc_s
            new = int(c.execute(sa.insert(t.outbox).values(**about).returning(t.outbox.c.id)).scalar_one())
            c.execute(sa.delete(t.dead_letters).where(own.id == id_))
        return WaitingMessage(id=new, **about)

    @retried
    def drop_dead(self, id_: int) -> str:
        """Delete a dead letter and return its destination. Raises NotFound."""
        own = t.dead_letters.c
        with self._database.write() as c:
            gone = sa.delete(t.dead_letters).where(own.id == id_).returning(own.destination)
            found = c.execute(gone).scalar()
        if found is None:
            raise _no_letter(id_)
        return str(found)

    @retried
    def forget(self, destination: str) -> tuple[int, int]:
        """Delete everything of a destination: messages and dead letters that went."""
        with self._database.write() as c:
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


def _cut(c: Connection, destination: str, limits: QueueLimits, count: int, size: int) -> list[int]:
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
