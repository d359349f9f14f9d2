"""JSON schemas of files, for editors and checks before a file is used."""

from __future__ import annotations

from typing import Final, cast

from edge.appliance.answers.schema import JsonSchema
from edge.settings import site_schema
from web.parts import example
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("state", "/schema")
ROLES: Final = {
    "GET /schema/site": VIEWER,
}


@router.get("/site", responses=example({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}))
async def site() -> JsonSchema:
    """JSON schema (draft 2020-12) of the site configuration that `magpie run` and `magpie apply` read."""
    return cast(JsonSchema, site_schema())
