"""Events of a fleet (past facts), and instructions of its controller (orders)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.core.fleet import FleetBox, FleetJob, TaskAt
from edge.core.fleet_reasons import EvictionCode, FleetReason


@dataclass(frozen=True)
class FleetEvent:
    """Something that happened at `at_s`. Events come in order of time."""

    at_s: float


@dataclass(frozen=True)
class BoxReported(FleetEvent):
    """A box joined, or is heard again. `fresh`: it began anew, its ephemeral resources are gone. `running`: the tasks
    of the fleet that it runs."""

    box: FleetBox
    fresh: bool = True
    running: tuple[TaskAt, ...] = ()


@dataclass(frozen=True)
class BoxSilent(FleetEvent):
    """Several beats of a box are missing."""

    box: str


@dataclass(frozen=True)
class LeaseEnded(FleetEvent):
    """A silent box has stopped what others asked of it, or is gone."""

    box: str


@dataclass(frozen=True)
class BoxDraining(FleetEvent):
    """An operator empties a box."""

    box: str


@dataclass(frozen=True)
class BoxUndrained(FleetEvent):
    """An operator lets a box that was emptied take work again."""

    box: str


@dataclass(frozen=True)
class JobSubmitted(FleetEvent):
    """A job came in. `done`: tasks whose work was done before, under another controller, each with its box."""

    job: FleetJob
    done: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobWithdrawn(FleetEvent):
    """A job is withdrawn: its tasks are stopped, and none begins."""

    job: str


@dataclass(frozen=True)
class JobForgotten(FleetEvent):
    """A job that is over need not be remembered. One that is not over, or that another job needs, still is."""

    job: str


@dataclass(frozen=True)
class TasksTaken(FleetEvent):
    """The boxes of a placement answered that they took its tasks."""

    tasks: tuple[TaskAt, ...]


@dataclass(frozen=True)
class TaskEnded(FleetEvent):
    """A task's work is done; it took `ran_s` since its start."""

    task: TaskAt
    ran_s: float = 0.0


@dataclass(frozen=True)
class TaskLost(FleetEvent):
    """A task stopped before its work was done, and its box goes on."""

    task: TaskAt


@dataclass(frozen=True)
class TaskStopped(FleetEvent):
    """A box answered that it stopped a task, as the controller asked. Until then the task may still run."""

    task: TaskAt


@dataclass(frozen=True)
class PlacementFailed(FleetEvent):
    """No task of a placement began, because the boxes `silent` gave no answer."""

    tasks: tuple[TaskAt, ...]
    silent: tuple[str, ...]


@dataclass(frozen=True)
class WakeTimeCame(FleetEvent):
    """The time of a `WakeAt` has come."""


@dataclass(frozen=True)
class FleetInstruction:
    """Something to do."""


@dataclass(frozen=True)
class MakeResource(FleetInstruction):
    """Make, resize or (0) remove an ephemeral resource on a box."""

    box: str
    name: str
    capacity: float


@dataclass(frozen=True)
class PlaceTasks(FleetInstruction):
    """Start these tasks, each on its box: all of them or none. Each holds `demand`; `choice` of the job's choices.
    `confirm`: the controller waits for `TasksTaken`, since no other may begin before this job does."""

    tasks: tuple[TaskAt, ...]
    demand: Mapping[str, float]
    choice: int
    confirm: bool = False


@dataclass(frozen=True)
class EvictTask(FleetInstruction):
    """Stop a task before its work is done."""

    task: TaskAt
    reason: EvictionCode


@dataclass(frozen=True)
class RefuseJob(FleetInstruction):
    """A job that can never be placed."""

    job: str
    reason: FleetReason


@dataclass(frozen=True)
class WakeAt(FleetInstruction):
    """Tell the controller when this time has come (`WakeTimeCame`)."""

    at_s: float
