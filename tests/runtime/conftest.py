"""Parts for tests of the runtime: a supervisor over real processes, and its partitioner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Bench

import edge.runtime.light_torchvision  # noqa: F401  as the workers have it: torch's compiler takes as long as torch
from edge.core.clock import SystemClock
from edge.core.workers import LossCause, Worker
from edge.runtime.supervisor import Patience, Supervisor
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner


@pytest.fixture
def partitioner(tmp_path: Path) -> Iterator[CpuPartitioner]:
    """Buckets alone, which every machine has."""
    folder = tmp_path / "buckets"
    folder.mkdir()
    made = CpuPartitioner(2.0, None, BucketFolder(folder))
    yield made
    made.close()


@pytest.fixture
async def bench(partitioner: CpuPartitioner) -> AsyncIterator[Callable[..., Bench]]:
    """Makes supervisors: `bench()` or `bench(partitioner=..., hang_s=...)`; all are closed at the end."""
    made: list[Bench] = []

    def make(
        partitioner: Any = partitioner, memory_limit_bytes: int | None = None, later: Any = None, **patience: Any
    ) -> Bench:
        limits = {"hang_s": 20.0, "start_s": 60.0, "watch_s": 0.05, "backoff_s": (0.0, 0.02, 0.04)} | patience
        events: list[tuple[str, dict[str, Any]]] = []
        gone: list[Worker] = []
        causes: list[LossCause] = []
        supervisor = Supervisor(
            partitioner, SystemClock(), lambda kind, data: events.append((kind, data)), Patience(**limits),
            lambda worker, cause: (gone.append(worker), causes.append(cause)), memory_limit_bytes, later=later,
        )  # fmt: skip
        supervisor.open()
        made.append(Bench(supervisor, events, gone, causes))
        return made[-1]

    yield make
    for one in made:
        await one.supervisor.close(3.0)
