"""The journal in dictionaries, for the web tests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.read import read
from edge.appliance.service import Json

if TYPE_CHECKING:
    from appliance_double import DictAppliance


class DictEvents:
    """Implements `EventsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box
        self.journal: list[Json] = []
        self.listeners: list[asyncio.Queue[Json]] = []
        self._numbers = itertools.count(1)

    def note(self, kind: str, /, camera: str | None = None, **data: Any) -> None:
        """Journal an event and tell the listeners."""
        number, utc_s = next(self._numbers), self.box.state.utc_s
        entry = {"id": number, "utc_s": utc_s, "kind": kind, "camera": camera, "window": 3, "data": data}
        self.journal.append(entry)
        for queue in self.listeners:
            queue.put_nowait(entry)

    def recent(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[JournalEntry]:
        self.box.state.look("events")
        found = [
            e
            for e in reversed(self.journal)
            if (before is None or e["id"] < before)
            and (camera is None or e["camera"] == camera)
            and (kind is None or e["kind"] == kind)
        ]
        return [read(JournalEntry, e) for e in found[:limit]]

    async def subscribe(self) -> AsyncIterator[JournalEntry]:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        self.listeners.append(queue)
        try:
            while True:
                yield read(JournalEntry, await queue.get())
        finally:
            self.listeners.remove(queue)
