"""The watch over drift: what slower batches lead to, and which reports tell nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from serving_parts import CAPS, Written, layout, table, version

from edge.core.clock import ManualClock
from edge.core.front_messages import BatchTraffic, ExecutorTraffic, Layout, StageTraffic, TrafficReport
from edge.core.serving_reasons import Refusal
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_drift import DriftWatch
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_status import View
from edge.runtime.serving_tables import DeviceTables
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r


class Again:
    """Takes the place of Measuring: the models that shall be measured again."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def again(self, models: list[str]) -> None:
        self.asked.append(models)


class Box:
    """Model a is planned with batches of 5 ms on 20 % of the device."""

    def __init__(self, folder: Path) -> None:
        self.written, self.again = Written(), Again()
        self.tables = DeviceTables(folder, CAPS, self.written.complain)
        self.tables.use(table("a"))
        self.models = OfferedModels(self.tables, ServingPlanning, ManualClock(), self.written.events.append)
        self.models.offers["a"] = Offer("a", version=version("a", max_batch=2))
        self.models.changed()
        self.written.events.clear()
        self.view, self.layout = View(table=table("a")), layout(version("a"), number=4)
        self.watch = DriftWatch(
            self.models, self.tables, self.again, lambda: self.view, self._layout, self.written.note,  # type: ignore[arg-type]
            self.written.events.append,
        )  # fmt: skip

    def _layout(self) -> Layout | None:
        return self.layout

    def reports(self, ms: float, seconds: int = 30, number: int = 4) -> None:
        """A report each second of 20 batches that took `ms` each."""
        busy = BatchTraffic("a", 20, 20, 20 * ms / 1000)
        for second in range(seconds):
            executors = (ExecutorTraffic("executor-0", 20, 20, busy.busy_s, True, (busy,)),)
            self.watch.report(float(second), TrafficReport(float(second), 1.0, number, (), executors))

    def stage_reports(self, p99_ms: float, seconds: int = 32, model: str = "a") -> None:
        """A report each second of a stage with a budget of 20 ms."""
        stage = StageTraffic("app", "find", model, 20, 20, took_ms=(5.0, p99_ms), budget_ms=20.0)
        for second in range(seconds):
            self.watch.report(float(second), TrafficReport(float(second), 1.0, 4, (), (), (), (stage,)))


def test_slower_batches_are_reckoned_with_and_measured_again(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.reports(10.0)
    assert box.tables.table is not None
    assert box.tables.table.solo_ms("a", 20, 1) == 10.0
    assert [type(e) for e in box.written.events] == [r.TableChanged]
    assert box.again.asked == [["a"]]
    ((kind, data),) = box.written.notes
    assert (kind, data["model"], data["share"]) == ("serving.drift", "a", 20)


def test_a_model_refused_for_its_slow_times_is_tried_again(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.reports(10.0)
    box.view = replace(box.view, refused={"a": Refusal("no_room", "a")})
    box.written.events.clear()
    for second in (500.0, 700.0):  # after 30 s of slow batches there are none
        box.watch.report(second, TrafficReport(second, 1.0, 4, (), ()))
    assert box.tables.table is not None
    assert box.tables.table.solo_ms("a", 20, 1) == 5.0, "as measured"
    assert [type(e) for e in box.written.events] == [r.TableChanged]
    assert [data.get("share") for _, data in box.written.notes] == [20, None]
    assert "tried again" in box.written.notes[1][1]["message"]


def test_batches_as_planned_change_nothing(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.reports(5.0)
    assert (box.written.events, box.written.notes, box.again.asked) == ([], [], [])


def test_reports_tell_nothing_while_partitions_are_not_as_planned(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.reports(10.0, number=3)
    box.view = replace(box.view, in_flight=True)
    box.reports(10.0)
    box.view = View()
    box.reports(10.0)
    assert (box.written.events, box.written.notes, box.again.asked) == ([], [], [])


def test_the_table_of_the_plan_is_compared_with_not_the_one_that_is_on_its_way(tmp_path: Path) -> None:
    # The plan in force still reckons with 5 ms: a table of 10 ms that it has not come to is no reason for less.
    box = Box(tmp_path)
    box.tables.use(table("a", ms=2.0))
    box.reports(10.0)
    assert box.tables.table is not None
    assert box.tables.table.solo_ms("a", 20, 1) == 20.0


def test_a_stage_that_leaves_its_budget_is_planned_slower_and_the_journal_says_so(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.stage_reports(30.0)
    (event,) = box.written.events
    assert isinstance(event, r.StagesDrifted)
    assert (round(event.factors["a"], 6), len(event.reasons)) == (1.5, 1)
    assert box.written.notes == [("serving.drift", {"message": event.reasons[0].words()})]
    assert (event.reasons[0].application, event.reasons[0].stage) == ("app", "find")


def test_stages_of_models_that_cannot_do_better_tell_nothing(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.view = replace(box.view, capped={"a": 0.5})
    box.stage_reports(30.0)
    assert box.written.events == []


def test_what_is_slower_as_a_batch_is_not_counted_for_its_stages_too(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.stage_reports(30.0)
    box.reports(10.0)
    assert [type(e) for e in box.written.events] == [r.StagesDrifted, r.TableChanged, r.StagesDrifted]
    assert box.written.events[-1] == r.StagesDrifted(box.written.events[-1].at_s, {})


def test_with_measured_latencies_the_tables_alone_count_until_it_watches_again(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.stage_reports(30.0)
    box.reports(10.0)
    box.stage_reports(30.0)
    slower = box.written.events[-1]
    assert isinstance(slower, r.StagesDrifted)
    assert slower.factors
    box.written.events.clear()

    box.watch.follow(100.0, watched=False)
    box.reports(20.0)
    assert box.tables.table is not None
    assert box.tables.table.solo_ms("a", 20, 1) == 5.0
    changed, drifted = box.written.events
    assert isinstance(changed, r.TableChanged)
    assert changed.table.solo_ms("a", 20, 1) == 5.0
    assert drifted == r.StagesDrifted(100.0, {})
    assert box.again.asked == [["a"]], "measured again while nothing was watched"

    box.written.events.clear()
    box.watch.follow(200.0, watched=True)
    assert box.tables.table.solo_ms("a", 20, 1) == 10.0
    assert [type(e) for e in box.written.events] == [r.TableChanged, r.StagesDrifted]
    assert box.written.events[-1] == r.StagesDrifted(200.0, slower.factors)
    box.watch.follow(200.0, watched=True)
    assert len(box.written.events) == 2, "nothing changed"
