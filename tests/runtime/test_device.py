"""Placement: the same calls on a CPU and on a GPU (a stand-in for torch.cuda that writes down what is asked of it)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.core.errors import ShareError
from edge.runtime.device import device_environment, host_threads, open_bucket, torch_device
from edge.shares.bucket import ENVIRONMENT, BucketFile
from edge.shares.green import LAYOUT_ENVIRONMENT, LayoutBoard

GPU = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


class FakeCuda:
    """torch.cuda as far as a worker uses it. A batch takes 20 ms of its time."""

    def __init__(self, available: bool = True) -> None:
        self.calls: list[Any] = []
        self.current = "default"
        self._available = available
        self.now_ms = 0.0
        self.green_contexts = SimpleNamespace(SMPartition=self._Partition, GreenContext=self._context)

    def is_available(self) -> bool:
        return self._available

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def current_stream(self) -> Any:
        return SimpleNamespace(name=self.current)

    @contextlib.contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    def set_stream(self, stream: Any) -> None:
        self.current = stream.name

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        cuda = self

        class Event:
            def record(self) -> None:
                cuda.now_ms += 10
                self.at, self.stream = cuda.now_ms, cuda.current
                cuda.calls.append(("record", self.stream))

            def query(self) -> bool:
                return True

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

        return Event()

    class _Partition:
        @staticmethod
        def from_device(device: int) -> Any:
            return SimpleNamespace(split=lambda num_sms: ([SimpleNamespace(sms=n) for n in num_sms], None))

    def _context(self, sm_partition: Any, workqueue_scope: str = "") -> Any:
        stream = SimpleNamespace(
            name=f"{sm_partition.sms} SMs", wait_stream=lambda other: None, synchronize=lambda: self.calls.append("end")
        )
        return SimpleNamespace(sm_count=sm_partition.sms, Stream=lambda: stream)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[BucketFile]:
    file = BucketFile(tmp_path / "bucket")
    yield file
    file.close()


def test_a_worker_belongs_where_its_environment_says() -> None:
    assert torch_device({}) == "cpu"
    assert torch_device(device_environment("cpu")) == "cpu"
    assert torch_device(device_environment(GPU)) == "cuda"
    assert torch_device({"CUDA_VISIBLE_DEVICES": "0"}) == "cpu", "a GPU in sight is no grant"


def test_on_a_cpu_the_bucket_charges_process_time(bucket: BucketFile) -> None:
    bucket.set_rate(10.0)
    share = open_bucket(environ={**device_environment("cpu"), ENVIRONMENT: str(bucket.path)})
    before = share.used_s()
    with share.batch() as go:
        assert go
        while share.used_s() < before + 0.02:
            pass
    assert share.device == "cpu"
    assert bucket.counters().batches == 1
    assert bucket.counters().used_s >= 0.02
    assert share.ready()
    assert share.pace()
    share.idle()
    share.close()


def test_on_a_gpu_batches_are_charged_by_events(bucket: BucketFile) -> None:
    cuda = FakeCuda()
    environ = {**device_environment(GPU), ENVIRONMENT: str(bucket.path)}
    share = open_bucket(environ=environ, cuda=cuda)
    assert share.device == "cuda"
    with share.batch():
        cuda.calls.append("work")
    assert cuda.calls == [("record", "default"), "work", ("record", "default")]
    assert bucket.counters().used_s == pytest.approx(0.010)
    share.pace()
    cuda.calls.append("step")
    share.pace()
    assert bucket.counters().batches == 3
    assert share.used_s() > 0
    assert cuda.calls[-1] == "synchronize", "work in flight counts"


def test_on_a_gpu_waiting_for_the_share_is_no_work(bucket: BucketFile) -> None:
    share = open_bucket(environ={**device_environment(GPU), ENVIRONMENT: str(bucket.path)}, cuda=FakeCuda())
    assert share.worked_s() == 0.0
    with share.batch():
        began = time.perf_counter()
        while time.perf_counter() == began:
            pass
    worked = share.worked_s()
    assert worked > 0.0
    share.idle()
    assert share.worked_s() == worked


def test_a_teacher_on_the_host_has_threads_where_the_hosts_cores_are_not_shared_out() -> None:
    assert host_threads("cpu", cores=64) == 1
    assert [host_threads("cuda", cores=n) for n in (1, 8, 16, 64)] == [1, 2, 4, 8]


def test_with_green_contexts_work_runs_on_the_workers_own_sms(bucket: BucketFile, tmp_path: Path) -> None:
    cuda = FakeCuda()
    board = LayoutBoard(tmp_path / "layout", 132, create=True)
    bucket.set_slot(1)
    board.publish([64, 32])
    environ = {**device_environment(GPU), ENVIRONMENT: str(bucket.path), LAYOUT_ENVIRONMENT: str(board.path)}
    share = open_bucket(environ=environ, cuda=cuda)
    with share.batch():
        assert cuda.current == "32 SMs"
    assert cuda.current == "default"
    board.publish([32, 96])
    with share.batch():
        assert cuda.current == "96 SMs", "the next batch, live"
    assert bucket.counters().visible_units == 96
    board.publish([100, 32])
    share.pace()
    assert cuda.current == "32 SMs", "continuous work changes between two steps"
    assert {call[1] for call in cuda.calls if isinstance(call, tuple)} == {"32 SMs", "96 SMs"}, "events too"
    share.close()
    assert "end" in cuda.calls


def test_a_gpu_that_torch_cannot_use_is_said_so() -> None:
    with pytest.raises(ShareError, match=GPU):
        open_bucket(environ=device_environment(GPU), cuda=FakeCuda(available=False))


def test_the_control_process_loads_neither_torch_nor_cuda() -> None:
    code = (
        "import sys, edge.runtime.supervisor, edge.runtime.device\n"
        "bad = [m for m in ('torch', 'cv2') if m in sys.modules]\n"
        "sys.exit(' '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
