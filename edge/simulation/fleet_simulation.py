"""A simulated fleet: boxes, a head, faults and work under a simulated clock, driven by the real fleet controller.

Modelled are: a start takes `start_s`; a box sends beats at whole multiples of the beat; a box that is cut off goes
on, stops what others asked of it shortly before its lease is over (cameras go on), and reports when it is heard again;
work that ends on it meanwhile counts once it is heard. A box that goes down is an appliance that was killed: its
machine refuses connections, which proves that nothing runs there, so it is lost after the missed beats alone. Members
hear each other: while the head is away ended work is kept for the next head, and a box that begins anew starts its own
cameras again if no other box owns them. Nothing is modelled of the time that transfers take, of slow boxes, or of
messages that are lost one by one.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edge.core.fleet import FleetBox, FleetJob, FleetRules, TaskAt
from edge.core.fleet_reasons import EvictionCode, FleetReason
from edge.simulation.fleet_scenario import FleetScenario, InjectedFault
from scheduler.fleet import events as ev
from scheduler.fleet.controller import FleetController

#: One line of the log.
LogRow = dict[str, Any]


@dataclass(frozen=True)
class SimulatedTimes:
    """Durations in s: a start on a warm worker; a box's own restart of its cameras; between checkpoints."""

    start_s: float = 0.01
    restart_s: float = 1.0
    checkpoint_s: float = 5.0


@dataclass(slots=True)
class _Run:
    """A task on a box. `finished`: its work is done, and it could not be reported yet."""

    task: TaskAt
    started_s: float | None = None
    finished: bool = False


@dataclass(slots=True)
class _SimulatedBox:
    """The true state of a box, which the controller does not see."""

    box: FleetBox
    up: bool = True
    cut: bool = False
    drained: bool = False
    #: It began anew since the head heard it last.
    fresh: bool = False
    #: Counts the times that it was heard again: timers of an older silence mean nothing.
    heard: int = 0
    last_beat_s: float = 0.0
    #: When others may take what it had, if it is not heard before.
    lost_s: float = 0.0
    runs: dict[tuple[str, int], _Run] = field(default_factory=dict)

    @property
    def reachable(self) -> bool:
        """Whether other members hear it."""
        return self.up and not self.cut

    def has(self, run: _Run) -> bool:
        """Whether a task is still on it."""
        return self.runs.get((run.task.job, run.task.task)) is run


@dataclass(frozen=True)
class FleetRun:
    """The answer of a simulation: the log, the jobs that wait at its end and why, and how often the controller was
    asked."""

    log: tuple[LogRow, ...]
    waiting: dict[str, FleetReason]
    decisions: int


