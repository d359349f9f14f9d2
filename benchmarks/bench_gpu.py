"""GPU profiles: latency by model, batch and share; retraining cost by share; interference of pairs; times of resizes.

    python -m benchmarks.bench_gpu [--models resnet18,mobilenet_v2] [--batches 1,4,16] [--shares 0.25,0.5,1.0]

Needs an NVIDIA GPU; without one it says so and ends with 2. Every measurement runs in a process of its own under the
share kind that this machine enforces. Result: benchmarks/results/gpu_<device>_<date>.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from benchmarks.gpu_device import open_gpu, result_path, tried
from edge.core.errors import ShareError
from edge.core.shares import Partitioner, Role, ShareKind

RESULTS = Path(__file__).parent / "results"
REPO = Path(__file__).resolve().parents[1]

#: One worker: reads {"model", "batch", "train", "seconds"} from its command line, prints one JSON line.
WORKER = """
import json, statistics, sys, time
import torch, torchvision
from edge.shares.bucket import Bucket, CudaEventMeter
from edge.shares.green import GreenLadder
job = json.loads(sys.argv[1])
bucket = Bucket.from_environment(meter=CudaEventMeter(lambda: torch.cuda.Event(enable_timing=True)))
ladder = None
try:
    from torch.cuda import green_contexts
    ladder = GreenLadder.from_environment(bucket, green_contexts, torch.cuda.current_stream)
except ImportError:
    pass
