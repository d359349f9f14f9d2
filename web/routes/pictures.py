"""The teacher's answers about a camera's pictures: where it and the student differ, and the objects in them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Path, Query, Response

from edge.appliance.answers.pictures import DisagreementAnswer, WindowClasses
from web import limits
from web.examples import pictures as examples
from web.parts import Caller, CameraId, Service, WindowNumber, example, seen
from web.rest_router import JPEG, rest_router
from web.roles import VIEWER

router = rest_router("cameras", "/cameras/{camera}")
ROLES: Final = {
    "GET /cameras/{camera}/disagreements": VIEWER,
    "GET /cameras/{camera}/disagreements/{window}/{frame}.jpg": VIEWER,
    "GET /cameras/{camera}/classes": VIEWER,
}


@router.get("/disagreements", responses=example([examples.DISAGREEMENT]))
async def disagreements(
    camera: CameraId,
    caller: Caller,
    service: Service,
    limit: Annotated[int, Query(ge=1, le=100, description="how many at most")] = 24,
) -> list[DisagreementAnswer]:
    """Labelled pictures about which student and teacher differ, newest first. `verdict` of an object: "right", "extra"
    (only the student saw it), "missed" (only the teacher did), "class" (they call it differently), "unjudged"."""
    found = await asyncio.to_thread(service.labelled.disagreements, seen(caller, camera), limit)
    return limits.rows(caller, found)


@router.get("/disagreements/{window}/{frame}.jpg", response_class=Response, responses=JPEG)
async def disagreement_picture(
    camera: CameraId,
    window: WindowNumber,
    frame: Annotated[int, Path(ge=0, le=2**53, description="number of a labelled frame", examples=[1834])],
    caller: Caller,
    service: Service,
) -> Response:
    """A labelled picture as the recorder kept it. 404 when retention has deleted it."""
    picture = await asyncio.to_thread(service.labelled.picture, seen(caller, camera), window, frame)
    # A recorded picture does not change.
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


@router.get("/classes", responses=example([examples.CLASSES]))
async def classes(
    camera: CameraId,
    caller: Caller,
    service: Service,
    windows: Annotated[int, Query(ge=1, le=200, description="how many windows at most")] = 30,
) -> list[WindowClasses]:
    """Objects per class that teacher and student saw in the labelled pictures of each window, newest window first."""
    return limits.rows(caller, await asyncio.to_thread(service.labelled.classes, seen(caller, camera), windows))
