"""A stage that two models may answer, with real processes: one takes over from the other, and no request is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving_kit import Served, echo, served, table

from edge.settings import ServingPlanning
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner

TENSOR = {"datatype": "FP32", "shape": [-1, 4]}
READER = {
    "platform": "pipeline",
    "slo_ms": 800,
    "rate": 2,
    "inputs": [{"name": "x", **TENSOR}],
    "outputs": [{"name": "x", "from": "read.x", **TENSOR}],
    "stages": [
        {
            "name": "read",
            "model": "large",
            "accuracy": 0.95,
            "alternatives": [{"model": "small", "accuracy": 0.8}, {"model": "other", "accuracy": 0.99}],
            "inputs": {"x": "x"},
        }
    ],
}


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Served]:
    """An application over a model of 40 ms a request, one of 1 ms, and one whose tensors do not fit."""
    models = tmp_path / "models"
    echo(models, "large")
    echo(models, "small")
    wide = {"datatype": "FP32", "shape": [-1, 2, 4]}
    echo(models, "other", inputs=[{"name": "x", **wide}], outputs=[{"name": "x", **wide}])
    (models / "reader").mkdir()
    (models / "reader" / "model.yaml").write_text(yaml.safe_dump(READER), encoding="utf-8")
    (tmp_path / "buckets").mkdir()
    partitioner = CpuPartitioner(2.0, None, BucketFolder(tmp_path / "buckets"))
    tables = (table(tmp_path, "large", work_ms=40.0), table(tmp_path, "small", "other", work_ms=1.0))
    async with served(tmp_path, models, partitioner, tables) as made:
        await made.serving("large", "small", "other", "reader")
        yield made
    partitioner.close()


def answers(box: Served) -> str:
    """The model that the front asks."""
    layout = box.runtime.front.layout
    return "" if layout is None or not layout.applications else layout.applications[0].choice["read"]


async def test_the_smaller_model_takes_over_under_load_and_no_request_is_lost(box: Served) -> None:
    assert answers(box) == "large"
    stop, seen = asyncio.Event(), []

    async def ask(client: Any) -> None:
        while not stop.is_set():
            seen.append((await box.ask(client, "reader", 3.0))[0])

    async with box.client() as client:
        asking = asyncio.create_task(ask(client))
        await box.until(lambda: len(seen) > 3, "requests are answered")
        box.runtime.change(ServingPlanning.model_validate({"models": {"reader": {"rate": 60.0}}}))
        await box.until(lambda: answers(box) == "small", "the smaller one takes over")
        more = len(seen) + 10
        await box.until(lambda: len(seen) > more, "it answers")
        stop.set()
        await asking
    assert set(seen) == {3.0}
    (application,) = box.runtime.status().applications
    (stage,) = application.stages
    assert (stage.model, stage.accuracy, application.accuracy) == ("small", 0.8, 0.8)
    assert [o.model for o in stage.options] == ["large", "small"], "one with other tensors is left out"
    assert "small answers (accuracy 0.8) instead of large (0.95)" in application.reasons[0]
    assert any("read: small answers from now on" in d["cause"] for kind, d in box.notes if kind == "serving.plan")
    (reader,) = [m for m in box.runtime.status().models if m.name == "reader"]
    assert reader.reason is not None
    assert [(u.stage, u.other, u.model) for u in reader.reason.unlike] == [("read", "other", "large")]
