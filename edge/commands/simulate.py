"""`magpie simulate TRACE.json [--policy NAME ...]`: recorded windows under other policies.

`--data DIR` reads the windows that an appliance keeps there instead of a trace; `--save FILE` writes them as one. Plans
are made as the appliance makes them (scheduler.follow), in shares of the recorded device where the trace knows it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.shares import ideal_caps
from edge.simulation.record import trace_from_windows
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import Trace, read_trace
from scheduler.follow import planner
from scheduler.policies import WINDOW_POLICIES, WindowPolicy, window_policy

HELP = "replay recorded windows under another policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `magpie simulate`."""
    parser.add_argument("trace", type=Path, nargs="?", help='a recorded run, format "magpie-trace/1"')
    parser.add_argument("--data", type=Path, metavar="DIR", help="an appliance's data folder instead of a trace")
    parser.add_argument("--url", help="address of its database, if it is not the SQLite file in that folder")
    parser.add_argument("--windows", type=int, default=50, help="how many of its latest windows (default 50)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the trace here")
    parser.add_argument(
        "--policy", action="append", metavar="NAME", help="a policy to replay (may be repeated; default: all)"
    )
    parser.add_argument("--fixed", metavar="CONFIG", help="the configuration of uniform and fixed-config")
    parser.add_argument(
        "--start-influence", type=float, default=0.5, metavar="0-1",
        help="how much of a better or worse start is left after a retraining (default 0.5)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Print one line per policy, best first. Raises MagpieError for an unreadable trace or an unknown policy."""
    trace = _trace(args)
    if args.save is not None:
        try:
            args.save.write_text(json.dumps(trace.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidValue("--save", str(args.save), f"a file that can be written ({error.strerror})") from None
    names = args.policy or list(WINDOW_POLICIES)
    fixed = args.fixed

    def policy(name: str) -> WindowPolicy:
        takes_fixed = fixed is not None and name in ("uniform", "uniform-heavy", "fixed-config")
        return window_policy(name, fixed if takes_fixed else None)

    for name in names:
        window_policy(name)
    plan = planner(trace.caps or ideal_caps(), policies=policy)
    results = [simulate(trace, name, plan, start_influence=args.start_influence) for name in names]
    if args.json:
        sys.stdout.write(json.dumps([r.to_json() for r in results], indent=1) + "\n")
    else:
        sys.stdout.write(table(results))
    return 0


def _trace(args: argparse.Namespace) -> Trace:
    """The trace file, or the trace of a data folder."""
    if (args.trace is None) == (args.data is None):
        raise InvalidValue("TRACE", args.trace and str(args.trace), "either a trace file or --data DIR")
    if args.trace is not None:
        return read_trace(args.trace)
    return trace_from_windows(args.data.name, recorded_windows(args.data, args.url, args.windows))


def recorded_windows(data: Path, url: str | None, latest: int) -> list[dict[str, Any]]:
    """The `latest` windows that an appliance keeps in the folder `data` (database `url`, or the SQLite file in it), the
    newest first. Raises InvalidValue, StoreError."""
    # SQLAlchemy takes a while to import, and a file does not need it.
    from edge.store.store import Store, default_url

    if not data.is_dir():
        raise InvalidValue("--data", str(data), "an existing folder")
    with Store(url or default_url(data), data, owner=False) as store:
        return [store.window(w.id).to_json() for w in store.windows(latest)]


def table(results: list[SimulationResult]) -> str:
    """Results as lines of text, the most accurate first."""
    if not results:
        return ""
    best = sorted(results, key=lambda r: -r.mean_accuracy)
    lines = [
        f"trace {best[0].trace}: mean inference accuracy in per cent, windows from the second on",
        f"{'policy':16} {'mean':>7} {'frozen':>7} {'worst cam':>9} {'retrainings':>11} {'device-s':>8} {'plans':>6}",
    ]
    for r in best:
        retrained = sum(len(row.promoted) for row in r.rows)
        work = sum(row.retraining_device_s for row in r.rows)
        lines.append(
            f"{r.policy:16} {100 * r.mean_accuracy:7.2f} {100 * r.mean_frozen:7.2f} {100 * r.worst_camera:9.2f} "
            f"{retrained:11d} {work:8.0f} {r.plans:6d}"
        )
        if r.complaints:
            lines.append(f"  {r.complaints[0]}" + (f" (and {len(r.complaints) - 1} more)" if r.complaints[1:] else ""))
    used = best[0].estimates
    lines.append(
        f"estimates behind the first line: drift {used['drift']}, other start {used['start']}, "
        f"no recorded outcome {used['outcome']}"
    )
    return "\n".join(lines) + "\n"
