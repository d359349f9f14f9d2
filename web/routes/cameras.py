"""Cameras: list, add, change, remove, try; one picture and a stream for other systems."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from edge.appliance.answers.cameras import CameraAnswer, CameraTest
from edge.appliance.service import ApplianceService
from web import limits
from web.examples import cameras as examples
from web.parts import Body, Caller, CameraId, Closing, Service, Who, example, takes, until_closing
from web.rest_router import JPEG, rest_router
from web.roles import EVERY_ADMIN, OPERATOR, VIEWER

router = rest_router("cameras", "/cameras")
ROLES: Final = {
    "GET /cameras": VIEWER,
    "POST /cameras": EVERY_ADMIN,
    "POST /cameras/test": EVERY_ADMIN,
    "GET /cameras/{camera}": VIEWER,
    "PATCH /cameras/{camera}": OPERATOR,
    "DELETE /cameras/{camera}": EVERY_ADMIN,
    "GET /cameras/{camera}/snapshot.jpg": VIEWER,
    "GET /cameras/{camera}/stream.mjpeg": VIEWER,
}

_BOUNDARY = "magpie-picture"
_MJPEG: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JPEGs one after another",
        "content": {"multipart/x-mixed-replace": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("", responses=example([examples.CAMERA]))
async def list_cameras(service: Service, caller: Caller) -> list[CameraAnswer]:
    """Every camera with its settings and its state."""
    return [limits.camera(caller, row) for row in limits.rows(caller, service.cameras.all())]


@router.post(
    "",
    status_code=201,
    responses={201: example(examples.CAMERA, "the camera as added")[200]},
    openapi_extra=takes("CameraSettings", examples.CAMERA_SETTINGS),
)
async def add_camera(body: Body, service: Service, by: Who, response: Response) -> CameraAnswer:
    """Add a camera; its worker starts at once, and it is retrained from the next window on."""
    camera = await service.cameras.add(body, by)
    response.headers["location"] = f"/api/v1/cameras/{camera.id}"
    return camera


@router.post(
    "/test",
    responses=example(examples.CAMERA_TEST),
    openapi_extra=takes("CameraSettings", examples.CAMERA_SETTINGS),
)
async def test_camera(body: Body, service: Service) -> CameraTest:
    """Try to connect with these settings and answer with the result; nothing is kept."""
    return await service.cameras.test(body)


@router.get("/{camera}", responses=example(examples.CAMERA))
async def one_camera(camera: CameraId, service: Service, caller: Caller) -> CameraAnswer:
    """One camera with its settings and its state."""
    return limits.camera(caller, limits.whole(caller, service.cameras.one(camera)))


@router.patch(
    "/{camera}",
    responses=example(examples.CAMERA),
    openapi_extra=takes("CameraPatch", {"inference": {"frame_rates": [5, 2.5]}}),
)
async def change_camera(camera: CameraId, body: Body, service: Service, caller: Caller, by: Who) -> CameraAnswer:
    """Change settings by a JSON merge patch (RFC 7396); fields that are not named stay. Where the stream comes from and
    how to log in there is an admin's to change."""
    limits.camera_patch(caller, body, service.cameras.one(camera).settings.model_dump(mode="json"))
    return limits.camera(caller, limits.whole(caller, await service.cameras.change(camera, body, by)))


@router.delete("/{camera}", status_code=204, response_class=Response)
async def remove_camera(camera: CameraId, service: Service, by: Who) -> None:
    """Stop and forget a camera. Its records stay until their retention ends."""
    await service.cameras.remove(camera, by)


@router.get("/{camera}/snapshot.jpg", response_class=Response, responses=JPEG)
async def snapshot(
    camera: CameraId,
    service: Service,
    width: Annotated[int | None, Query(ge=16, le=3840, description="pixels; empty: as it comes")] = None,
) -> Response:
    """One picture of now."""
    picture = await service.live.snapshot(camera, width)
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "no-store"})


@router.get("/{camera}/stream.mjpeg", response_class=StreamingResponse, responses=_MJPEG)
async def stream(
    camera: CameraId,
    service: Service,
    closing: Closing,
    fps: Annotated[float, Query(gt=0, le=15, description="pictures a second at most")] = 2.0,
) -> StreamingResponse:
    """Pictures without end, for other systems. A browser opens six of these at most; pages use the live socket."""
    service.cameras.one(camera)
    return StreamingResponse(
        _parts(service, closing, camera, fps),
        media_type=f"multipart/x-mixed-replace; boundary={_BOUNDARY}",
        headers={"cache-control": "no-store"},
    )


async def _parts(service: ApplianceService, closing: Any, camera: str, fps: float) -> AsyncIterator[bytes]:
    async for picture in until_closing(service.live.watch((camera,), fps), closing):
        if picture is not None:
            head = f"--{_BOUNDARY}\r\ncontent-type: image/jpeg\r\ncontent-length: {len(picture.jpeg)}\r\n\r\n"
            yield head.encode() + picture.jpeg + b"\r\n"
