"""The fleet that this box belongs to: boxes, the head, who answers which camera."""

from __future__ import annotations

import asyncio
from typing import Final

from edge.appliance.answers.fleet import FleetAnswer
from web import limits
from web.examples import fleet as examples
from web.parts import Caller, Service, example
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("fleet")
ROLES: Final = {"GET /fleet": VIEWER}


@router.get("/fleet", responses=example(examples.FLEET))
async def fleet(service: Service, caller: Caller) -> FleetAnswer:
    """The fleet as this box's agent told it last. Orders are `magpie fleet`'s."""
    return limits.whole(caller, await asyncio.to_thread(service.fleet.fleet))
