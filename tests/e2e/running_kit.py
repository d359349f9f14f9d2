"""Common parts of the end-to-end tests: waiting for a condition, and a running appliance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx

from benchmarks.waiting import until_async
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.commands.running import RunningAppliance
from edge.settings import SiteSettings

#: Most conditions read the database, so it looks less often.
until = partial(until_async, pause_s=0.25)


async def log_in(rest: httpx.AsyncClient, up: RunningAppliance) -> None:
    """Log the client in as an admin, by a one-time link as a browser does."""
    link = (await up.entrance("tester")).partition("link=")[2]
    answer = await rest.post("/api/v1/login/link", json={"token": link})
    rest.headers["x-csrf-token"] = answer.json()["csrf"]


@asynccontextmanager
async def running(site: SiteSettings) -> AsyncIterator[Appliance]:
    """The appliance with every camera live."""
    async with Appliance(site, front_process) as appliance:
        enabled = [c.id for c in site.cameras if c.enabled]
        await until(
            lambda: all(appliance.services.cameras.one(c).state.inference.answers > 0 for c in enabled),
            "every camera answers",
        )
        yield appliance
