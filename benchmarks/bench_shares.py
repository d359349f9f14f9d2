"""Shares that hold: asked against given per worker over windows, and how fast a resize bites.

    python -m benchmarks.bench_shares [--seconds 20] [--repeats 3] [--kinds cgroup+coop,coop,cgroup]

Seven workers share all cores of this machine (0.9 of them together): saturating ones of each role, one with little to
do, and for half of the window other shares than for the other half. `given` is what a worker used plus what it was
offered and left (edge.core.shares.Usage). The target is |given - asked| <= 5 points for every worker. `batch x` is how
many times its CPU time a batch took, median and 99th percentile. `in batches` is the part of a worker's CPU time that
its batches had; the rest goes to waiting for the share (target: 0.9 where it always has a batch to run). A kind that
cannot be had here is left out and named. Run it on a machine that does nothing else: the load at the start is recorded,
and a busy machine is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edge.core.errors import ShareError
from edge.core.shares import Role, Usage
from edge.shares.cgroup import available_cores
from edge.shares.cpu import CpuPartitioner, open_cpu_partitioner

RESULT = Path(__file__).parent / "results" / "shares.json"
TARGET_POINTS, TARGET_IN_BATCHES = 5.0, 0.9

#: Burns CPU in batches of BATCH CPU-seconds; with PAUSE it rests between them. Asked to end, it prints how much
#: longer than its CPU time a batch took (median, 99th percentile), and the part of its CPU time that batches had.
WORKER = """
import json, os, signal, sys, time
from edge.shares.bucket import Bucket
bucket = Bucket.from_environment()
batch, pause = float(os.environ["BATCH"]), float(os.environ["PAUSE"])
stretch = []
first = time.process_time()
def end(*_):
    part = len(stretch) * batch / max(1e-9, last - first)
    stretch.sort()
    pick = lambda q: stretch[min(len(stretch) - 1, int(q * len(stretch)))] if stretch else None
    print(json.dumps([pick(0.5), pick(0.99), part]), flush=True)
    os._exit(0)
last = first
signal.signal(signal.SIGTERM, end)
while True:
    if pause:
        time.sleep(pause)
    with bucket.batch():
        began = time.monotonic()
        stop = time.process_time() + batch
        while time.process_time() < stop:
            pass
        stretch.append((time.monotonic() - began) / batch)
        last = time.process_time()
"""

#: name, role, share in the first and in the second half of the window, CPU-seconds per batch, pause between batches
PLAN: tuple[tuple[str, Role, float, float, float, float], ...] = (
    ("camera-a", "inference", 0.10, 0.20, 0.008, 0.0),
    ("camera-b", "inference", 0.15, 0.15, 0.015, 0.0),
    ("camera-idle", "inference", 0.15, 0.10, 0.004, 0.1),
    ("camera-far", "inference", 0.03, 0.03, 0.020, 0.0),
    ("golden", "golden", 0.10, 0.10, 0.060, 0.0),
    ("retraining", "retraining", 0.32, 0.22, 0.030, 0.0),
    ("profiling", "profiling", 0.05, 0.10, 0.040, 0.0),
)


def start(parts: CpuPartitioner, name: str, role: Role, share: float, batch: float, pause: float) -> Any:
    """A worker process under its share."""
    spec = parts.launch_spec(name, role, share)
    env = {**os.environ, **spec.env, "BATCH": str(batch), "PAUSE": str(pause)}
    process = subprocess.Popen([sys.executable, "-c", WORKER], env=env, stdout=subprocess.PIPE, text=True)
    os.setpriority(os.PRIO_PROCESS, process.pid, spec.nice)
    parts.attach(name, role, process.pid, share)
    return process


def window(parts: CpuPartitioner, seconds: float) -> tuple[tuple[Usage, ...], dict[str, list[float]]]:
    """One window of `seconds` with a change of shares in the middle: every worker's usage, and how its batches
    went: their stretch, and their part of its CPU time."""
    processes = [start(parts, name, role, first, batch, pause) for name, role, first, _, batch, pause in PLAN]
    try:
        time.sleep(1.0)
        parts.reset_usage()
        time.sleep(seconds / 2)
        for name, _, first, second, _, _ in sorted(PLAN, key=lambda p: p[3] - p[2]):
            if second != first:
                parts.resize(name, second)
        time.sleep(seconds / 2)
        usages = parts.usage()
        stretch = {}
        for process, (name, *_) in zip(processes, PLAN, strict=True):
            parts.detach(name)  # no quota any more: it can answer
            process.terminate()
            said, _ = process.communicate(timeout=30)
            stretch[name] = json.loads(said)
        return usages, stretch
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for name, *_ in PLAN:
            parts.detach(name)
        parts.reset_usage()


def bite(parts: CpuPartitioner, repeats: int) -> dict[str, list[float]]:
    """Milliseconds that the old rate went on after a resize, as CPU time used beside the new rate says."""
    cores = parts.caps.units
    high, low = 0.35, 0.10
    process = start(parts, "resized", "inference", high, 0.005, 0.0)
    found: dict[str, list[float]] = {"down": [], "up": []}
    try:
        time.sleep(1.0)
        for _ in range(repeats):
            for way, old, new in (("down", high, low), ("up", low, high)):
                time.sleep(0.5)
                parts.reset_usage()
                before = parts.usage()[0].device_seconds
                began = time.monotonic()
                parts.resize("resized", new)
                time.sleep(0.6)
                after, wall = parts.usage()[0].device_seconds, time.monotonic() - began
                beside = (after - before - new * cores * wall) / ((old - new) * cores)
                found[way].append(1000 * beside)
    finally:
        process.kill()
        process.wait()
        parts.detach("resized")
    return found


def table(rows: dict[str, list[Usage]], batches: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Print a line for each worker; the numbers behind it."""
    workers = {}
    for name, usages in rows.items():
        given = [u.used_share if u.given_share is None else u.given_share for u in usages]
        off = [100 * (g - u.asked) for g, u in zip(given, usages, strict=True)]
        asked = statistics.fmean(u.asked for u in usages)
        shown = " ".join(f"{o:+.1f}" for o in off)
        middle, tail, part = (statistics.median(column) for column in zip(*batches[name], strict=True))
        longer = f"{middle:.1f} / {tail:.1f}"
        used = statistics.fmean(u.used_share for u in usages)
        print(
            f"  {name:12} {asked:6.3f} {statistics.fmean(given):6.3f} {used:6.3f} {longer:>12} {part:10.3f} {shown:>26}"
        )
        workers[name] = {
            "asked": asked,
            "given": given,
            "points_off": off,
            "batch_stretch_p50_p99": [row[:2] for row in batches[name]],
            "in_batches": [row[2] for row in batches[name]],
            "windows": [u.to_json() for u in usages],
        }
    return workers


