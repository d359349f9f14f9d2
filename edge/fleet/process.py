"""The agent's process: it waits until its box has joined a fleet, and then is its agent until the box leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from edge.core.clock import Clock, SystemClock
from edge.core.errors import InvalidValue
from edge.fleet.agent import FleetAgent
from edge.fleet.agent_jobs import AgentJobs
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.box_groups import AgentGroups
from edge.fleet.copies import StudentCopies
from edge.fleet.folder import FleetFolder
from edge.fleet.identity import server_context
from edge.fleet.lending import AgentLending
from edge.fleet.links import Links
from edge.fleet.memory import AgentMemory
from edge.fleet.order_records import OrderRecords
from edge.fleet.own_cameras import OwnCameras
from edge.fleet.questions import AgentQuestions
from edge.fleet.refusals import Refusals
from edge.fleet.server import AgentServer
from edge.ingest.secrets import resolve_secret
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.lending_folder import LendingFolder
from edge.settings import FleetSettings, SiteSettings

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


async def run_agent(site: SiteSettings, alive: Callable[[], None] = lambda: None) -> None:
    """Be the agent of this box until cancelled; `alive` is called each second or so. Raises MagpieError for settings
    that cannot be used, Unavailable for a port that is taken."""
    if site.fleet is None:
        raise InvalidValue("fleet", None, "a section with this box's name")
    folder, clock = FleetFolder(Path(site.data_dir)), SystemClock()
    while True:
        if not folder.joined:
            log.info("this box has no fleet yet: magpie fleet start, or join")
        while not folder.joined:
            alive()
            await asyncio.sleep(_LOOK_S)
        memory = AgentMemory(folder, site.fleet.name, clock.monotonic())
        if memory.agreement.member(site.fleet.name) is not None:
            await _be_agent(site, site.fleet, memory, clock, alive)
        elif not folder.leaving:
            log.error(
                "fleet.name is %s, and this box knows a fleet of %s only: set the name with which it joined, or "
                "take it out with magpie fleet leave SITE --force",
                site.fleet.name, ", ".join(memory.agreement.voters()),
            )  # fmt: skip
            while folder.joined:
                alive()
                await asyncio.sleep(_LOOK_S)
        folder.forget()
        log.info("this box has left its fleet")


async def _be_agent(
    site: SiteSettings, settings: FleetSettings, memory: AgentMemory, clock: Clock, alive: Callable[[], None]
) -> None:
    folder = memory.folder
    async with AsyncExitStack() as parts:
        token = resolve_secret(settings.token, "fleet.token")
        appliance = await parts.enter_async_context(ApplianceClient(site.web.page(), token))
        links = await parts.enter_async_context(Links(folder.path, settings.host))
        refusals = Refusals(clock)
        copies = StudentCopies(settings.name, folder, Path(site.data_dir) / "models", links, lambda: memory.agreement)
        own = OwnCameras(settings.name, folder, appliance, copies, clock, settings.camera_zones)
        records = OrderRecords(settings.name, appliance)
        jobs = await parts.enter_async_context(AgentJobs(settings, folder, links, lambda: memory.agreement, clock))
        agent = FleetAgent(memory, links, own, copies, refusals, records, jobs, clock, alive=alive)
        context = server_context(folder.path, refusals.add)
        lending = AgentLending(
            settings.name, settings.lending, LendingFolder(Path(site.data_dir)), links, lambda: memory.agreement, clock
        )
        questions = AgentQuestions(settings.name, settings.answer, appliance, links, lambda: memory.agreement, clock)
        groups = AgentGroups(
            settings.name, settings.share_pictures, BoxGroupsFolder(Path(site.data_dir)), links,
            lambda: memory.agreement, clock,
        )  # fmt: skip
        server = AgentServer(agent, context, settings.host, settings.port, refusals, lending, questions, jobs, groups)
        await parts.enter_async_context(server)
        await parts.enter_async_context(lending)
        await parts.enter_async_context(groups)
        log.info("the agent of %s listens on %s:%d", settings.name, settings.host, settings.port)
        await agent.run()
