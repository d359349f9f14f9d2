"""Retraining windows: plans, work and results."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Query

from edge.appliance.answers.windows import ExplainedWindow, WhatIfAnswer, WindowAnswer, WindowStory
from edge.settings import parse
from web import limits
from web.bodies import WhatIf
from web.examples import windows as examples
from web.parts import Body, Caller, Service, WindowNumber, example, takes
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("windows", "/windows")
ROLES: Final = {
    "GET /windows": VIEWER,
    "GET /windows/{number}": VIEWER,
    "GET /windows/{number}/explained": VIEWER,
    "POST /windows/{number}/what-if": EVERY_OPERATOR,
}


@router.get("", responses=example([examples.WINDOW]))
async def windows(
    service: Service,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=500, description="how many at most")] = 50,
    before: Annotated[int | None, Query(ge=0, le=2**53, description="only windows with a lower number")] = None,
) -> list[WindowAnswer]:
    """Windows, newest first, with each camera's realised accuracy and that of its frozen first student."""
    return limits.rows(caller, await asyncio.to_thread(service.windows.recent, limit, before))


@router.get("/{number}", responses=example(examples.WINDOW_DETAIL))
async def one_window(number: WindowNumber, service: Service, caller: Caller) -> WindowStory:
    """One window with plans, profiles, jobs, shares asked, given and used, and costs."""
    return limits.whole(caller, await asyncio.to_thread(service.windows.one, number))


@router.get("/{number}/explained", responses=example(examples.EXPLAINED))
async def explained(number: WindowNumber, service: Service, caller: Caller) -> ExplainedWindow:
    """One window for people: the shares over time as the plans took over, why each plan was made in words, and for each
    camera what was considered, expected and reached."""
    return limits.explained(caller, await service.windows.explained(number))


@router.post(
    "/{number}/what-if",
    responses=example(examples.WHAT_IF),
    openapi_extra=takes("WhatIf", {"policy": "uniform"}),
)
async def what_if(number: WindowNumber, body: Body, service: Service) -> WhatIfAnswer:
    """The plan that another policy would have made for the same window. Nothing is changed."""
    return await service.windows.what_if(number, parse(WhatIf, body).policy)
