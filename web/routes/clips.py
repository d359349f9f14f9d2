"""Clips of cameras: asked for, watched with their boxes, downloaded, deleted."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query
from starlette.responses import FileResponse

from edge.appliance.answers.clips import ClipAnswer, ClipAroundAnswer, ClipBoxes
from edge.appliance.clips_service import ClipsService
from edge.core.access import Principal
from edge.core.errors import InvalidValue, InvalidValues, NotFound
from edge.settings.base import IDENTIFIER_PATTERN
from web import limits
from web.examples import clips as examples
from web.parts import Body, Caller, CameraId, OfCamera, Service, Who, example, seen
from web.rest_router import rest_router
from web.roles import VIEWER, Row

router = rest_router("clips")
ROLES: Final = {
    "GET /clips": VIEWER,
    "POST /clips": Row("operator", audit="asked for a clip"),
    "GET /cameras/{camera}/clip-around": VIEWER,
    "GET /clips/{clip}": VIEWER,
    "DELETE /clips/{clip}": Row("operator", audit="deleted"),
    "GET /clips/{clip}/video.mp4": VIEWER,
    "GET /clips/{clip}/download": Row("viewer", audit="downloaded"),
    "GET /clips/{clip}/boxes": VIEWER,
}

_SECONDS: Final = ("before_s", "after_s", "at_utc_s")
_MP4: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "MP4", "content": {"video/mp4": {"schema": {"type": "string", "format": "binary"}}}},
    206: {"description": "the part that was asked for (Range)"},
}
_ASKED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["camera"],
    "additionalProperties": False,
    "properties": {
        "camera": {"type": "string", "pattern": IDENTIFIER_PATTERN},
        "before_s": {"type": "number", "minimum": 0, "description": "empty: the camera's"},
        "after_s": {"type": "number", "minimum": 0, "description": "empty: the camera's"},
        "at_utc_s": {"type": "number", "description": "the moment; empty: now"},
    },
}


async def _clips(service: Service) -> ClipsService:
    return service.clips


Clips = Annotated[ClipsService, Depends(_clips)]
Number = Annotated[int, Path(ge=1, le=2**53, description="id of a clip", examples=[7])]


@router.get("/clips", responses=example([examples.CLIP]))
async def list_clips(
    service: Clips,
    caller: Caller,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only those with a lower id")] = None,
    camera: OfCamera = None,
) -> list[ClipAnswer]:
    """Clips, newest first. Page on with `before` = the last id. To a user who may see some cameras only, clips of
    these are shown."""
    if camera is not None:
        seen(caller, camera)
    return limits.rows(caller, await asyncio.to_thread(service.all, limit, before, camera, caller.cameras))


@router.post(
    "/clips",
    status_code=202,
    responses={202: example(examples.CLIP, "the clip, in the making")[200]},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": _ASKED,
                    "example": {"camera": "junction-north", "before_s": 5, "after_s": 10},
                }
            },
        }
    },
)
async def make_clip(body: Body, service: Clips, caller: Caller, by: Who) -> ClipAnswer:
    """Make a clip around a moment that the camera's ring still holds. The answer comes at once; the clip is there some
    seconds after its end. 422 says what can be had where the ring is too short."""
    camera, seconds = _asked(body)
    seen(caller, camera)
    made = await service.make(camera, seconds["before_s"], seconds["after_s"], seconds["at_utc_s"], by)
    return limits.whole(caller, made)


@router.get("/cameras/{camera}/clip-around", responses=example(examples.CLIP_AROUND))
async def clip_around(
    camera: CameraId,
    service: Clips,
    caller: Caller,
    at: Annotated[float, Query(ge=0, le=2**40, description="the moment, UTC epoch seconds")],
) -> ClipAroundAnswer:
    """The clip that shows a moment: the one that is kept or in the making, whether one can still be made of the video
    in memory, or why there is none."""
    return limits.whole(caller, await asyncio.to_thread(service.around, seen(caller, camera), at))


@router.get("/clips/{clip}", responses=example(examples.CLIP))
async def one_clip(clip: Number, service: Clips, caller: Caller) -> ClipAnswer:
    """One clip."""
    return limits.whole(caller, await _seen_clip(service, caller, clip))


@router.delete("/clips/{clip}", status_code=204)
async def remove_clip(clip: Number, service: Clips, caller: Caller, by: Who) -> None:
    """Delete a clip with its boxes."""
    await _seen_clip(service, caller, clip)
    await service.remove(clip, by)


@router.get("/clips/{clip}/video.mp4", response_class=FileResponse, responses=_MP4)
async def video(clip: Number, service: Clips, caller: Caller) -> FileResponse:
    """The video as the camera coded it, to be played; parts of it on request (Range)."""
    return await _file(service, caller, clip, None)


@router.get("/clips/{clip}/download", response_class=FileResponse, responses=_MP4)
async def download(clip: Number, service: Clips, caller: Caller) -> FileResponse:
    """The same as a file to keep, recorded in the audit. `repr-digest` (RFC 9530) has its SHA-256, as has the clip."""
    found = await _seen_clip(service, caller, clip)
    return await _file(service, caller, clip, f"{found.camera}-{clip}.mp4")


@router.get("/clips/{clip}/boxes", responses=example(examples.CLIP_BOXES))
async def boxes(clip: Number, service: Clips, caller: Caller) -> ClipBoxes:
    """The student's boxes, with their times in the clip."""
    await _seen_clip(service, caller, clip)
    return limits.whole(caller, await asyncio.to_thread(service.boxes, clip))


async def _seen_clip(service: ClipsService, caller: Principal, number: int) -> ClipAnswer:
    """Raises NotFound, as of a clip that is not there, if the caller may not see its camera."""
    found = await asyncio.to_thread(service.one, number)
    if not caller.may_see(found.camera):
        raise NotFound(f"clip {number} does not exist")
    return found


async def _file(service: ClipsService, caller: Principal, number: int, name: str | None) -> FileResponse:
    found = await _seen_clip(service, caller, number)
    path = await asyncio.to_thread(service.video, number)
    headers = {"cache-control": "private, max-age=3600"}
    if found.video is not None:
        digest = base64.b64encode(bytes.fromhex(found.video.sha256)).decode()
        headers["repr-digest"] = f"sha-256=:{digest}:"
    return FileResponse(path, media_type="video/mp4", headers=headers, filename=name)


def _asked(body: dict[str, object]) -> tuple[str, dict[str, float | None]]:
    """Raises InvalidValues."""
    problems = [
        InvalidValue(key, body[key], f"no such field; known: camera, {', '.join(_SECONDS)}")
        for key in body
        if key not in ("camera", *_SECONDS)
    ]
    camera = body.get("camera")
    if not isinstance(camera, str) or not camera:
        problems.append(InvalidValue("camera", camera, "the id of a camera"))
    seconds: dict[str, float | None] = {}
    for key in _SECONDS:
        given = body.get(key)
        if given is None:
            seconds[key] = None
        elif isinstance(given, (int, float)) and not isinstance(given, bool) and abs(given) < 2**40:
            seconds[key] = float(given)
        else:
            problems.append(InvalidValue(key, given, "a number of seconds"))
    if problems:
        raise InvalidValues(problems)
    return str(camera), seconds
