"""The journal: events are written to the store, counted, and sent to all present listeners."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.read import read
from edge.appliance.live import LiveEvents
from edge.appliance.metrics import Tally
from edge.appliance.service import Json
from edge.core.clock import Clock
from edge.core.errors import InvalidValue
from edge.core.journal_kinds import JOURNAL_KINDS, JournalKind, LiveOnlyKind
from edge.logs import entry_fields
from edge.store.journal import JournalBuffer
from edge.store.store import Store
from edge.store.values import EventRecord

log = logging.getLogger(__name__)


class Journal:
    """Implements `EventsService`. Entries are made on the control process's event loop; `recent` blocks."""

    def __init__(self, buffer: JournalBuffer, store: Store, clock: Clock) -> None:
        self.buffer = buffer
        #: Counts of entries since the start.
        self.tally = Tally()
        self._store, self._clock = store, clock
        self._live = LiveEvents()
        self._sequence = 0

    def note(
        self,
        kind: JournalKind,
        camera: str | None = None,
        window: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Journal an event and send it to the listeners. Raises InvalidValue for an unknown kind."""
        if kind not in JOURNAL_KINDS:
            raise InvalidValue("event.kind", kind, "one of edge.core.journal_kinds")
        try:
            self.buffer.append(kind, camera=camera, window=window, data=data, at_utc_s=self._clock.utc())
        except InvalidValue as error:
            log.warning("event %s not journaled: %s", kind, error)
        given = dict(data or {})
        self.tally.written(kind)
        log.info("%s", kind, extra=entry_fields(kind, camera, window, given))
        self.send_live(kind, camera, given, window)

    def send_live(
        self, kind: JournalKind | LiveOnlyKind, camera: str | None, data: Json, window: int | None = None
    ) -> None:
        """Send to the present listeners; nothing is written."""
        self._sequence += 1
        self._live.put(
            JournalEntry(
                id=f"live-{self._sequence}", utc_s=self._clock.utc(), kind=kind, camera=camera, window=window, data=data
            )
        )

    def recent(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[JournalEntry]:
        """Entries of the store, newest first, without those that cannot be read."""
        return self._store.database.unreadable.page(
            "journal entry",
            limit,
            before,
            lambda wanted, below: self._store.journal.events(limit=wanted, before_id=below, camera=camera, kind=kind),
            _entry,
            lambda e: e.id,
        )

    def subscribe(self) -> AsyncIterator[JournalEntry]:
        """Entries from now on."""
        return self._live.listen()


def _entry(e: EventRecord) -> JournalEntry:
    found = {"id": e.id, "utc_s": e.at_utc_s, "kind": e.kind, "camera": e.camera, "window": e.window, "data": e.data}
    return read(JournalEntry, found)
