"""`magpie profile SITE` or `magpie profile --models DIR`: measure what the models of a repository cost on this device.

Writes a device table ("gpulet-device/1"), which serving loads in place of measuring.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable

HELP = "measure what served models cost on this device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie profile`."""
    parser.add_argument("site", type=Path, nargs="?", metavar="SITE", help="site configuration with a serving section")
    parser.add_argument("--models", type=Path, metavar="DIR", help="a model repository instead of a site's")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table here (default: standard output)")
    parser.add_argument("--base", type=Path, metavar="FILE", help="a table whose other models are kept as they are")
    parser.add_argument("--only", action="append", metavar="MODEL", help="measure this model (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="a rough table in a third of the time, no interference")
    parser.add_argument(
        "--shares",
        metavar="LIST",
        help="shares in percent, e.g. 5,10,20,50,100 (default: tenths of the device and of a core)",
    )
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="time for all models together (default 170)")
    parser.add_argument("--pairs", type=int, metavar="N", help="pairs to run side by side (default 18; 0: none)")
    parser.add_argument("--device", help="\"cpu\" or a GPU's UUID (default: the site's, else the CPU)")
    parser.add_argument("--share-kind", help="as machine.share_kind (default: the site's, else the best there is)")
    parser.add_argument("--cores", type=float, help="CPU cores that stand for the whole device (default: all)")


@dataclass(frozen=True)
class _Where:
    """The model to measure, and its device."""

    models: Path
    device: str
    share_kind: str
    cores: float | None
    worker_memory_mb: float | None = None


def run(args: argparse.Namespace) -> int:
    """Measure and write the table. 1: some model could not be measured. Raises MagpieError for a bad site, repository
    or table, and where no model could be."""
    where = _where(args)
    versions = _versions(where.models, args.only or ())
    base = None if args.base is None else DeviceTable.from_json(_read(args.base))
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise InvalidValue("--out", str(args.out), "a file in an existing folder")
    table = asyncio.run(_measure(args, where, versions, base))
    text = table_text(table)
    # Models that could not be measured were reported; the others' table is of use all the same.
    code = 0 if {v.model for v in versions} <= {*table.details["measured"]["models"]} else 1
    if args.out is None:
        sys.stdout.write(text)
        return code
    write_table(args.out, text)
    sys.stderr.write(f"{args.out}: {len(table.latency_ms)} models\n")
    return code


def table_text(table: DeviceTable) -> str:
    """The table as JSON for people: a row of numbers, and an object of plain values, is one line."""
    text = json.dumps(table.to_json(), indent=1)
    return re.sub(r"[\[{]\n[^][{}]*[\]}]", lambda part: re.sub(r"\n\s*", _join, part[0]), text) + "\n"


def _join(gap: re.Match[str]) -> str:
    """Nothing inside the brackets, a space after a comma."""
    return " " if gap.string[gap.start() - 1] == "," else ""


def write_table(path: Path, text: str) -> None:
    """Write the file whole or not at all. Raises StoreError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from error


def _where(args: argparse.Namespace) -> _Where:
    if (args.site is None) == (args.models is None):
        raise InvalidValue("SITE", args.site and str(args.site), "either a site configuration or --models DIR")
    if args.site is None:
        return _Where(args.models, args.device or "cpu", args.share_kind or "auto", args.cores)
    from edge.settings import read_site

    site = read_site(args.site)
    if site.serving is None:
        raise InvalidValue(f"{args.site}: serving", None, "a serving section that names the models' folder")
    return _Where(
        Path(site.serving.folder),
        args.device or site.machine.device,
        args.share_kind or site.machine.share_kind,
        args.cores or site.machine.cores,
        site.machine.worker_memory_mb,
    )


def _versions(folder: Path, only: Sequence[str]) -> tuple[ServedVersion, ...]:
    """The version in force of each model of the repository."""
    from edge.serving.repository import Repository

    repository = Repository(folder)
    names = repository.models()
    for name in only:
        if name not in names:
            raise NotFound(f"--only {name}: {folder} has no such model", "it has " + (", ".join(names) or "none"))
    wanted = [name for name in names if not only or name in only]
    if not wanted:
        raise NotFound(f"{folder}: no model is there to be measured")
    return tuple(repository.resolve(name, None) for name in wanted)


async def _measure(
    args: argparse.Namespace, where: _Where, versions: Sequence[ServedVersion], base: DeviceTable | None
) -> DeviceTable:
    from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes
    from edge.runtime.serving_profiler import ServingProfiler
    from edge.runtime.supervisor import Supervisor
    from edge.shares import open_partitioner

    clock = SystemClock()
    partitioner = open_partitioner(where.device, where.share_kind, where.cores, f"profile-{os.getpid()}", clock=clock)
    try:
        limit = worker_limit_bytes(where.worker_memory_mb, usable_bytes())
        supervisor = Supervisor(partitioner, clock, _report_event, memory_limit_bytes=limit)
        supervisor.open()
        try:
            options = _options(args, partitioner.caps.min_share)
            return await ServingProfiler(supervisor, partitioner.caps, clock, options, _progress).profile(
                versions, base
            )
        finally:
            await supervisor.close()
    finally:
        partitioner.close()


def _options(args: argparse.Namespace, least: float) -> Any:
    from edge.runtime.serving_profiler import ProfileOptions

    options = ProfileOptions.quick() if args.quick else ProfileOptions()
    if args.shares is not None:
        try:
            shares = tuple(sorted({int(p) for p in args.shares.split(",")}))
        except ValueError:
            raise InvalidValue("--shares", args.shares, "whole percents with commas between") from None
        if shares[0] < 100 * least - 1e-6:
            raise InvalidValue("--shares", shares[0], f"at least {100 * least:g} (the smallest share of this device)")
        options = replace(options, shares=shares)
    if args.budget is not None:
        options = replace(options, budget_s=args.budget)
    if args.pairs is not None:
        options = replace(options, pairs=args.pairs)
    return options


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _report_event(kind: str, data: dict[str, Any]) -> None:
    """Events of the supervisor that people should see; the loss of a worker is raised by the profiler itself."""
    if kind in ("share_refused", "device_sick"):
        _progress(f"{kind}: {data.get('message', '')}")


def _read(path: Path) -> Any:
    from edge.commands.plan import read_json

    return read_json(str(path))
