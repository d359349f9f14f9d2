"""The event journal, and a bounded buffer in front of it for those who must not wait."""

from __future__ import annotations

import json
import operator
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from edge.core.clock import Clock, SystemClock
from edge.core.errors import InvalidValue, MagpieError, StoreError, Unavailable
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import Part, document, page, text
from edge.store.values import EventRecord, NewEvent

_ROW_BYTES = 120  # a row's size beside its document and names, roughly: ids, times, four index entries


class JournalPart(Part):
    """Events only grow at the end; retention takes them from the front."""

    def append(
        self,
        kind: str,
        *,
        camera: str | None = None,
        window: int | None = None,
        data: Mapping[str, Any] | None = None,
        at_utc_s: float | None = None,
    ) -> int:
        """Append one event and return its id. Raises InvalidValue, DiskFull, Unavailable, StoreError."""
        at = self._clock.utc() if at_utc_s is None else at_utc_s
        return self.append_events([NewEvent(at, kind, camera, window, dict(data or {}))])

    @retried
    def append_events(self, events: Sequence[NewEvent]) -> int:
        """Append events in one transaction and return the id of the last (0 for none)."""
        rows = [_row(event) for event in events]
        if not rows:
            return 0
        with self.database.write() as c:
            if len(rows) > 1:
                c.execute(sa.insert(t.journal), rows[:-1])
            return int(c.execute(sa.insert(t.journal).values(**rows[-1]).returning(t.journal.c.id)).scalar_one())

    @retried
    def events(
        self,
        *,
        kind: str | Sequence[str] | None = None,
        camera: str | None = None,
        window: int | None = None,
        since_utc_s: float | None = None,
        until_utc_s: float | None = None,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> tuple[EventRecord, ...]:
        """One page of events. `since` is included, `until` is not. For the next page give the last id seen, as
        `before_id` (newest first) or `after_id` (oldest first).
        """
        own = t.journal.c
        columns = (own.id, own.at_utc_s, own.kind, own.camera, own.window, own.data)
        query = sa.select(*columns).order_by(own.id.desc() if newest_first else own.id).limit(page(limit))
        if kind is not None:
            query = query.where(own.kind.in_([kind] if isinstance(kind, str) else list(kind)))
        for value, column, compare in (
            (camera, own.camera, operator.eq),
            (window, own.window, operator.eq),
            (since_utc_s, own.at_utc_s, operator.ge),
            (until_utc_s, own.at_utc_s, operator.lt),
            (before_id, own.id, operator.lt),
            (after_id, own.id, operator.gt),
        ):
            if value is not None:
                query = query.where(compare(column, value))
        with self.database.read() as c:
            return tuple(EventRecord(**row) for row in c.execute(query).mappings())


def _row(event: NewEvent) -> dict[str, Any]:
    data = document("event.data", event.data)
    kind = text("event.kind", event.kind)
    camera = None if event.camera is None else text("event.camera", event.camera)
    size = _ROW_BYTES + len(json.dumps(data)) + len(kind) + len(camera or "")
    if isinstance(event.at_utc_s, bool) or not isinstance(event.at_utc_s, (int, float)):
        raise InvalidValue("event.at_utc_s", event.at_utc_s, "seconds since 1970 UTC")
    return {
        "at_utc_s": float(event.at_utc_s),
        "kind": kind,
        "camera": camera,
        "window": event.window,
        "data": data,
        "bytes": size,
    }


@dataclass(frozen=True)
class JournalStats:
    """The fate of events given to a buffer; `failing_since_utc_s` is None while the journal can be written."""

    waiting: int
    written: int
    lost: int
    failing_since_utc_s: float | None
    last_error: str


class JournalBuffer:
    """Takes events without waiting and writes them behind, in batches of one transaction each.

    While the store cannot be written, up to `capacity` events wait; then the oldest give way, and are counted. When it
    can be written again, an event "journal.lost" says how many are missing. `start` runs a thread that writes every
    `interval_s`; without it call `flush`. An event may be written twice if the connection breaks during a commit.
    """

    def __init__(
        self,
        journal: JournalPart,
        *,
        capacity: int = 10_000,
        batch: int = 500,
        interval_s: float = 0.5,
        clock: Clock | None = None,
    ) -> None:
        self._journal, self._capacity, self._batch, self._interval_s = journal, capacity, batch, interval_s
        self._clock: Clock = clock or SystemClock()
        self._waiting: deque[NewEvent] = deque()
        self._taken: list[NewEvent] = []  # the batch being written now
        self._lock = threading.Lock()  # the queue and the counters
        self._writing = threading.Lock()  # one flush at a time keeps the order
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._written = self._lost = self._unreported = 0
        self._failing_since: float | None = None
        self._last_error = ""

    def append(
        self,
        kind: str,
        *,
        camera: str | None = None,
        window: int | None = None,
        data: Mapping[str, Any] | None = None,
        at_utc_s: float | None = None,
    ) -> None:
        """Take an event. Never waits for the store. Raises InvalidValue for what could never be written."""
        at = self._clock.utc() if at_utc_s is None else at_utc_s
        event = NewEvent(at, kind, camera, window, document("event.data", data or {}))
        _row(event)  # an entry that the store would refuse is refused now, to its author
        with self._lock:
            self._waiting.append(event)
            self._drop_oldest()
            full = len(self._waiting) >= self._batch
        if full:
            self._wake.set()

    def flush(self) -> bool:
        """Write what waits. False (and everything kept) if the store cannot be written now."""
        with self._writing:
            while True:
                with self._lock:
                    batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
                    self._taken, unreported = batch, self._unreported
                if not batch:
                    return True
                rows = list(batch)
                if unreported:
                    rows.append(NewEvent(self._clock.utc(), "journal.lost", data={"events": unreported}))
                try:
                    self._journal.append_events(rows)
                except (StoreError, Unavailable) as error:
                    self._failed(batch, error)
                    return False
                except MagpieError as error:
                    self._refused(batch, error)
                    continue
                with self._lock:
                    self._taken = []
                    self._written += len(batch)
                    self._unreported -= unreported
                    self._failing_since, self._last_error = None, ""

    def stats(self) -> JournalStats:
        """Counters now."""
        with self._lock:
            waiting = len(self._waiting) + len(self._taken)
            return JournalStats(waiting, self._written, self._lost, self._failing_since, self._last_error)

    def start(self) -> None:
        """Write behind in a thread until `close`."""
        if self._thread is None:
            self._stopping = False
            self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
            self._thread.start()

    def close(self) -> bool:
        """Stop the thread and write what waits; False if that was not possible (see `stats`). Safe to call twice."""
        if self._thread is not None:
            self._stopping = True
            self._wake.set()
            self._thread.join()
            self._thread = None
        return self.flush()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            if not self.flush() and not self._stopping:
                self._wake.wait(self._interval_s)  # a store that fails is not asked in a tight loop
                self._wake.clear()

    def _drop_oldest(self) -> None:
        while len(self._waiting) > self._capacity:
            self._waiting.popleft()
            self._lost += 1
            self._unreported += 1

    def _failed(self, batch: list[NewEvent], error: MagpieError) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(batch))
            self._taken = []
            self._drop_oldest()
            self._last_error = str(error)
            if self._failing_since is None:
                self._failing_since = self._clock.utc()

    def _refused(self, batch: list[NewEvent], error: MagpieError) -> None:
        # Should not be: append() checked them. They must not block the ones behind them.
        with self._lock:
            self._taken = []
            self._lost += len(batch)
            self._unreported += len(batch)
            self._last_error = str(error)
