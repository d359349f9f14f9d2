"""The driver of a fleet: joins the fleet's controller, which decides, with an engine, which acts.

Events of the engine become events of the controller, and its instructions become calls of the engine. The rows of the
fleet's log (docs/fleet.md) record all that happens. One thread calls `step` again and again.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from edge.core import engine as port
from edge.core.errors import Conflict, MagpieError
from edge.core.fleet import FleetBox, FleetJob, FleetRules, TaskAt, is_ephemeral
from edge.core.fleet_reasons import FleetReason
from edge.core.retry_pace import RetryPace
from edge.engines.programs import check_program
from scheduler.fleet import events as ev
from scheduler.fleet.controller import FleetController

log = logging.getLogger(__name__)

#: A program that raised is tried again after such pauses: it holds its place meanwhile.
PROGRAM_PACE: Final = RetryPace(first_s=5.0, most_s=600.0, spread=0.0)
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class TaskCheckpoint:
    """A task keeps `state` (a JSON object): it could go on from there."""

    task: TaskAt
    state: Mapping[str, Any]


@dataclass(frozen=True)
class ProgramFailed:
    """A task's program raised, for the time `failures`; it is tried again after a pause."""

    task: TaskAt
    failures: int
    why: str


@dataclass(frozen=True)
class JobRefused:
    """A job can never be placed."""

    job: str
    why: FleetReason


DriverNote = TaskCheckpoint | ProgramFailed | JobRefused


def fleet_events(event: port.EngineEvent, boxes: Mapping[str, FleetBox]) -> tuple[ev.FleetEvent, ...]:
    """The meaning of an engine's event to the controller. `boxes`: those whose labels are known. A program that raised
    means nothing yet, since it would raise again. A box that the engine calls gone runs nothing: its
    lease need not end first."""
    match event:
        case port.EngineBoxJoined(at_s=at_s, box=box):
            return (ev.BoxReported(at_s, _as_fleet_box(box, boxes.get(box.name))),)
        case port.EngineBoxGone(at_s=at_s, box=name):
            return (ev.BoxSilent(at_s, name), ev.LeaseEnded(at_s, name))
        case port.EngineTaskEnded(at_s=at_s, task=task, ran_s=ran_s):
            return (ev.TaskEnded(at_s, task, ran_s),)
        case port.EngineTaskFailed(at_s=at_s, task=task, lost=True):
            return (ev.TaskLost(at_s, task),)
        case port.EngineTaskCancelled(at_s=at_s, task=task):
            return (ev.TaskStopped(at_s, task),)
    return ()


def _as_fleet_box(box: port.EngineBox, known: FleetBox | None) -> FleetBox:
    """A box that is there: as it is known, but with no more than the engine has of it."""
    physical = {name: amount for name, amount in box.total.items() if not is_ephemeral(name)}
    if known is None:
        return FleetBox(box.name, physical)
    fits = {name: min(amount, physical.get(name, amount)) for name, amount in known.resources.items()}
    return FleetBox(box.name, fits, known.labels)


