"""`magpie fleet simulate SCENARIO.json --log LOG.jsonl` and `magpie fleet check SCENARIO.json LOG.jsonl`; the commands
of a real fleet's life are in edge.commands.fleet_life.

`simulate` plays a scenario ("fleet-scenario/1", docs/fleet.md) under a simulated clock with the fleet's own controller,
writes what happened, and judges it. `check` judges any log in that format, a real fleet's too. Both print JSON and end
with 1 where a rule was broken.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from edge.commands.fleet_life import add_life_arguments, run_life
from edge.core.errors import InvalidValue
from edge.simulation.fleet_check import LogVerdict, check_log, read_log
from edge.simulation.fleet_scenario import read_scenario
from edge.simulation.fleet_simulation import FleetRun, FleetSimulation

HELP = "several boxes that know each other: start, join, status, move; simulate a fleet, check a log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `magpie fleet`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    simulated = actions.add_parser("simulate", help="play a scenario and judge what happened")
    simulated.add_argument("scenario", type=Path, metavar="SCENARIO", help='a file, format "fleet-scenario/1"')
    simulated.add_argument("--log", type=Path, metavar="LOG", help="write what happened here, one JSON object a line")
    checked = actions.add_parser("check", help="judge the log of a fleet")
    checked.add_argument("scenario", type=Path, metavar="SCENARIO", help='a file, format "fleet-scenario/1"')
    checked.add_argument("log", type=Path, metavar="LOG", help="the events, one JSON object a line")
    checked.add_argument(
        "--tolerance", type=float, default=0.0, metavar="S",
        help="how far from the rules' times events of a real fleet may be (default 0)",
    )  # fmt: skip
    add_life_arguments(actions)


def run(args: argparse.Namespace) -> int:
    """Simulate or check. Raises InvalidValue for a scenario or log that cannot be used, with the field's path."""
    if args.action not in ("simulate", "check"):
        return run_life(args)
    scenario = read_scenario(args.scenario)
    if args.action == "check":
        if not 0.0 <= args.tolerance <= 1e6:
            raise InvalidValue("--tolerance", args.tolerance, "seconds from 0 to 1e6")
        return _answer(check_log(scenario, read_log(args.log), args.tolerance), {})
    result = FleetSimulation(scenario).run()
    if args.log is not None:
        write_log(result, args.log)
    waiting = {job: reason.to_json() for job, reason in sorted(result.waiting.items())}
    return _answer(check_log(scenario, result.log), {"decisions": result.decisions, "waiting": waiting})


def write_log(result: FleetRun, path: Path) -> None:
    """Write a log, one JSON object a line. Raises InvalidValue where the file cannot be written."""
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in result.log)
    except OSError as error:
        raise InvalidValue("--log", str(path), f"a file that can be written ({error.strerror})") from None


def _answer(verdict: LogVerdict, more: dict[str, Any]) -> int:
    sys.stdout.write(json.dumps(verdict.to_json() | more, indent=1) + "\n")
    return 0 if verdict.accepted else 1
