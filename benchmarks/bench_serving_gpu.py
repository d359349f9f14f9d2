"""Serving profiles of a GPU: latency by model, batch and share of the gpu-let paper's models; interference; resizes.

    python -m benchmarks.bench_serving_gpu [--budget 900] [--pairs 60] [--batch 32] [--kind mps]

Needs an NVIDIA GPU; without one it says so and ends with 2. Weights are random (nothing is downloaded). Writes the
device table to benchmarks/results/serving_gpu_<device>_<date>.json: `magpie plan serving --table` takes it as it is;
`interference_error` has the held-out errors of the linear model, `resizes` how long a share takes to change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from benchmarks.gpu_device import open_gpu, result_path, tried
from benchmarks.make_models import paper, write_repository
from edge.commands.profile import table_text
from edge.core.clock import SystemClock
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable
from edge.core.shares import ShareKind
from edge.runtime.serving_profiler import ProfileOptions, ServingProfiler, resize_seconds
from edge.runtime.supervisor import Supervisor
from edge.serving.profiling import Effort
from edge.serving.repository import Repository
from edge.shares import discover

RESULTS = Path(__file__).parent / "results"


async def measure(
    args: argparse.Namespace, choice: discover.Choice, versions: Sequence[ServedVersion]
) -> tuple[DeviceTable, dict[str, Any]]:
    """The table, and how long resizes take."""
    clock = SystemClock()
    partitioner = choice.partitioner
    supervisor = Supervisor(partitioner, clock, lambda kind, data: None)
    supervisor.open()
    try:
        options = ProfileOptions(
            budget_s=args.budget, pairs=args.pairs, effort=Effort(args.seconds, 30, 400, 5), pair_seconds=args.seconds
        )
        profiler = ServingProfiler(supervisor, partitioner.caps, clock, options, lambda line: print(line, flush=True))
        table = await profiler.profile(versions)
        return table, await resize_seconds(profiler, versions[0], (25, 50, 75, 40))
    finally:
        await supervisor.close()


def show(table: DeviceTable) -> None:
    """Latencies at some batches, by share."""
    shares = [p for p in (10, 20, 50, 100) if p in table.shares]
    print(f"\n{'model':12} {'batch':>5} " + " ".join(f"{p:>7} %" for p in shares) + f" {'MB':>7}")
    for model in table.latency_ms:
        for batch in (1, 8, table.max_batch(model, shares[-1])):
            row = " ".join(f"{table.solo_ms(model, p, batch):9.2f}" for p in shares)
            print(f"{model:12} {batch:5} {row} {table.memory_mb.get(model, 0.0):7.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=float, default=900.0, help="seconds for all models together")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32, help="largest batch")
    parser.add_argument("--seconds", type=float, default=0.8, help="per measurement")
    parser.add_argument("--kind", choices=get_args(ShareKind), help="share kind (default: the best one)")
    args = parser.parse_args()
    opened = open_gpu(args.kind)
    if opened is None:
        return 2
    device, choice = opened
    caps = choice.partitioner.caps
    print(f"{device.name}: {caps.kind} ({caps.evidence})")
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            repository = Repository(write_repository(Path(folder), paper(), args.batch))
            versions = [repository.resolve(name, None) for name in paper()]
            table, resizes = asyncio.run(measure(args, choice, versions))
    finally:
        choice.partitioner.close()
    details = {
        **table.details,
        "benchmark": "serving_gpu",
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began),
        "load": os.getloadavg()[0],
        "tried": tried(choice),
        "resizes": resizes,
        "note": "random weights; ssd is torchvision's SSDLite on MobileNetV3, raw outputs",
    }
    table = replace(table, details=details)
    show(table)
    if errors := details.get("interference_error"):
        print(f"\ninterference, held out: {json.dumps(errors)}")
    if resizes["seconds"]:
        print(f"a resize ({resizes['how']}) takes {1000 * statistics.median(resizes['seconds']):.1f} ms")
    path = result_path(RESULTS, "serving_gpu", device)
    path.write_text(table_text(table), encoding="utf-8")
    print(f"\nwritten: {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