class FleetSimulation:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: FleetScenario,
        rules: FleetRules = FleetRules(),  # noqa: B008 (frozen)
        times: SimulatedTimes = SimulatedTimes(),
    ) -> None:
        self._scenario, self._rules, self._times = scenario, rules, times
        self._controller = FleetController(rules, scenario.tenants, scenario.queues, scenario.placement)
        self._boxes = {box.name: _SimulatedBox(box) for box in scenario.boxes}
        self._jobs: dict[str, FleetJob] = {}
        self._head = True
        self._log: list[LogRow] = []
        self._agenda: list[tuple[float, int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._now_s = 0.0
        #: Events of this instant; while no head is there, the reports that members keep for it.
        self._inbox: list[ev.FleetEvent] = []
        self._progress: dict[tuple[str, int], float] = {}
        self._wakes: set[float] = set()
        self._decisions = 0

    def run(self) -> FleetRun:
        """Play the scenario until nothing is left to happen."""
        self._inbox += [ev.BoxReported(0.0, box.box) for box in self._boxes.values()]
        for fault in self._scenario.faults:
            self._at(fault.at_s, 0, partial(self._strike, fault))
        for arriving in self._scenario.jobs:
            self._at(arriving.at_s, 2, partial(self._submit, arriving.job))
        while self._agenda:
            at_s = self._agenda[0][0]
            self._now_s = at_s
            while self._agenda and self._agenda[0][0] == at_s:
                heapq.heappop(self._agenda)[3]()
            self._decide()
        self._write("end")
        return FleetRun(tuple(self._log), self._controller.waiting(), self._decisions)

    # --- time and words ------------------------------------------------------------------------------------------
    def _at(self, at_s: float, order: int, act: Callable[[], None]) -> None:
        """Do something later; of one instant, faults (0) come before ends (1) and all else (2)."""
        heapq.heappush(self._agenda, (max(at_s, self._now_s), order, next(self._numbers), act))

    def _write(self, event: str, **row: Any) -> None:
        self._log.append({"t": self._now_s, "event": event, **row})

    def _decide(self) -> None:
        """Let the head decide, and carry its instructions out."""
        while self._head and self._inbox:
            inbox, self._inbox = self._inbox, []
            self._decisions += 1
            for instruction in self._controller.handle(*inbox):
                self._do(instruction)

    # --- instructions --------------------------------------------------------------------------------------------
    def _do(self, order: ev.FleetInstruction) -> None:
        match order:
            case ev.MakeResource(box=box, name=name, capacity=capacity):
                if self._boxes[box].reachable:
                    self._write("set_resource", name=name, box=box, capacity=capacity)
            case ev.PlaceTasks():
                self._place(order)
            case ev.EvictTask():
                self._evict(order)
            case ev.RefuseJob(job=job, reason=why):
                self._write("rejected", job=job, reason=why.words(), code=why.code)
            case ev.WakeAt(at_s=at_s):
                if at_s not in self._wakes:
                    self._wakes.add(at_s)
                    self._at(at_s, 2, self._wake)

    def _place(self, order: ev.PlaceTasks) -> None:
        if not all(self._boxes[task.box].reachable for task in order.tasks):
            self._at(self._now_s + self._rules.answer_s, 2, partial(self._no_answer, order.tasks))
            return
        for task in order.tasks:
            self._hold(task, dict(order.demand), order.choice)
        if order.confirm:
            self._inbox.append(ev.TasksTaken(self._now_s, order.tasks))

    def _evict(self, order: ev.EvictTask) -> None:
        task, box = order.task, self._boxes[order.task.box]
        run = box.runs.get((task.job, task.task))
        if not box.reachable:
            silent = partial(ev.BoxSilent, box=task.box)
            self._at(self._now_s + self._rules.answer_s, 2, partial(self._unheard, box, box.heard, silent))
        elif run is not None and run.task.epoch == task.epoch:
            self._stop(box, run, order.reason)
            self._inbox.append(ev.TaskStopped(self._now_s, task))

    def _wake(self) -> None:
        self._wakes.discard(self._now_s)
        if self._head:
            self._inbox.append(ev.WakeTimeCame(self._now_s))

    def _no_answer(self, tasks: tuple[TaskAt, ...]) -> None:
        silent = tuple(dict.fromkeys(t.box for t in tasks if not self._boxes[t.box].reachable))
        self._inbox.append(ev.PlacementFailed(self._now_s, tasks, silent))

    # --- work ----------------------------------------------------------------------------------------------------
    def _submit(self, job: FleetJob) -> None:
        self._jobs[job.id] = job
        self._write("submitted", job=job.id)
        self._inbox.append(ev.JobSubmitted(self._now_s, job))

    def _hold(self, task: TaskAt, demand: dict[str, float], choice: int, **more: Any) -> None:
        """A box took a task: from now on it holds what the task asks for, and starts it."""
        self._write("placed", job=task.job, task=task.task, box=task.box, demand=demand, choice=choice, **more)
        run = self._boxes[task.box].runs[(task.job, task.task)] = _Run(task)
        self._at(self._now_s + self._times.start_s, 2, partial(self._start, run))

    def _start(self, run: _Run) -> None:
        if not self._boxes[run.task.box].has(run):
            return
        run.started_s = self._now_s
        self._write("started", job=run.task.job, task=run.task.task, box=run.task.box)
        duration_s = self._jobs[run.task.job].duration_s
        if duration_s is not None:
            left_s = duration_s - self._progress.get((run.task.job, run.task.task), 0.0)
            self._at(self._now_s + max(left_s, 0.0), 1, partial(self._finish, run))

    def _finish(self, run: _Run) -> None:
        if not self._boxes[run.task.box].has(run):
            return
        if self._boxes[run.task.box].cut:
            run.finished = True
        else:
            self._end(run)

    def _end(self, run: _Run) -> None:
        """The end of a task's work counts: the members know it."""
        del self._boxes[run.task.box].runs[(run.task.job, run.task.task)]
        self._write("ended", job=run.task.job, task=run.task.task, box=run.task.box)
        self._inbox.append(ev.TaskEnded(self._now_s, run.task, self._now_s - (run.started_s or self._now_s)))

    def _stop(self, box: _SimulatedBox, run: _Run, reason: EvictionCode) -> None:
        """A task stops before its work is done."""
        self._keep_progress(run, exact=True)
        del box.runs[(run.task.job, run.task.task)]
        self._write("evicted", job=run.task.job, task=run.task.task, box=box.box.name, reason=reason)

    def _keep_progress(self, run: _Run, *, exact: bool) -> None:
        """Work before a loss counts where the job has checkpoints; `exact`: one was made just now."""
        if run.started_s is None or not self._jobs[run.task.job].checkpoints:
            return
        done_s = self._now_s - run.started_s
        every_s = self._times.checkpoint_s
        key = (run.task.job, run.task.task)
        kept_s = done_s if exact else math.floor(done_s / every_s) * every_s
        self._progress[key] = self._progress.get(key, 0.0) + kept_s

    # --- faults --------------------------------------------------------------------------------------------------
    def _strike(self, fault: InjectedFault) -> None:
        self._decide()
        if fault.kind == "head_down":
            self._write("head_down")
            self._head = False
        elif fault.kind == "head_up":
            self._write("head_up")
            self._head_returns()
        else:
            self._write(fault.kind, box=fault.box)
            box = self._boxes[fault.box]
            {
                "box_down": self._goes_down,
                "box_up": self._comes_up,
                "box_cut": self._is_cut,
                "box_healed": self._is_healed,
                "drain": self._drains,
            }[fault.kind](box)

    def _goes_down(self, box: _SimulatedBox) -> None:
        if box.reachable:
            self._falls_silent(box, self._rules.silent_s)
        for run in box.runs.values():
            self._keep_progress(run, exact=False)
        box.runs.clear()
        box.up, box.fresh = False, True

    def _comes_up(self, box: _SimulatedBox) -> None:
        """A box that was up began anew without losing its work: an operator puts a drained one back."""
        box.up, box.drained, box.fresh = True, False, True
        if box.reachable and self._head:
            self._report(box)
            return
        if box.reachable:
            box.heard += 1
        # Members have the last head's decisions: the controller's state while no head decides.
        for task in self._controller.running_on(box.box.name):
            self._at(self._now_s + self._times.restart_s, 2, partial(self._restart, box, task, box.heard))

    def _is_cut(self, box: _SimulatedBox) -> None:
        if box.reachable:
            self._falls_silent(box, self._rules.lease_s)
            fence_s = box.last_beat_s + self._rules.lease_s - self._rules.fence_margin_s
            self._at(fence_s, 1, partial(self._fence, box, box.heard))
        box.cut = True

    def _is_healed(self, box: _SimulatedBox) -> None:
        box.cut = False
        if not box.up:
            return
        if self._head:
            self._report(box)
            self._decide()
        else:
            box.heard += 1
            for run in list(box.runs.values()):
                owner = self._controller.owner(run.task.job, run.task.task)
                if owner is not None and owner.epoch != run.task.epoch:
                    self._stop(box, run, "superseded")
        for run in list(box.runs.values()):
            if run.finished:
                self._end(run)

    def _drains(self, box: _SimulatedBox) -> None:
        box.drained = True
        if self._head:
            if not box.reachable:
                self._inbox.append(ev.BoxSilent(self._now_s, box.box.name))
            self._inbox.append(ev.BoxDraining(self._now_s, box.box.name))

    def _falls_silent(self, box: _SimulatedBox, lost_after_s: float) -> None:
        """The box is not heard from now on; it counts as lost so long after its last beat."""
        rules, name = self._rules, box.box.name
        box.last_beat_s = math.floor(self._now_s / rules.beat_s) * rules.beat_s
        silent, lost = partial(ev.BoxSilent, box=name), partial(ev.LeaseEnded, box=name)
        box.lost_s = box.last_beat_s + lost_after_s
        self._at(box.last_beat_s + rules.silent_s, 2, partial(self._unheard, box, box.heard, silent))
        self._at(box.lost_s, 2, partial(self._unheard, box, box.heard, lost))

    def _unheard(self, box: _SimulatedBox, heard: int, make: Callable[[float], ev.FleetEvent]) -> None:
        if box.heard != heard or box.reachable:
            return
        event = make(self._now_s)
        if self._head:
            self._inbox.append(event)
        elif isinstance(event, ev.LeaseEnded):
            self._give_up_gangs(box)

    def _give_up_gangs(self, box: _SimulatedBox) -> None:
        """Without a head members give up their part of a gang of which another part was on the box."""
        gangs = {task.job for task in self._controller.running_on(box.box.name) if self._jobs[task.job].gang}
        for other in self._boxes.values():
            for run in list(other.runs.values()):
                if other.reachable and run.task.job in gangs:
                    self._stop(other, run, "gang_broken")

    def _fence(self, box: _SimulatedBox, heard: int) -> None:
        """The box's lease is about to end: it stops what others asked of it."""
        if box.up and box.cut and box.heard == heard:
            for run in list(box.runs.values()):
                if not self._jobs[run.task.job].overlap:
                    self._stop(box, run, "lease_over")

    def _restart(self, box: _SimulatedBox, task: TaskAt, heard: int) -> None:
        """A box without a head starts a camera again that is its own by the last agreement."""
        job, key = self._jobs[task.job], (task.job, task.task)
        own = job.duration_s is None and job.overlap and self._controller.owner(*key) == task
        in_time = not box.cut or self._now_s < box.last_beat_s + self._rules.lease_s - self._rules.fence_margin_s
        alone = box.up and box.heard == heard and key not in box.runs and (box.cut or not self._head)
        if own and in_time and alone:
            self._hold(task, dict(job.demand), 0, by="box")

    def _report(self, box: _SimulatedBox) -> None:
        """The head hears the box."""
        box.heard += 1
        running = tuple(run.task for run in box.runs.values())
        self._inbox.append(ev.BoxReported(self._now_s, box.box, box.fresh, running))
        box.fresh = False

    def _head_returns(self) -> None:
        """A head decides again: it reads what members kept for it, and hears of every box."""
        self._head = True
        for box in self._boxes.values():
            name = box.box.name
            if box.reachable:
                self._report(box)
            else:
                if self._now_s >= box.last_beat_s + self._rules.silent_s:
                    self._inbox.append(ev.BoxSilent(self._now_s, name))
                if self._now_s >= box.lost_s:
                    self._inbox.append(ev.LeaseEnded(self._now_s, name))
            if box.drained:
                self._inbox.append(ev.BoxDraining(self._now_s, name))
        self._inbox.append(ev.WakeTimeCame(self._now_s))
