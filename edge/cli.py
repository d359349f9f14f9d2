"""The `magpie` command. Subcommands are imported only when called, so that `magpie plan` starts without torch."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from edge.core.errors import MagpieError
from edge.version import magpie_version

#: name -> (module under edge.commands, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "four street cameras, a teacher and the whole appliance, on this machine"),
    "run": ("run", "run the appliance on a site configuration"),
    "plan": ("plan", "answer a planning problem in a file"),
    "profile": ("profile", "measure what served models cost on this device"),
    "record": ("record", "write a live box's windows, requests and tenants as a trace"),
    "simulate": ("simulate", "replay a recorded box under other policies, and compare them"),
    "fleet": ("fleet", "several boxes that know each other: start, join, status, move; simulate a fleet, check a log"),
    "models": ("models", "list, fetch, check and add the model files that teachers and students need"),
    "admit": ("admit", "say whether a camera or a model would fit, before it is added"),
    "capacity": ("capacity", "forecast what a camera more, another rate, window or device, or a second box would do"),
    "load": ("load", "send load to served models; report latencies and violations"),
    "doctor": ("doctor", "say what this machine can enforce, and why not more"),
    "db": ("db", "create or upgrade the database"),
    "user": ("user", "add and change who may come in; set-up and log-in links; API tokens"),
    "apply": ("apply", "make a running appliance like a site configuration; shows the difference first"),
    "cameras": ("cameras", "search the network for cameras and list the streams that they offer"),
    "counts": ("counts", "counted objects of a camera over a time, each with how true it is"),
    "clips": ("clips", "clips of cameras: list, make, get"),
    "objects": ("objects", "objects found by camera, class, place, time and stay; a camera's day"),
    "labels": ("labels", "people's labels into and out of files (COCO, YOLO)"),
    "backup": ("backup", "save everything the appliance remembers in one file"),
    "restore": ("restore", "put a back-up in place"),
    "import": ("import_", "make a site configuration of another system's cameras"),
    "schema": ("schema", "print a JSON schema of a file format"),
}


def command() -> int:
    """The `magpie` command, in a process of its own."""
    answers_apart()
    return main()


def answers_apart() -> None:
    """Send text that native libraries print (the HiGHS solver has a line that no option silences) to standard error:
    standard output carries the command's answer alone."""
    try:
        answers = os.dup(1)
    except OSError:  # standard output is closed
        return
    sys.stdout.flush()
    os.dup2(2, 1)
    lines = 1 if os.isatty(answers) else -1
    sys.stdout = os.fdopen(answers, "w", lines, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (0 done, 1 refused or failed, 2 wrong usage)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="magpie", description="Edge continuous learning for video analytics.")
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    known, rest = parser.parse_known_args(arguments)
    if known.version:
        print("magpie", magpie_version())
        return 0
    if known.command is None:
        parser.print_help()
        return 2
    try:
        module = importlib.import_module(f"edge.commands.{COMMANDS[known.command][0]}")
        sub = argparse.ArgumentParser(prog=f"magpie {known.command}", description=COMMANDS[known.command][1])
        module.add_arguments(sub)
        return int(module.run(sub.parse_args(rest)))
    except MagpieError as error:
        print(f"magpie {known.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output went away; nothing more can be written to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(command())
