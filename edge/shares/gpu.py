"""Shares of one GPU in time: the kind without CUDA MPS, and the base of the kinds that need it.

The GPU is time-sliced by its driver; each worker's token bucket, on the clock of CUDA events, keeps its mean share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edge.core.clock import Clock, SystemClock
from edge.core.errors import ShareError
from edge.core.shares import Grant, LaunchSpec, ResizeOutcome, Role, ShareCaps, Usage
from edge.shares.bucket import ENVIRONMENT
from edge.shares.coop import BucketFolder
from edge.shares.ledger import Ledger, Reading, grantable


@dataclass(frozen=True)
class GpuInfo:
    """One GPU or MIG device as the driver's tools describe it (CUDA is not initialised for this)."""

    id: str  # UUID
    name: str
    memory_bytes: int
    driver: str = ""
    compute_capability: str = ""
    compute_mode: str = ""
    sms: int | None = None  # known after a probe in a child process
    mig: bool = False

    @property
    def short_id(self) -> str:
        """Eight characters for folder names."""
        plain = self.id.removeprefix("GPU-").removeprefix("MIG-").replace("-", "").replace("/", "")
        return plain[:8].lower() or "gpu"


@dataclass(frozen=True)
class _Booked:
    """A bucket's counters as last read, and the device time they stand for (scales change with resizes)."""

    used_s: float = 0.0
    declined_s: float = 0.0
    device_s: float = 0.0
    left_s: float = 0.0


class GpuCoop:
    """Token buckets on CUDA-event time. A worker charges its batches through `CudaEventMeter`."""

    def __init__(
        self, gpu: GpuInfo, buckets: BucketFolder | None = None, clock: Clock | None = None, evidence: str = ""
    ) -> None:
        self._gpu = gpu
        self._buckets = buckets or BucketFolder()
        self._clock = clock or SystemClock()
        self._ledger = Ledger(self._clock, self._read, 1.0)
        self._pids: dict[str, int] = {}
        self._booked: dict[str, _Booked] = {}
        self._closed = False
        self._caps = ShareCaps(
            kind="coop",
            device=gpu.id,
            enforced="coop",
            resize="live",
            min_share=0.01,
            step=None,
            units=float(gpu.sms or 1),
            oversubscribe=True,
            memory_limit=False,
            fault_domain="worker",
            evidence=evidence or "token bucket on CUDA-event time; the driver slices time",
        )

    @property
    def caps(self) -> ShareCaps:
        return self._caps

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        granted = grantable(self._caps, worker, share)
        file = self._buckets.open(worker)
        file.set_rate(self._rate(worker, granted))
        return LaunchSpec({**self._environment(role, granted), ENVIRONMENT: str(file.path)})

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        granted = grantable(self._caps, worker, share)
        self._ledger.detach(worker)
        self._pids[worker] = pid
        self._buckets.open(worker).set_rate(self._rate(worker, granted))
        return self._ledger.attach(worker, role, share, granted)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        granted = self._resizable(worker, share)
        began = self._clock.monotonic()
        self._read(worker)  # use until now is booked at the old scale
        self._buckets.open(worker).set_rate(self._rate(worker, granted))
        self._ledger.resize(worker, share, granted)
        return ResizeOutcome(True, self._clock.monotonic() - began)

    def usage(self) -> tuple[Usage, ...]:
        return self._ledger.usage()

    def reset_usage(self) -> None:
        self._ledger.reset()

    def before_kill(self, worker: str) -> None:
        """Without MPS the driver cleans up after a killed process by itself."""

    def detach(self, worker: str) -> None:
        if (file := self._buckets.get(worker)) is not None:
            file.release()
        self._ledger.detach(worker)
        self._buckets.remove(worker)
        self._booked.pop(worker, None)
        self._pids.pop(worker, None)

    def healthy(self) -> str | None:
        return "closed" if self._closed else None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in list(self._ledger.running()):
            self.detach(worker)
        self._buckets.close()

    # -- what the kinds differ in

    def _environment(self, role: Role, granted: float) -> Mapping[str, str]:
        # NVML for torch.cuda.is_available(), so that asking does not initialise CUDA in a process that forks.
        return {"CUDA_VISIBLE_DEVICES": self._gpu.id, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

    def _rate(self, worker: str, granted: float) -> float:
        """Device time per second that the bucket allows."""
        return granted

    def _scale(self, worker: str) -> float:
        """The part of the device that one second of the worker's device time stands for."""
        return 1.0

    # -- shared

    def _resizable(self, worker: str, share: float) -> float:
        if self._ledger.role(worker) is None:
            raise ShareError(f"worker {worker} is not attached")
        return 0.0 if share == 0.0 else grantable(self._caps, worker, share)

    def _set_caps(self, **changes: object) -> None:
        self._caps = replace(self._caps, **changes)  # type: ignore[arg-type]

    def _read(self, worker: str) -> Reading:
        file = self._buckets.get(worker)
        if file is None:
            return Reading()
        counters = file.counters(self._clock.monotonic())
        scale, old = self._scale(worker), self._booked.get(worker, _Booked())
        new = self._booked[worker] = _Booked(
            counters.used_s,
            counters.declined_s,
            old.device_s + max(0.0, counters.used_s - old.used_s) * scale,
            old.left_s + max(0.0, counters.declined_s - old.declined_s) * scale,
        )
        known = counters.beat_s > 0 and math.isfinite(file.rate)
        return Reading(new.device_s, new.left_s if known else None, 0.0, counters.waited_s, counters.visible_units)
