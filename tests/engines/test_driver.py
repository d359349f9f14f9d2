"""The fleet's driver with an engine in virtual time: its logs are judged by the project's checker."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from fleet_kit import boxes, random_scenario, scenario

from edge.core import engine as port
from edge.core.errors import Conflict, InvalidValue, Unavailable
from edge.core.fleet import FleetBox, FleetJob, TaskAt
from edge.engines.amounts import BoxAmounts
from edge.engines.driver import PROGRAM_PACE, FleetDriver
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import FleetScenario, scenario_from_json
from scheduler.fleet.controller import FleetController

START_S, STOP_S = 0.01, 0.02


class VirtualEngine:
    """An engine in virtual time: `events` lets the time pass. It keeps amounts as every engine does, so an order of the
    driver that is wrong is refused."""

    kind: port.EngineKind = "local"
    mode: port.EngineMode = "pinned"

    def __init__(self, fleet: list[FleetBox]) -> None:
        self.now_s = 0.0
        self.fleet = {box.name: box for box in fleet}
        self.amounts = BoxAmounts()
        self.running: dict[TaskAt, port.EngineTask] = {}
        self.launches: list[port.EngineTask] = []
        #: Boxes whose orders get no answer, and jobs whose programs raise so often.
        self.mute: set[str] = set()
        self.raises: dict[str, int] = {}
        self._agenda: list[tuple[float, int, Callable[[], port.EngineEvent | None]]] = []
        self._numbers = itertools.count()
        self._told: list[port.EngineEvent] = []
        for box in fleet:
            self.join(box.name)

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        self._ask(box)
        return self.amounts.set(box, name, capacity)

    def status(self) -> tuple[port.EngineBox, ...]:
        return tuple(box for box in self.amounts.boxes() if box.name not in self.mute)

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        for task in tasks:
            self._ask(task.at.box)
            assert task.at not in self.running
        self.amounts.book(tasks)
        self.launches += tasks
        for task in tasks:
            self.running[task.at] = task
            self._after(START_S, task, lambda task=task: self._begin(task))

    def cancel(self, task: TaskAt) -> None:
        self._ask(task.box)
        if task in self.running:
            stop = lambda: self._over(port.EngineTaskCancelled(self.now_s, task))  # noqa: E731
            self._after(STOP_S, self.running[task], stop)

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        until_s = self.now_s + timeout_s
        while not self._told and self._agenda and self._agenda[0][0] <= until_s:
            self.now_s, _, act = heapq.heappop(self._agenda)
            event = act()
            self._told += [event] if event is not None else []
        if not self._told:
            self.now_s = until_s
        told, self._told = tuple(self._told), []
        return told

    def close(self) -> None:
        """Nothing is left of it."""

    # What tests do to it

    def join(self, box: str) -> None:
        self._told.append(port.EngineBoxJoined(self.now_s, self.amounts.add(box, self.fleet[box].resources)))

    def lose(self, box: str) -> None:
        for at in [at for at in self.running if at.box == box]:
            self.lose_task(at)
        self.amounts.remove(box)
        self._told.append(port.EngineBoxGone(self.now_s, box))

    def lose_task(self, at: TaskAt) -> None:
        self._told.append(self._over(port.EngineTaskFailed(self.now_s, at, lost=True, why="killed")))

    def die(self) -> None:
        for at in list(self.running):
            self.lose_task(at)
        self._told.append(port.EngineDied(self.now_s, "killed"))

    def _ask(self, box: str) -> None:
        if box in self.mute:
            raise Unavailable(f"{box} does not answer")

    def _after(self, delay_s: float, task: port.EngineTask, act: Callable[[], port.EngineEvent | None]) -> None:
        """Unless the task is over by then."""
        alive = lambda: act() if self.running.get(task.at) is task else None  # noqa: E731
        heapq.heappush(self._agenda, (self.now_s + delay_s, next(self._numbers), alive))

    def _begin(self, task: port.EngineTask) -> port.EngineEvent:
        seconds = task.work.arguments["seconds"]
        if self.raises.get(task.at.job, 0) > 0:
            self.raises[task.at.job] -= 1
            return self._over(port.EngineTaskFailed(self.now_s, task.at, lost=False, why="it raised"))
        if seconds is not None:
            done_s = task.work.arguments.get("done_s", 0.0)
            if task.work.arguments["checkpoint_s"] is not None:
                kept = port.EngineTaskCheckpoint(self.now_s, task.at, {"done_s": done_s + (seconds - done_s) / 2})
                self._after((seconds - done_s) / 2, task, lambda: kept)
            end = lambda: self._over(port.EngineTaskEnded(self.now_s, task.at, seconds - done_s, "done"))  # noqa: E731
            self._after(seconds - done_s, task, end)
        return port.EngineTaskStarted(self.now_s, task.at)

    def _over(self, event: Any) -> Any:
        del self.running[event.task]
        self.amounts.free(event.task)
        return event


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
