"""The state of the controller: boxes, jobs, tasks, and the schedulers' books beside them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edge.core.fleet import (
    Avoidance,
    BoxStatus,
    FleetBox,
    FleetJob,
    FleetQueue,
    FleetRules,
    FleetTenant,
    SpatialRule,
    TaskAt,
)
from edge.core.fleet_reasons import EvictionCode, FleetReason
from scheduler.fleet.bookings import Bookings
from scheduler.fleet.compose import Ask, all_of
from scheduler.fleet.events import FleetInstruction
from scheduler.fleet.fair import FairShares
from scheduler.fleet.lines import Lines
from scheduler.fleet.matcher import Matcher
from scheduler.fleet.near import Locality
from scheduler.fleet.order import Signals, Slots
from scheduler.fleet.pack import packing
from scheduler.fleet.spread import Ranking, spreading
from scheduler.fleet.zones import Zones

Placement = Literal["spread", "pack"]
#: waiting: it has no box. placed: it holds resources on a box. done: its work is done. withdrawn: it never will be.
TaskStatus = Literal["waiting", "placed", "done", "withdrawn"]


@dataclass(slots=True)
class TaskState:
    """One task. `box` is None while it waits; `epoch` counts its placements."""

    status: TaskStatus = "waiting"
    box: str | None = None
    epoch: int = 0
    #: The choice of the job's choices under which it was placed.
    choice: int = 0
    #: Why the controller asked its box to stop it; it holds its resources until the box answers, or its lease is over.
    stopping: EvictionCode | None = None


@dataclass(slots=True)
class JobState:
    """One job. `number` is its place in the order of arrival; `since_s`: since when its choices open."""

    job: FleetJob
    number: int
    since_s: float
    tasks: list[TaskState]
    refused: FleetReason | None = None
    #: Whether a task of it was ever placed: its queue does not wait for it any more.
    began: bool = False
    #: A task of the gang is lost: the others are given back, and all begin together again.
    broken: bool = False
    #: It is not wanted any more: a task that stops is withdrawn.
    withdrawn: bool = False

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def done(self) -> bool:
        """Whether all tasks have ended."""
        return all(task.status == "done" for task in self.tasks)

    @property
    def over(self) -> bool:
        """Whether nothing of it runs or will: all tasks ended or are withdrawn, or it was refused."""
        return self.refused is not None or all(task.status in ("done", "withdrawn") for task in self.tasks)

    def waiting(self) -> list[int]:
        """Tasks without a box."""
        return [n for n, task in enumerate(self.tasks) if task.status == "waiting"]

    def needs(self) -> set[str]:
        """The jobs that it names."""
        near = (name for rule in (self.job.rule, *self.job.choices) for name in rule.near)
        return {*self.job.after, *near}

    def groups(self) -> set[Avoidance]:
        """The groups that its tasks may be members of."""
        return {rule.avoid for rule in (self.job.rule, *self.job.choices) if rule.avoid is not None}

    def at(self, task: int) -> TaskAt:
        """Where a placed task is."""
        state = self.tasks[task]
        return TaskAt(self.id, task, state.box or "", state.epoch)


@dataclass(slots=True)
class BoxState:
    """One box that the fleet knows."""

    box: FleetBox
    status: BoxStatus = "open"
    #: When it reported last: older news of its silence mean nothing.
    heard_s: float = 0.0
    drained: bool = False
    #: Tasks that hold resources on it.
    tasks: set[tuple[str, int]] = field(default_factory=set)


class FleetState:
    """All that a decision needs. Invariant: a placed task, and no other, has a booking on its box."""

    def __init__(
        self, rules: FleetRules, tenants: Sequence[FleetTenant], queues: Sequence[FleetQueue], placement: Placement
    ) -> None:
        self.rules = rules
        self.matcher = Matcher()
        self.bookings = Bookings(self.matcher)
        self.near = Locality(self.matcher)
        self.zones = Zones(self.matcher)
        self.signals = Signals(self.matcher)
        self.slots = Slots(self.matcher, queues)
        self.fair = FairShares(tenants)
        self.lines = Lines()
        self.boxes: dict[str, BoxState] = {}
        self.jobs: dict[str, JobState] = {}
        #: How many jobs came in, those that are forgotten included.
        self.came_in = 0
        self.out: list[FleetInstruction] = []
        self.now_s = 0.0
        #: The capacity that each box was last sent, by (box, name of the ephemeral resource).
        self.announced: dict[tuple[str, str], float] = {}
        #: Placed tasks on drained boxes, which move once there is room.
        self.to_move: dict[tuple[str, int], None] = {}
        #: The job of each queue whose first task was ordered, and not taken yet: no job behind it may begin.
        self.unconfirmed: dict[str, str] = {}
        #: The largest number of arrival of a job that began.
        self.latest_begun = -1
        self._placement = placement
        self._capacity: dict[str, float] | None = None

    def ask(self, job: FleetJob, choice: int) -> Ask:
        """All that one task of a job asks for under one choice."""
        rules = (job.rule, job.rules[choice])
        return all_of(
            Ask(here=job.demand),
            self.signals.ask(job.after),
            self.slots.ask(job.queue),
            *(ask for rule in rules for ask in self._spatial(rule)),
        )

    def ranking(self, job: FleetJob) -> Ranking:
        """How boxes are ranked for a task of the job."""
        return (packing if self._placement == "pack" else spreading)(self.matcher, job.demand)

    def shape(self, job: FleetJob) -> Hashable:
        """Jobs of one shape are alike to the spreading scheduler."""
        demand = tuple(sorted(job.demand.items()))
        return demand, job.duration_s is None, job.tenant, tuple(sorted(job.rule.zone.items()))

    def capacity(self) -> dict[str, float]:
        """Physical resources of all boxes that are not lost."""
        if self._capacity is not None:
            return self._capacity
        total: dict[str, float] = {}
        for state in self.boxes.values():
            if state.status != "lost":
                for name, amount in state.box.resources.items():
                    total[name] = total.get(name, 0.0) + amount
        self._capacity = total
        return total

    def boxes_changed(self) -> None:
        """A box joined, is lost, or is back: the fleet has other amounts."""
        self._capacity = None

    def _spatial(self, rule: SpatialRule) -> Iterable[Ask]:
        if rule.zone:
            yield self.zones.ask(rule.zone)
        if rule.near:
            yield self.near.ask(rule.near)
        if rule.avoid is not None:
            yield self.bookings.apart.ask(rule.avoid)
