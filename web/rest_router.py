"""The base of every route under /api/v1: its prefix, its errors, and the refusal of unknown parameters."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends

from web.errors import Json
from web.examples.errors import INVALID, UNAVAILABLE
from web.parts import known_parameters

PREFIX: Final = "/api/v1"
#: `responses` of a route that answers a picture.
JPEG: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "one JPEG", "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}


def rest_router(tag: str, prefix: str = "") -> APIRouter:
    """A router of paths under /api/v1 and `prefix`, shown in OpenAPI under `tag`."""
    return APIRouter(
        prefix=PREFIX + prefix,
        tags=[tag],
        responses=_errors(),
        dependencies=[Depends(known_parameters)],
        default_response_class=Json,
    )


def _errors() -> dict[int | str, dict[str, Any]]:
    reference = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {
        "4XX": {
            "description": "the request cannot be done; `error` says why",
            "content": {"application/json": reference | {"example": INVALID}},
        },
        "5XX": {
            "description": "the appliance cannot do it now; `error` says why",
            "content": {"application/json": reference | {"example": UNAVAILABLE}},
        },
    }
