"""The contract that every engine of a fleet keeps (edge/core/engine.py), as a class of tests to inherit.

A test file of an engine has a class that inherits `EngineContract` and a fixture `opened`. The tests of a class may
share one open engine: each leaves it empty.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.waiting import PATIENCE_S
from edge.core import engine as port
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet import UNBOUNDED, TaskAt

Events = list[port.EngineEvent]
LAST = (port.EngineTaskEnded, port.EngineTaskFailed, port.EngineTaskCancelled)
#: The amounts that each box of an engine under test has.
AMOUNTS = {"cpu": 4.0, "mem_gb": 16.0}


@dataclass
class OpenEngine:
    """An engine under test. `joined`: its boxes, by the events with which it began. `kill` ends the process of the one
    task that runs."""

    engine: port.Engine
    kill: Callable[[TaskAt], None]
    checkpoints: bool = True
    joined: dict[str, port.EngineBox] = field(default_factory=dict)

    @property
    def box(self) -> str:
        """A box."""
        return min(self.joined)

    def free(self, box: str | None = None) -> dict[str, float]:
        """What is free on a box."""
        return {b.name: dict(b.free) for b in self.engine.status()}[box or self.box]

    def task(self, job: str, number: int = 0, box: str | None = None, **work: Any) -> port.EngineTask:
        """A waiting task; `demand` aside, the keywords are its program's arguments."""
        demand = work.pop("demand", {})
        return port.EngineTask(TaskAt(job, number, box or self.box, 1), demand, port.EngineWork("wait", work))

    def until(self, enough: Callable[[Events], bool]) -> Events:
        """Events until there are enough."""
        return until(self.engine, enough)


def begin(engine: port.Engine, boxes: int, kill: Callable[[TaskAt], None], *, checkpoints: bool = True) -> OpenEngine:
    """An engine that has just been opened, once its boxes have joined."""
    events = until(engine, lambda seen: len(seen) >= boxes)
    joined = [e.box for e in events if isinstance(e, port.EngineBoxJoined)]
    assert len(joined) == len(events) == boxes
    return OpenEngine(engine, kill, checkpoints, {box.name: box for box in joined})


def until(engine: port.Engine, enough: Callable[[Events], bool], wait_s: float = PATIENCE_S) -> Events:
    """Events until there are enough."""
    seen: Events = []
    while not enough(seen):
        fresh = engine.events(wait_s)
        assert fresh, f"nothing happened any more; so far: {seen}"
        seen.extend(fresh)
    return seen


def over(events: Events, tasks: int = 1) -> bool:
    """Whether so many tasks are over."""
    return sum(isinstance(e, LAST) for e in events) >= tasks


def started(events: Events) -> bool:
    """Whether a task began."""
    return any(isinstance(e, port.EngineTaskStarted) for e in events)


