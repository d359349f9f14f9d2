"""Common parts of the end-to-end tests: waiting for a condition, and a running appliance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.commands.running import RunningAppliance
from edge.settings import SiteSettings


async def until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Wait for a condition; fails with `what` and never hangs."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while loop.time() < end:
        value = condition()
        if value:
            return value
        await asyncio.sleep(0.25)  # most conditions read the database
    pytest.fail(f"not within {timeout_s:.0f} s: {what}")


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
            lambda: all(appliance.services.cameras.one(c).state.answers > 0 for c in enabled),
            60,
            "every camera answers",
        )
        yield appliance
