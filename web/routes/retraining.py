"""Settings of the retraining windows."""

from __future__ import annotations

from typing import Final

from edge.appliance.answers.retraining import LearningAnswer, RetrainingAnswer
from web import limits
from web.examples import retraining as examples
from web.parts import Body, Caller, Service, Who, example, takes
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("retraining", "/retraining")
ROLES: Final = {
    "GET /retraining": VIEWER,
    "GET /retraining/learning": VIEWER,
    "PATCH /retraining": EVERY_OPERATOR,
}


@router.get("", responses=example(examples.RETRAINING))
async def retraining(service: Service, caller: Caller) -> RetrainingAnswer:
    """The settings in force, those of the next window, and when that begins."""
    return limits.whole(caller, service.retraining.settings())


@router.get("/learning", responses=example(examples.LEARNING))
async def learning(service: Service, caller: Caller) -> LearningAnswer:
    """The amount that this box can learn per window and camera: labels, trials and device seconds of retraining, from
    their measured costs; the window length that it would choose; by how much plans promised more than was realised."""
    return limits.whole(caller, service.retraining.learning())


@router.patch(
    "",
    responses=example(examples.RETRAINING),
    openapi_extra=takes("RetrainingPatch", {"window_s": 120, "a_min": 0.3}),
)
async def change_retraining(body: Body, service: Service, by: Who) -> RetrainingAnswer:
    """Change settings by a JSON merge patch (RFC 7396). They take effect at the next boundary and outlive a restart."""
    return await service.retraining.change(body, by)
