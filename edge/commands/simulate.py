"""`magpie simulate TRACE.json [--policy NAME ...]`: recorded windows under other policies.

`--data DIR` reads the windows that an appliance keeps there instead of a trace; `--save FILE` writes them as one. Plans
are made as the appliance makes them (scheduler.follow), in shares of the recorded device where the trace knows it.
With `--against` policies are compared in pairs with the same luck, also of a box that serves models or has tenants.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge.core.errors import InvalidValue, StoreError
from edge.core.shares import ideal_caps
from edge.simulation.box_trace import BoxTrace, read_box
from edge.simulation.record import trace_from_windows
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import Trace
from scheduler.follow import planner
from scheduler.policies import TAKE_FIXED, WINDOW_POLICIES, WindowPolicy, window_policy

if TYPE_CHECKING:
    from edge.simulation.compare import PolicyComparison
    from edge.store.store import Store

HELP = "replay a recorded box under other policies, and compare them"
DEFAULT_INFLUENCE = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `magpie simulate`."""
    parser.add_argument("trace", type=Path, nargs="?", help='a recorded run, format "magpie-trace/1" or "/2"')
    parser.add_argument("--data", type=Path, metavar="DIR", help="an appliance's data folder instead of a trace")
    parser.add_argument("--url", help="address of its database, if it is not the SQLite file in that folder")
    parser.add_argument("--windows", type=int, default=50, help="how many of its latest windows (default 50)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the trace here")
    parser.add_argument(
        "--policy", action="append", metavar="NAME", help="a policy to replay (may be repeated; default: all)"
    )
    parser.add_argument(
        "--against", action="append", metavar="NAME",
        help="compare the --policy with this one (may be repeated); both may name one policy for each part of a box: "
        "relay+mosaic+ew, or with one configuration: uniform=CONFIG",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, default=None, metavar="N", help="compare with the luck of so many seeds (10)"
    )
    parser.add_argument("--fixed", metavar="CONFIG", help="the configuration of uniform and fixed-config")
    parser.add_argument(
        "--start-influence", type=float, default=DEFAULT_INFLUENCE, metavar="0-1",
        help="how much of a better or worse start is left after a retraining (default 0.5)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Print one line per policy, best first. Raises MagpieError for an unreadable trace or an unknown policy."""
    if args.against:
        return _compare(args)
    if args.seeds is not None:
        raise InvalidValue("--seeds", args.seeds, "with --against: policies that are compared")
    trace = _trace(args)
    if args.save is not None:
        try:
            args.save.write_text(json.dumps(trace.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidValue("--save", str(args.save), f"a file that can be written ({error.strerror})") from None
    names = args.policy or list(WINDOW_POLICIES)
    fixed = args.fixed

    def policy(name: str) -> WindowPolicy:
        return window_policy(name, fixed if name in TAKE_FIXED else None)

    for name in names:
        window_policy(name)
    plan = planner(trace.caps or ideal_caps(), policies=policy)
    results = [simulate(trace, name, plan, start_influence=args.start_influence, corrected=True) for name in names]
    if args.json:
        sys.stdout.write(json.dumps([r.to_json() for r in results], indent=1) + "\n")
    else:
        sys.stdout.write(table(results))
    return 0


def _compare(args: argparse.Namespace) -> int:
    """Print the measures of each policy with their spread, and the differences with their intervals."""
    # The parts of a serving box take a while to import, and windows alone do not need them.
    from edge.simulation.compare import compare, contender

    if len(args.policy or ()) != 1:
        raise InvalidValue("--policy", args.policy, "one policy, to be compared --against others")
    if args.save is not None or args.start_influence != DEFAULT_INFLUENCE:
        raise InvalidValue("--against", args.against, "without --save and --start-influence")
    box = read_box(args.trace) if args.trace is not None and args.data is None else _box(_trace(args))
    caps = None if box.windows is None else box.windows.caps
    planning = None if box.serving is None else box.serving.planning
    contenders = [contender(name, caps, args.fixed, planning) for name in (*args.policy, *args.against)]
    found = compare(box, contenders, 10 if args.seeds is None else args.seeds)
    sys.stdout.write(json.dumps(found.to_json(), indent=1) + "\n" if args.json else comparison_table(found))
    return 0


def _box(trace: Trace) -> BoxTrace:
    return BoxTrace(trace.name, trace)


def comparison_table(found: PolicyComparison) -> str:
    """A comparison as lines of text, in per cent and points."""
    lines = [f"trace {found.trace}, {found.seeds} seed{'' if found.seeds == 1 else 's'}: per cent, mean and spread"]
    measures = list(dict.fromkeys(m for values in found.values.values() for m in values))
    lines.append(f"{'policy':28}" + "".join(f"{m:>20}" for m in measures))
    for name, values in found.values.items():
        cells = (f"{100 * v.mean:.2f} ± {100 * v.spread:.2f}" if (v := values.get(m)) else "-" for m in measures)
        lines.append(f"{name:28}" + "".join(f"{c:>20}" for c in cells))
    first = next(iter(found.values))
    for d in found.differences:
        interval = ""
        if d.low is not None and d.high is not None:
            interval = f" ({100 * d.low:+.2f} to {100 * d.high:+.2f} in 95 of 100 cases)"
        lines.append(f"{first} less {d.against}, {d.measure}: {100 * d.mean:+.2f} points{interval}")
    return "\n".join(lines) + "\n"


def _trace(args: argparse.Namespace) -> Trace:
    """The trace file, or the trace of a data folder."""
    if (args.trace is None) == (args.data is None):
        raise InvalidValue("TRACE", args.trace and str(args.trace), "either a trace file or --data DIR")
    if args.trace is not None:
        box = read_box(args.trace)
        if box.windows is None:
            allowed = "a trace with cameras; policies of served models and tenants are compared with --against"
            raise InvalidValue("TRACE", str(args.trace), allowed)
        parts = (("served models", box.serving), ("tenants", box.sharing))
        if left_out := [name for name, part in parts if part is not None]:
            sys.stderr.write(f"only windows are played; left out: {', '.join(left_out)} (--against plays them, too)\n")
        return box.windows
    return trace_from_windows(args.data.name, recorded_windows(args.data, args.url, args.windows))


def opened_store(data: Path, url: str | None) -> Store:
    """The store of the folder `data` (database `url`, or the SQLite file in it), to be read. No database is made.
    Raises InvalidValue, StoreError."""
    # SQLAlchemy takes a while to import, and a file does not need it.
    from edge.store.database import Database, current
    from edge.store.store import Store, default_url

    if not data.is_dir():
        raise InvalidValue("--data", str(data), "an existing folder")
    database = Database(url or default_url(data))
    try:
        if current(database) is None:
            raise StoreError(
                f"{database.name}: there is no database here", "name it: an appliance may have it elsewhere"
            )
    finally:
        database.close()
    return Store(url or default_url(data), data, owner=False)


def recorded_windows(data: Path, url: str | None, latest: int) -> list[dict[str, Any]]:
    """The `latest` windows that an appliance keeps in the folder `data` (database `url`, or the SQLite file in it), the
    newest first. Raises InvalidValue, StoreError."""
    with opened_store(data, url) as store:
        return kept_windows(store, latest)


def kept_windows(store: Store, latest: int) -> list[dict[str, Any]]:
    """The `latest` windows of a store, the newest first. Raises StoreError."""
    return [store.windows.window(w.id).to_json() for w in store.windows.newest(latest)]


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
