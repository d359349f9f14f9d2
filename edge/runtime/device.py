"""The device that a worker computes on, and its share of it: the same calls on a CPU and on a GPU.

The owner says in the environment where a worker belongs (`device_environment`); nothing here touches CUDA before the
worker asks for it, and the control process never does.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edge.core.errors import ShareError
from edge.shares.bucket import Bucket, CudaEventMeter
from edge.shares.green import GreenLadder

#: Names the worker's device in its environment: "cpu" or "cuda".
ENVIRONMENT = "MAGPIE_DEVICE"


def device_environment(device: str) -> dict[str, str]:
    """The environment of a worker on `device` ("cpu" or a GPU's UUID), set before CUDA is initialised."""
    if device == "cpu":
        return {ENVIRONMENT: "cpu"}
    return {ENVIRONMENT: "cuda", "CUDA_VISIBLE_DEVICES": device}


def torch_device(environ: Mapping[str, str] | None = None) -> str:
    """Where students and teachers of this process are put: "cpu" or "cuda" (the one GPU that it sees)."""
    return (os.environ if environ is None else environ).get(ENVIRONMENT, "cpu")


def host_threads(device: str, cores: int | None = None) -> int:
    """Threads of a model of this process that computes on the host. On a CPU one, since its cores are shared out;
    beside a GPU, whose host is not, a quarter of the host's `cores` (None: counted), at most 8: the plain onnxruntime
    computes a teacher there."""
    if device == "cpu":
        return 1
    return max(1, min(8, (cores or os.cpu_count() or 1) // 4))


class WorkerShare:
    """A worker's bucket, and on a GPU the stream that its share of the SMs is behind.

    `ready`, `batch`, `pace` and `idle` are those of `edge.shares.bucket.Bucket`. Used from one thread.
    """

    def __init__(
        self, bucket: Bucket, device: str = "cpu", ladder: GreenLadder | None = None, cuda: Any = None
    ) -> None:
        """`cuda` is the module torch.cuda where `device` is "cuda"."""
        self.device = device
        self.bucket = bucket
        self._ladder, self._cuda = ladder, cuda
        self._batches_s = 0.0

    def ready(self, stop: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Wait until a batch may begin; False: stopped or timed out."""
        return self.bucket.ready(stop, timeout_s)

    def idle(self) -> None:
        """There was nothing to do until now."""
        self.bucket.idle()

    @contextlib.contextmanager
    def batch(self, stop: Callable[[], bool] | None = None) -> Iterator[bool]:
        """Wait until allowed, run the body (on this worker's SMs), charge what it used."""
        with self._on_stream(), self.bucket.batch(stop) as go:
            began = time.perf_counter()
            try:
                yield go
            finally:
                self._batches_s += time.perf_counter() - began

    def pace(self, stop: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Between two steps of continuous work; the next step runs on the SMs that are in force then."""
        stream = None if self._ladder is None else self._ladder.stream()
        if stream is not None:
            self._cuda.set_stream(stream)
        return self.bucket.pace(stop, timeout_s)

    def used_s(self) -> float:
        """Cumulative device seconds of this process: CPU time, or wall time until the GPU's queue is empty.

        A clock for measuring costs: differences count, not values.
        """
        if self._cuda is None:
            return time.process_time()
        self._cuda.synchronize()
        return time.perf_counter()

    def worked_s(self) -> float:
        """Cumulative seconds of work of this process, without its waits for its share: CPU time, or on a GPU the wall
        time inside its batches, whose answers are read in them. Differences count, not values."""
        return self.used_s() if self._cuda is None else self._batches_s

    def close(self) -> None:
        """Give the green contexts back, after the work in flight."""
        if self._ladder is not None:
            self._ladder.close()

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        stream = None if self._ladder is None else self._ladder.stream()
        return contextlib.nullcontext() if stream is None else self._cuda.stream(stream)


def open_bucket(device: str | None = None, environ: Mapping[str, str] | None = None, cuda: Any = None) -> WorkerShare:
    """The share named by the launch environment, metered on `device`'s own clock (None: the environment's device).

    Raises ShareError if the GPU that was granted cannot be used. `cuda` stands in for torch.cuda in tests.
    """
    environ = os.environ if environ is None else environ
    device = torch_device(environ) if device is None else device
    if device == "cpu":
        return WorkerShare(Bucket.from_environment(environ))
    if cuda is None:
        import torch.cuda.green_contexts

        cuda = torch.cuda
    if not cuda.is_available():
        seen = environ.get("CUDA_VISIBLE_DEVICES", "none")
        raise ShareError(f"the GPU {seen} was granted, but torch cannot use it", "magpie doctor tells more")
    bucket = Bucket.from_environment(environ, CudaEventMeter(lambda: cuda.Event(enable_timing=True)))
    ladder = GreenLadder.from_environment(bucket, cuda.green_contexts, cuda.current_stream, environ)
    return WorkerShare(bucket, device, ladder, cuda)
