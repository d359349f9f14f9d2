"""`magpie record`: a live box as a trace, to be simulated elsewhere. Numbers and names only: no picture, no address."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from edge.commands.remote import Remote, add_remote_arguments, remote_of
from edge.core import checks
from edge.core.errors import InvalidValue, NotFound, Unavailable
from edge.core.serving import DeviceTable
from edge.core.tenants import HISTORY_DOCUMENT, SHARING_SETTINGS, TENANTS_SETTINGS
from edge.simulation.box_trace import BoxTrace, SharingTrace
from edge.simulation.record import trace_from_windows
from edge.simulation.record_box import ServingRecorder, sharing_trace, with_other_names, without_probe
from edge.simulation.serving_trace import ServingTrace
from edge.simulation.trace import Trace, read_document

HELP = "write a live box's windows, requests and tenants as a trace"
#: A window may begin so many seconds late.
PATIENCE_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `magpie record`."""
    add_remote_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help='the trace, format "magpie-trace/2"')
    parser.add_argument("--data", type=Path, metavar="DIR", help="a data folder instead: windows and tenants alone")
    parser.add_argument("--windows", type=int, default=50, help="the latest windows that are over (%(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="N",
        help="count requests to served models for so long, from the next window on; windows are then those in it",
    )  # fmt: skip
    parser.add_argument("--interval", type=float, default=10.0, metavar="S", help="seconds of a count (%(default)s)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="latencies of the served models (gpulet-device/1)")
    parser.add_argument("--replace-names", action="store_true", help="number cameras, models and tenants")


def run(args: argparse.Namespace, sleep: Callable[[float], None] = time.sleep) -> int:
    """0: written. Raises MagpieError: nothing to record, an appliance that does not answer, a file that cannot be
    written."""
    checks.in_range("--windows", args.windows, 1, 500)
    checks.in_range("--minutes", args.minutes, 0.0, 10_080.0)
    checks.in_range("--interval", args.interval, 1.0, 3600.0)
    trace = _of_folder(args) if args.data is not None else _of_appliance(remote_of(args), args, sleep)
    if args.replace_names:
        trace = with_other_names(trace)
    try:
        args.out.write_text(json.dumps(trace.to_json()) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidValue("--out", str(args.out), f"a file that can be written ({error.strerror})") from None
    sys.stdout.write(f"{args.out}: {_words(trace)}\n")
    return 0


def _words(trace: BoxTrace) -> str:
    parts = []
    if trace.windows is not None:
        parts.append(f"{trace.windows.windows} windows of {len(trace.windows.cameras)} cameras")
    if trace.serving is not None:
        requests = sum(sum(m.arrived) for m in trace.serving.models)
        parts.append(f"{requests} requests to {len(trace.serving.models)} models in {trace.serving.seconds:.0f} s")
        if trace.serving.table is None:
            parts.append("no device table (--table), so served models cannot be simulated")
    if trace.sharing is not None:
        parts.append(f"{len(trace.sharing.tenants)} tenants")
    return "; ".join(parts)


def _of_folder(args: argparse.Namespace) -> BoxTrace:
    if args.minutes:
        raise InvalidValue("--minutes", args.minutes, "a running appliance (--url): a folder has no requests")
    # SQLAlchemy takes a while to import.
    from edge.commands.simulate import recorded_windows
    from edge.settings.parsing import parse
    from edge.settings.tenants import SharingSettings, TenantSettings
    from edge.store.store import Store, default_url

    details = recorded_windows(args.data, None, args.windows)
    windows = without_probe(trace_from_windows("box", details))
    with Store(default_url(args.data), args.data, owner=False) as store:
        found = [store.get_settings(name) for name in (TENANTS_SETTINGS, SHARING_SETTINGS, HISTORY_DOCUMENT)]
    kept, rules, history = (document or {} for document in found)
    tenants = [
        parse(TenantSettings, checks.made_plain(t), f"tenants[{n}]").model_dump(mode="json")
        for n, t in enumerate(kept.get("tenants", ()))
    ]
    start = min(d["window"]["start_utc_s"] for d in details)
    sharing = sharing_trace(
        tenants, parse(SharingSettings, rules, "sharing").model_dump(mode="json"), history.get("rows", ()), start
    )
    return BoxTrace("box", windows, None, sharing, min(1.0, windows.num_gpus))


def _of_appliance(remote: Remote, args: argparse.Namespace, sleep: Callable[[float], None]) -> BoxTrace:
    table = None if args.table is None else DeviceTable.from_json(read_document(args.table))
    first, reserved = 0, 0.0
    serving: ServingTrace | None = None
    if args.minutes:
        first = _next_window(remote, sleep)
        serving, reserved = _count(remote, args, table, sleep)
    listed = remote.ask("GET", f"/windows?limit={args.windows}")
    over = [w["id"] for w in reversed(listed) if not w["open"] and w["id"] >= first]
    windows = [remote.ask("GET", f"/windows/{number}") for number in over]
    trace: Trace | None = None
    if windows:
        trace = without_probe(trace_from_windows("box", windows))
    elif serving is None:
        raise InvalidValue("--windows", args.windows, "a box with windows that are over, or with served models")
    sharing = _sharing(remote, windows[0]["window"]["start_utc_s"] if windows else 0.0)
    capacity = 1.0 if trace is None else min(1.0, round(trace.num_gpus + reserved, 4))
    return BoxTrace("box", trace, serving, sharing, capacity)


def _next_window(remote: Remote, sleep: Callable[[float], None]) -> int:
    """Wait until a window begins, and give its number; 0, at once: there are no windows."""
    newest = remote.ask("GET", "/windows?limit=1")
    if not newest or not newest[0]["open"]:
        return 0
    left_s = float(newest[0]["length_s"]) + PATIENCE_S
    while left_s > 0:
        sleep(1.0)
        left_s -= 1.0
        now = remote.ask("GET", "/windows?limit=1")
        if now and now[0]["id"] != newest[0]["id"]:
            return int(now[0]["id"])
    raise Unavailable("no window begins: is the appliance running?")


def _count(
    remote: Remote, args: argparse.Namespace, table: DeviceTable | None, sleep: Callable[[float], None]
) -> tuple[ServingTrace | None, float]:
    """Requests by interval, and the share that belongs to serving at the end; None: nothing is served."""
    recorder, reserved, served = ServingRecorder(args.interval), 0.0, True
    for n in range(max(1, round(args.minutes * 60 / args.interval)) + 1):
        if n:
            sleep(args.interval)
        if not served:
            continue
        try:
            document = remote.ask("GET", "/serving")
        except NotFound:
            served = False
            continue
        recorder.look(document)
        reserved = float(document["share"]["reserved"])
    return recorder.trace(table), reserved


def _sharing(remote: Remote, start: float) -> SharingTrace | None:
    try:
        tenants, sharing = remote.ask("GET", "/tenants"), remote.ask("GET", "/sharing")
        history = remote.ask("GET", "/tenants/history")
    except NotFound:
        return None
    named = [t["settings"] for t in tenants["tenants"] if not t["implicit"]]
    return sharing_trace(named, sharing["settings"], history["rows"], start)
