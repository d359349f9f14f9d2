"""The benchmark of tenants: each way to share has a box of its own; halves are counted from the same window on."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import bench_tenant_run as bench
from edge.core.serving import DeviceTable
from edge.simulation.virtual_time import run_virtual


class Box:
    """A box whose windows begin with the loop's time, every `window_s` seconds."""

    def __init__(self, window_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._began_s, self._window_s, self._loop = loop.time(), window_s, loop
        self.runtime: Any = SimpleNamespace(clock=SimpleNamespace(monotonic=loop.time), controller=self)
        measured = [SimpleNamespace(realised=0.5)]
        windows = SimpleNamespace(recent=lambda *_: [SimpleNamespace(id=n, cameras=measured) for n in range(1, 9)])
        self.services = SimpleNamespace(events=SimpleNamespace(recent=lambda *_: []), windows=windows)

    @property
    def state(self) -> SimpleNamespace:
        window = int((self._loop.time() - self._began_s) / self._window_s)
        begins_s = self._began_s + window * self._window_s
        settings = SimpleNamespace(window_s=self._window_s)
        return SimpleNamespace(window=window + 1, window_start_s=begins_s, settings=settings)


def test_ways_to_share_take_turns_forth_and_back() -> None:
    assert bench.turns(("learned", "planned"), 1) == ["learned", "planned"]
    assert bench.turns(("learned", "planned"), 2) == ["learned", "planned", "planned", "learned"]


def test_all_boxes_together_have_the_minutes() -> None:
    assert bench.half_windows(20.0, 2, 100.0) == 3
    assert bench.half_windows(20.0, 4, 100.0) == 2
    assert bench.half_windows(1.0, 2, 100.0) == 1, "a whole window at least"


def test_a_half_that_begins_late_is_reported() -> None:
    first, second = {"first_window": 3, "windows": 3}, {"first_window": 6, "windows": 3}
    assert bench.as_meant([first, second, first, second])
    assert not bench.as_meant([first, second, first, second | {"first_window": 7}])
    assert not bench.as_meant([first | {"first_window": 4}, second | {"first_window": 7}])


def test_before_one_model_became_slower_its_batches_took_less_time_and_all_else_was_the_same() -> None:
    entrance, office = bench.MODELS.values()
    latencies = {m: {14: (16.0, 32.0)} for m in (entrance, office)}
    batches = {k: {m: {"14": (8.0, 16.0)} for m in (entrance, office)} for k in ("run_ms", "typical_ms")}
    true = DeviceTable("now", latencies, {}, details={**batches, "machine": "m"})
    before = bench.as_recorded(true)
    assert before.latency_ms == {entrance: {14: (16.0, 32.0)}, office: {14: (10.0, 20.0)}}
    for typical in (False, True):
        assert before.busy_ms(office, 14, 2, typical) == true.busy_ms(office, 14, 2, typical) / bench.SLOWER == 10.0
        assert before.busy_ms(entrance, 14, 2, typical) == 16.0
    assert before.details["machine"] == "m"


def test_a_cameras_window_counts_where_every_box_measured_it() -> None:
    def block(*windows: dict[str, tuple[float | None, float | None, int]], first: int = 3) -> dict[str, Any]:
        return {"first_window": first, "windows": len(windows), "cameras": list(windows), "utility": {"office": 1.0}}

    goal = bench.STREETS.goal
    some = block({"a": (goal, 0.0, 24), "b": (0.1, 0.1, 24)}, {"a": (0.0, 0.0, 24), "b": (goal, goal, 24)})
    other = block({"a": (0.0, goal, 24), "b": (None, 0.1, 0)}, {"a": (None, None, 0), "b": (0.0, 0.0, 24)})
    later = block({"a": (None, None, 0)}, first=5)
    bench.with_streets([some, other, later])
    assert [b["camera_windows"] for b in (some, other, later)] == [2, 2, 0]
    assert some["utility"] == {"office": 1.0, "streets": 1.0}
    assert other["utility"] == {"office": 1.0, "streets": 0.0}
    assert some["frozen_streets"] == other["frozen_streets"] == pytest.approx(0.5, abs=1e-4)
    assert later["utility"] == {"office": 1.0}


def test_the_load_moves_half_way_and_nothing_waits_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run_virtual(_halves(monkeypatch))


async def _halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """In virtual time, whatever else this machine does."""
    began: list[tuple[float, float, float]] = []
    sent: list[tuple[float, float]] = []
    times = bench.Times(0.4, 0.1, 0.05, 0.05)

    async def load(_b: Any, rates: dict[str, float], seconds: float, *_: Any) -> dict[str, Any]:
        began.append((box.state.window + (asyncio.get_running_loop().time() - box.state.window_start_s) / 0.4,
                      rates["vehicles"], seconds))  # fmt: skip
        now = asyncio.get_running_loop().time()
        sent.append((now, now + times.warm_up_s + seconds))
        await asyncio.sleep(seconds + 0.3)  # the report comes when the next load has begun
        return {"models": [{"model": m, "violation_ratio": 0.05} for m in rates]}

    async def watch(*_: Any) -> None: ...

    monkeypatch.setattr(bench, "load", load)
    monkeypatch.setattr(bench, "watch", watch)
    monkeypatch.setattr(bench, "plan_now", lambda _: {"vehicles": 0.2})
    monkeypatch.setattr(bench, "counted", lambda _: {"lost": 0})
    monkeypatch.setattr(bench, "with_cameras", lambda *_: None)
    box = Box(0.4)
    found = await bench.halves(box, Path(), "planned", 10.0, 2, times, 1)  # type: ignore[arg-type]
    assert [(one["first_window"], one["windows"], one["arm"]) for one in found] == [
        (3, 2, "planned"),
        (5, 2, "planned"),
    ]
    assert bench.as_meant(found)
    assert [one["utility"] for one in found] == [{"entrance": 1.0, "office": 1.0}] * 2
    first, second = bench.parts(10.0, True), bench.parts(10.0, False)
    assert [rate for _, rate, _ in began] == [first["vehicles"], first["vehicles"], second["vehicles"]]
    # Each begins LEAD_S before its windows; that before them has ended by then.
    assert [at for at, _, _ in began] == pytest.approx([1.0, 2.75, 4.75], abs=0.2)
    assert [seconds for _, _, seconds in began] == pytest.approx([0.6, 0.7, 0.7], abs=0.1)
    assert all(ended <= begins for (_, ended), (begins, _) in pairwise(sent)), "two loads are never sent at once"
