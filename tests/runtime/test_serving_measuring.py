"""Measuring of served models: in the share that is free, one call after the other, with reasons where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from serving_parts import CAPS, Written, table, version

from edge.core.clock import ManualClock
from edge.core.configs import InferenceConfig
from edge.core.errors import WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.model_reasons import ModelReason
from edge.core.profiles import InferencePoint
from edge.core.serving import DeviceTable
from edge.core.window import StreamProblem, WindowProblem
from edge.runtime.camera import profile_from_points
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_measuring import Measuring
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_profiler import ProfileOptions
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_tables import DeviceTables
from edge.settings import ServingPlanning, ServingSettings
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.tenant_fit import ServingBudget

PROFILE = profile_from_points((InferencePoint(InferenceConfig(5.0, 1.0), 0.2, 1.0),))
WINDOW = WindowProblem("w", 1.0, 100.0, (StreamProblem("gate", 0.6, PROFILE, ()),))


@dataclass
class Profiler:
    """Finds 1 ms of work in each model; those in `failed` it cannot measure."""

    meanwhile: Callable[[], None]
    failed: Mapping[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    broken: bool = False

    async def profile(self, versions: Sequence[ServedVersion], base: DeviceTable | None = None) -> DeviceTable:
        self.asked.append(tuple(v.model for v in versions))
        self.meanwhile()
        if self.broken:
            raise WorkerFailed("no worker")
        return table(*(v.model for v in versions if v.model not in self.failed))


class Box:
    """Serving may take 0.6 of the device; models a and b are offered."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.written, self.reserved = Written(), list[float]()
        events = self.written.events
        clock = ManualClock()
        self.tables = DeviceTables(folder, CAPS, self.written.complain)
        self.models = OfferedModels(self.tables, ServingPlanning, clock, events.append)
        self.shares = ServingShares(clock, events.append, self.reserved.append)
        self.shares.allow(0.6, 0.6, ServingPlanning())
        self.versions = [version("a"), version("b")]
        self.offers = [Offer(v.model, version=v) for v in self.versions]
        self.models.offers.update({o.name: o for o in self.offers})
        self.states: list[str] = []
        self.profiler = Profiler(lambda: self.states.append(self.offers[0].state))
        self.options: list[ProfileOptions] = []
        self.cameras = CamerasNow(1.0)
        self.measuring = Measuring(
            ServingSettings.model_validate(settings), self.models, self.tables, self.shares, lambda: self.cameras,
            self._made, self.written.note, self.written.complain, self.written.spawn,
        )  # fmt: skip

    def _made(self, options: ProfileOptions, say: Callable[[str], None]) -> Profiler:
        self.options.append(options)
        say("a: 1 ms")
        return self.profiler


async def test_what_is_free_is_held_while_models_are_measured(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.shares.hold(0.25)
    await box.measuring.measure(box.versions)
    assert [o.most_share for o in box.options] == [35]
    assert box.reserved == [0.25, 0.6, 0.25]
    assert box.states == ["measuring"]
    assert [(o.state, o.reason) for o in box.offers] == [("offered", None), ("offered", None)]
    assert box.tables.knows("a")
    assert [type(e) for e in box.written.events[-2:]] == [r.ServingCapacityChanged, r.TableChanged]
    assert box.written.notes == [("serving.measuring", {"message": "a: 1 ms"})]


async def test_in_too_little_of_the_device_nothing_is_measured(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.shares.hold(0.56)
    await box.measuring.measure(box.versions)
    assert box.options == []
    assert box.offers[0].reason == ModelReason("little_share", numbers={"share": 0.04})
    assert box.offers[0].state == "offered"


async def test_who_loads_a_model_where_tenants_have_the_device_is_told_in_how_much_it_was_measured_and_what_to_do(
    tmp_path: Path,
) -> None:
    box = Box(tmp_path)
    box.profiler.failed = {"b": "it crashes"}
    box.shares.hold(0.55)
    box.shares.budgets.put((ServingBudget("plates", 0.55, frozenset({"a"})),), 0.6)
    await box.measuring.measure(box.versions)
    assert [o.most_share for o in box.options] == [5]
    told = dict(box.written.complaints)["measured_in_little"]
    assert told.startswith("a: measured in 5 % of the device at most")
    assert "load it again" in told
    assert "magpie profile" in told
    assert not box.measuring.could_have_more("a")
    box.shares.budgets.put((), None)
    box.shares.hold(0.25)
    assert [m for m in ("a", "b") if box.measuring.could_have_more(m)] == ["a"]
    await box.measuring.measure(box.versions[:1])
    assert [o.most_share for o in box.options] == [5, 35]
    assert not box.measuring.could_have_more("a")


async def test_where_tenants_leave_too_little_to_measure_the_operator_is_told_what_to_do(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.shares.hold(0.56)
    box.shares.budgets.put((ServingBudget("plates", 0.56, frozenset({"a"})),), 0.6)
    await box.measuring.measure(box.versions)
    ((code, words),) = box.written.complaints
    assert code == "model_not_measured"
    assert words.startswith("a, b: only 4 % of the device are free")
    assert "magpie profile" in words


async def test_without_tenants_little_is_no_notice(tmp_path: Path) -> None:
    for held in (0.55, 0.56):
        box = Box(tmp_path)
        box.shares.hold(held)
        await box.measuring.measure(box.versions)
        assert box.written.complaints == []
        assert not box.measuring.could_have_more("a")


async def test_a_model_that_cannot_be_measured_is_offered_with_the_reason(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.profiler.failed = {"b": "it crashes"}
    await box.measuring.measure(box.versions)
    assert [o.reason for o in box.offers] == [None, ModelReason("not_measurable", "it crashes")]
    assert box.written.complaints == [("model_not_measured", "b: it crashes")]


async def test_a_profiler_that_fails_gives_the_share_back(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.profiler.broken = True
    await box.measuring.measure(box.versions)
    assert box.reserved[-1] == 0.0
    assert box.shares.measuring == 0.0
    assert [(o.state, o.reason) for o in box.offers] == [("offered", ModelReason("not_measurable", "no worker"))] * 2
    assert box.written.complaints == [("model_not_measured", "a, b: no worker")]


async def test_little_time_leaves_out_what_is_measured_side_by_side(tmp_path: Path) -> None:
    for seconds, pairs in ((60, False), (170, True)):
        box = Box(tmp_path, measure_s=seconds)
        await box.measuring.measure(box.versions)
        (options,) = box.options
        assert (options.budget_s, bool(options.pairs)) == (seconds, pairs)


@pytest.mark.parametrize("why", ["cameras", "held", "off"])
async def test_models_are_measured_again_only_where_no_work_is_held_up(tmp_path: Path, why: str) -> None:
    box = Box(tmp_path, measure=why != "off")
    await box.tables.add(table("a"))
    if why == "cameras":
        box.cameras = CamerasNow(1.0, WINDOW)
    if why == "held":
        box.shares.hold(0.2)  # 40 % are free; it was measured in up to 50 %
    box.measuring.again(["a", "gone"])
    assert box.written.spawned == []
    assert [code for code, _ in box.written.complaints] == ["serving_drift"]
    assert box.written.complaints[0][1].startswith("a: ")


async def test_models_are_measured_again_in_the_background(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.tables.add(table("a"))
    box.measuring.again(["a", "gone"])
    await box.written.finish()
    assert box.profiler.asked == [("a",)]
    assert box.written.complaints == []
