"""`magpie doctor`: which shares this machine can enforce, and why not more; whether the appliance can run here."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from edge.appliance.examine import examine

_GIB = 2**30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie doctor`."""
    parser.add_argument("config", type=Path, nargs="?", help="look at what this site configuration needs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data-dir", type=Path, help="data folder (default: the configuration's, else ./data)")
    parser.add_argument("--database", metavar="URL", help="database (default: the configuration's, else SQLite)")
    parser.add_argument("--host", help="address to listen on (default: the configuration's, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the configuration's, else 8080)")
    parser.add_argument("--cores", type=float, help="CPU cores that Magpie may use (default: all)")


def run(args: argparse.Namespace) -> int:
    """0 if the appliance can run here, 1 if not."""
    site = None
    if args.config is not None:
        from edge.settings import read_site

        site = read_site(args.config)
    data_dir = args.data_dir or Path(site.data_dir if site else "data")
    url = args.database or (site.database_url if site else "") or ""
    host = args.host or (site.web.host if site else "127.0.0.1")
    port = args.port if args.port is not None else (site.web.port if site else 8080)
    cores = args.cores or (site.machine.cores if site else None)
    report = examine(data_dir, url, host, port, cores, site.fleet if site else None)
    if args.json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        sys.stdout.write(as_table(report))
    return 0 if report["can_run"] else 1


def as_table(report: dict[str, Any]) -> str:
    """The report for people."""
    mark = {"good": "ok  ", "warning": "note", "bad": "BAD "}
    width = max(len(c["name"]) for c in report["checks"])
    lines = []
    for check in report["checks"]:
        lines.append(f"{mark[check['outcome']]}  {check['name']:{width}}  {check['said']}")
        if check["hint"]:
            lines.append(f"{'':6}{'':{width}}  -> {check['hint']}")
    lines.append("")
    for device in report["devices"]:
        units = (
            "" if device["units"] is None else f", {device['units']:g} {'cores' if device['kind'] == 'cpu' else 'SMs'}"
        )
        lines.append(f"{device['device']}: {device['name']}{units}, {device['memory_bytes'] / _GIB:.1f} GiB")
        caps = device["shares"]
        if caps is None:
            lines.append(f"      shares: none; {device['error']}")
        else:
            lines.append(
                f"      shares: {caps['kind']} ({_promise(caps)}), smallest {caps['min_share']:g},"
                f" changed {'while a worker runs' if caps['resize'] == 'live' else 'by a new process'}"
            )
        lines += [f"      {'yes' if t['ok'] else 'no ':3} {t['kind']:10} {t['reason']}" for t in device["tried"]]
    lines += [f"note: {note}" for note in report["notes"]]
    lines += [
        "",
        "The appliance can run here." if report["can_run"] else "The appliance cannot run here: see BAD above.",
    ]
    return "\n".join(lines) + "\n"


def _promise(caps: dict[str, Any]) -> str:
    return {
        "reserve": "reserved: no other work can use it",
        "cap": "an upper bound, kept by kernel or driver",
        "coop": "kept by the workers themselves",
    }[caps["enforced"]]
