"""The journal: pages of it, and what happens from now on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from edge.appliance.service import ApplianceService
from web import examples
from web.errors import Json, finite
from web.parts import Closing, Service, example, until_closing

router = APIRouter(prefix="/events", tags=["events"])

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
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only events with a lower id")] = None,
    camera: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")] = None,
    kind: Annotated[str | None, Query(pattern=r"^[a-z0-9_.-]{1,100}$", examples=["model.promoted"])] = None,
) -> Any:
    """The journal, newest first. Page on with `before` = the last id."""
    return Json(await asyncio.to_thread(service.events, limit, before, camera, kind))


@router.get("/stream", response_class=StreamingResponse, responses=_STREAM)
async def stream(service: Service, closing: Closing) -> StreamingResponse:
    """Journal entries from now on. A reader that is too slow gets an `events.lost` entry with the number it lost."""
    return StreamingResponse(
        _lines(service, closing),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _lines(service: ApplianceService, closing: asyncio.Event) -> AsyncIterator[str]:
    yield ": from now on\n\n"
    async for entry in until_closing(service.subscribe_events(), closing, _PAUSE_S):
        yield ": still here\n\n" if entry is None else f"data: {json.dumps(finite(entry))}\n\n"
