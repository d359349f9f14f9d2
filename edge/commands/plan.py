"""Planning problems in files (`magpie plan window FILE`, `magpie plan serving FILE`, `magpie plan pipeline FILE`,
`magpie plan tenants FILE`, `magpie plan fleet FILE`), and recorded plans made again (`magpie plan replay`).
Starts without torch."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.commands.plan_fleet import placed
from edge.commands.plan_tenants import SharingStateFile, converse, decide
from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.core.pipelines import PipelineProblem, problems_of
from edge.core.plan_basis import PlanRequest
from edge.core.serving import DeviceTable, ServingProblem
from edge.core.shares import ideal_caps
from edge.core.window import WindowProblem
from edge.simulation.replay import replayed
from scheduler.follow import planner
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, SERVING_POLICIES, serving_policy
from scheduler.gpulets.queue_names import plan_queues_apart
from scheduler.pipelines.policies import (
    DEFAULT_PIPELINE_POLICY,
    PIPELINE_POLICIES,
    PipelinePolicy,
    pipeline_policy,
)
from scheduler.pipelines.verdict import faults
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES, window_policy
from scheduler.tenants.policies import DEFAULT_SHARING_POLICY, SHARING_POLICIES, sharing_policy

HELP = "answer a planning problem in a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`plan window FILE [--policy NAME] [--fixed ID] [--out FILE]`."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    window = kinds.add_parser("window", help="a retraining window: retrain-infer-window/1 in, retrain-infer-plan/1 out")
    window.add_argument("file", metavar="FILE", help="the problem (JSON), or - for standard input")
    _add_policy(window, WINDOW_POLICIES, DEFAULT_POLICY)
    window.add_argument("--fixed", metavar="ID", help="configuration of uniform, uniform-heavy and fixed-config")
    window.add_argument(
        "--followed", action="store_true",
        help="as the appliance would follow it: within its limits, in steps of the problem's share_step",
    )  # fmt: skip
    window.add_argument("--out", metavar="FILE", help="write the plan there instead of standard output")
    serving = kinds.add_parser("serving", help="served models: gpulet-problem/1 in, gpulet-plan/1 out")
    serving.add_argument("file", metavar="FILE", help="the problem (JSON), or - for standard input")
    serving.add_argument(
        "--table",
        metavar="DEVICE.json",
        help="the device table (gpulet-device/1); without it the one that the problem's device_file names",
    )
    _add_policy(serving, SERVING_POLICIES, DEFAULT_SERVING_POLICY)
    serving.add_argument("--out", metavar="FILE", help="write the plan there instead of standard output")
    pipeline = kinds.add_parser("pipeline", help="several models, one objective: pipeline-problem/1 in, -plan/1 out")
    pipeline.add_argument("file", metavar="FILE", help="the problem, or many under `problems`, or - for standard input")
    _add_policy(pipeline, PIPELINE_POLICIES, DEFAULT_PIPELINE_POLICY)
    pipeline.add_argument("--out", metavar="FILE", help="write the plan there instead of standard output")
    tenants = kinds.add_parser("tenants", help="one resource shared by tenants, learned from their performance")
    tenants.add_argument("file", metavar="FILE", help="the problem with its history, or - for a conversation by lines")
    _add_policy(tenants, SHARING_POLICIES, DEFAULT_SHARING_POLICY)
    tenants.add_argument("--seed", type=int, default=0, help="of the policies that try at random (%(default)s)")
    tenants.add_argument(
        "--state", metavar="FILE", type=Path,
        help="of a conversation: what was learned is kept there, and the next one goes on from it; a file that is"
        " something else is refused",
    )  # fmt: skip
    tenants.add_argument("--out", metavar="FILE", help="write the decision there instead of standard output")
    fleet = kinds.add_parser("fleet", help="cameras on the boxes of a fleet: fleet-placement/1 in, -plan/1 out")
    fleet.add_argument("file", metavar="FILE", help="the problem (JSON), or - for standard input")
    _add_policy(fleet, WINDOW_POLICIES, DEFAULT_POLICY)
    fleet.add_argument("--out", metavar="FILE", help="write the plan there instead of standard output")
    replay = kinds.add_parser("replay", help="recorded windows: is every plan made again as it was?")
    replay.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a window as GET /api/v1/windows/N gives it, or - for standard input",
    )
    replay.add_argument("--data", type=Path, metavar="DIR", help="an appliance's data folder instead of a file")
    replay.add_argument("--url", help="address of its database, if it is not the SQLite file in that folder")
    replay.add_argument("--windows", type=int, default=50, help="how many of its latest windows (%(default)s)")


def _add_policy(parser: argparse.ArgumentParser, names: Iterable[str], default: str) -> None:
    choices = "one of " + ", ".join(names) + " (%(default)s)"
    parser.add_argument("--policy", default=default, metavar="NAME", help=choices)


def run(args: argparse.Namespace) -> int:
    """Print or write the plan as JSON. Raises MagpieError for a bad file; faults of a window plan and why nothing
    could be scheduled go to standard error, with exit code 3 for the latter, and for a recorded plan that is not made
    again as it was."""
    kinds = {
        "window": _window,
        "serving": _serving,
        "pipeline": _pipeline,
        "tenants": _tenants,
        "fleet": _fleet,
        "replay": _replay,
    }
    return kinds[str(args.kind)](args)


def _window(args: argparse.Namespace) -> int:
    policy = window_policy(args.policy, args.fixed)
    problem = WindowProblem.from_json(read_json(args.file))
    begin = time.perf_counter()
    if args.followed:
        follow = planner(ideal_caps(problem.share_step), policies=lambda name: policy)
        plan = follow(PlanRequest(args.policy, problem))
    else:
        plan = policy.plan(problem)
    plan = replace(plan, decision_seconds=round(time.perf_counter() - begin, 6))
    _put(plan.to_json(), args.out)
    for fault in plan.faults:
        sys.stderr.write(f"magpie plan: {fault.words}\n")
    return 0


def _serving(args: argparse.Namespace) -> int:
    policy = serving_policy(args.policy)
    value = read_json(args.file)
    problem = ServingProblem.from_json(value)
    table = DeviceTable.from_json(read_json(_table_file(args, value)))
    begin = time.perf_counter()
    plan = plan_queues_apart(policy.plan, problem, table)
    plan = replace(plan, decision_seconds=round(time.perf_counter() - begin, 6))
    _put(plan.to_json(), args.out)
    if plan.schedulable:
        return 0
    sys.stderr.write("magpie plan: not schedulable\n")
    for reason in plan.reasons:
        sys.stderr.write(f"magpie plan: {reason}\n")
    return 3


def _pipeline(args: argparse.Namespace) -> int:
    policy = pipeline_policy(args.policy)
    value = read_json(args.file)
    plans = [_pipeline_plan(policy, problem) for problem in problems_of(value)]
    many = isinstance(value, dict) and "problems" in value
    _put({"format": "pipeline-plans/1", "plans": plans} if many else plans[0], args.out)
    return 0 if all(plan["feasible"] for plan in plans) else 3


def _pipeline_plan(policy: PipelinePolicy, problem: PipelineProblem) -> dict[str, Any]:
    begin = time.perf_counter()
    plan = policy.plan(problem)
    plan = replace(plan, decision_seconds=round(time.perf_counter() - begin, 6))
    for words in (*plan.reasons, *faults(problem, plan)):
        sys.stderr.write(f"magpie plan: {problem.name}: {words}\n")
    return plan.to_json()


def _tenants(args: argparse.Namespace) -> int:
    if args.seed < 0:
        raise InvalidValue("--seed", args.seed, "a whole number from 0")
    policy = sharing_policy(args.policy)
    if args.file == "-":
        if args.out is not None:
            raise InvalidValue("--out", args.out, "only with a file: a conversation answers on standard output")
        kept = None if args.state is None else SharingStateFile(args.state)
        return converse(policy, sys.stdin, sys.stdout, args.seed, kept)
    if args.state is not None:
        raise InvalidValue("--state", str(args.state), "only with -, a conversation: a file has its history")
    _put(decide(policy, read_json(args.file), args.seed), args.out)
    return 0


def _fleet(args: argparse.Namespace) -> int:
    plan = placed(read_json(args.file), window_policy(args.policy))
    _put(plan, args.out)
    return 3 if plan["unplaced"] else 0


def _replay(args: argparse.Namespace) -> int:
    from edge.commands.simulate import recorded_windows

    if (args.file is None) == (args.data is None):
        raise InvalidValue("FILE", args.file, "either a file or --data DIR")
    details = [read_json(args.file)] if args.file is not None else recorded_windows(args.data, args.url, args.windows)
    plans = [plan for detail in reversed(details) for plan in replayed(detail)]
    for plan in plans:
        said = "not recorded from what" if plan.again is None else "the same"
        if plan.differs:
            said = f"differs in {', '.join(plan.differs)}"
        sys.stdout.write(f"window {plan.window}, plan {plan.id}, {plan.policy} ({plan.cause}): {said}\n")
    known = [plan for plan in plans if plan.again is not None]
    same = sum(not plan.differs for plan in known)
    sys.stdout.write(f"{same} of {len(known)} plans are made again as they were\n")
    return 0 if same == len(known) else 3


def _table_file(args: argparse.Namespace, problem: Any) -> str:
    """Where the device table is: `--table`, or `device_file` of the problem, relative to the problem's file."""
    if args.table is not None:
        return str(args.table)
    named = problem.get("device_file")
    if not isinstance(named, str) or not named:
        raise InvalidValue("device_file", named, "a device table's file (or give --table)")
    folder = Path.cwd() if args.file == "-" else Path(args.file).parent
    return str(folder / named)


def _put(value: dict[str, Any], out: str | None) -> None:
    """Print the plan, or write it to the file `out`. Raises StoreError."""
    text = json.dumps(value, indent=1)
    if out is None:
        sys.stdout.write(text + "\n")
        return
    try:
        Path(out).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {error.strerror}") from error


def read_json(name: str) -> Any:
    """The JSON value in file `name` ("-": standard input). Raises NotFound or InvalidValue."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(name, "bytes that are not UTF-8", "a JSON file") from error
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno}: {error.msg})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidValue(name, text[:40], f"JSON{where}") from error
