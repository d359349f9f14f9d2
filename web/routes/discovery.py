"""The search of the network for cameras."""

from __future__ import annotations

from typing import Final

from edge.appliance.answers.discovery import FoundCameras
from web.examples import discovery as examples
from web.parts import Body, Service, example, takes
from web.rest_router import rest_router
from web.roles import Row

router = rest_router("cameras", "/discovery")
#: As for adding a camera: it reaches into the network and names a secret.
ROLES: Final = {"POST /discovery": Row("admin", every_camera=True, audit="searched for cameras")}


@router.post("", responses=example(examples.FOUND), openapi_extra=takes("CameraSearch", examples.SEARCH))
async def discover_cameras(body: Body, service: Service) -> FoundCameras:
    """Ask the network for ONVIF cameras (WS-Discovery), or given addresses, and each camera for its streams; the one
    that fits a student best is proposed. Nothing is kept. Takes up to 45 s; one search at a time."""
    return await service.cameras.discovery.search(body)