class _LaterEvents:
    """Events whose time is still to come, those of one time in the order in which they were put."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ev.FleetEvent]] = []
        self._numbers = itertools.count()

    @property
    def next_s(self) -> float:
        """When the next one is due; infinite: there is none."""
        return self._heap[0][0] if self._heap else float("inf")

    def put(self, at_s: float, event: ev.FleetEvent) -> None:
        heapq.heappush(self._heap, (at_s, next(self._numbers), event))

    def pop(self) -> ev.FleetEvent:
        """The next one. Raises IndexError where there is none."""
        return heapq.heappop(self._heap)[2]


class FleetDriver:
    """A fleet that runs. `boxes` are those whose labels are known; `clock` is the one that the engine was given; each
    row of the log goes to `write`, each answer of a task's program to `answered`, and the rest that its owner
    keeps to `noted`.

    While an order gets no answer its box counts as silent. It is asked for at each beat, and goes on with what it runs
    when it is there."""

    def __init__(
        self,
        controller: FleetController,
        engine: port.Engine,
        boxes: Sequence[FleetBox],
        clock: Callable[[], float],
        write: Callable[[dict[str, Any]], None] = lambda row: None,
        answered: Callable[[TaskAt, Any], None] = lambda task, answer: None,
        noted: Callable[[DriverNote], None] = lambda note: None,
        rules: FleetRules = FleetRules(),  # noqa: B008 (frozen)
    ) -> None:
        self._controller, self._engine, self._clock = controller, engine, clock
        self._write_row, self._answered, self._noted, self._rules = write, answered, noted, rules
        self._known = {box.name: box for box in boxes}
        self._inbox: list[ev.FleetEvent] = []
        self._works: dict[str, port.EngineWork] = {}
        self._kept: dict[tuple[str, int], Mapping[str, Any]] = {}
        #: Tasks that the engine took, and why the driver asked it to stop one.
        self._launched: dict[TaskAt, str | None] = {}
        self._failures: dict[tuple[str, int], int] = {}
        self._there: set[str] = set()
        self._silent: set[str] = set()
        #: A box that begins anew counts as not drained, and is drained again.
        self._drained: set[str] = set()
        self._asked_s = 0.0
        self._later = _LaterEvents()
        self._row_s = 0.0
        #: Why the engine is gone; the owner opens another one and calls `go_on_with`.
        self.engine_died: str | None = None

    def know(self, boxes: Sequence[FleetBox]) -> None:
        """Boxes that the fleet has, there or not: a job that fits only one on its way is not refused.
        Those that the engine does not have yet count as lost."""
        now_s = self._clock()
        for box in boxes:
            before, self._known[box.name] = self._known.get(box.name), box
            if box.name not in self._there and before != box:
                self._inbox += [ev.BoxReported(now_s, box), *fleet_events(port.EngineBoxGone(now_s, box.name), {})]
                if box.name in self._drained:
                    self._inbox.append(ev.BoxDraining(now_s, box.name))

    def submit(
        self,
        job: FleetJob,
        work: port.EngineWork,
        done: Mapping[int, str] = NOTHING,
        kept: Mapping[int, Mapping[str, Any]] = NOTHING,
    ) -> None:
        """A job comes in, each of whose tasks is `work`. `done`: tasks that ended under an earlier driver, each with
        its box; `kept`: the last checkpoints of others. Raises InvalidValue for an unknown program, Conflict for a job
        that was there before."""
        check_program("work.program", work.program)
        if job.id in self._works:
            raise Conflict(f"there was a job {job.id} before")
        self._works[job.id] = work
        now_s = self._clock()
        self._write(now_s, "submitted", job=job.id)
        self._kept.update(((job.id, task), state) for task, state in kept.items())
        self._inbox.append(ev.JobSubmitted(now_s, job, done))

    def withdraw(self, job: str) -> None:
        """Withdraw a job: its tasks are stopped. Nothing happens where it is over or not known."""
        self._inbox.append(ev.JobWithdrawn(self._clock(), job))

    def forget(self, job: str) -> None:
        """Remember a job no more that is over, and that no other one needs."""
        self._inbox.append(ev.JobForgotten(self._clock(), job))
        self._works.pop(job, None)
        for book in (self._kept, self._failures):
            for key in [key for key in book if key[0] == job]:
                del book[key]

    @property
    def boxes(self) -> list[str]:
        """Boxes that the engine has now, by name."""
        return sorted(self._there)

    @property
    def running(self) -> list[TaskAt]:
        """Tasks that the engine took, and of which no end is known."""
        return list(self._launched)

    def drain(self, box: str) -> None:
        """Empty a box."""
        now_s = self._clock()
        self._write(now_s, "drain", box=box)
        self._inbox.append(ev.BoxDraining(now_s, box))

    def drain_only(self, boxes: Collection[str]) -> None:
        """Empty these boxes, and let all others take work."""
        for box in sorted(set(boxes) - self._drained):
            self.drain(box)
        now_s = self._clock()
        self._inbox += [ev.BoxUndrained(now_s, box) for box in sorted(self._drained - set(boxes))]
        self._drained = set(boxes)

    def go_on_with(self, engine: port.Engine) -> None:
        """Use another engine in the place of one that died."""
        self._engine, self.engine_died = engine, None

    def step(self, timeout_s: float, *, decide: bool = True) -> None:
        """Wait for something, at most so long, and act on it. Without `decide` events are noted and kept: another one
        is the head, or none is."""
        wait_s = min(timeout_s, self._later.next_s - self._clock())
        if self._silent:
            wait_s = min(wait_s, self._rules.beat_s)
        heard = self._engine.events(max(0.0, wait_s))
        gone = {event.box for event in heard if isinstance(event, port.EngineBoxGone)}
        for event in heard:
            self._hear(event, gone)
        self._ask_silent()
        while self._later.next_s <= self._clock():
            self._inbox.append(self._later.pop())
        while decide and self._inbox:
            inbox, self._inbox = self._inbox, []
            for order in self._controller.handle(*inbox):
                self._do(order)

    # --- events of the engine ------------------------------------------------------------------------------------
    def _hear(self, event: port.EngineEvent, gone: set[str]) -> None:
        match event:
            case port.EngineBoxJoined(box=box):
                self._there.add(box.name)
                self._silent.discard(box.name)
            case port.EngineBoxGone(box=name):
                self._box_gone(name)
            case port.EngineTaskStarted(task=task):
                self._write_task(event.at_s, "started", task)
            case port.EngineTaskCheckpoint(task=task, state=state):
                self._kept[(task.job, task.task)] = state
                self._noted(TaskCheckpoint(task, state))
            case port.EngineTaskEnded(task=task, answer=answer):
                self._launched.pop(task, None)
                self._answered(task, answer)
                self._kept.pop((task.job, task.task), None)
                self._failures.pop((task.job, task.task), None)
                self._write_task(event.at_s, "ended", task)
            case port.EngineTaskFailed():
                self._failed(event, gone)
            case port.EngineTaskCancelled(task=task):
                reason = self._launched.pop(task, None)
                self._write_task(event.at_s, "evicted", task, reason=reason or "cancelled")
            case port.EngineDied(why=why):
                log.warning("the engine is gone: %s", why)
                self.engine_died = why
                for name in sorted(self._there):
                    self._box_gone(name)
                    self._inbox += fleet_events(port.EngineBoxGone(event.at_s, name), self._known)
        self._inbox += fleet_events(event, self._known)
        if isinstance(event, port.EngineBoxJoined) and event.box.name in self._drained:
            self._inbox.append(ev.BoxDraining(event.at_s, event.box.name))

    def _box_gone(self, name: str) -> None:
        self._there.discard(name)
        self._silent.discard(name)

    def _failed(self, event: port.EngineTaskFailed, gone: set[str]) -> None:
        task = event.task
        self._launched.pop(task, None)
        if task.box not in gone and self.engine_died is None:
            self._write_task(event.at_s, "evicted", task, reason="lost" if event.lost else "failed")
        if not event.lost:
            key = (task.job, task.task)
            self._failures[key] = self._failures.get(key, 0) + 1
            pause_s = PROGRAM_PACE.pause_s(self._failures[key], 0.0)
            log.warning("task %s/%d failed, next try in %g s: %s", task.job, task.task, pause_s, event.why)
            self._noted(ProgramFailed(task, self._failures[key], event.why))
            self._later.put(event.at_s + pause_s, ev.TaskLost(event.at_s + pause_s, task))

    # --- what the controller orders ------------------------------------------------------------------------------
    def _do(self, order: ev.FleetInstruction) -> None:
        match order:
            case ev.MakeResource():
                self._make(order)
            case ev.PlaceTasks():
                self._place(order)
            case ev.EvictTask():
                self._evict(order)
            case ev.RefuseJob(job=job, reason=why):
                self._write(self._clock(), "rejected", job=job, reason=why.words(), code=why.code)
                self._noted(JobRefused(job, why))
            case ev.WakeAt(at_s=at_s):
                self._later.put(at_s, ev.WakeTimeCame(at_s))

    def _make(self, order: ev.MakeResource) -> None:
        if order.box not in self._there:
            return
        try:
            capacity = self._engine.set_resource(order.box, order.name, order.capacity)
        except MagpieError as error:
            log.warning("box %s did not get the resource %s: %s", order.box, order.name, error)
            self._no_answer(order.box)
            return
        self._write(self._clock(), "set_resource", name=order.name, box=order.box, capacity=capacity)

    def _place(self, order: ev.PlaceTasks) -> None:
        now_s = self._clock()
        away = tuple(dict.fromkeys(task.box for task in order.tasks if task.box not in self._there | self._silent))
        try:
            self._engine.launch(tuple(port.EngineTask(at, order.demand, self._work(at)) for at in order.tasks))
        except MagpieError as error:
            # It is not known which of several boxes did not answer; those that are there are heard at the next beat.
            silent = away or tuple(dict.fromkeys(task.box for task in order.tasks))
            log.warning("tasks of %s were not launched on %s: %s", order.tasks[0].job, ", ".join(silent), error)
            self._silent |= {box for box in silent if box in self._there}
            self._inbox.append(ev.PlacementFailed(now_s, order.tasks, silent))
            return
        for at in order.tasks:
            self._launched[at] = None
            self._write_task(now_s, "placed", at, demand=dict(order.demand), choice=order.choice)
        if order.confirm:
            self._inbox.append(ev.TasksTaken(now_s, order.tasks))

    def _work(self, at: TaskAt) -> port.EngineWork:
        """The work of a task, from its last checkpoint on."""
        work, state = self._works[at.job], self._kept.get((at.job, at.task))
        return work if state is None else port.EngineWork(work.program, {**work.arguments, **state})

    def _evict(self, order: ev.EvictTask) -> None:
        if order.task not in self._launched:
            self._inbox.append(ev.TaskStopped(self._clock(), order.task))
            return
        self._launched[order.task] = order.reason
        try:
            self._engine.cancel(order.task)
        except MagpieError as error:
            log.warning("task %s/%d was not stopped: %s", order.task.job, order.task.task, error)
            self._no_answer(order.task.box)

    # --- boxes without an answer ---------------------------------------------------------------------------------
    def _no_answer(self, box: str) -> None:
        self._silent.add(box)
        self._inbox.append(ev.BoxSilent(self._clock(), box))

    def _ask_silent(self) -> None:
        """At each beat: boxes that gave no answer report what they run, where the engine has them."""
        now_s = self._clock()
        if not self._silent or now_s < self._asked_s + self._rules.beat_s:
            return
        self._asked_s = now_s
        try:
            there = [box for box in self._engine.status() if box.name in self._silent]
        except MagpieError:
            return
        for box in there:
            self._silent.discard(box.name)
            running = tuple(at for at in self._launched if at.box == box.name)
            (report,) = fleet_events(port.EngineBoxJoined(now_s, box), self._known)
            assert isinstance(report, ev.BoxReported)
            self._inbox.append(ev.BoxReported(now_s, report.box, fresh=False, running=running))

    # --- time and rows -------------------------------------------------------------------------------------------
    def _write(self, at_s: float, event: str, **row: Any) -> None:
        """The rows are in the order of time, also where the engine's threads heard something a moment earlier."""
        self._row_s = max(self._row_s, at_s)
        self._write_row({"t": self._row_s, "event": event, **row})

    def _write_task(self, at_s: float, event: str, at: TaskAt, **row: Any) -> None:
        self._write(at_s, event, job=at.job, task=at.task, box=at.box, **row)
