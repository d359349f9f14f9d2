"""Share kinds on a real GPU (numbers as in docs/shares.md: checks that need hardware)."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_child import REPO, in_child

from edge.core.clock import SystemClock
from edge.shares.bucket import Bucket
from edge.shares.coop import BucketFolder
from edge.shares.gpu import GpuCoop, GpuInfo
from edge.shares.green import MpsGreenPartitioner
from edge.shares.mps import MpsControl, MpsPartitioner

pytestmark = pytest.mark.gpu

SMS = "import json, torch; print(json.dumps(torch.cuda.get_device_properties(0).multi_processor_count))"

#: Matrix products for SECONDS under the bucket named in the environment, on CUDA-event time; prints batches per second.
BUSY = """
import json, os, time, torch
from edge.shares.bucket import Bucket, CudaEventMeter
bucket = Bucket.from_environment(meter=CudaEventMeter(lambda: torch.cuda.Event(enable_timing=True)))
a = torch.randn(2048, 2048, device="cuda")
for _ in range(3):
    torch.mm(a, a)
torch.cuda.synchronize()
end, batches = time.monotonic() + float(os.environ["SECONDS"]), 0
while time.monotonic() < end:
    with bucket.batch():
        for _ in range(4):
            torch.mm(a, a)
    batches += 1
torch.cuda.synchronize()
print(json.dumps(batches / float(os.environ["SECONDS"])))
"""

GREEN = """
import json, os, time, torch
from torch.cuda import green_contexts
from edge.shares.bucket import Bucket, CudaEventMeter
from edge.shares.green import GreenLadder
bucket = Bucket.from_environment(meter=CudaEventMeter(lambda: torch.cuda.Event(enable_timing=True)))
a = torch.randn(2048, 2048, device="cuda")
ladder = GreenLadder.from_environment(bucket, green_contexts, torch.cuda.current_stream)
end, seen, switch_ms = time.monotonic() + float(os.environ["SECONDS"]), [], []
while time.monotonic() < end:
    before = ladder.switches
    t = time.perf_counter()
    stream = ladder.stream()
    if ladder.switches != before:
        switch_ms.append(1000 * (time.perf_counter() - t))
        seen.append([ladder.rung.sms, ladder.rung.disjoint])
    with torch.cuda.stream(stream), bucket.batch():
        torch.mm(a, a)
torch.cuda.synchronize()
print(json.dumps({"seen": seen, "switch_ms": switch_ms, "error": ladder.last_error}))
"""


def start(code: str, gpu: GpuInfo, env: dict[str, str], seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(REPO), "CUDA_VISIBLE_DEVICES": gpu.id, **env, "SECONDS": str(seconds)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_batches(file: Any, count: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while file.counters().batches < count:
        assert time.monotonic() < deadline, "the worker did not begin"
        time.sleep(0.05)


def test_the_probe_knows_the_gpu(gpu: GpuInfo, facts: dict[str, Any]) -> None:
    assert facts["sms"] == in_child(SMS, gpu)
    assert facts["granule"] in (2, 8)
    assert facts["green"] or facts["green_reason"]


def test_time_slicing_keeps_the_mean_share(gpu: GpuInfo, facts: dict[str, Any], tmp_path: Path) -> None:
    parts = GpuCoop(gpu, BucketFolder(tmp_path))
    for share in (0.3, 0.6):
        spec = parts.launch_spec("w", "inference", share)
        worker = start(BUSY, gpu, dict(spec.env), 60.0)
        try:
            parts.attach("w", "inference", worker.pid, share)
            wait_for_batches(parts._buckets.open("w"), 5)
            parts.reset_usage()
            time.sleep(4.0)
            (usage,) = parts.usage()
            assert usage.used_share == pytest.approx(share, abs=0.05)
        finally:
            worker.kill()
            worker.communicate()
            parts.detach("w")
            parts.reset_usage()
    parts.close()


def test_daemon_and_server_are_gone_after_stop(gpu: GpuInfo, mps: MpsControl) -> None:
    in_child(SMS, gpu, {"CUDA_MPS_PIPE_DIRECTORY": str(mps.pipe)})
    servers, daemon = list(mps.servers()), mps.daemon_pid
    assert mps.trouble() is None
    mps.stop()
    for pid in [*servers, daemon]:
        assert pid is None or not Path(f"/proc/{pid}/exe").exists()


def test_a_percentage_is_seen_as_fewer_sms(gpu: GpuInfo, facts: dict[str, Any], mps: MpsControl) -> None:
    parts = MpsPartitioner(gpu, mps)
    seen = {}
    for percent in (25, 50, 100):
        env = dict(parts.launch_spec("w", "inference", percent / 100).env)
        seen[percent] = in_child(SMS, gpu, env)
        parts.detach("w")
    assert seen[25] < seen[50] < seen[100] <= facts["sms"]
    for percent, sms in seen.items():
        assert sms <= math.ceil(facts["sms"] * percent / 100)
        assert sms >= facts["sms"] * percent / 100 - facts["granule"]


def test_a_memory_limit_is_a_clean_error_in_the_worker(gpu: GpuInfo, mps: MpsControl) -> None:
    parts = MpsPartitioner(gpu, mps, memory_limit_bytes={"inference": 2**30})
    code = """
