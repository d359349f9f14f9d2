"""Shares of a device: a share kind's promises, the shares granted, and their real use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol

from edge.core import checks

ShareKind = Literal["mps", "mps+green", "cgroup", "cgroup+coop", "coop"]
#: The kinds that only a CPU has, and those that only a GPU has.
CPU_ONLY: Final[frozenset[ShareKind]] = frozenset(("cgroup", "cgroup+coop"))
GPU_ONLY: Final[frozenset[ShareKind]] = frozenset(("mps", "mps+green"))
#: The kinds that a site may ask for; "auto" takes the best available.
ShareChoice = Literal["auto", ShareKind]
Enforcement = Literal["reserve", "cap", "coop"]
Role = Literal["inference", "retraining", "golden", "profiling"]


#: SMs that one worker keeps busy: answers and retraining steps of small detectors wait for the host, not for more SMs.
SMS_OF_A_WORKER = 16.0


@dataclass(frozen=True)
class ShareCaps:
    """The promises of a share kind on one device, as its probe showed (never more)."""

    kind: ShareKind
    device: str  # "cpu" or a GPU / MIG UUID
    enforced: Enforcement
    resize: Literal["live", "respawn"]
    min_share: float
    step: float | None  # legal shares are multiples of it; None: continuous
    units: float  # cores or SMs behind share 1.0
    oversubscribe: bool
    memory_limit: bool
    fault_domain: Literal["worker", "device"]
    evidence: str = ""  # the probe's measurement, in words

    @property
    def workers(self) -> float:
        """Workers of small models that run side by side at full speed: the cores of a CPU; of a GPU whose SMs are
        shared one per `SMS_OF_A_WORKER`; of one that is shared in time one. A worker's device seconds are its seconds
        of work by this number."""
        if self.device == "cpu":
            return self.units
        return max(1.0, self.units / SMS_OF_A_WORKER) if self.kind in GPU_ONLY else 1.0

    def quantize(self, share: float) -> float:
        """The largest share that can be granted and is not above `share` (0 if under the minimum)."""
        checks.in_range("share", share, 0.0, 1.0)
        granted = share if self.step is None else math.floor(share / self.step + 1e-9) * self.step
        return round(granted, 6) if granted >= self.min_share - 1e-9 else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ideal_caps(step: float | None = None) -> ShareCaps:
    """Those of a device that grants every share exactly, or every multiple of `step` (0-1): where none is known."""
    return ShareCaps("coop", "cpu", "cap", "live", 0.0, step, 1.0, False, False, "worker", "none: an ideal device")


@dataclass(frozen=True)
class Grant:
    """A share given to a worker. `share` is what the device can grant, `asked` what was wished."""

    worker: str
    role: Role
    asked: float
    share: float


@dataclass(frozen=True)
class LaunchSpec:
    """How a worker must be started for its grant: environment to set in the child before CUDA init, threads."""

    env: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    nice: int = 0


@dataclass(frozen=True)
class Usage:
    """A worker's use since `attach` or the last reset: device seconds and the share that makes.

    `asked` and `granted` are means over the period, weighted by time, so that resizes inside it count rightly.
    `given_share` is what the worker may have used: its use plus the share that it was offered and left for want of work
    (None: this share kind cannot tell). A worker is `demand_limited` when it left more than it was held back.
    """

    worker: str
    asked: float
    granted: float
    used_share: float
    device_seconds: float
    wall_s: float
    throttled_fraction: float = 0.0  # of the time, held back by the kernel
    visible_units: float | None = None
    given_share: float | None = None
    waited_fraction: float = 0.0  # of the time, waiting for its share between batches
    demand_limited: bool = False
    running: bool = True  # False: the worker has ended in this period

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ResizeOutcome:
    """The outcome of a resize: done live within `seconds`, or a respawn is needed (`reason`)."""

    live: bool
    seconds: float = 0.0
    reason: str = ""


class Partitioner(Protocol):
    """Turns shares of one device into something real. All calls are safe to repeat; `close` leaves nothing behind."""

    @property
    def caps(self) -> ShareCaps:
        """The promises that the probe showed."""

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        """How to start `worker`; call before the process exists. Raises ShareError if it cannot be granted."""

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        """Put the running process under its share."""

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        """Change the share of an attached worker."""

    def usage(self) -> tuple[Usage, ...]:
        """The use of every worker attached in this period (since the last `reset_usage`), ended ones too."""

    def reset_usage(self) -> None:
        """Start a new accounting period (a retraining window)."""

    def before_kill(self, worker: str) -> None:
        """Make it safe to kill a stuck worker (CUDA MPS must drop the client first); unknown workers are ignored."""

    def detach(self, worker: str) -> None:
        """A worker has ended: its usage stays until `reset_usage`; unknown workers are ignored."""

    def healthy(self) -> str | None:
        """None, or in words what is wrong with the device."""

    def close(self) -> None:
        """Undo everything; safe to call twice."""