started = time.perf_counter()
model = torchvision.models.get_model(job["model"], weights=None).cuda()
model.train(job["train"])
x = torch.randn(job["batch"], 3, 224, 224, device="cuda")
y = torch.zeros(job["batch"], dtype=torch.long, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
def step():
    if job["train"]:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    else:
        with torch.inference_mode():
            model(x)
for _ in range(8):
    stream = ladder.stream() if ladder else None
    with torch.cuda.stream(stream):
        step()
torch.cuda.synchronize()
ready = time.perf_counter() - started
sys.stderr.write("ready\\n"); sys.stderr.flush()
times, switches, end = [], [], time.perf_counter() + job["seconds"]
began = time.perf_counter()
while time.perf_counter() < end:
    before = ladder.switches if ladder else 0
    t = time.perf_counter()
    stream = ladder.stream() if ladder else None
    if ladder and ladder.switches != before:
        switches.append(1000 * (time.perf_counter() - t))
    with torch.cuda.stream(stream), bucket.batch():
        t = time.perf_counter()
        step()
        torch.cuda.current_stream().synchronize()
        times.append(1000 * (time.perf_counter() - t))
wall = time.perf_counter() - began
times.sort()
pick = lambda q: times[min(len(times) - 1, int(q * len(times)))]
print(json.dumps({"p50_ms": pick(.5), "p95_ms": pick(.95), "p99_ms": pick(.99),
    "per_s": job["batch"] * len(times) / wall,
    "batches": len(times), "ready_s": ready, "switch_ms": switches, "memory_bytes": torch.cuda.max_memory_allocated(),
    "sms": ladder.rung.sms if ladder and ladder.rung else torch.cuda.get_device_properties(0).multi_processor_count}))
"""


@contextlib.contextmanager
def running(parts: Partitioner, name: str, role: Role, share: float, job: dict[str, Any]) -> Iterator[Any]:
    """A worker under its share, ready to measure."""
    spec = parts.launch_spec(name, role, share)
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, json.dumps(job)],
        env={**os.environ, "PYTHONPATH": str(REPO), **spec.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        parts.attach(name, role, process.pid, share)
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            if line == "ready\n":
                break
            lines.append(line)
        else:
            raise ShareError(f"worker {name} failed: {''.join(lines)[-300:]}")
        yield process
    finally:
        parts.before_kill(name)
        process.kill()
        process.communicate()
        parts.detach(name)


def measure(parts: Partitioner, role: Role, share: float, job: dict[str, Any]) -> dict[str, Any]:
    """One worker alone."""
    with running(parts, "alone", role, share, job) as process:
        said, _ = process.communicate()
        found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return found


def latencies(
    parts: Partitioner, models: list[str], batches: list[int], shares: list[float], seconds: float
) -> list[dict[str, Any]]:
    """Latencies of every model, batch and share."""
    rows: list[dict[str, Any]] = []
    print(f"\n{'model':20} {'batch':>5} {'share':>6} {'p50 ms':>8} {'p99 ms':>8} {'per s':>9}")
    for model in models:
        for batch in batches:
            for share in shares:
                job = {"model": model, "batch": batch, "train": False, "seconds": seconds}
                row = measure(parts, "inference", share, job)
                rows.append({"model": model, "batch": batch, "share": share, **row})
                latency = f"{row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {row['per_s']:9.1f}"
                print(f"{model:20} {batch:5} {share:6.2f} {latency}")
    return rows


def retrainings(parts: Partitioner, models: list[str], shares: list[float], seconds: float) -> list[dict[str, Any]]:
    """Pictures a second of a retraining at every share."""
    rows: list[dict[str, Any]] = []
    print(f"\n{'retraining':20} {'share':>6} {'pictures/s':>10} {'of full':>8}")
    for model in models:
        full = None
        for share in sorted(shares, reverse=True):
            job = {"model": model, "batch": 32, "train": True, "seconds": seconds}
            row = measure(parts, "retraining", share, job)
            full = full or row["per_s"]
            rows.append({"model": model, "share": share, "of_full": row["per_s"] / full, **row})
            print(f"{model:20} {share:6.2f} {row['per_s']:10.1f} {row['per_s'] / full:8.2f}")
    return rows


def neighbours(parts: Partitioner, models: list[str], shares: list[float], seconds: float) -> list[dict[str, Any]]:
    """The slowdown of inference beside a retraining, both at half of the device."""
    rows: list[dict[str, Any]] = []
    print(f"\n{'inference beside a retraining':40} {'slower by':>9}")
    half = max(s for s in shares if s <= 0.5) if min(shares) <= 0.5 else min(shares)
    for model in models:
        job = {"model": model, "batch": 4, "train": False, "seconds": seconds}
        alone = measure(parts, "inference", half, job)
        for other in models:
            beside = {"model": other, "batch": 32, "train": True, "seconds": 600.0}
            with running(parts, "neighbour", "retraining", half, beside):
                together = measure(parts, "inference", half, job)
            ratio = together["p50_ms"] / alone["p50_ms"]
            rows.append(
                {
                    "model": model,
                    "beside": other,
                    "share": half,
                    "ratio": ratio,
                    "alone": alone,
                    "together": together,
                }
            )
            print(f"{model + ' beside ' + other:40} {ratio:9.2f}")
    return rows


def main() -> int:
    """Measure everything, print the tables, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="resnet18,mobilenet_v2,shufflenet_v2_x1_0")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--shares", default="0.25,0.5,0.75,1.0")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--kind", choices=get_args(ShareKind), help="share kind (default: the best one)")
    args = parser.parse_args()
    opened = open_gpu(args.kind)
    if opened is None:
        return 2
    device, choice = opened
    parts = choice.partitioner
    models, batches = args.models.split(","), [int(b) for b in args.batches.split(",")]
    shares = [s for s in (parts.caps.quantize(float(s)) for s in args.shares.split(",")) if s > 0]
    result: dict[str, Any] = {
        "benchmark": "gpu",
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device.to_json(),
        "shares": parts.caps.to_json(),
        "tried": tried(choice),
        "latency": [],
        "retraining": [],
        "interference": [],
        "resizes": [],
    }
    print(f"{device.name}: {parts.caps.kind} ({parts.caps.evidence})")
    path = result_path(RESULTS, "gpu", device)

    def kept(part: str, rows: list[dict[str, Any]]) -> None:
        # After each part: a GPU that is only lent may be gone before the end.
        result[part] = rows
        path.write_text(json.dumps(result, indent=1) + "\n")

    try:
        kept("latency", latencies(parts, models, batches, shares, args.seconds))
        kept("retraining", retrainings(parts, models, shares, args.seconds))
        kept("interference", neighbours(parts, models, shares, args.seconds))
        kept("resizes", resizes(parts, models[0], shares))
    finally:
        parts.close()
    print(f"\nwritten: {path}")
    return 0


def resizes(parts: Partitioner, model: str, shares: list[float]) -> list[dict[str, Any]]:
    """Live resizes: how long the call takes and the switch in the worker; else how long a respawn takes."""
    found: list[dict[str, Any]] = []
    job = {"model": model, "batch": 4, "train": False, "seconds": 6.0}
    if parts.caps.resize == "respawn":
        for share in shares:
            began = time.perf_counter()
            with running(parts, "resized", "inference", share, {**job, "seconds": 0.1}):
                found.append({"how": "respawn", "share": share, "seconds": time.perf_counter() - began})
        print(f"\na respawn takes {statistics.median(f['seconds'] for f in found):.2f} s to be ready")
        return found
    with running(parts, "resized", "inference", shares[-1], job) as process:
        calls = []
        for n in range(20):
            time.sleep(0.2)
            calls.append(1000 * parts.resize("resized", shares[n % len(shares)]).seconds)
        said, _ = process.communicate()
    switches = json.loads(said.strip().splitlines()[-1])["switch_ms"]
    found.append({"how": "live", "call_ms": calls, "switch_ms": switches})
    shown = f", in the worker {statistics.median(switches):.2f} ms (worst {max(switches):.1f})" if switches else ""
    print(f"\na live resize takes {statistics.median(calls):.3f} ms to order{shown}")
    return found


if __name__ == "__main__":
    sys.exit(main())