import json, torch
try:
    torch.empty(2 * 2**30, dtype=torch.uint8, device="cuda"); said = "allocated"
except torch.OutOfMemoryError:
    said = "out of memory"
print(json.dumps(said))
"""
    assert in_child(code, gpu, dict(parts.launch_spec("w", "inference", 0.5).env)) == "out of memory"
    assert in_child(code, gpu, dict(parts.launch_spec("x", "retraining", 0.5).env)) == "allocated"


def test_a_client_is_dropped_and_killed_and_the_other_goes_on(gpu: GpuInfo, mps: MpsControl) -> None:
    parts = MpsPartitioner(gpu, mps)
    workers = {}
    try:
        for name in ("victim", "other"):
            spec = parts.launch_spec(name, "inference", 0.4)
            workers[name] = start(BUSY, gpu, dict(spec.env), 60.0)
            parts.attach(name, "inference", workers[name].pid, 0.4)
        for name in workers:
            wait_for_batches(parts._buckets.open(name), 5)
        parts.before_kill("victim")
        workers["victim"].kill()
        workers["victim"].wait()
        done = parts._buckets.open("other").counters().batches
        wait_for_batches(parts._buckets.open("other"), done + 20)
        assert parts.healthy() is None
    finally:
        for worker in workers.values():
            worker.kill()
            worker.communicate()
        parts.close()


def test_green_contexts_resize_a_running_worker(gpu: GpuInfo, facts: dict[str, Any], mps: MpsControl) -> None:
    if not facts["green"]:
        pytest.skip(f"green contexts do not hold here: {facts['green_reason']}")
    known = GpuInfo(gpu.id, gpu.name, gpu.memory_bytes, sms=facts["sms"])
    parts = MpsGreenPartitioner(known, mps, facts["granule"], clock=SystemClock())
    spec = parts.launch_spec("w", "inference", 0.75)
    worker = start(GREEN, gpu, dict(spec.env), 8.0)
    try:
        parts.attach("w", "inference", worker.pid, 0.75)
        file = parts._buckets.open("w")
        wait_for_batches(file, 10)
        assert file.counters().visible_units == pytest.approx(0.75 * facts["sms"], abs=facts["granule"])
        assert parts.resize("w", 0.25).live
        deadline = time.monotonic() + 5
        while file.counters().seen_generation < parts.layout.generation and time.monotonic() < deadline:
            time.sleep(0.01)
        assert file.counters().visible_units == pytest.approx(0.25 * facts["sms"], abs=facts["granule"])
        said, _ = worker.communicate(timeout=60)
        assert '"error": ""' in said
    finally:
        worker.kill()
        parts.close()


def test_nothing_here_initialised_cuda(gpu: GpuInfo) -> None:
    torch = sys.modules.get("torch")
    assert torch is None or not torch.cuda.is_initialized()
    assert Bucket.unlimited().ready()
