"""Runs the appliance with its web server until it is asked to stop; shared by `run` and `demo`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from edge.appliance.appliance import Appliance
from edge.settings import SiteSettings


@dataclass(frozen=True)
class RunningAppliance:
    """A running appliance; `stop` is set by SIGTERM or SIGINT."""

    appliance: Appliance
    url: str
    stop: asyncio.Event


@asynccontextmanager
async def run_appliance(site: SiteSettings) -> AsyncIterator[RunningAppliance]:
    """Start the appliance and its page; drain both at the end. Raises MagpieError before anything runs."""
    from web.app import create_app
    from web.server import WebServer

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    async with Appliance(site) as appliance:
        server = WebServer(create_app(appliance), site.web.host, site.web.port)
        await server.start()
        try:
            yield RunningAppliance(appliance, f"http://{site.web.host}:{server.port}/", stop)
        finally:
            await server.stop()
