"""The benchmark of tenants: a block's first students come into force after all that was trained before it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import bench_tenant_run as bench
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.runtime.retrainings import RunningJob

JOB = RunningJob("w3-yard-p7", "yard", RetrainingConfig(epochs=4), 2, 0.4, 0.0, None, 10.0)


class Box:
    """A box at the beginning of window 4, with one retraining."""

    def __init__(self, job: RunningJob) -> None:
        self.versions, self.running = {"yard": "learned"}, {"yard": job}
        state = SimpleNamespace(window=4, window_start_s=-100.0, settings=SimpleNamespace(window_s=100.0))
        self.runtime = SimpleNamespace(
            clock=ManualClock(), controller=SimpleNamespace(state=state),
            students=SimpleNamespace(retrainings=SimpleNamespace(running=self.running)),
            camera=lambda name: SimpleNamespace(version=SimpleNamespace(id=self.versions[name])),
        )  # fmt: skip
        self.services = SimpleNamespace(models=SimpleNamespace(roll_back=self.roll_back))

    async def roll_back(self, camera: str, version: str, *_: Any) -> None:
        self.versions[camera] = version


async def test_what_was_trained_before_is_judged_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LOOK_S", 0.0)
    box, late = Box(JOB), []  # type: ignore[var-annotated]
    task = asyncio.ensure_future(bench.first_students(box, {"yard": "first"}, late))  # type: ignore[arg-type]
    for _ in range(10):
        await asyncio.sleep(0)
    assert box.versions == {"yard": "learned"}, "its gate would put another one in force after the first student"
    box.running.clear()
    await task
    assert (box.versions, late) == ({"yard": "first"}, [])


async def test_the_windows_own_retrainings_are_not_waited_for_and_late_ones_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "LOOK_S", 0.0)
    monkeypatch.setattr(bench, "JUDGED_S", 0.0)
    for job, told in ((JOB, ["yard"]), (replace(JOB, window=3), [])):
        box, late = Box(job), []  # type: ignore[var-annotated]
        await bench.first_students(box, {"yard": "first"}, late)  # type: ignore[arg-type]
        assert (box.versions, late) == ({"yard": "first"}, told)
