"""Runs the appliance with its web server until it is asked to stop; shared by `run` and `demo`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.commands.model_check import check_models
from edge.core.errors import Conflict
from edge.core.memory import share_arenas
from edge.settings import SiteSettings


@dataclass(frozen=True)
class RunningAppliance:
    """A running appliance; `stop` is set by SIGTERM or SIGINT. `url` is the page's address."""

    appliance: Appliance
    url: str
    stop: asyncio.Event

    async def set_up(self) -> str | None:
        """The address that makes the first admin, to be used once; None where there is one, or without log-in."""
        access = self.appliance.access_control.access
        if access is None or not await access.logins.setup_open():
            return None
        return f"{self.url}#/setup?token={await access.setup_link()}"

    async def entrance(self, name: str) -> str:
        """An address that logs a browser in as the admin `name`, to be used once; a missing user is added."""
        access = self.appliance.access_control.access
        if access is None:
            return self.url
        with contextlib.suppress(Conflict):
            await asyncio.to_thread(access.records.add_user, name, "admin", None, None, False, "demo")
            await access.directory.changed()
        return f"{self.url}#/login?link={await access.login_link_for(name, 'demo')}"


@asynccontextmanager
async def run_appliance(site: SiteSettings) -> AsyncIterator[RunningAppliance]:
    """Start the appliance and its page; drain both at the end. Raises MagpieError before anything runs."""
    from web.app import create_app
    from web.hosts import Hosts
    from web.server import WebServer
    from web.tls import Tls

    share_arenas()
    await asyncio.to_thread(check_models, site)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    tls = None if site.web.tls is None else Tls(site.web.tls)
    async with Appliance(site, front_process) as appliance:
        app = create_app(appliance.services, access=appliance.access_control.access, hosts=Hosts.of_site(site.web))
        server = WebServer(app, site.web.host, site.web.port, tls)
        await server.start()
        try:
            yield RunningAppliance(appliance, site.web.page(server.port), stop)
        finally:
            await server.stop()
