"""The fleet's driver with an engine in virtual time: its logs are judged by the project's checker."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from fleet_kit import boxes, random_scenario, scenario
from virtual_engine_kit import START_S, VirtualEngine

from edge.core import engine as port
from edge.core.errors import Conflict, InvalidValue
from edge.core.fleet import FleetBox, FleetJob, SpatialRule, TaskAt
from edge.engines.driver import PROGRAM_PACE, FleetDriver, JobRefused, TaskCheckpoint, fleet_events
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import FleetScenario, scenario_from_json
from scheduler.fleet.controller import FleetController
from scheduler.fleet.events import BoxReported


class Played:
    """A scenario that a driver plays on a virtual engine; `trouble` is done to the engine before each step."""

    def __init__(self, given: FleetScenario, trouble: Callable[[Played], None] = lambda played: None) -> None:
        self.given, self.trouble = given, trouble
        self.engine = VirtualEngine(list(given.boxes))
        self.rows: list[dict[str, Any]] = []
        self.head = True
        controller = FleetController(tenants=given.tenants, queues=given.queues, placement=given.placement)
        self.controller = controller
        self.answers: list[tuple[TaskAt, Any]] = []
        self.driver = FleetDriver(
            controller,
            self.engine,
            given.boxes,
            lambda: self.engine.now_s,
            self.rows.append,
            lambda task, answer: self.answers.append((task, answer)),
        )

    def run(self, seconds: float) -> None:
        """Play all that happens, then go on for so long."""
        agenda: list[tuple[float, Callable[[], None]]] = [
            (a.at_s, lambda job=a.job: self.submit(job))
            for a in self.given.jobs  # type: ignore[misc]
        ]
        agenda += [
            (f.at_s, lambda f=f: self.strike(f.kind, f.box))
            for f in self.given.faults
            if "cut" not in f.kind and "heal" not in f.kind  # type: ignore[misc]
        ]
        for at_s, act in sorted(agenda, key=lambda entry: entry[0]):
            self.pass_time(at_s)
            act()
        self.pass_time(self.engine.now_s + seconds)
        self.rows.append({"t": self.engine.now_s, "event": "end"})

    def pass_time(self, until_s: float) -> None:
        self.step(0.0)
        while self.engine.now_s < until_s:
            self.step(min(1.0, until_s - self.engine.now_s))

    def step(self, timeout_s: float) -> None:
        self.trouble(self)
        self.driver.step(timeout_s, decide=self.head)

    def submit(self, job: FleetJob) -> None:
        arguments = {"seconds": job.duration_s, "checkpoint_s": 1.0 if job.checkpoints else None}
        self.driver.submit(job, port.EngineWork("wait", arguments))

    def strike(self, kind: str, box: str) -> None:
        self.step(0.0)
        if kind == "drain":
            self.driver.drain(box)
            return
        self.rows.append({"t": self.engine.now_s, "event": kind} | ({"box": box} if box else {}))
        if kind == "box_down":
            self.engine.lose(box)
        elif kind == "box_up":
            self.engine.join(box)
        else:
            self.head = kind == "head_up"


def judge(played: Played, *spared: str) -> None:
    verdict = check_log(played.given, played.rows, 0.05)
    assert verdict.counts.keys() <= set(spared), verdict.to_json()
    assert played.controller.waiting() == {}


@pytest.mark.parametrize("seed", range(12))
def test_random_fleets_keep_every_rule_on_an_engine(seed: int) -> None:
    played = Played(scenario_from_json(random_scenario(seed)))
    played.run(200.0)
    judge(played)


@pytest.mark.parametrize("seed", range(12))
def test_boxes_that_give_no_answer_and_workers_that_die_break_no_rule(seed: int) -> None:
    rng = random.Random(seed)
    value = random_scenario(seed) | {"faults": []}
    finite = {job["id"] for job in value["jobs"] if job["duration_s"] is not None}

    def trouble(played: Played) -> None:
        engine = played.engine
        if engine.now_s > 80.0:
            engine.mute.clear()
            return
        if rng.random() < 0.05:
            engine.mute ^= {rng.choice(sorted(engine.fleet))}
        if engine.running and rng.random() < 0.03:
            engine.lose_task(rng.choice(sorted(engine.running, key=lambda at: (at.job, at.task))))

    played = Played(scenario_from_json(value), trouble)
    played.run(300.0)
    assert {row["job"] for row in played.rows if row["event"] == "ended"} == finite - {"too-large"}
    # The rest of a gang cannot be stopped on a box that does not answer, and starts before its lost part is noticed.
    judge(played, "gang")


def job(name: str, **fields: Any) -> FleetJob:
    return FleetJob(name, {"cpu": 1.0}, **{"duration_s": 4.0, **fields})


def played(number: int = 2) -> Played:
    found = Played(scenario_from_json(scenario(boxes(number), [])))
    found.step(0.0)
    return found


def test_lost_work_goes_on_from_its_last_checkpoint() -> None:
    run = played()
    run.submit(job("fit", checkpoints=True))
    run.pass_time(3.0)
    (first,) = run.engine.running
    run.engine.lose_task(first)
    run.pass_time(3.5)
    (again,) = run.engine.running.values()
    assert again.at.epoch == first.epoch + 1
    assert again.work.arguments == {"seconds": 4.0, "checkpoint_s": 1.0, "done_s": 2.0}
    run.pass_time(6.0)
    assert [row["event"] for row in run.rows if "task" in row] == [
        "placed", "started", "evicted", "placed", "started", "ended",
    ]  # fmt: skip
    assert run.engine.running == {}
    assert run.answers == [(again.at, "done")]


def test_a_program_that_raises_is_tried_again_after_growing_pauses() -> None:
    run = played(1)
    run.engine.raises["fit"] = 3
    run.submit(job("fit"))
    run.pass_time(60.0)
    placed = [row["t"] for row in run.rows if row["event"] == "placed"]
    pauses = [round(b - a - START_S, 3) for a, b in itertools.pairwise(placed)]
    assert pauses == [PROGRAM_PACE.pause_s(n, 0.0) for n in (1, 2, 3)] == [5.0, 10.0, 20.0]
    assert [row["event"] for row in run.rows][-1] == "ended"


def test_a_refused_launch_goes_elsewhere_and_its_box_is_used_again_once_it_answers() -> None:
    run = played()
    run.engine.mute.add("b0")
    run.submit(job("camera", duration_s=None))
    run.submit(job("other", duration_s=None))
    run.pass_time(10.0)
    assert {at.box for at in run.engine.running} == {"b1"}
    run.engine.mute.clear()
    run.pass_time(13.0)
    for n in range(3):
        run.submit(job(f"more-{n}", duration_s=None))
    run.pass_time(14.0)
    assert {at.box for at in run.engine.running} == {"b0", "b1"}


def test_an_order_to_stop_that_got_no_answer_is_given_again() -> None:
    run = played()
    run.submit(job("camera", duration_s=None))
    run.pass_time(1.0)
    (at,) = run.engine.running
    run.engine.mute.add(at.box)
    run.driver.drain(at.box)
    run.pass_time(10.0)
    assert at in run.engine.running
    run.engine.mute.clear()
    run.driver.drain(at.box)
    run.pass_time(20.0)
    assert {other.box for other in run.engine.running} == {"b0", "b1"} - {at.box}


def test_another_engine_takes_the_place_of_one_that_died() -> None:
    run = played()
    run.submit(job("camera", duration_s=None))
    run.pass_time(1.0)
    run.engine.die()
    run.pass_time(2.0)
    assert run.driver.engine_died == "killed"
    assert run.engine.running == {}
    after = VirtualEngine(list(run.given.boxes))
    after.now_s, run.engine = 2.0, after
    run.driver.go_on_with(after)
    run.pass_time(3.0)
    assert run.driver.engine_died is None
    assert [at.job for at in after.running] == ["camera"]


def test_without_a_head_events_are_noted_and_nothing_is_decided() -> None:
    run = played()
    run.submit(job("short"))
    run.pass_time(1.0)
    run.head = False
    run.submit(job("late"))
    run.pass_time(10.0)
    assert [(row["event"], row["job"]) for row in run.rows] == [
        ("submitted", "short"), ("placed", "short"), ("started", "short"), ("submitted", "late"), ("ended", "short"),
    ]  # fmt: skip
    run.head = True
    run.pass_time(11.0)
    assert [at.job for at in run.engine.running] == ["late"]


def test_a_job_that_no_engine_could_run_is_refused_at_once() -> None:
    run = played()
    with pytest.raises(InvalidValue, match=r"work\.program"):
        run.driver.submit(job("none"), port.EngineWork("none"))
    run.submit(job("twice"))
    with pytest.raises(Conflict, match="twice"):
        run.submit(job("twice"))


def test_a_box_counts_with_no_more_than_its_engine_has_of_it() -> None:
    known = {"b0": FleetBox("b0", {"cpu": 8.0, "seat": 1.0}, {"rack": "r1"})}
    there = port.EngineBoxJoined(1.0, port.EngineBox("b0", {"cpu": 4.0, "at:x": 1.0}, {}))
    (report,) = fleet_events(there, known)
    assert report == BoxReported(1.0, FleetBox("b0", {"cpu": 4.0, "seat": 1.0}, {"rack": "r1"}))
    (stranger,) = fleet_events(there, {})
    assert stranger == BoxReported(1.0, FleetBox("b0", {"cpu": 4.0}))


def test_a_withdrawn_job_is_stopped_also_where_it_waits_after_a_failure() -> None:
    run = played()
    run.engine.raises["broken"] = 9
    for name in ("broken", "long"):
        run.submit(job(name, duration_s=None))
    run.pass_time(1.0)
    assert [at.job for at in run.driver.running] == ["long"]
    for name in ("broken", "long", "nobody"):
        run.driver.withdraw(name)
    run.pass_time(2.0)
    assert run.driver.running == []
    assert run.engine.running == {}
    assert run.controller.over("broken")
    assert run.controller.over("long")
    run.pass_time(PROGRAM_PACE.first_s + 2.0)
    assert [task.at.job for task in run.engine.launches] == ["broken", "long"], "it is not tried again"
    for name in ("broken", "long"):
        run.driver.forget(name)
    run.step(0.0)
    assert run.controller.remembers() == []
    run.submit(job("long"))
    run.pass_time(20.0)
    assert [task.job for task, _ in run.answers] == ["long"]


def test_only_the_boxes_that_are_drained_now_take_no_work() -> None:
    run = played()
    run.driver.drain_only(["b0"])
    run.driver.drain_only(["b0"])
    run.submit(job("one"))
    run.step(0.0)
    assert [at.box for at in run.driver.running] == ["b1"]
    run.engine.lose("b0")
    run.step(0.0)
    run.engine.join("b0")
    run.step(0.0)
    run.submit(job("two"))
    run.step(0.0)
    assert {at.box for at in run.driver.running} == {"b1"}, "a box that begins anew is still drained"
    assert [row["event"] for row in run.rows].count("drain") == 1
    run.driver.drain_only([])
    run.submit(FleetJob("three", {"cpu": 3.0}, duration_s=4.0))
    run.step(0.0)
    assert "b0" in {at.box for at in run.driver.running}


def test_a_job_goes_on_under_another_driver() -> None:
    run, notes = Played(scenario_from_json(scenario(boxes(2), []))), list[Any]()
    run.driver = FleetDriver(run.controller, run.engine, (), lambda: run.engine.now_s, noted=notes.append)
    run.driver.know(boxes(3))
    work = port.EngineWork("wait", {"seconds": 4.0, "checkpoint_s": 1.0})
    run.driver.submit(job("half", tasks=3), work, {0: "b1"}, {1: {"done_s": 3.0}})
    only_there = SpatialRule(zone={"box": ("b2",)})
    run.driver.submit(job("there", rule=only_there), work)
    run.driver.submit(job("nowhere", rule=SpatialRule(zone={"box": ("b9",)})), work)
    run.pass_time(1.0)
    arguments = {task.at.task: task.work.arguments for task in run.engine.launches if task.at.job == "half"}
    assert arguments == {1: work.arguments | {"done_s": 3.0}, 2: work.arguments}
    assert [(n.job, n.why.code) for n in notes if isinstance(n, JobRefused)] == [("nowhere", "no_box_in_zone")]
    assert run.controller.waiting()["there"].code == "away", "its box is on its way"
    run.pass_time(3.0)
    kept = next(note for note in notes if isinstance(note, TaskCheckpoint))
    assert (kept.task.task, kept.state) == (1, {"done_s": 3.5})
