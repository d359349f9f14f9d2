"""Served models beside the cameras: how they are doing, what is asked of them, and what more would fit."""

from __future__ import annotations

from typing import Final

from edge.appliance.answers.serving import AdmissionAnswer, Serving
from web import limits
from web.examples import serving as examples
from web.parts import Body, Caller, Service, Who, example, takes
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("serving")
ROLES: Final = {
    "GET /serving": VIEWER,
    "PATCH /serving": EVERY_OPERATOR,
    "POST /admission": EVERY_OPERATOR,
}


@router.get("/serving", responses=example(examples.SERVING))
async def serving(service: Service, caller: Caller) -> Serving:
    """The plan and its gpu-lets, rates and latency of each model against its SLO, executors, what is refused and why.
    404 where the site serves no models."""
    return limits.whole(caller, service.served.status())


@router.patch(
    "/serving",
    responses=example(examples.SERVING),
    openapi_extra=takes("ServingPatch", {"max_share": 0.5, "models": {"plates": {"slo_ms": 60, "priority": 2}}}),
)
async def change_serving(body: Body, service: Service, by: Who) -> Serving:
    """Change rates, SLOs, priorities and how the box is shared, by a JSON merge patch (RFC 7396): in force at once,
    kept over restarts. null takes a model's own settings away again."""
    return await service.served.change(body, by)


@router.post(
    "/admission",
    responses=example(examples.ADMISSION),
    openapi_extra=takes("AdmissionRequest", {"model": {"name": "plates", "rate": 40, "slo_ms": 80}}),
)
async def admission(body: Body, service: Service) -> AdmissionAnswer:
    """The effect of adding this camera or model, before it is added: whether it fits, why not, each model's worst
    latency and each camera's predicted accuracy before and after, and who would yield. Nothing is changed."""
    return await service.served.admission(body)
