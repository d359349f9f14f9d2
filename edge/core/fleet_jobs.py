"""The jobs of a fleet as its head keeps and reports them, and the messages by which boxes ask for that.

Times of day are the head's, for people; none is compared with another box's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core.engine import EngineKind
from edge.core.fleet_links import API_VERSION
from edge.core.fleet_reasons import FleetReason

#: The largest answer of a task that is kept, as JSON.
LARGEST_ANSWER: Final = 4096
#: ended: all tasks gave their answers. withdrawn: a user cancelled it. refused: it can never be placed.
JobOutcome = Literal["ended", "withdrawn", "refused"]
#: waiting: no task of it has a box. stopping: it was withdrawn, and some task of it may still run.
FleetJobPhase = Literal["waiting", "running", "stopping"] | JobOutcome
#: off: no process, since there is no open job (or this box is not the head). starting: it is being opened. up: it runs
#: jobs. failed: it could not be opened or ended, and is tried again.
EnginePhase = Literal["off", "starting", "up", "failed"]


@dataclass(frozen=True)
class DoneTask:
    """A task's work is done: on this box, with this answer (JSON); None where it was larger than `LARGEST_ANSWER`."""

    box: str
    answer: Any = None


@dataclass(frozen=True)
class RaisedTask:
    """A task's program raised, `failures` times in a row; `why` the last time, for people. It is tried again."""

    failures: int
    why: str


@dataclass(frozen=True)
class FleetJobRecord:
    """A job as the head keeps it. `given` is its JSON as it came; `number` its place in the order of arrival. By task:
    the `done` ones, the last checkpoint of others, how programs `raised`. `withdrawn_by`: the user (empty: none).
    `outcome` None: it is open; `refused`: why it can never be placed."""

    given: Mapping[str, Any]
    number: int
    by: str
    came_utc_s: float
    done: Mapping[int, DoneTask] = field(default_factory=dict)
    kept: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    raised: Mapping[int, RaisedTask] = field(default_factory=dict)
    withdrawn_by: str = ""
    outcome: JobOutcome | None = None
    over_utc_s: float | None = None
    refused: FleetReason | None = None


@dataclass(frozen=True)
class FleetJobTable:
    """All jobs that a head knows, by id; `came_in` counts those that were ever there."""

    jobs: Mapping[str, FleetJobRecord] = field(default_factory=dict)
    came_in: int = 0


@dataclass(frozen=True)
class FleetJobReport:
    """A job for people. By task: `done_on` those that are done, `running` the boxes of those that have one now,
    `raised` failures of programs. `why`: why a task of it waits, or why it is refused."""

    id: str
    program: str
    tasks: int
    phase: FleetJobPhase
    by: str
    came_utc_s: float
    tenant: str | None = None
    queue: str | None = None
    priority: float = 0.0
    done_on: Mapping[int, DoneTask] = field(default_factory=dict)
    running: Mapping[int, str] = field(default_factory=dict)
    why: FleetReason | None = None
    raised: Mapping[int, RaisedTask] = field(default_factory=dict)
    over_utc_s: float | None = None
    withdrawn_by: str = ""


@dataclass(frozen=True)
class TenantReport:
    """A tenant of jobs: of `resource`, the scarcest one, it wants `wanted`, its fair share is `share`, it has
    `used`."""

    tenant: str
    resource: str
    wanted: float
    share: float
    used: float


@dataclass(frozen=True)
class FleetResource:
    """A named amount of a box (empty: of the fleet as a whole), and how much of it tasks hold."""

    box: str
    name: str
    capacity: float
    used: float


@dataclass(frozen=True)
class EngineReport:
    """The head's engine. `why`: why it failed, or what it waits for. `boxes`: those that it has now."""

    kind: EngineKind
    phase: EnginePhase
    why: str = ""
    boxes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobsReport:
    """The jobs that the `head` keeps. `elsewhere`: open jobs that other boxes keep since they were the head, by box:
    they do not run. `damaged`: the file of the jobs could not be read when the head's agent began; it was put
    aside. `resources`: the boxes' amounts, of which nothing is held while the engine does not run."""

    head: str
    jobs: tuple[FleetJobReport, ...]
    tenants: tuple[TenantReport, ...]
    engine: EngineReport
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    damaged: bool = False
    resources: tuple[FleetResource, ...] = ()
    api: int = API_VERSION


@dataclass(frozen=True)
class JobsAsk:
    """Which jobs are there?"""

    api: int = API_VERSION


@dataclass(frozen=True)
class JobSubmission:
    """A job in its JSON form, by a person of the box that asks."""

    job: Mapping[str, Any]
    by: str
    api: int = API_VERSION


@dataclass(frozen=True)
class JobWithdrawal:
    """A user cancels a job."""

    job: str
    by: str
    api: int = API_VERSION


@dataclass(frozen=True)
class JobOrdered:
    """A job after an order."""

    job: FleetJobReport
    api: int = API_VERSION
