"""The journal: pages of it, and what happens from now on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import StreamingResponse

from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.read import plain
from edge.appliance.journal_pages import seen_entries, seen_entry
from edge.appliance.service import ApplianceService
from edge.core.access import Principal
from web import limits
from web.errors import finite
from web.examples import events as examples
from web.parts import Caller, Closing, Service, example, until_closing
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("events", "/events")
ROLES: Final = {
    "GET /events": VIEWER,
    "GET /events/stream": VIEWER,
}

#: A comment line after so long without an event, so that proxies keep the stream and a dead reader is noticed.
_PAUSE_S = 15.0
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "server-sent events; `data` is one journal entry",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("", responses=example([examples.EVENT]))
async def events(
    service: Service,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only events with a lower id")] = None,
    camera: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")] = None,
    kind: Annotated[str | None, Query(pattern=r"^[a-z0-9_.-]{1,100}$", examples=["model.promoted"])] = None,
) -> list[JournalEntry]:
    """The journal, newest first. Page on with `before` = the last id."""
    found = await asyncio.to_thread(seen_entries, service.events.recent, caller, limit, before, camera, kind)
    return limits.rows(caller, found)


@router.get("/stream", response_class=StreamingResponse, responses=_STREAM)
async def stream(service: Service, caller: Caller, closing: Closing) -> StreamingResponse:
    """Journal entries from now on. A reader that is too slow gets an `events.lost` entry with the number it lost."""
    return StreamingResponse(
        _lines(service, caller, closing),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _lines(service: ApplianceService, caller: Principal, closing: asyncio.Event) -> AsyncIterator[str]:
    yield ": from now on\n\n"
    async for entry in until_closing(service.events.subscribe(), closing, _PAUSE_S):
        shown = None if entry is None else seen_entry(caller, entry)
        if entry is None:
            yield ": still here\n\n"
        elif shown is not None:
            yield f"data: {json.dumps(finite(plain(JournalEntry, shown)))}\n\n"
