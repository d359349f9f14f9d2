"""The benchmark of tenants: each way to share has students of its own, which come into force after all that was
trained under another one is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import bench_tenant_run as bench
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.runtime.running_job import RunningJob

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
        self.services = SimpleNamespace(
            models=SimpleNamespace(roll_back=self.roll_back),
            cameras=SimpleNamespace(all=lambda: [SimpleNamespace(id=name) for name in self.versions]),
        )

    async def roll_back(self, camera: str, version: str, *_: Any) -> None:
        self.versions[camera] = version


def students(
    box: Box, own: dict[str, bench.Students], judged_s: float = bench.JUDGED_S
) -> Coroutine[Any, Any, bench.Change]:
    return bench.change_students(box, own, "planned", "learned", 0.0, judged_s)  # type: ignore[arg-type]


async def test_what_was_trained_before_is_judged_first_and_stays_with_its_arm() -> None:
    box = Box(JOB)
    own = {"learned": {"yard": "mine"}, "planned": {"yard": "first"}}
    task = asyncio.ensure_future(students(box, own))
    for _ in range(10):
        await asyncio.sleep(0)
    assert box.versions == {"yard": "learned"}, "its gate would put another one in force after the arm's own student"
    box.versions["yard"] = "trained"
    box.running.clear()
    assert await task == bench.Change()
    assert box.versions == {"yard": "mine"}
    assert own == {"learned": {"yard": "mine"}, "planned": {"yard": "trained"}}


async def test_the_windows_own_retrainings_are_not_waited_for_and_late_ones_are_reported() -> None:
    own_work = replace(JOB, window=3)
    for job, change in ((JOB, bench.Change(late=["yard"])), (own_work, bench.Change(foreign=["yard"]))):
        box = Box(job)
        assert await students(box, {"learned": {"yard": "mine"}, "planned": {}}, 0.0) == change
        assert box.versions == {"yard": "mine"}
    same = Box(own_work)
    own = {"learned": {"yard": "learned"}, "planned": {}}
    assert await students(same, own, 0.0) == bench.Change(), "of its own student"


def test_a_block_that_begins_late_or_on_others_students_is_reported() -> None:
    good = {"windows": 3, "late_retrainings": [], "foreign_retrainings": []}
    first, second = good | {"first_window": 2}, good | {"first_window": 6}
    assert bench.as_meant([first, second])
    assert not bench.as_meant([first, second | {"first_window": 7}])
    assert not bench.as_meant([first, second | {"foreign_retrainings": ["yard"]}])


async def test_every_arm_warms_up_with_the_first_load_and_sees_the_load_move(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[tuple[Any, ...]] = []

    async def arm(*_: Any) -> None: ...

    async def load(*_: Any) -> None: ...

    async def warm_up(
        _b: Any, _f: Any, rates: dict[str, float], _s: int, _o: Any, before: str, name: str
    ) -> bench.Change:
        did.append((before, name, rates))
        return bench.Change()

    async def block(_b: Any, _f: Any, name: str, rates: dict[str, float], windows: int, _s: int) -> dict[str, Any]:
        did.append((name, windows, rates))
        return dict.fromkeys(("rates", "utility", "plan", "held", "lost", "moves"))

    for name, double in (("arm", arm), ("load", load), ("warm_up", warm_up), ("block", block)):
        monkeypatch.setattr(bench, name, double)
    monkeypatch.setattr(bench, "with_cameras", lambda *_: None)
    found = await bench.blocks(Box(JOB), Path(), 12.0, 1, 10.0, ("learned", "planned"), 0.0)  # type: ignore[arg-type]
    first, second = bench.parts(10.0, True), bench.parts(10.0, False)
    assert did == [
        ("watched", "learned", first), ("learned", 2, first),
        ("learned", "planned", first), ("planned", 2, first),
        ("planned", "planned", first), ("planned", 2, second),
        ("planned", "learned", first), ("learned", 2, second),
    ]  # fmt: skip
    assert [(row["late_retrainings"], row["foreign_retrainings"]) for row in found] == [([], [])] * 4