def reported(
    kind: str,
    what: str,
    cores: float,
    load: float,
    rows: dict[str, list[Usage]],
    batches: dict[str, list[list[float]]],
    bites: dict[str, list[float]],
) -> dict[str, Any]:
    """Print one kind's table; its numbers, and whether it held its targets."""
    print(f"\n{kind}: {what} on {cores:g} cores, load {load:.1f} at the start")
    if load > cores:
        print("  other work keeps this machine busy: a worker's missing share may be for want of a core")
    print(
        f"  {'worker':12} {'asked':>6} {'given':>6} {'used':>6} {'batch x':>12} {'in batches':>10}"
        f" {'points off (each window)':>26}"
    )
    workers = table(rows, batches)
    comparable = [n for n, u in rows.items() if all(x.given_share is not None for x in u)] or [
        n for n in rows if n != "camera-idle"
    ]
    worst = max(abs(o) for n in comparable for o in workers[n]["points_off"])
    for way, values in bites.items():
        span = f"{min(values):.0f} to {max(values):.0f}"
        print(f"  resize {way:4}: bites after {statistics.median(values):4.0f} ms ({span})")
    least = min(min(workers[n]["in_batches"]) for n, *_, pause in PLAN if not pause)
    good = worst <= TARGET_POINTS and (kind == "cgroup" or least >= TARGET_IN_BATCHES)
    print(f"  worst: {worst:.1f} points off, target {TARGET_POINTS:g}; least in batches {least:.2f}, target"
          f" {TARGET_IN_BATCHES:g}: {'held' if good else 'MISSED'}")  # fmt: skip
    return {
        "load": load,
        "workers": workers,
        "worst_points_off": worst,
        "least_in_batches": least,
        "resize_ms": bites,
        "held": good,
    }


def main() -> int:
    """Print the tables, write the result. Returns 1 if a worker of the default kind missed its share, or had
    too little of it for its batches."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", default="cgroup+coop,coop,cgroup")
    args = parser.parse_args()
    cores = available_cores()
    kinds: dict[str, Any] = {}
    missed = 0
    for number, kind in enumerate(args.kinds.split(",")):
        try:
            parts = open_cpu_partitioner(cores, appliance=f"bench{number}", prefer=kind)
        except ShareError as error:
            print(f"{kind}: left out, {error}")
            kinds[kind] = {"left_out": str(error)}
            continue
        try:
            rows: dict[str, list[Usage]] = {name: [] for name, *_ in PLAN}
            load = os.getloadavg()[0]
            batches: dict[str, list[list[float]]] = {name: [] for name, *_ in PLAN}
            for _ in range(args.repeats):
                usages, stretch = window(parts, args.seconds)
                for name, values in stretch.items():
                    batches[name].append(values)
                for usage in usages:
                    rows[usage.worker].append(usage)
            bites = bite(parts, max(3, args.repeats * 2))
        finally:
            parts.close()
        kinds[kind] = reported(kind, f"{args.repeats} windows of {args.seconds:g} s", cores, load, rows, batches, bites)
        missed += not kinds[kind]["held"] and number == 0
    result = {
        "benchmark": "shares",
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": cores, "cpu": platform.processor() or platform.machine(), "kernel": platform.release()},
        "seconds": args.seconds,
        "target_points": TARGET_POINTS,
        "kinds": kinds,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten: {RESULT}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
