"""A model that two applications with unlike objectives ask, with real processes: one queue, two, and one again under
load, and no request is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving_kit import Served, echo, served

from edge.appliance.answers.serving import serving_answer
from edge.core.serving import DeviceTable
from edge.runtime.serving_tables import keep_table
from edge.settings import ServingPlanning
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner

TENSOR = {"datatype": "FP32", "shape": [-1, 4]}
#: Between two requests of a client: without it their rate may come to more than the table holds, and is refused.
PAUSE_S = 0.1
#: The table is believed: on a busy machine the watch over drift would have the model measured, and plans made anew.
PLANNING = {"shrink_dwell_s": 600.0, "latencies": "measured"}


def application(folder: Path, name: str, slo_ms: float, rate: float) -> None:
    """An application of one stage that asks model m."""
    (folder / name).mkdir()
    description = {
        "platform": "pipeline", "slo_ms": slo_ms, "rate": rate,
        "inputs": [{"name": "x", **TENSOR}], "outputs": [{"name": "x", "from": "ask.x", **TENSOR}],
        "stages": [{"name": "ask", "model": "m", "inputs": {"x": "x"}}],
    }  # fmt: skip
    (folder / name / "model.yaml").write_text(yaml.safe_dump(description), encoding="utf-8")


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Served]:
    """A fifth of the device takes 0.4 s for a row as planned, 1 s for 32; the model really answers at once."""
    models = tmp_path / "models"
    echo(models, "m", slo_ms=20_000.0, max_batch=32, rate=0.0)
    application(models, "fast", 810.0, 0.5)
    application(models, "slow", 20_000.0, 5.0)
    path = tmp_path / "m.json"
    keep_table(path, DeviceTable("toy", {"m": {20: tuple(400.0 + 20.0 * n for n in range(32))}}, {}))
    (tmp_path / "buckets").mkdir()
    partitioner = CpuPartitioner(2.0, None, BucketFolder(tmp_path / "buckets"))
    async with served(tmp_path, models, partitioner, (path,), planning=PLANNING) as made:
        await made.serving("m", "fast", "slow")
        yield made
    partitioner.close()


def queues(box: Served) -> tuple[set[int], dict[str, int]]:
    """Those that gpu-lets take from, and those that stages ask, as the front has them."""
    layout = box.runtime.front.layout
    if layout is None:
        return set(), {}
    routed = {part.queue for route in layout.routes for part in route.gpulet.models}
    return routed, {a.name: a.queues.get("ask", 0) for a in layout.applications}


async def test_a_model_gets_a_second_queue_and_loses_it_and_no_request_is_lost(box: Served) -> None:
    assert queues(box) == ({0}, {"fast": 0, "slow": 0})
    stop, seen = asyncio.Event(), {"fast": 0, "slow": 0, "m": 0}

    async def ask(client: Any, name: str) -> None:
        while not stop.is_set():
            assert (await box.ask(client, name, 3.0))[0] == 3.0
            seen[name] += 1
            await asyncio.sleep(PAUSE_S)

    async def more(requests: int) -> None:
        least = {name: n + requests for name, n in seen.items()}
        await box.until(lambda: all(seen[name] >= n for name, n in least.items()), "requests are answered")

    def plan_for(rate: float) -> None:
        box.runtime.change(ServingPlanning.model_validate(PLANNING | {"models": {"slow": {"rate": rate}}}))

    async with box.client() as client, asyncio.TaskGroup() as group:
        for name in seen:
            group.create_task(ask(client, name))
        await more(3)
        plan_for(45.0)
        await box.until(lambda: queues(box) == ({0, 1}, {"fast": 0, "slow": 1}), "two queues")
        await more(5)
        status = box.runtime.status()
        (model,) = [m for m in status.models if m.name == "m"]
        (slow,) = [a for a in status.applications if a.name == "slow"]
        two = model.two_queues
        assert two is not None
        assert (two.reason, two.share, two.one_share) == ("less_share", 0.6, 0.8)
        assert [q.stages for q in two.queues] == [
            (("fast", "ask"),), (("slow", "ask"),)
        ]  # fmt: skip
        assert (model.slo_ms, slow.stages[0].queue) == (810.0, 1)
        answer = serving_answer(status)
        assert [m.two_queues is not None for m in answer.models if m.name == "m"] == [True]
        plan_for(5.0)
        await box.until(lambda: queues(box) == ({0}, {"fast": 0, "slow": 0}), "one queue again")
        await more(5)
        stop.set()
    plans = [data for kind, data in box.notes if kind == "serving.plan"]
    assert [two["model"] for data in plans for two in data["two_queues"]] == ["m"]
    causes = [data["cause"] for data in plans]
    assert any("m has two queues: the plan takes 60 % of the device, with one 80 %" in cause for cause in causes)
    assert any("m has one queue from now on" in cause for cause in causes)
    (total,) = [m.total for m in box.runtime.status().models if m.name == "m"]
    assert (total.failed, total.dropped, total.rejected) == (0, 0, 0)
