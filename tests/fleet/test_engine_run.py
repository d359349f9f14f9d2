"""The work of the process of a fleet's engine, on an engine in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_kit import boxes
from virtual_engine_kit import VirtualEngine

from edge.fleet import engine_messages as msg
from edge.fleet.engine_cost import MEASURE_S, IdleCost, ProcessesNow, processes_now
from edge.fleet.engine_run import EngineRun
from edge.settings import FleetJobsSettings, parse


def given(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "demand": {"cpu": 1}, "duration_s": 4.0} | fields


class Run:
    """A run on boxes b0, b1 with the messages that it sent."""

    def __init__(self, **settings: Any) -> None:
        self.engine = VirtualEngine(boxes(2))
        self.sent: list[Any] = []
        self.known: list[Any] = []
        values = parse(FleetJobsSettings, settings)
        self.run = EngineRun(values, self.engine, lambda: self.engine.now_s, self.sent.append, self.known.append)
        rows = [{"name": b.name, "resources": b.resources, "labels": b.labels} for b in boxes(2)]
        self.run.take(msg.EngineBoxes(rows))

    def job(self, value: dict[str, Any], withdrawn: bool = False, **more: Any) -> None:
        self.run.take(msg.EngineJob(value, more.get("done", {}), more.get("kept", {}), withdrawn))

    def until(self, at_s: float) -> None:
        self.run.turn(0.0)
        while self.engine.now_s < at_s:
            self.run.turn(min(0.25, at_s - self.engine.now_s))

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


@pytest.fixture
def run() -> Run:
    return Run(tenants=[{"name": "night", "weight": 2}])


def test_jobs_are_answered_kept_refused_and_over(run: Run) -> None:
    run.job(given("two", tasks=2, tenant="night", checkpoints=True, work={"program": "wait", "arguments": {
        "seconds": 4.0, "checkpoint_s": 1.0}}))  # fmt: skip
    run.job(given("huge", demand={"cpu": 99}))
    run.until(1.5)
    now = run.of(msg.EngineNow)[-1]
    assert now.boxes == ["b0", "b1"]
    assert now.running == {"two": {"0": "b0", "1": "b1"}}
    assert [(t["tenant"], t["used"]) for t in now.tenants] == [("night", 2.0)]
    run.until(6.0)
    assert [[(row["name"], row["resources"]) for row in rows] for rows in run.known] == [
        [("b0", {"cpu": 4.0}), ("b1", {"cpu": 4.0})]
    ]
    assert [(a.job, a.task, a.answer) for a in run.of(msg.EngineAnswered)] == [("two", 0, "done"), ("two", 1, "done")]
    assert {(k.job, k.task) for k in run.of(msg.EngineCheckpoint)} == {("two", 0), ("two", 1)}
    assert [(r.job, r.why["code"]) for r in run.of(msg.EngineRefused)] == [("huge", "too_large")]
    assert [o.job for o in run.of(msg.EngineJobOver)] == ["two"]
    run.sent.clear()
    run.until(20.0)
    assert run.sent == [], "it sends nothing while nothing happens"
    run.engine.lose("b1")
    run.until(22.0)
    run.engine.join("b1")
    run.until(24.0)
    assert [now.boxes for now in run.of(msg.EngineNow)] == [["b0"], ["b0", "b1"]]


def test_jobs_are_stopped_and_forgotten_and_failures_are_reported(run: Run) -> None:
    run.engine.raises["broken"] = 1
    run.job(given("broken"))
    run.job(given("long", duration_s=None))
    run.until(1.0)
    (raised,) = run.of(msg.EngineRaised)
    assert (raised.job, raised.failures, raised.why) == ("broken", 1, "it raised")
    for job in ("broken", "long"):
        run.run.take(msg.EngineWithdraw(job))
    run.until(2.0)
    assert sorted(o.job for o in run.of(msg.EngineJobOver)) == ["broken", "long"]
    for job in ("broken", "long"):
        run.run.take(msg.EngineForget(job))
    run.until(3.0)
    run.job(given("long"))
    run.until(10.0)
    assert [a.job for a in run.of(msg.EngineAnswered)] == ["long"]


def test_the_jobs_of_an_earlier_run_is_taken_up(run: Run) -> None:
    run.job(given("first"), done={"0": "b1"})
    run.job(given("gone", duration_s=None), withdrawn=True)
    run.job(given("reads", near=["first"]))
    run.job(given("stuck", after=["gone"]))
    run.job(given("odd", work={"program": "no-such-program"}))
    run.until(1.5)
    assert [(task.at.job, task.at.box) for task in run.engine.launches] == [("reads", "b1")]
    assert {o.job for o in run.of(msg.EngineJobOver)} == {"first", "gone"}
    assert [(r.job, r.why["code"]) for r in run.of(msg.EngineRefused)] == [("stuck", "target_withdrawn")]
    assert "no-such-program" in run.of(msg.EngineRaised)[0].why


def test_an_engine_that_died_is_reported(run: Run) -> None:
    run.job(given("one"))
    run.until(1.0)
    run.engine.die()
    run.run.turn(0.0)
    assert run.run.died == "killed"


def test_the_cost_is_reported_when_no_task_ran_for_a_minute() -> None:
    looks = [
        ProcessesNow(9, 600.0, 10.0), ProcessesNow(9, 610.0, 12.0), ProcessesNow(9, 610.0, 13.0, busy=True),
        ProcessesNow(9, 610.0, 14.0), ProcessesNow(8, 620.0, 16.0),
    ]  # fmt: skip
    cost = IdleCost(lambda: looks.pop(0))
    assert cost.look(0.0) is None
    assert cost.look(MEASURE_S - 1.0) is None
    assert cost.look(2 * MEASURE_S) == msg.EngineCost(9, 610.0, 1.0)
    assert [cost.look((3 + n) * MEASURE_S) for n in range(2)] == [None, None], "a task ran"
    assert cost.look(5 * MEASURE_S) == msg.EngineCost(8, 620.0, 2.0)
    now = processes_now()
    assert now.processes >= 1
    assert now.memory_mb > 1.0
    assert not now.busy
