"""Health for machines, and the small overview that the page asks for every second."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from edge.appliance.answers.state import Alive, BoxHealth, Doctor, OpenHealth, Overview
from edge.appliance.service import ApplianceService
from edge.core.access import Principal
from web import limits
from web.errors import Json
from web.examples import state as examples
from web.parts import Caller, Service, example, visit_of
from web.rest_router import rest_router
from web.roles import OPEN, VIEWER

probes = APIRouter(tags=["health"], default_response_class=Json)
router = rest_router("state")
ROLES: Final = {
    "GET /health": VIEWER,
    "GET /overview": VIEWER,
    "GET /doctor": VIEWER,
}
ROOT_ROLES: Final = {
    "GET /livez": OPEN,
    "GET /readyz": OPEN,  # code words only, unless a user is logged in
}


@probes.get("/livez", responses=example({"live": True}))
async def livez() -> Alive:
    """The control process answers."""
    return Alive()


@probes.get(
    "/readyz",
    responses=example(examples.HEALTH)
    | {
        503: {
            "description": "not ready; `reasons` say why",
            "model": BoxHealth | OpenHealth,
            "content": {"application/json": {"example": examples.NOT_READY}},
        }
    },
)
async def readyz(service: Service, request: Request, response: Response) -> BoxHealth | OpenHealth:
    """Whether the appliance does its work. `reasons` is also filled when it is ready but something is wrong; a
    caller that is not logged in gets its code words only."""
    health = _health(service, visit_of(request).principal)
    response.status_code = 200 if health.ready else 503
    return health


def _health(service: ApplianceService, who: Principal | None) -> BoxHealth | OpenHealth:
    return limits.health(who, service.state.health())


@router.get("/health", responses=example(examples.HEALTH))
async def health(service: Service, caller: Caller) -> BoxHealth:
    """The answer of `/readyz`, for people: not being ready is an answer like any other here."""
    return limits.whole(caller, service.state.health())


@router.get("/overview", responses=example(examples.OVERVIEW))
async def overview(service: Service, caller: Caller) -> Overview:
    """Window, shares, cameras, running retrainings, complaints and losses now."""
    return limits.whole(caller, service.state.overview())


@router.get("/doctor", responses=example(examples.DOCTOR))
async def doctor(service: Service, caller: Caller) -> Doctor:
    """The share kinds that this machine can enforce, and why not more. Takes a second or two."""
    return limits.whole(caller, await asyncio.to_thread(service.state.doctor))
