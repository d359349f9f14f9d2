"""Devices, shares, workers, disk, losses and versions; and the newest records of the log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from web import limits
from web.errors import Json
from web.examples import system as examples
from web.parts import Caller, Service, example, visible

router = APIRouter(tags=["state"])

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


@router.get("/system", responses=example(examples.SYSTEM))
async def system(service: Service, caller: Caller) -> Any:
    """Devices, the share kind in force and what it promises, workers, disk, everything lost in words, versions. Of
    cameras only what the caller may see."""
    found = await service.state.system()
    for part in ("workers", "losses"):
        found[part] = visible(caller, found[part])
    found["health"] = limits.health(caller, found["health"], (c["id"] for c in service.cameras.all()))
    return Json(found)


@router.get("/log", responses=example(examples.LOG))
async def log(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 200,
    level: Annotated[Level, Query(description="records of at least this level")] = "DEBUG",
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only records with a lower id")] = None,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="only records with a higher id")] = None,
    text: Annotated[str, Query(max_length=200, description="only records that have this text somewhere")] = "",
) -> Any:
    """What the control process logged, newest first, as far as it is still in memory. Follow with `after` = the highest
    id. Workers write their own records to the service's output; what they report of trouble is here, too."""
    return Json(await asyncio.to_thread(service.state.log, limit, level, before, after, text))
