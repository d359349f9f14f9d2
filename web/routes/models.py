"""Model versions: where they come from, pin, roll back."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from edge.settings import parse
from web import examples
from web.bodies import RollBack
from web.errors import Json
from web.parts import Body, CameraId, Service, VersionId, Who, example, takes

router = APIRouter(tags=["models"])


@router.get("/cameras/{camera}/models", responses=example([examples.MODEL]))
async def models(camera: CameraId, service: Service) -> Any:
    """Versions of a camera's student, newest first."""
    return Json(await asyncio.to_thread(service.models, camera))


@router.get("/models/{version}/lineage", responses=example([examples.MODEL, examples.FIRST_MODEL]))
async def lineage(version: VersionId, service: Service) -> Any:
    """The version and its ancestors up to the first."""
    return Json(await asyncio.to_thread(service.lineage, version))


@router.post("/models/{version}/pin", responses=example(examples.MODEL | {"pinned": True}))
async def pin(version: VersionId, service: Service, by: Who) -> Any:
    """Keep the version in force: nothing is promoted over it until it is unpinned."""
    return Json(await service.pin_model(version, True, by))


@router.post("/models/{version}/unpin", responses=example(examples.MODEL))
async def unpin(version: VersionId, service: Service, by: Who) -> Any:
    """Let the camera be retrained again."""
    return Json(await service.pin_model(version, False, by))


@router.post(
    "/cameras/{camera}/rollback",
    responses=example(examples.FIRST_MODEL),
    openapi_extra=takes("RollBack", {"version": None, "reason": "worse at night"}),
)
async def roll_back(camera: CameraId, body: Body, service: Service, by: Who) -> Any:
    """Put an earlier version in force now: the named one, or the parent of the one in force."""
    asked = parse(RollBack, body)
    return Json(await service.roll_back(camera, asked.version, by, asked.reason or "asked for by hand"))
