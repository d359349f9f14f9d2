"""`magpie fleet start | invite | join | status | drain | undrain | move | leave | revoke | upgrade SITE ...`.
Its jobs (`submit`, `jobs`, `cancel`) are in edge.commands.fleet_jobs.

`start`, `invite` and `join` change this box's own files; the others ask the agent that runs beside the appliance, and
`upgrade` runs a command of the operator between a drain and an undrain.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from edge.commands.fleet_jobs import JOB_ACTIONS, jobs_in_words
from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.fleet_jobs import JobsAsk, JobsReport
from edge.core.fleet_links import HOURS, MOST_HOURS, FleetOrder, FleetOrderKind, FleetStatus, OrderAnswer
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.codes import JoinCode
from edge.fleet.folder import FleetFolder
from edge.fleet.joining import found_fleet, invite, join_fleet
from edge.fleet.own_agent import OwnAgent, ask_own_agent
from edge.fleet.upgrading import Upgrade
from edge.fleet.wire import encoded
from edge.ingest.secrets import resolve_secret
from edge.logs import log_in_worker
from edge.settings import FleetSettings, SiteSettings, box_address, read_site

#: A status that is older is of an agent that does not run.
_FRESH_S: Final = 10.0


def add_life_arguments(actions: Any) -> None:
    """Arguments of the commands of a fleet's life."""

    def action(name: str, text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=text)
        parser.add_argument("site", type=Path, metavar="SITE", help="this box's site configuration, with `fleet`")
        return parser

    _hours(action("start", "found a fleet; prints a join code for the next box"))
    _hours(action("invite", "print a join code of the head; it is used once"))
    joined = action("join", "join a fleet")
    joined.add_argument("head", metavar="URL", help="the head's agent, https://HOST[:PORT]")
    joined.add_argument("--code", metavar="CODE", help="a join code (other users of this machine may see it)")
    joined.add_argument("--code-from", metavar="REF", help="env:NAME or file:/path[#key] with the code")
    action("status", "the fleet as this box knows it").add_argument("--json", action="store_true", help="as JSON")
    for name, text in (
        ("drain", "move all cameras off a box, and give it none"),
        ("undrain", "let a box take cameras again"),
        ("revoke", "put a box out: its key is refused, its cameras go to others"),
    ):
        action(name, text).add_argument("box", metavar="BOX", help="the box's name")
    moved = action("move", "move a camera: it starts on its new box before it stops on the old one")
    moved.add_argument("camera", metavar="CAMERA")
    moved.add_argument("box", metavar="BOX")
    submitted = action("submit", "give the fleet a job")
    submitted.add_argument("job", metavar="JOB.json", help="a job as in docs/fleet.md; -: standard input")
    action("jobs", "the jobs of the fleet; of those that wait, why").add_argument(
        "--json", action="store_true", help="as JSON"
    )
    action("cancel", "withdraw a job: its running tasks are stopped").add_argument("job", metavar="ID", help="its id")
    left = action("leave", "leave the fleet; the cameras of this box stay on it")
    left.add_argument("--force", action="store_true", help="also where no head can be asked: only this box's files go")
    upgraded = action("upgrade", "drain this box, run a command that upgrades it, wait until it is back, undrain it")
    upgraded.add_argument("--expect", default="", metavar="VERSION", help="the version that has to run then")
    upgraded.add_argument("--minutes", type=float, default=15.0, help="the longest that a step may last (default 15)")
    upgraded.add_argument("command", nargs="*", metavar="COMMAND", help="after --; none: go on with a cut one")
    agent = action("agent", "be the agent of this box (magpie run starts it)")
    agent.add_argument("--with-input", action="store_true", help="end when standard input ends")


def run_life(args: argparse.Namespace) -> int:
    """Carry out; raises MagpieError."""
    if args.action == "agent":
        from edge.commands.fleet_agent import run_until_stopped

        log_in_worker("fleet agent")
        asyncio.run(run_until_stopped(args.site, args.with_input))
        return 0
    site = read_site(args.site)
    if site.fleet is None:
        raise InvalidValue("fleet", None, f"a section `fleet` with this box's name in {args.site}")
    return _ACTIONS.get(args.action, _order)(args, site, site.fleet)


