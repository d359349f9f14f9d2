"""The reorganiser's events of the models to serve and of their latencies."""

from __future__ import annotations

from pathlib import Path

from serving_parts import CAPS, Written, table, version

from edge.core.clock import ManualClock
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_tables import DeviceTables
from edge.settings import ModelDemand, ServingPlanning
from scheduler.gpulets import reorganiser_events as r


class Box:
    def __init__(self, folder: Path) -> None:
        self.written = Written()
        self.planning = ServingPlanning()
        self.tables = DeviceTables(folder, CAPS, self.written.complain)
        self.models = OfferedModels(self.tables, lambda: self.planning, ManualClock(3.0), self.written.events.append)
        self.models.offers["a"] = Offer("a", version=version("a", rate=2.0))
        self.models.offers["b"] = Offer("b")


async def test_models_with_a_version_are_reported_with_the_operator_s_settings(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.planning = ServingPlanning(models={"a": ModelDemand(rate=9.0, slo_ms=40.0)})
    await box.tables.add(table("a", "other"))
    box.models.changed()
    (event,) = box.written.events
    assert isinstance(event, r.ModelsChanged)
    assert [(d.version.model, d.rate, d.served.slo_ms) for d in event.models] == [("a", 9.0, 40.0)]
    assert event.table is not None
    assert set(event.table.latency_ms) == {"a"}, "only what is served"
    assert event.at_s == 3.0


async def test_latencies_are_reported_once(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.models.latencies_changed()
    assert box.written.events == [], "nothing is known"
    await box.tables.add(table("a"))
    box.models.latencies_changed()
    box.models.latencies_changed()
    assert box.written.events == [r.TableChanged(3.0, box.written.events[0].table)]
    await box.tables.add(table("a", ms=2.0))
    box.models.changed()
    box.models.latencies_changed()
    assert [type(e) for e in box.written.events] == [r.TableChanged, r.ModelsChanged]


async def test_latencies_that_change_back_before_they_are_planned_with_are_reported(tmp_path: Path) -> None:
    # The last order to the reorganiser counts, not the state that it has come to.
    box = Box(tmp_path)
    for ms in (1.0, 2.0, 1.0):
        await box.tables.add(table("a", ms=ms))
        box.models.latencies_changed()
    assert [e.table.solo_ms("a", 50, 1) for e in box.written.events] == [2.0, 4.0, 2.0]
