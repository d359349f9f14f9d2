"""The jobs of the fleet as its head keeps them."""

from __future__ import annotations

from edge.appliance.answers.documents import ProgramAnswer
from edge.appliance.answers.marks import Shown, answer
from edge.core.engine import EngineKind
from edge.core.fleet_jobs import EnginePhase, FleetJobPhase
from edge.core.fleet_reasons import FleetReasonCode


@answer
class FleetReasonAnswer:
    """Why a job waits or is refused: a code, and the same in words."""

    code: Shown[FleetReasonCode]
    words: Shown[str]


@answer
class JobTaskAnswer:
    """A task of a job. `box`: where it runs or, if `done`, ran; null: it waits. `failures`: how often its program
    raised in a row, `why` the last time; it is tried again. `answer`: the program's (null: none yet, or larger than
    4,096 bytes)."""

    task: Shown[int]
    box: Shown[str | None]
    done: Shown[bool]
    failures: Shown[int]
    why: Shown[str]
    answer: Shown[ProgramAnswer]


@answer
class FleetJobAnswer:
    """A job. `tasks` of it there are, of which `done` have ended; `task_states` has a row for each that runs, ended or
    failed, the first 100 of them. `why`: why a task waits, or why the job is refused. `by` submitted it, `withdrawn_by`
    (empty: no user) cancelled it."""

    id: Shown[str]
    program: Shown[str]
    phase: Shown[FleetJobPhase]
    tenant: Shown[str | None]
    queue: Shown[str | None]
    priority: Shown[float]
    tasks: Shown[int]
    running: Shown[int]
    done: Shown[int]
    task_states: Shown[tuple[JobTaskAnswer, ...]]
    why: Shown[FleetReasonAnswer | None]
    by: Shown[str]
    withdrawn_by: Shown[str]
    came_utc_s: Shown[float]
    over_utc_s: Shown[float | None]


@answer
class FleetTenantAnswer:
    """A tenant of jobs: of `resource`, the scarcest one (empty: no job asks for any), it wants `wanted` for its open
    tasks, its fair share is `share`, and its tasks hold `used`."""

    tenant: Shown[str]
    resource: Shown[str]
    wanted: Shown[float]
    share: Shown[float]
    used: Shown[float]


@answer
class FleetResourceAnswer:
    """A named amount that jobs may ask for, of `box` (empty: of the fleet as a whole): `used` of `capacity`."""

    box: Shown[str]
    name: Shown[str]
    capacity: Shown[float]
    used: Shown[float]


@answer
class FleetEngineAnswer:
    """The head's engine; `why` it failed or what it waits for (empty: neither); `boxes` that it has now."""

    kind: Shown[EngineKind]
    phase: Shown[EnginePhase]
    why: Shown[str]
    boxes: Shown[tuple[str, ...]]


@answer
class JobsElsewhereAnswer:
    """Open jobs that a box keeps since it was the head: they do not run until it is the head again."""

    box: Shown[str]
    open: Shown[int]


@answer
class FleetJobsAnswer:
    """The jobs that the `head` keeps, in the order of arrival. `damaged`: the file of its jobs could not be read when
    its agent began, and was put aside. `resources`: the boxes' amounts, at most 1,000; unbounded ones are left out, and
    while the engine does not run ephemeral ones, too."""

    head: Shown[str]
    engine: Shown[FleetEngineAnswer]
    jobs: Shown[tuple[FleetJobAnswer, ...]]
    tenants: Shown[tuple[FleetTenantAnswer, ...]]
    elsewhere: Shown[tuple[JobsElsewhereAnswer, ...]]
    damaged: Shown[bool]
    resources: Shown[tuple[FleetResourceAnswer, ...]]