class EngineContract:
    """What the fleet's controller relies on."""

    def test_its_first_events_are_its_boxes_and_all_of_them_are_free(self, opened: OpenEngine) -> None:
        assert {box.name: box for box in opened.engine.status()} == opened.joined
        for box in opened.joined.values():
            assert box.total == box.free == AMOUNTS
        assert opened.engine.kind in port.ENGINE_KINDS
        assert opened.engine.mode in port.ENGINE_MODES

    def test_a_task_starts_then_ends_with_its_answer_on_every_box(self, opened: OpenEngine) -> None:
        for box in opened.joined:
            task = opened.task("short", box=box, seconds=0.0, demand={"cpu": 1.5})
            opened.engine.launch((task,))
            begun, ended = opened.until(over)
            assert isinstance(begun, port.EngineTaskStarted)
            assert isinstance(ended, port.EngineTaskEnded)
            assert begun.task == ended.task == task.at
            assert ended.answer["held_s"] >= 0.0
            assert ended.ran_s >= 0.0
            assert opened.free(box) == AMOUNTS

    def test_a_program_that_raises_is_no_loss(self, opened: OpenEngine) -> None:
        opened.engine.launch((opened.task("broken", seconds=-1),))
        failed = opened.until(over)[-1]
        assert isinstance(failed, port.EngineTaskFailed)
        assert not failed.lost
        assert "arguments.seconds" in failed.why
        assert opened.free() == AMOUNTS

    def test_a_checkpoint_can_be_gone_on_from(self, opened: OpenEngine) -> None:
        if not opened.checkpoints:
            pytest.skip("this engine has no way to bring checkpoints")
        task = opened.task("kept", seconds=None, checkpoint_s=0.01)
        opened.engine.launch((task,))
        events = opened.until(lambda seen: any(isinstance(e, port.EngineTaskCheckpoint) for e in seen))
        (kept,) = [e for e in events if isinstance(e, port.EngineTaskCheckpoint)][:1]
        assert kept.task == task.at
        assert kept.state["done_s"] > 0.0
        opened.engine.cancel(task.at)
        opened.until(over)
        opened.engine.launch((opened.task("kept", 1, seconds=kept.state["done_s"], **kept.state),))
        assert isinstance(opened.until(over)[-1], port.EngineTaskEnded)

    def test_a_task_is_cancelled_once_and_others_are_left_alone(self, opened: OpenEngine) -> None:
        task = opened.task("long", seconds=None, demand={"cpu": 4.0})
        opened.engine.launch((task,))
        assert opened.free()["cpu"] == 0.0
        opened.until(started)
        opened.engine.cancel(opened.task("other").at)
        opened.engine.cancel(task.at)
        opened.engine.cancel(task.at)
        (event,) = opened.until(over)
        assert isinstance(event, port.EngineTaskCancelled)
        assert event.task == task.at
        opened.engine.cancel(task.at)
        assert opened.free() == AMOUNTS
        opened.engine.launch((opened.task("next", seconds=0.0, demand={"cpu": 4.0}),))
        assert isinstance(opened.until(over)[-1], port.EngineTaskEnded)

    def test_tasks_are_launched_all_or_none(self, opened: OpenEngine) -> None:
        first, second = (opened.task("gang", n, seconds=0.0, demand={"cpu": 2.5}) for n in range(2))
        with pytest.raises(Conflict, match="too little"):
            opened.engine.launch((first, second))
        with pytest.raises(NotFound):
            opened.engine.launch((first, opened.task("gang", 1, box="nowhere")))
        unknown = port.EngineTask(TaskAt("gang", 1, opened.box, 1), {}, port.EngineWork("none"))
        with pytest.raises(InvalidValue, match=r"tasks\[1\].work.program"):
            opened.engine.launch((first, unknown))
        assert opened.free() == AMOUNTS
        opened.engine.launch((first,))
        with pytest.raises(Conflict):
            opened.engine.launch((first,))
        assert [e.task for e in opened.until(over) if isinstance(e, LAST)] == [first.at]

    def test_a_resource_is_made_asked_for_resized_and_removed(self, opened: OpenEngine) -> None:
        engine, box = opened.engine, opened.box
        task = opened.task("label", seconds=None, demand={"teacher:heavy": 0.5, "zone:gate": 1.0})
        with pytest.raises(Conflict):
            engine.launch((task,))
        assert engine.set_resource(box, "teacher:heavy", 0.75) == 0.75
        assert engine.set_resource(box, "teacher:heavy", 0.75) == 0.75
        assert engine.set_resource(box, "zone:gate", UNBOUNDED) == UNBOUNDED
        engine.launch((task,))
        opened.until(started)
        assert opened.free()["teacher:heavy"] == 0.25
        with pytest.raises(Conflict):
            engine.launch((opened.task("label", 1, demand={"teacher:heavy": 0.5}),))
        assert engine.set_resource(box, "teacher:heavy", 0.0) == 0.5
        engine.cancel(task.at)
        opened.until(over)
        for name in ("teacher:heavy", "zone:gate"):
            assert engine.set_resource(box, name, 0.0) == 0.0
        assert opened.free() == AMOUNTS
        for name, capacity in (("cpu", 5.0), ("ghost:", 1.0), ("teacher:heavy", -1.0)):
            with pytest.raises(InvalidValue):
                engine.set_resource(box, name, capacity)
        with pytest.raises(NotFound):
            engine.set_resource("nowhere", "teacher:heavy", 1.0)

    def test_a_task_whose_process_dies_is_lost(self, opened: OpenEngine) -> None:
        task = opened.task("killed", seconds=None)
        opened.engine.launch((task,))
        opened.until(started)
        opened.kill(task.at)
        (failed,) = opened.until(over)
        assert isinstance(failed, port.EngineTaskFailed)
        assert failed.task == task.at
        assert failed.lost
        assert opened.free() == AMOUNTS
        opened.engine.launch((opened.task("again", seconds=0.0),))
        assert isinstance(opened.until(over)[-1], port.EngineTaskEnded)

    def test_each_task_has_one_last_event_however_cancelling_races_its_end(self, opened: OpenEngine) -> None:
        rng = random.Random(7)
        boxes = sorted(opened.joined)
        tasks = [
            opened.task("race", n, rng.choice(boxes), seconds=rng.choice((-1, 0.0, 0.05, None)), demand={"cpu": 0.5})
            for n in range(6)
        ]
        opened.engine.launch(tuple(tasks[:3]))
        for task in tasks[3:]:
            opened.engine.launch((task,))
        # Some never begin, some end first, some are stopped in between.
        cancelled = {t.at for t in tasks if t.work.arguments["seconds"] is None or rng.random() < 0.5}
        for at in sorted(cancelled, key=lambda at: at.task):
            opened.engine.cancel(at)
        events = opened.until(lambda seen: over(seen, len(tasks)))
        assert opened.engine.events(0.0) == ()
        last = [e.task for e in events if isinstance(e, LAST)]
        assert sorted(last, key=lambda at: at.task) == [t.at for t in tasks]
        assert {e.task for e in events if isinstance(e, port.EngineTaskCancelled)} <= cancelled
        for box in boxes:
            assert opened.free(box) == AMOUNTS
