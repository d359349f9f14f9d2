"""`magpie plan window FILE`: answer a planning problem in a file. Starts without torch."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.core.window import WindowProblem
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES, window_policy

HELP = "answer a planning problem in a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`plan window FILE [--policy NAME] [--fixed ID] [--out FILE]`."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    window = kinds.add_parser("window", help="a retraining window: retrain-infer-window/1 in, retrain-infer-plan/1 out")
    window.add_argument("file", metavar="FILE", help="the problem (JSON), or - for standard input")
    window.add_argument(
        "--policy",
        default=DEFAULT_POLICY,
        metavar="NAME",
        help="one of " + ", ".join(WINDOW_POLICIES) + " (%(default)s)",
    )
    window.add_argument("--fixed", metavar="ID", help="configuration of uniform, uniform-heavy and fixed-config")
    window.add_argument("--out", metavar="FILE", help="write the plan there instead of standard output")


def run(args: argparse.Namespace) -> int:
    """Print or write the plan as JSON. Raises MagpieError for a bad file; faults of the plan go to standard error."""
    policy = window_policy(args.policy, args.fixed)
    problem = WindowProblem.from_json(read_json(args.file))
    begin = time.perf_counter()
    plan = policy.plan(problem)
    plan = replace(plan, decision_seconds=round(time.perf_counter() - begin, 6))
    text = json.dumps(plan.to_json(), indent=1)
    if args.out is None:
        sys.stdout.write(text + "\n")
    else:
        try:
            Path(args.out).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{args.out}: cannot be written: {error.strerror}") from error
    for fault in plan.faults:
        sys.stderr.write(f"magpie plan: {fault}\n")
    return 0


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
