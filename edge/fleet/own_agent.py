"""Questions to the agent that runs beside this box's appliance, which hands them on to the head where it has to."""

from __future__ import annotations

from typing import Any, TypeVar

from edge.core.errors import NotFound
from edge.core.fleet_links import FleetMember
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links
from edge.settings import FleetSettings, local_host

M = TypeVar("M")


async def ask_own_agent(folder: FleetFolder, fleet: FleetSettings, path: str, message: Any, kind: type[M]) -> M:
    """The answer. Raises NotFound where the box is in no fleet, Unavailable where the agent or the head does not
    answer, and what they refuse."""
    if not folder.joined:
        raise NotFound("this box is in no fleet", "magpie fleet start, or join")
    me = FleetMember(fleet.name, f"https://{local_host(fleet.host)}:{fleet.port}")
    async with Links(folder.path) as links:
        return await links.ask(me, path, message, kind, 30.0)
