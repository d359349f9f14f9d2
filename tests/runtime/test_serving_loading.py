"""Loading and unloading of served models, with a real repository and planning that is driven by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving_kit import echo
from serving_parts import CAPS, Written, layout, table

from edge.core.clock import ManualClock
from edge.core.errors import Conflict, InvalidValue, NotFound, Unavailable, WeightsError, WorkerFailed
from edge.core.front_messages import Layout, ServedVersion
from edge.core.model_reasons import ModelReason
from edge.core.serving_reasons import Refusal
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_loading import ModelLoader
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_status import View
from edge.runtime.serving_tables import DeviceTables
from edge.serving.pipeline_files import parse_application
from edge.serving.repository import Repository
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r


class Planner:
    """Takes the place of the planning thread: it decides when the test says so."""

    def __init__(self) -> None:
        self.view, self.idle = View(), True
        self._decided = asyncio.Event()
        self.waited_for = asyncio.Event()

    async def next_decision(self) -> None:
        self.waited_for.set()
        self._decided.clear()
        await self._decided.wait()

    def decide(self) -> None:
        self._decided.set()


class Measured:
    """Takes the place of Measuring."""

    def __init__(self, tables: DeviceTables) -> None:
        self._tables = tables
        self.asked: list[list[str]] = []
        self.more: set[str] = set()

    def could_have_more(self, model: str) -> bool:
        return model in self.more

    async def measure(self, versions: list[ServedVersion]) -> None:
        self.asked.append([v.key for v in versions])
        await self._tables.add(table(*(v.model for v in versions)))


class Box:
    def __init__(self, folder: Path, measure: bool = True) -> None:
        self.folder, self.written = folder / "models", Written()
        for name in ("left", "right"):
            echo(self.folder, name)
        self.repository = Repository(self.folder, 0)
        self.tables = DeviceTables(folder / "data", CAPS, self.written.complain)
        self.models = OfferedModels(self.tables, ServingPlanning, ManualClock(), self.written.events.append)
        self.planner, self.measured = Planner(), Measured(self.tables)
        self.layout: Layout | None = None
        self.tried: list[str] = []
        self.bad: set[str] = set()
        self.loader = ModelLoader(
            self.repository, self.models, self.tables, self.measured, self.planner, lambda: self.layout,  # type: ignore[arg-type]
            ManualClock(), self.written.complain, measure, self._check,
        )  # fmt: skip

    def _check(self, version: ServedVersion) -> None:
        self.tried.append(version.key)
        if version.key in self.bad:
            raise WeightsError(f"{version.key}: no tensors")

    async def loading(self, model: str) -> asyncio.Task[Any]:
        """A load that has come as far as waiting for the plan."""
        self.planner.waited_for.clear()
        task = asyncio.create_task(self.loader.load(model, {}))
        await asyncio.wait({task, asyncio.create_task(self.planner.waited_for.wait())}, return_when="FIRST_COMPLETED")
        return task

    def in_force(self, model: str) -> ServedVersion:
        found = self.models.offers[model].version
        assert found is not None
        return found


async def test_at_the_start_models_are_checked_measured_together_and_offered(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.bad = {"right/1"}
    echo(box.folder, "more")
    for name in ("left", "right", "more"):
        box.models.offers[name] = Offer(name)
    await box.loader.take_in(["left", "ghost", "right", "more"])
    assert box.tried == ["left/1", "right/1", "more/1"]
    assert box.measured.asked == [["left/1", "more/1"]]
    assert (box.models.offers["right"].state, box.models.offers["right"].reason) == (
        "failed",
        ModelReason("failed", "right/1: no tensors"),
    )
    assert box.written.complaints == [("model_failed", "right is not served: right/1: no tensors")]
    orders = [[d.version.model for d in e.models] for e in box.written.events if isinstance(e, r.ModelsChanged)]
    assert orders == [["left", "more"]] * 2, "once before they are measured, and once after"


async def test_a_load_measures_a_model_again_that_was_measured_in_little_once_more_is_free(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.tables.add(table("left", "right"))
    box.measured.more = {"left"}
    for model in ("left", "right"):
        task = await box.loading(model)
        box.loader.served(r.VersionServed(box.in_force(model)))
        box.planner.decide()
        await task
    assert box.measured.asked == [["left/1"]]


async def test_a_load_ends_when_its_version_serves(tmp_path: Path) -> None:
    box = Box(tmp_path)
    task = await box.loading("left")
    assert not task.done()
    assert box.measured.asked == [["left/1"]]
    box.loader.served(r.VersionServed(box.in_force("left")))
    box.planner.decide()
    await task
    assert box.models.offers["left"].state == "offered"


async def test_a_load_of_what_serves_already_changes_nothing(tmp_path: Path) -> None:
    box = Box(tmp_path, measure=False)
    box.layout = layout(await asyncio.to_thread(box.repository.resolve, "left"))
    await box.loader.load("left", {})
    assert box.measured.asked == []


async def test_a_load_waits_until_the_events_before_it_are_decided_on(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.planner.view, box.planner.idle = View(refused={"left": Refusal("not_measured", "left")}), False
    task = await box.loading("left")
    assert not task.done(), "what is refused now is not this version yet"
    box.planner.view, box.planner.idle = View(refused={"left": Refusal("failing", "left", said="too slow")}), True
    box.planner.decide()
    with pytest.raises(Unavailable, match="too slow"):
        await task
    assert "left" not in box.models.offers, "it was not served before"


async def test_a_version_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    box = Box(tmp_path)
    task = await box.loading("left")
    box.loader.served(r.VersionServed(box.in_force("left")))
    box.planner.decide()
    await task
    first = box.in_force("left")
    box.layout = layout(first)
    echo(box.folder, "left", ("1", "2"))
    task = await box.loading("left")
    assert box.in_force("left").version == "2"
    box.loader.version_failed(r.VersionFailed(box.in_force("left"), "no memory", first))
    box.planner.decide()
    with pytest.raises(WorkerFailed, match="no memory; version 1 goes on"):
        await task
    assert box.in_force("left") == first
    last_order = [e for e in box.written.events if isinstance(e, r.ModelsChanged)][-1]
    assert [d.version for d in last_order.models] == [first], "the reorganiser may know the other since it failed"


async def test_what_becomes_of_another_version_ends_no_load(tmp_path: Path) -> None:
    box = Box(tmp_path)
    task = await box.loading("left")
    mine, other = box.in_force("left"), replace(box.in_force("left"), version="7")
    box.loader.served(r.VersionServed(other))
    box.loader.version_failed(r.VersionFailed(other, "no memory"))
    box.loader.version_failed(r.VersionFailed(other, "no memory", replace(other, version="6")))
    box.planner.decide()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    assert box.in_force("left") == mine
    box.loader.served(r.VersionServed(replace(mine, slo_ms=7.0)))
    box.planner.decide()
    await task


async def test_a_served_model_whose_files_become_bad_is_offered_on(tmp_path: Path) -> None:
    box = Box(tmp_path)
    task = await box.loading("left")
    box.loader.served(r.VersionServed(box.in_force("left")))
    box.planner.decide()
    await task
    echo(box.folder, "left", ("1", "2"))
    box.bad = {"left/2"}
    await box.loader.take_in(["left"])
    offer = box.models.offers["left"]
    assert (offer.state, offer.reason) == ("offered", ModelReason("failed", "left/2: no tensors"))
    assert box.in_force("left").version == "1"


async def test_a_file_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.bad = {"left/1"}
    with pytest.raises(WeightsError):
        await box.loader.load("left", {})
    assert box.models.offers == {}
    box.models.offers["left"] = Offer("left")
    with pytest.raises(WeightsError):
        await box.loader.load("left", {})
    assert (box.models.offers["left"].state, box.models.offers["left"].reason) == (
        "failed",
        ModelReason("failed", "left/1: no tensors"),
    )


async def test_an_unload_ends_the_wait_for_a_placement(tmp_path: Path) -> None:
    box = Box(tmp_path)
    task = await box.loading("left")
    await box.loader.unload("left")
    box.planner.decide()
    with pytest.raises(Conflict, match="left was unloaded"):
        await task
    with pytest.raises(NotFound, match="left"):
        await box.loader.unload("left")


async def test_an_unload_returns_when_nothing_is_routed_to_the_model(tmp_path: Path) -> None:
    box = Box(tmp_path)
    version = await asyncio.to_thread(box.repository.resolve, "left")
    box.models.offers["left"], box.layout = Offer("left", "offered", version=version), layout(version)
    task = asyncio.create_task(box.loader.unload("left"))
    await box.planner.waited_for.wait()
    assert box.written.events[-1].models == ()
    box.layout = Layout(2, (), ())
    box.planner.decide()
    await task


async def test_a_model_of_an_application_is_not_unloaded(tmp_path: Path) -> None:
    tensor = {"datatype": "FP32", "shape": [-1, 4]}
    described = {
        "platform": "pipeline", "slo_ms": 1000, "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", "from": "one.x", **tensor}],
        "stages": [{"name": "one", "model": "left", "inputs": {"x": "x"}}],
    }  # fmt: skip
    box = Box(tmp_path)
    box.models.offers["left"] = Offer("left")
    box.models.offers["twice"] = Offer("twice", application=parse_application("twice", described))
    with pytest.raises(InvalidValue, match="twice does"):
        await box.loader.unload("left")
    assert "left" in box.models.offers
