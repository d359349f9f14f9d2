"""Devices, shares, workers, disk, losses and versions; and the newest records of the log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal

from fastapi import Query

from edge.appliance.answers.system import LogAnswer, SystemAnswer
from web import limits
from web.examples import system as examples
from web.parts import Caller, Service, example
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("state")
ROLES: Final = {
    "GET /system": VIEWER,
    "GET /log": EVERY_OPERATOR,
}

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


@router.get("/system", responses=example(examples.SYSTEM))
async def system(service: Service, caller: Caller) -> SystemAnswer:
    """Devices, the share kind in force and what it promises, workers, disk, everything lost in words, versions. Of
    cameras only what the caller may see."""
    return limits.whole(caller, await service.state.system())


@router.get("/log", responses=example(examples.LOG))
async def log(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 200,
    level: Annotated[Level, Query(description="records of at least this level")] = "DEBUG",
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only records with a lower id")] = None,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="only records with a higher id")] = None,
    text: Annotated[str, Query(max_length=200, description="only records that have this text somewhere")] = "",
) -> LogAnswer:
    """The log of the control process, newest first, as far as it is still in memory. Follow with `after` = the highest
    id. Workers write their own records to the service's output; their reports of trouble are here, too."""
    return await asyncio.to_thread(service.state.log, limit, level, before, after, text)
