"""Runs the benchmarks that need no GPU, one after another: `make bench`. Results land in benchmarks/results/."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

#: module, arguments, roughly how many minutes
BENCHMARKS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("benchmarks.bench_planner", (), 2),
    ("benchmarks.bench_serving_planner", (), 8),
    ("benchmarks.bench_pipelines", (), 1),
    ("benchmarks.bench_pipeline_box", (), 15),
    ("benchmarks.reproduce_gpulets", (), 7),
    ("benchmarks.reproduce_harpagon", (), 3),
    ("benchmarks.reproduce_escher", (), 3),
    ("benchmarks.bench_shares", (), 4),
    ("benchmarks.bench_swap", (), 2),
    ("benchmarks.bench_interference", (), 4),
    ("benchmarks.bench_faults", (), 5),
    ("benchmarks.bench_ingest", (), 35),
    ("benchmarks.bench_clips", (), 5),
    ("benchmarks.bench_fleet", (), 2),
    ("benchmarks.bench_fleet_engines", (), 3),
    ("benchmarks.bench_store", (), 2),
    ("benchmarks.bench_outputs", (), 16),
    ("benchmarks.bench_tracking", (), 25),
    ("benchmarks.bench_tracking_clips", (), 1),
    ("benchmarks.bench_stale_answers", (), 6),
    ("benchmarks.bench_frame_rates", (), 6),
    ("benchmarks.bench_dashboard", (), 8),
    ("benchmarks.bench_front", (), 2),
    ("benchmarks.bench_microprofiler", (), 15),
    ("benchmarks.bench_replay", (), 2),
    ("benchmarks.reproduce_ekya", (), 6),
    ("benchmarks.reproduce_cilantro", (), 6),
    ("benchmarks.bench_drift", (), 4),
    ("benchmarks.bench_simulation", (), 4),
    ("benchmarks.bench_truth", (), 15),
    ("benchmarks.bench_real_clips", (), 12),
    ("benchmarks.bench_load", (), 2),
    ("benchmarks.bench_serving_run", (), 25),
    ("benchmarks.bench_pipeline_run", (), 25),
    ("benchmarks.bench_demo", ("--seeds", "1", "2", "3"), 30),
    ("benchmarks.bench_budget", (), 65),
    ("benchmarks.bench_capacity", (), 65),
    ("benchmarks.bench_capacity_simulated", (), 4),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of names, e.g. planner shares")
    given = parser.parse_args()
    failed = []
    for module, arguments, minutes in BENCHMARKS:
        if given.only and not any(part in module for part in given.only):
            continue
        print(f"== {module} (about {minutes} min)", flush=True)
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
        print(f"== {module}: exit {done.returncode} after {(time.monotonic() - began) / 60:.1f} min\n", flush=True)
        if done.returncode:
            failed.append(module)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
