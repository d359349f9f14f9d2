"""`magpie apply -f site.yaml`: make a running appliance like a file, and show the difference first."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edge.commands.remote import Remote
from edge.core.errors import InvalidValue, MagpieError, NotFound
from edge.ingest.secrets import resolve_secret
from edge.settings import read_site
from edge.upkeep.differences import Running, compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie apply`."""
    parser.add_argument("-f", "--file", type=Path, required=True, help="site configuration, see configs/site.yaml")
    parser.add_argument("--url", help="the appliance (default: web.host and web.port of the file)")
    parser.add_argument(
        "--token-from", default="", metavar="REF", help="env:NAME or file:/path[#key] with an API token"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the difference, change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--prune", action="store_true", help="remove cameras (and rules) that the file does not name")


def run(args: argparse.Namespace) -> int:
    """0: the appliance is like the file (or --dry-run); 1: something was refused, or "no" was answered.

    Raises MagpieError: unreadable file, appliance that does not answer.
    """
    site = read_site(args.file)
    if args.prune and not site.cameras:
        raise InvalidValue("--prune", str(args.file), "a file that names at least one camera")
    remote = Remote(args.url or site.web.page().rstrip("/"), resolve_secret(args.token_from, "--token-from"))
    outputs = "outputs" in site.model_fields_set  # a user without the right to see them can apply a file that has none
    outcome = compare(site, _running(remote, outputs), args.prune)
    for change in outcome.changes:
        _print(change.in_words())
    if outcome.unnamed:
        _print(f"not in the file, left alone (--prune removes): {', '.join(outcome.unnamed)}")
    if outcome.at_start:
        _print(f"read when the appliance starts, not compared: {', '.join(outcome.at_start)}")
    if not outcome.changes:
        _print("nothing to change")
        return 0
    if args.dry_run:
        _print(f"{len(outcome.changes)} changes; nothing was changed (--dry-run)")
        return 0
    if not args.yes and not _agreed(len(outcome.changes)):
        _print("nothing was changed")
        return 1
    refused = 0
    for change in outcome.changes:
        try:
            remote.ask(change.method, change.path, change.body)
        except MagpieError as error:
            refused += 1
            sys.stderr.write(f"magpie apply: {change.subject}: {error}\n")
        else:
            _print(f"done: {change.kind} {change.subject}")
    left = compare(site, _running(remote, outputs), args.prune).changes
    if refused or left:
        sys.stderr.write(f"magpie apply: {refused} refused, {len(left)} differences are left\n")
        return 1
    return 0


def _running(remote: Remote, with_outputs: bool) -> Running:
    cameras = {str(c["id"]): dict(c["settings"]) for c in remote.ask("GET", "/cameras")}
    try:
        planning = dict(remote.ask("GET", "/serving")["settings"])
    except NotFound:
        planning = None
    rules = {str(r["id"]): dict(r) for r in remote.ask("GET", "/rules")}
    outputs = dict(remote.ask("GET", "/outputs")) if with_outputs else {}
    return Running(cameras, dict(remote.ask("GET", "/retraining")["next"]), planning, rules, outputs)


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise InvalidValue("--yes", None, "--yes (or --dry-run) where there is no terminal to ask on")
    sys.stdout.write(f"make these {count} changes? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