def _hours(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", type=float, default=HOURS, help="the code is good for so long (default 24)")


def _valid_hours(args: argparse.Namespace) -> float:
    if not 0 < args.hours <= MOST_HOURS:
        raise InvalidValue("--hours", args.hours, "a number above 0 to 720")
    return float(args.hours)


def _start(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    hours, folder = _valid_hours(args), FleetFolder(Path(site.data_dir))
    found_fleet(folder, site.site, fleet, socket.getfqdn())
    _print(f"{fleet.name} is the first box of a fleet ({fleet.reached_at(socket.getfqdn())}).")
    return _print_code(folder, hours)


def _invite(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    folder, hours = FleetFolder(Path(site.data_dir)), _valid_hours(args)
    status = _status_of(folder)
    if status is None or status.head is None:  # the first box before its agent runs
        return _print_code(folder, hours)
    answer = asyncio.run(_ask_agent(folder, fleet, FleetOrder("invite", fleet.name, hours=hours)))
    _print(f"Join code for {answer.address}, to be used once within {hours:g} hours:")
    _print(answer.code)
    return 0


def _print_code(folder: FleetFolder, hours: float) -> int:
    _print(f"Join code, to be used once within {hours:g} hours:")
    _print(invite(folder, hours).reveal())  # alone on its line, so that a script can take it
    return 0


def _join(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    if (args.code is None) == (args.code_from is None):
        raise InvalidValue("--code, --code-from", None, "one of them")
    text = args.code or resolve_secret(args.code_from, "--code-from").reveal()
    try:
        head = box_address(args.head)
    except ValueError as error:
        raise InvalidValue("URL", args.head, str(error)) from None
    code, folder = JoinCode.parse(text), FleetFolder(Path(site.data_dir))
    by = asyncio.run(join_fleet(folder, head, code, fleet, socket.getfqdn()))
    _print(f"{fleet.name} is in the fleet; {by} let it in.")
    return 0


def _status(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    folder = FleetFolder(Path(site.data_dir))
    if not folder.joined:
        raise NotFound("this box is in no fleet", "magpie fleet start, or join")
    status = _status_of(folder)
    if status is None:
        raise Unavailable("the fleet's agent does not run", "magpie run starts it")
    _print(encoded(status).decode() if args.json else in_words(status))
    if not args.json:
        try:
            report = asyncio.run(ask_own_agent(folder, fleet, "/jobs", JobsAsk(), JobsReport))
        except MagpieError as error:  # no head decides, or it is of an earlier version
            _print(f"jobs: {error}")
        else:
            _print(jobs_in_words(report, ended=False))
    return 0


def in_words(status: FleetStatus) -> str:
    """The fleet for people."""
    head = status.head or "none that is known now"
    lines = [f"head: {head}" + (" (it hears less than half of the boxes)" if status.mandate is False else "")]
    for box in status.agreement.members:
        names = ", ".join(c.id for c in status.agreement.cameras if c.owner == box.name) or "no cameras"
        state = status.boxes.get(box.name, "not known") + (", drained" if box.drained else "")
        lines.append(f"  {box.name:20} {state:16} {names}")
    for camera in status.agreement.cameras:
        if camera.id in status.unplaced:
            lines.append(f"  {camera.id}: no box answers it: {UNPLACED[status.unplaced[camera.id]]}")
        elif not camera.answered:
            lines.append(f"  {camera.id}: on its way to {camera.owner}")
        elif camera.id in status.waiting:
            why = UNPLACED[status.waiting[camera.id]]
            lines.append(f"  {camera.id}: stays on {camera.owner}, which is drained, for now: {why}")
    lines += [f"  {r.id} cannot be started here: {r.why}" for r in status.cannot]
    if status.refused:
        lines.append("refused: " + ", ".join(f"{why} {count}" for why, count in sorted(status.refused.items())))
    return "\n".join(lines)


UNPLACED: Final = {
    "no_box": "every other box is away",
    "no_zone": "no box that is there reaches its zone",
    "drained": "the boxes that reach it are drained",
    "full": "no box admits it",
    "refused": "the boxes that reach it could not start it",
}


def _leave(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    if not args.force:
        return _order(args, site, fleet)
    folder = FleetFolder(Path(site.data_dir))
    if not folder.joined:
        raise NotFound("this box is in no fleet")
    folder.forget()
    _print(
        f"{fleet.name} has removed its files of the fleet. Its cameras stay on it; the other boxes do not know that.\n"
        f"On the head: magpie fleet revoke SITE {fleet.name}\n"
        "Other boxes then answer its cameras, too: remove each camera on the box that shall not answer it."
    )
    return 0


def _upgrade(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    folder = FleetFolder(Path(site.data_dir))
    if not folder.joined:
        raise NotFound("this box is in no fleet", "magpie fleet start, or join")
    if not 0 < args.minutes <= 24 * 60:
        raise InvalidValue("--minutes", args.minutes, "a number above 0 to 1440")
    return 0 if asyncio.run(_upgraded(args, site, fleet, folder)) else 1


async def _upgraded(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings, folder: FleetFolder) -> bool:
    async def give(kind: Literal["drain", "undrain"]) -> None:
        await _ask_agent(folder, fleet, FleetOrder(kind, fleet.name))

    async def run_it(command: Sequence[str]) -> int:
        try:
            process = await asyncio.create_subprocess_exec(*command)
        except OSError as error:
            _print(f"{command[0]}: {error.strerror}")
            return 127
        return await process.wait()

    token = resolve_secret(fleet.token, "fleet.token")
    async with ApplianceClient(site.web.page(), token) as appliance:
        upgrade = Upgrade(
            fleet.name, folder, appliance, give, run_it, _print, SystemClock(), 60.0 * args.minutes, args.expect
        )
        return await upgrade.carry_out(args.command)


def _order(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    folder = FleetFolder(Path(site.data_dir))
    box = fleet.name if args.action == "leave" else args.box
    order = FleetOrder(args.action, box, getattr(args, "camera", ""))
    answer = asyncio.run(_ask_agent(folder, fleet, order))
    cameras = ", ".join(answer.cameras)
    _print(f"{_DONE[order.kind]}: {answer.box}" + (f" ({cameras})" if cameras else ""))
    return 0


_DONE: Final[dict[FleetOrderKind, str]] = {
    "drain": "is drained", "undrain": "takes cameras again", "move": "on its way to", "leave": "has left",
    "revoke": "is put out", "invite": "has made a join code",
}  # fmt: skip


async def _ask_agent(folder: FleetFolder, fleet: FleetSettings, order: FleetOrder) -> OrderAnswer:
    async with OwnAgent(folder, fleet) as agent:
        return await agent.order(order)


def _status_of(folder: FleetFolder) -> FleetStatus | None:
    """The status that the agent wrote last; None: it does not run."""
    status = folder.read("status.json", FleetStatus)
    return None if status is None or abs(time.time() - status.utc_s) > _FRESH_S else status


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


_ACTIONS: Final[dict[str, Callable[[argparse.Namespace, SiteSettings, FleetSettings], int]]] = {
    "start": _start, "invite": _invite, "join": _join, "status": _status, "leave": _leave, "upgrade": _upgrade,
    **JOB_ACTIONS,
}  # fmt: skip
