"""Model versions: where they come from, pin, roll back."""

from __future__ import annotations

import asyncio
from typing import Final

from edge.appliance.answers.models import VersionAnswer
from edge.appliance.service import ApplianceService
from edge.core.access import Principal
from edge.core.errors import NotFound
from edge.settings import parse
from web import limits
from web.bodies import RollBack
from web.examples import models as examples
from web.parts import Body, Caller, CameraId, Service, VersionId, Who, example, takes
from web.rest_router import rest_router
from web.roles import VIEWER, Row

router = rest_router("models")
ROLES: Final = {
    "GET /cameras/{camera}/models": VIEWER,
    "GET /models/{version}/lineage": VIEWER,
    "POST /models/{version}/pin": Row("operator", audit="pinned"),
    "POST /models/{version}/unpin": Row("operator", audit="unpinned"),
    "POST /cameras/{camera}/rollback": Row("operator", audit="rolled back"),
}


@router.get("/cameras/{camera}/models", responses=example([examples.MODEL]))
async def models(camera: CameraId, service: Service, caller: Caller) -> list[VersionAnswer]:
    """Versions of a camera's student, newest first."""
    return limits.rows(caller, await asyncio.to_thread(service.models.versions, camera))


@router.get("/models/{version}/lineage", responses=example([examples.MODEL, examples.FIRST_MODEL]))
async def lineage(version: VersionId, service: Service, caller: Caller) -> list[VersionAnswer]:
    """The version and its ancestors up to the first."""
    return limits.rows(caller, await _lineage(version, service, caller))


async def _lineage(version: str, service: ApplianceService, caller: Principal) -> list[VersionAnswer]:
    """Raises NotFound, also for a version of a camera that the caller may not see."""
    found = await asyncio.to_thread(service.models.lineage, version)
    if not all(caller.may_see(v.camera) for v in found):
        raise NotFound(f"model version {version} does not exist")
    return found


@router.post("/models/{version}/pin", responses=example(examples.MODEL | {"pinned": True}))
async def pin(version: VersionId, service: Service, caller: Caller, by: Who) -> VersionAnswer:
    """Keep the version in force: nothing is promoted over it until it is unpinned."""
    await _lineage(version, service, caller)
    return limits.whole(caller, await service.models.pin(version, True, by))


@router.post("/models/{version}/unpin", responses=example(examples.MODEL))
async def unpin(version: VersionId, service: Service, caller: Caller, by: Who) -> VersionAnswer:
    """Let the camera be retrained again."""
    await _lineage(version, service, caller)
    return limits.whole(caller, await service.models.pin(version, False, by))


@router.post(
    "/cameras/{camera}/rollback",
    responses=example(examples.FIRST_MODEL),
    openapi_extra=takes("RollBack", {"version": None, "reason": "worse at night"}),
)
async def roll_back(camera: CameraId, body: Body, service: Service, caller: Caller, by: Who) -> VersionAnswer:
    """Put an earlier version in force now: the named one, or the parent of the one in force."""
    asked = parse(RollBack, body)
    found = await service.models.roll_back(camera, asked.version, by, asked.reason or "asked for by hand")
    return limits.whole(caller, found)
