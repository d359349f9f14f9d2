"""`magpie run CONFIG`: the appliance on a site configuration, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from edge.commands.model_check import check_models
from edge.logs import log_to_stderr
from edge.settings import SiteSettings, read_site

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie run`."""
    parser.add_argument("config", type=Path, help="site configuration, see configs/site.yaml")
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    parser.add_argument("--log-format", default="text", choices=("text", "json"), help="json: one object per line")


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    log_to_stderr(args.log_level, args.log_format)
    site = read_site(args.config)
    if site.fleet is not None:
        from edge.fleet.engine_check import check_engine

        check_engine(site.fleet.engine)
    if args.check:
        from edge.commands.source_check import check_sources

        check_models(site)
        check_sources(site)
        if site.web.tls is not None:
            from web.tls import Tls

            Tls(site.web.tls)
        models = "" if site.serving is None else f", serves the models of {site.serving.folder}"
        sys.stdout.write(f"{args.config}: good, {len(site.cameras)} cameras{models}\n")
        return 0
    # In a stream of JSON even these two lines are objects; else people see them at every level.
    asyncio.run(_run(site, args.config, log.info if args.log_format == "json" else _print))
    return 0


async def _run(site: SiteSettings, config: Path, say: Callable[[str], None]) -> None:
    from edge.commands.running import run_appliance  # the whole appliance: a check needs not wait until it is loaded

    # The agent comes first: a box votes and is known while its appliance starts.
    async with _agent(site, config), run_appliance(site) as running:
        say(f"Magpie is up: {running.url} (stop it with Ctrl-C)")
        link = await running.set_up()
        if link is not None:
            say(f"No admin yet. Make the first one here, within 24 hours: {link}")
        await running.stop.wait()
        say("stopping: workers are drained")


@asynccontextmanager
async def _agent(site: SiteSettings, config: Path) -> AsyncIterator[None]:
    """The fleet's agent beside the appliance, where the site has one."""
    if site.fleet is None:
        yield
        return
    from edge.commands.fleet_agent import fleet_agent

    async with fleet_agent(config):
        yield


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
