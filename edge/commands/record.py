"""`magpie record`: a live box as a trace, to be simulated elsewhere. Numbers and names only: no picture, no address."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.commands.remote import Remote, add_remote_arguments, remote_of
from edge.core import checks
from edge.core.clock import Clock, SystemClock
from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.serving import DeviceTable
from edge.core.tenants import HISTORY_DOCUMENT, SHARING_SETTINGS, TENANTS_SETTINGS
from edge.simulation.box_trace import BoxTrace, SharingTrace
from edge.simulation.record import trace_from_windows, whole_windows
from edge.simulation.record_box import ServingRecorder, sharing_trace, with_other_names, without_probe
from edge.simulation.serving_trace import ServingTrace
from edge.simulation.trace import Trace, read_document

HELP = "write a live box's windows, requests and tenants as a trace"
#: A window may begin so many seconds late.
PATIENCE_S = 60.0
#: While requests are counted, so many looks in a row may fail (an appliance starts anew). Their requests are spread
#: evenly over the time that they leave open.
MOST_FAILED_LOOKS = 30
#: So many times each answer is asked for once the counting is over, and seconds between two tries.
TRIES, PAUSE_S = 30, 10.0
#: `GET /windows` answers so many at once.
_PAGE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `magpie record`."""
    add_remote_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help='the trace, format "magpie-trace/2"')
    parser.add_argument("--data", type=Path, metavar="DIR", help="a data folder instead: windows and tenants alone")
    parser.add_argument(
        "--database", metavar="URL", help="with --data: its database, if not the SQLite file in that folder"
    )
    parser.add_argument("--windows", type=int, default=50, help="the latest windows that are over (%(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="N",
        help="count requests to served models for so long, from the next window on; windows are then all that are "
        "over in it, whatever --windows says",
    )  # fmt: skip
    parser.add_argument("--interval", type=float, default=10.0, metavar="S", help="seconds of a count (%(default)s)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="latencies of the served models (gpulet-device/1)")
    parser.add_argument("--replace-names", action="store_true", help="number cameras, models and tenants")


def run(args: argparse.Namespace, sleep: Callable[[float], None] = time.sleep, clock: Clock | None = None) -> int:
    """0: written. Raises MagpieError: nothing to record, an appliance that does not answer, a file that cannot be
    written."""
    checks.in_range("--windows", args.windows, 1, 500)
    checks.in_range("--minutes", args.minutes, 0.0, 10_080.0)
    checks.in_range("--interval", args.interval, 1.0, 3600.0)
    if args.database is not None and args.data is None:
        raise InvalidValue("--database", "(an address)", "nothing without --data")
    with _writable(args.out):
        if args.data is not None:
            trace = _of_folder(args)
        else:
            trace = _of_appliance(_RecordedAppliance(remote_of(args), sleep, clock or SystemClock()), args)
        if args.replace_names:
            trace = with_other_names(trace)
        args.out.write_text(json.dumps(trace.to_json()) + "\n", encoding="utf-8")
    sys.stdout.write(f"{args.out}: {in_words(trace)}\n")
    return 0


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Check that the file can be written, before hours of recording. A new file is removed where the
    block fails."""
    new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        try:
            yield
        except BaseException:
            if new:
                path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidValue("--out", str(path), f"a file that can be written ({error.strerror})") from None


def in_words(trace: BoxTrace) -> str:
    """The parts of a trace, for people."""
    parts = []
    if trace.windows is None:
        parts.append("no windows")
    else:
        parts.append(f"{_number(trace.windows.windows, 'window')} of {_number(len(trace.windows.cameras), 'camera')}")
    if trace.serving is not None:
        requests = sum(sum(m.arrived) for m in trace.serving.models)
        models = _number(len(trace.serving.models), "model")
        parts.append(f"{_number(requests, 'request')} to {models} in {trace.serving.seconds:.0f} s")
        if trace.serving.table is None:
            parts.append("no device table (--table), so served models cannot be simulated")
    if trace.sharing is not None:
        parts.append(_number(len(trace.sharing.tenants), "tenant"))
    return "; ".join(parts)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _of_folder(args: argparse.Namespace) -> BoxTrace:
    if args.minutes:
        raise InvalidValue("--minutes", args.minutes, "a running appliance (--url): a folder has no requests")
    # SQLAlchemy takes a while to import.
    from edge.commands.simulate import kept_windows, opened_store
    from edge.settings.parsing import parse
    from edge.settings.tenants import SharingSettings, TenantSettings

    with opened_store(args.data, args.database) as store:
        details = kept_windows(store, args.windows)
        found = [store.settings.get_settings(name) for name in (TENANTS_SETTINGS, SHARING_SETTINGS, HISTORY_DOCUMENT)]
    windows = without_probe(trace_from_windows("box", details))
    _warn_left_out(details)
    kept, rules, history = (document or {} for document in found)
    tenants = [
        parse(TenantSettings, checks.made_plain(t), f"tenants[{n}]").model_dump(mode="json")
        for n, t in enumerate(kept.get("tenants", ()))
    ]
    start = whole_windows(details)[0]["window"]["start_utc_s"]
    sharing = sharing_trace(
        tenants, parse(SharingSettings, rules, "sharing").model_dump(mode="json"), history.get("rows", ()), start
    )
    return BoxTrace("box", windows, None, sharing, min(1.0, windows.num_gpus))


@dataclass(frozen=True)
class _RecordedAppliance:
    """An appliance that is asked, with the time."""

    remote: Remote
    sleep: Callable[[float], None]
    clock: Clock

    def get(self, path: str, tries: int = 1) -> Any:
        """The answer; `tries` above 1: an appliance that is just starting is asked again. Raises as `Remote.ask`."""
        for left in range(tries - 1, -1, -1):
            try:
                return self.remote.ask("GET", path)
            except NotFound:
                raise
            except MagpieError:
                if not left:
                    raise
                self.sleep(PAUSE_S)
        raise AssertionError("unreachable")


def _of_appliance(box: _RecordedAppliance, args: argparse.Namespace) -> BoxTrace:
    table = None if args.table is None else DeviceTable.from_json(read_document(args.table))
    serving: ServingTrace | None = None
    reserved, tries, start = 0.0, 1, 0.0
    first: int | None = 0
    if args.minutes:
        first, tries = _next_window(box, args.minutes), TRIES
        start = box.clock.utc()
        serving, reserved = _count(box, args, table)
    # With --minutes all parts begin with window `first`. Without a window that begins then there are none.
    over = [] if first is None else _over(box, first, None if args.minutes else args.windows, tries)
    trace: Trace | None = None
    if over:
        trace, start = _measured(box, over, tries, bool(args.minutes))
    elif args.minutes and first is not None:
        raise InvalidValue("--minutes", args.minutes, f"so long that window {first}, or a later one, is over in it")
    elif serving is None:
        raise InvalidValue("--windows", args.windows, "a box with windows that are over, or with served models")
    capacity = 1.0 if trace is None else min(1.0, round(trace.num_gpus + reserved, 4))
    return BoxTrace("box", trace, serving, _sharing(box, start, tries), capacity)


def _measured(box: _RecordedAppliance, over: Sequence[int], tries: int, waits: bool) -> tuple[Trace, float]:
    """The trace of these windows, and when it begins (UTC). A window is measured after its end: `waits` for that, at
    most for its length. Raises InvalidValue."""
    windows = [box.get(f"/windows/{number}", tries) for number in over]
    until_s = box.clock.monotonic() + (float(windows[-1]["window"]["length_s"]) if waits else 0.0)
    while True:
        over_s = box.clock.monotonic() >= until_s
        try:
            trace = without_probe(trace_from_windows("box", windows))
            if over_s or any(trace.windows in camera.frozen for camera in trace.cameras):
                break
        except InvalidValue:
            if over_s:
                raise
        box.sleep(PAUSE_S)
        windows[-1] = box.get(f"/windows/{over[-1]}", tries)
    _warn_left_out(windows)
    return trace, float(whole_windows(windows)[0]["window"]["start_utc_s"])


def _warn_left_out(windows: Sequence[Mapping[str, Any]]) -> None:
    left_out = sum(not w["window"]["open"] for w in windows) - len(whole_windows(windows))
    if left_out:
        words = "cut short, of another length, or before one that is"
        sys.stderr.write(f"{_number(left_out, 'window')} left out: {words}\n")


def _over(box: _RecordedAppliance, first: int, most: int | None, tries: int) -> list[int]:
    """The numbers of the windows from `first` on that are over, ascending; the latest `most` of them (None: all)."""
    found: list[int] = []
    before = ""
    while most is None or len(found) < most:
        listed = box.get(f"/windows?limit={_PAGE}{before}", tries)
        found += [w["id"] for w in listed if not w["open"] and w["id"] >= first]
        if not listed or listed[-1]["id"] <= first:
            break
        before = f"&before={listed[-1]['id']}"
    return sorted(found)[-most:] if most is not None else sorted(found)


def _next_window(box: _RecordedAppliance, minutes: float) -> int | None:
    """Wait until a window begins, and give its number; None, at once: no window is open. Raises InvalidValue where no
    window can be over within `minutes`."""
    newest = box.get("/windows?limit=1")
    if not newest or not newest[0]["open"]:
        return None
    length_s = float(newest[0]["length_s"])
    if 60 * minutes < length_s:
        raise InvalidValue("--minutes", minutes, f"at least the length of a window ({length_s / 60:.4g} minutes)")
    until_s = box.clock.monotonic() + length_s + PATIENCE_S
    while box.clock.monotonic() < until_s:
        box.sleep(1.0)
        now = box.get("/windows?limit=1", TRIES)
        if now and now[0]["id"] != newest[0]["id"]:
            return int(now[0]["id"])
    raise Unavailable("no window begins: is the appliance running?")


def _count(
    box: _RecordedAppliance, args: argparse.Namespace, table: DeviceTable | None
) -> tuple[ServingTrace | None, float]:
    """Requests by interval, and the share that belongs to serving at the end; None: nothing is served. Goes on until
    the last look is answered. Raises MagpieError where more than MOST_FAILED_LOOKS fail in a row."""
    recorder, count = ServingRecorder(args.interval), max(1, round(args.minutes * 60 / args.interval))
    try:
        document = box.get("/serving")
    except NotFound:
        box.sleep(count * args.interval)
        return None, 0.0
    begin_s = box.clock.monotonic()
    recorder.look(document)
    reserved, looks, done = float(document["share"]["reserved"]), 0, 0
    while done < count:
        # Looks are due at multiples of the interval; those whose time passed while one was waited for are left out.
        looks = max(looks + 1, int((box.clock.monotonic() - begin_s) / args.interval))
        box.sleep(max(0.0, begin_s + looks * args.interval - box.clock.monotonic()))
        try:
            document = box.get("/serving")
        except NotFound:
            document = {"models": [], "share": {"reserved": 0.0}}
        except MagpieError:
            if looks - done > MOST_FAILED_LOOKS:
                raise
            continue
        recorder.look(document, looks - done)
        reserved, done = float(document["share"]["reserved"]), looks
    return recorder.trace(table), reserved


def _sharing(box: _RecordedAppliance, start: float, tries: int) -> SharingTrace | None:
    try:
        tenants, sharing, history = (box.get(p, tries) for p in ("/tenants", "/sharing", "/tenants/history"))
    except NotFound:
        return None
    named = [t["settings"] for t in tenants["tenants"] if not t["implicit"]]
    return sharing_trace(named, sharing["settings"], history["rows"], start)
