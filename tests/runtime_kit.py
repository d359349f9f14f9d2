"""Helpers of the runtime's tests that are no fixtures."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from benchmarks.waiting import PATIENCE_S
from edge.core.shares import Grant, LaunchSpec, ResizeOutcome, Role, ShareCaps, Usage
from edge.core.workers import LossCause, Worker, WorkerKind
from edge.runtime.supervisor import Supervisor
from edge.shares.cpu import CpuPartitioner


async def until(condition: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Poll until `condition` holds; fails the test when it does not in time."""
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, what or "the condition did not come true in time"
        await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    """True if the process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Bench:
    """A supervisor, and all messages of its workers and its own."""

    supervisor: Supervisor
    events: list[tuple[str, dict[str, Any]]]
    gone: list[Worker] = field(default_factory=list)
    causes: list[LossCause] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    def start(self, name: str, main: Any, argument: Any = None, role: Role = "profiling", **more: Any) -> None:
        share = more.pop("share", 0.2)
        kind = next(k for k in get_args(WorkerKind) if Worker(name, k).role == role)
        self.supervisor.start(
            Worker(name, kind), share, main, argument, self.said.append, self.lost.append, self.given_up.append, **more
        )

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def words(self, what: str) -> list[Any]:
        """Values of all messages under `what`."""
        return [s.value for s in self.said if getattr(s, "what", None) == what]

    async def pid(self, number: int = 0) -> int:
        """Process id that the worker's `number`-th start reported."""
        await until(lambda: len(self.words("start")) > number, f"start {number} of {self.events}")
        return int(self.words("start")[number][0])


class Respawning:
    """A partitioner as CUDA MPS is one: a process' first share is its most; more needs another process.

    It gives real CPU shares (`inner`), pretends to be a GPU where asked to, and records which process was attached
    when. `launched` is the order in which processes were asked for; which of them is there first is the machine's
    choice.
    """

    def __init__(self, inner: CpuPartitioner, device: str = "cpu") -> None:
        self.inner = inner
        self._device = device
        self._cap: dict[str, float] = {}
        self.attached: dict[str, int] = {}
        self.launched: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.sick: str | None = None
        self.usage_reads = 0

    @property
    def caps(self) -> ShareCaps:
        c = self.inner.caps
        domain = "worker" if self._device == "cpu" else "device"
        return ShareCaps(
            "mps",
            self._device,
            "cap",
            "respawn",
            c.min_share,
            c.step,
            c.units,
            True,
            False,
            domain,  # type: ignore[arg-type]
        )

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        assert worker not in self.attached, f"{worker} runs already"
        self._cap[worker] = share
        self.launched.append(worker)
        return self.inner.launch_spec(worker, role, share)

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        self.attached[worker] = pid
        self.calls.append(("attach", worker))
        return self.inner.attach(worker, role, pid, share)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        if share > self._cap[worker]:
            return ResizeOutcome(False, reason="fixed at its start")
        return self.inner.resize(worker, share)

    def usage(self) -> tuple[Usage, ...]:
        self.usage_reads += 1
        return self.inner.usage()

    def reset_usage(self) -> None:
        self.inner.reset_usage()

    def before_kill(self, worker: str) -> None:
        assert runs(self.attached[worker]), "asked too late: it is dead already"
        self.calls.append(("before_kill", worker))

    def detach(self, worker: str) -> None:
        if self.attached.pop(worker, None) is not None:
            self.calls.append(("detach", worker))
        self.inner.detach(worker)

    def healthy(self) -> str | None:
        return self.sick

    def close(self) -> None:
        self.inner.close()


def alive(pids: Sequence[int]) -> list[int]:
    """Those of `pids` that run."""
    return [pid for pid in pids if runs(pid)]


def me() -> int:
    """This process."""
    return os.getpid()
