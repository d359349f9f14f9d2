"""Messages between an agent and the process of the fleet's engine beside it, as JSON lines (edge.engines.child)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# --- to the process ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EngineBegin:
    """First: the site file's section `fleet`. `head_at` (HOST:PORT) is where the head's part of the engine listens;
    empty: this box is the head, and opens it. `folder` takes the engine's files."""

    fleet: Mapping[str, Any]
    head_at: str
    folder: str


@dataclass(frozen=True)
class EngineBoxes:
    """The boxes of the fleet: rows of `name`, `resources`, `labels`, the `node` of a cluster that it is (empty: none),
    and whether it is `drained`."""

    boxes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class EngineJob:
    """A job in its JSON form. `done`: box of each task that ended before, by its number as text; `kept`: checkpoints.
    `withdrawn`: nothing of it shall run; the engine knows it since others may name it."""

    job: Mapping[str, Any]
    done: Mapping[str, str]
    kept: Mapping[str, Mapping[str, Any]]
    withdrawn: bool


@dataclass(frozen=True)
class EngineWithdraw:
    """Stop a job."""

    job: str


@dataclass(frozen=True)
class EngineForget:
    """A job that is over need not be known."""

    job: str


@dataclass(frozen=True)
class EngineStop:
    """End, with all that was started."""


# --- from the process --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EngineUp:
    """It is open."""


@dataclass(frozen=True)
class EngineAlive:
    """It goes round; sent every few seconds while it is open."""


@dataclass(frozen=True)
class EngineWaits:
    """It waits; `why` names the reason, for people (empty: it waits no longer)."""

    why: str


@dataclass(frozen=True)
class EngineFailed:
    """It could not be opened, or has died; the process ends next."""

    why: str


@dataclass(frozen=True)
class EngineAnswered:
    """A task's program answered."""

    job: str
    task: int
    box: str
    answer: Any


@dataclass(frozen=True)
class EngineCheckpoint:
    """A task could go on from `state`."""

    job: str
    task: int
    state: Mapping[str, Any]


@dataclass(frozen=True)
class EngineRaised:
    """A task's program raised, the time `failures` in a row."""

    job: str
    task: int
    failures: int
    why: str


@dataclass(frozen=True)
class EngineRefused:
    """A job can never be placed; `why` is a FleetReason as JSON."""

    job: str
    why: Mapping[str, Any]


@dataclass(frozen=True)
class EngineJobOver:
    """Nothing of a job runs any more."""

    job: str


@dataclass(frozen=True)
class EngineNow:
    """Boxes that the engine has; by job the box of each task that runs (by its number as text), and why it waits; the
    tenants' shares (TenantReport as JSON), and the boxes' resources (FleetResource as JSON)."""

    boxes: Sequence[str]
    running: Mapping[str, Mapping[str, str]]
    waiting: Mapping[str, Mapping[str, Any]]
    tenants: Sequence[Mapping[str, Any]]
    resources: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class EngineCost:
    """The engine of this box while it ran no task: its processes, their memory, their CPU time."""

    processes: int
    memory_mb: float
    cpu_s_per_minute: float
