"""`magpie counts`: counted objects of a camera of a running appliance: shown, as a file, or a day as a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from rich.console import Console
from rich.table import Table

from edge.commands.remote import add_remote_arguments, remote_of
from edge.commands.times import checked_day, utc_s
from edge.core.counts import STEP_S
from edge.core.errors import InvalidValue
from edge.files import write_whole

_COLUMNS: Final = ("from", "watched", "place", "class", "objects", "corrected", "low", "high", "seconds", "most")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie counts`."""
    parser.add_argument(
        "what", nargs="?", choices=("table", "report"), default="table", help="report: a day as one HTML file"
    )
    parser.add_argument("--camera", required=True, help="id of the camera")
    parser.add_argument("--from", dest="from_", metavar="TIME", help="2026-11-26, or with T07:00 and zone")
    parser.add_argument("--to", metavar="TIME", help="as --from; buckets that begin before it")
    parser.add_argument("--day", metavar="DAY", help="of a report: 2026-11-26, in the appliance's time zone")
    parser.add_argument("--step", choices=tuple(STEP_S), default="hour", help="length of a bucket (%(default)s)")
    parser.add_argument("--format", choices=("csv", "parquet"), help="a file instead of a table to read")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the file goes; without it: standard output")
    add_remote_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0: done. Raises MagpieError: no such camera, a time that cannot be read, an appliance that does not answer."""
    if args.what == "report":
        return _report(args)
    asked = {"from": utc_s("--from", args.from_ or ""), "to": utc_s("--to", args.to or ""), "step": args.step}
    remote = remote_of(args)
    path = f"/cameras/{quote(args.camera, safe='')}/counts"
    if args.format is not None:
        _write(remote.content(f"{path}.{args.format}?{urlencode(asked)}"), args.out)
        return 0
    if args.out is not None:
        raise InvalidValue("--out", str(args.out), "only with --format csv or --format parquet")
    found = remote.ask("GET", f"{path}?{urlencode(asked)}")
    table = Table(*_COLUMNS, title=f"{args.camera}: {100 * found['watched']:.0f} % of the time watched")
    for bucket in found["buckets"]:
        for row in _rows(bucket):
            table.add_row(*map(str, row))
    for row in _rows({"start_utc_s": None, "watched": found["watched"], "counts": found["totals"]}):
        table.add_row(*map(str, row), style="bold")
    Console().print(table)
    return 0


def _report(args: argparse.Namespace) -> int:
    day = checked_day("--day", args.day or "")
    remote = remote_of(args)
    path = f"/cameras/{quote(args.camera, safe='')}/counts/report.html?{urlencode({'day': day})}"
    _write(remote.content(path), args.out)
    return 0


def _write(content: bytes, out: Path | None) -> None:
    """To a file, which is whole or not there, or to standard output. Raises InvalidValue."""
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        write_whole(out, content)
    except OSError as error:
        raise InvalidValue("--out", str(out), f"a file that can be written ({error.strerror})") from None


def _rows(bucket: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    start = bucket["start_utc_s"]
    when = "all" if start is None else datetime.fromtimestamp(start).astimezone().isoformat(timespec="minutes")
    watched = f"{100 * bucket['watched']:.0f} %"
    if not bucket["counts"]:
        # Without counts the number is zero only where the camera was watched.
        yield (when, watched, "", "", 0 if bucket["watched"] > 0 else "unknown", "", "", "", "", "")
    for row in bucket["counts"]:
        true = row["corrected"] or {"value": "unknown", "low": "", "high": ""}
        place = " ".join(filter(None, (row["kind"], row["name"], _way(row))))
        yield (
            when, watched, place, row["class"], row["objects"], true["value"], true["low"], true["high"],
            row["seconds"], row["most"],
        )  # fmt: skip


def _way(row: Mapping[str, Any]) -> str:
    return f"to {row['way']}" if row["kind"] == "movement" else str(row["way"])
