"""How long counts take to read: `python -m benchmarks.bench_counts_store [--cameras 16] [--lines 20] [--days 365]`.

A database with a year of hours and days and some days of minutes, every line counting two classes in both directions
in every hour, and a teacher's checks near every line in every minute: kept as sums over quarters of an hour for a month
and over quarters of a day for a year, as the appliance keeps them. Hours and days are settled
(edge/appliance/settled_counts.py) but for the last eight hours. Asked through the appliance's own service, and made
JSON as REST does: a day by hour, a day beside the week before, as the page asks, and a year by day. Targets: 300 ms,
300 ms and 1 s, in CPU time (`cpu_ms`), since other processes take from the wall's. Results:
benchmarks/results/counts_store.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa

from edge.appliance.answers.read import plain
from edge.appliance.counts_opened import open_counts
from edge.appliance.settled_counts import SETTLED_AFTER_S
from edge.core.clock import SystemClock
from edge.core.counts import CLUSTER_S, STEP_S
from edge.settings import SiteSettings
from edge.store import tables as t
from edge.store.store import Store

RESULTS = Path(__file__).resolve().parent / "results" / "counts_store.json"
CLASSES, WAYS = ("car", "truck"), ("forward", "backward")
NOW = 1_790_000_000 // 86_400 * 86_400
TARGET_MS = {"a day by hour": 300.0, "a day beside the week before": 300.0, "a year by day": 1000.0}
_CHUNK = 50_000


def rows(cameras: int, lines: int, step: int, first: int, end: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """A row for each camera, bucket, line, direction and class."""
    for camera in range(cameras):
        for start in range(first, end, step):
            for line in range(lines):
                for way in WAYS:
                    for name in CLASSES:
                        objects = rng.randrange(60)
                        settled = step > 60 and start + step <= NOW - int(SETTLED_AFTER_S)
                        true = (1.1 * objects, objects, 1.2 * objects) if settled else (None, None, None)
                        yield {
                            "camera": f"camera-{camera}", "step_s": step, "start_s": start, "kind": "line",
                            "name": f"line-{line}", "way": way, "class_name": name,
                            "objects": objects, "seconds": 0.0, "standing_s": 0.0, "most": 0, "settled": int(settled),
                            "corrected": true[0], "low": true[1], "high": true[2],
                        }  # fmt: skip


def checks(cameras: int, lines: int, step: int, first: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Followed objects and labels in clusters of `step` seconds, five of each in a minute."""
    minutes = step // 60
    for camera in range(cameras):
        for start in range(first, NOW, step):
            for line in range(lines):
                for name in CLASSES:
                    for way in ("forward", "backward"):
                        there = 3 * minutes + rng.randrange(minutes)
                        yield {
                            "camera": f"camera-{camera}", "step_s": step, "start_s": start, "kind": "line",
                            "name": f"line-{line}", "way": way, "class_name": name, "frames": 8 * minutes,
                            "followed": there, "there": there + minutes, "same": there,
                        }  # fmt: skip


def fill(store: Store, table: sa.Table, found: Iterator[dict[str, Any]]) -> int:
    """Write rows; how many."""
    total, some = 0, []
    for row in found:
        some.append(row)
        if len(some) == _CHUNK:
            total += _write(store, table, some)
            some = []
    return total + (_write(store, table, some) if some else 0)


def _write(store: Store, table: sa.Table, some: list[dict[str, Any]]) -> int:
    names = list(some[0])
    columns, places = ", ".join(names), ", ".join("?" * len(names))
    with store.database.write() as c:
        # Straight to SQLite: millions of rows.
        c.exec_driver_sql(
            f"INSERT INTO {table.name} ({columns}) VALUES ({places})", [tuple(row.values()) for row in some]
        )
    return len(some)


async def _kept() -> bool:
    return True


def encoded(found: object) -> bytes:
    """The answer as REST sends it."""
    return orjson.dumps(plain(type(found), found))


def timed(ask: Any, rounds: int, cameras: int) -> list[tuple[float, float]]:
    """Milliseconds of each answer: by the wall's clock, and of CPU time."""
    out = []
    for n in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        ask(f"camera-{n % cameras}")
        out.append((1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)))
    return out


def summary(times: list[tuple[float, float]], of: int) -> dict[str, float]:
    """The median and the most of one of the two."""
    ms = [t[of] for t in times]
    return {"median": round(statistics.median(ms), 1), "most": round(max(ms), 1)}


async def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill and ask."""
    rng = random.Random(3)
    with Store(None, folder) as store:
        year = NOW - args.days * 86_400
        size = {
            step: fill(store, t.counts, rows(args.cameras, args.lines, STEP_S[step], first, NOW, rng))  # type: ignore[index]
            for step, first in (("day", year), ("hour", year), ("minute", NOW - args.minutes_days * 86_400))
        }
        for cluster_s, days in ((CLUSTER_S["hour"], min(30, args.days)), (CLUSTER_S["day"], args.days)):
            found = checks(args.cameras, args.lines, cluster_s, NOW - days * 86_400, rng)
            size[f"checks_{cluster_s}"] = fill(store, t.count_check_sums, found)
        watched = [
            {"camera": f"camera-{n}", "step_s": s, "start_s": x, "seconds": 0.9 * s, "answers": 4 * s}
            for n in range(args.cameras)
            for s in (86_400, 3600)
            for x in range(year, NOW, s)
        ]
        fill(store, t.count_watched, iter(watched))
        counts = open_counts(
            SiteSettings(), store, SystemClock(), lambda *_: None, dict, lambda _: None, _kept, bool, print
        )
        asked = {
            "a day by hour": lambda camera: encoded(counts.of_camera(camera, "hour", NOW - 86_400, NOW)),
            "a day beside the week before": lambda camera: encoded(
                counts.compared(camera, "hour", NOW - 86_400, NOW, NOW - 8 * 86_400)
            ),
            "a year by day": lambda camera: encoded(counts.of_camera(camera, "day", year, NOW)),
        }
        answered = {name: timed(ask, args.rounds, args.cameras) for name, ask in asked.items()}
        megabytes = store.retention.sizes()["database"] / 1e6
    return {
        "rows": size,
        "database_mb": round(megabytes),
        "ms": {n: summary(v, 0) for n, v in answered.items()},
        "cpu_ms": {n: summary(v, 1) for n, v in answered.items()},
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=16)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--minutes-days", type=int, default=2, help="days of minutes (retention keeps 30)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(args, Path(folder)))
    found |= {
        "cameras": args.cameras, "lines": args.lines, "days": args.days,
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"), "machine": platform.machine(),
        "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
        "reached": {n: found["cpu_ms"][n]["median"] <= target for n, target in TARGET_MS.items()},
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
