"""Model files of others: those that a student or the teacher may be, and those that are here."""

from __future__ import annotations

import asyncio
from typing import Final

from edge.appliance.model_files import KnownFiles
from web.examples import catalogue as examples
from web.parts import Service, example
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR

router = rest_router("models")
ROLES: Final = {
    "GET /models/catalogue": EVERY_OPERATOR,
}


@router.get("/models/catalogue", responses=example(examples.CATALOGUE))
async def catalogue(service: Service) -> KnownFiles:
    """Known model files and the shipped teachers and students that need them, with size, licence and whether they are
    here. `magpie models pull NAME` on the box brings what is missing."""
    return await asyncio.to_thread(service.model_files.known)
