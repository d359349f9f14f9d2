"""Routes of capacity: forecasts of changes of the box, and past errors of such forecasts."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends

from edge.appliance.answers.capacity import CapacityAnswer
from edge.appliance.capacity_service import CapacityService
from edge.core.capacity import BoxChange
from edge.settings import parse
from web import limits
from web.bodies import AskedCapacity
from web.examples import capacity as examples
from web.parts import Body, Caller, Service, Who, example, takes
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("capacity", "/capacity")
ROLES: Final = {"GET /capacity": VIEWER, "POST /capacity": EVERY_OPERATOR}


async def _capacity(service: Service) -> CapacityService:
    return service.windows.capacity


Capacities = Annotated[CapacityService, Depends(_capacity)]


@router.get("", responses=example(examples.CAPACITY))
async def capacity(service: Capacities, caller: Caller) -> CapacityAnswer:
    """The forecasts that were asked for, newest first, each with what came of it; and the one that is being made."""
    return limits.whole(caller, await service.all())


@router.post(
    "",
    status_code=202,
    responses={202: example(examples.CAPACITY, "the forecast is being made; GET /capacity has it later")[200]},
    openapi_extra=takes("AskedCapacity", {"kind": "device", "factor": 0.5}),
)
async def ask_capacity(body: Body, service: Capacities, by: Who) -> CapacityAnswer:
    """Begin a forecast of a change: one more camera, a higher frame rate, a window half as long, another device, a
    second box. It takes seconds to minutes, beside the box's work. Nothing is changed."""
    asked = parse(AskedCapacity, body)
    change = BoxChange.of(asked.kind, asked.factor, asked.camera)
    return await service.ask(change, asked.windows, by)
