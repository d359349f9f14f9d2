"""The journal in dictionaries, for the web tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.read import read
from edge.appliance.service import Json

if TYPE_CHECKING:
    from appliance_double import DictAppliance


class DictEvents:
    """Implements `EventsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box

    def recent(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[JournalEntry]:
        self.box.look("events")
        found = [
            e
            for e in reversed(self.box.journal)
            if (before is None or e["id"] < before)
            and (camera is None or e["camera"] == camera)
            and (kind is None or e["kind"] == kind)
        ]
        return [read(JournalEntry, e) for e in found[:limit]]

    async def subscribe(self) -> AsyncIterator[JournalEntry]:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        self.box.listeners.append(queue)
        try:
            while True:
                yield read(JournalEntry, await queue.get())
        finally:
            self.box.listeners.remove(queue)
