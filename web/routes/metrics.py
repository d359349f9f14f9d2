"""Numbers for Prometheus."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Response

from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.read import plain
from web import limits
from web.metrics import CONTENT_TYPE, render
from web.parts import Caller, Service
from web.roles import VIEWER

router = APIRouter(tags=["health"])
ROOT_ROLES: Final = {
    "GET /metrics": VIEWER,
}

_EXAMPLE = "# HELP magpie_uptime_seconds Since the appliance was started\nmagpie_uptime_seconds 61.5\n"
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text format 0.0.4", "content": {"text/plain": {"example": _EXAMPLE}}}
}


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(service: Service, caller: Caller) -> Response:
    """Everything that is counted and measured, for Prometheus. docs/metrics.md has the names."""
    snapshot = limits.metrics(caller, await service.state.metrics())
    text = await asyncio.to_thread(render, plain(MetricsSnapshot, snapshot))
    return Response(text, media_type=CONTENT_TYPE, headers={"cache-control": "no-store"})
