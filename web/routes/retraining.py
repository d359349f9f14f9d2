"""Settings of the retraining windows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from web.errors import Json
from web.examples import retraining as examples
from web.parts import Body, Service, Who, example, takes

router = APIRouter(prefix="/retraining", tags=["retraining"])


@router.get("", responses=example(examples.RETRAINING))
async def retraining(service: Service) -> Any:
    """The settings in force, those of the next window, and when that begins."""
    return Json(service.retraining.settings())


@router.get("/learning", responses=example(examples.LEARNING))
async def learning(service: Service) -> Any:
    """What this box can learn per window and camera: labels, trials and device seconds of retraining, from what each
    costs here; the window length that it would choose; by how much plans promised more than was realised."""
    return Json(service.retraining.learning())


@router.patch(
    "",
    responses=example(examples.RETRAINING),
    openapi_extra=takes("RetrainingPatch", {"window_s": 120, "a_min": 0.3}),
)
async def change_retraining(body: Body, service: Service, by: Who) -> Any:
    """Change settings by a JSON merge patch (RFC 7396). They take effect at the next boundary and outlive a restart."""
    return Json(await service.retraining.change(body, by))
