"""The port of a fleet's engine: it launches the tasks that the fleet's controller placed, and says what comes of them.

The controller's matcher decides (`scheduler/fleet/`); an engine only launches on the box that it is given. Work in an
engine may be lost and done again: cameras, serving and alarms never run there. The verbs are those of ESCHER (thesis
of R. Bhardwaj, chapter 4): `set_resource`, `status`, and a task that asks for amounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from edge.core import checks
from edge.core.fleet import TaskAt, check_name, check_resource

EngineKind = Literal["local", "ray", "kubernetes"]
ENGINE_KINDS: Final[tuple[EngineKind, ...]] = ("local", "ray", "kubernetes")
#: pinned: the fleet's own matcher keeps the amounts, the engine is given the box. dynamic: ephemeral resources are real
#: resources of the engine, and a task asks the engine for them.
EngineMode = Literal["pinned", "dynamic"]
ENGINE_MODES: Final[tuple[EngineMode, ...]] = ("pinned", "dynamic")


@dataclass(frozen=True)
class EngineWork:
    """The work of a task: the program of this name (`edge/engines/programs.py`), with JSON `arguments`."""

    program: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("program", self.program)


@dataclass(frozen=True)
class EngineTask:
    """One task on its box; it holds `demand` (amounts by resource) while it runs."""

    at: TaskAt
    demand: Mapping[str, float]
    work: EngineWork

    def __post_init__(self) -> None:
        for name, amount in self.demand.items():
            check_resource(f"demand.{name}", name, physical=False)
            checks.in_range(f"demand.{name}", amount, 0.0, 1e9)


@dataclass(frozen=True)
class EngineBox:
    """A box as the engine sees it: `total` and `free` amounts by resource."""

    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]


@dataclass(frozen=True)
class EngineEvent:
    """Something that the engine saw at `at_s`, in seconds of the caller's clock."""

    at_s: float


@dataclass(frozen=True)
class EngineTaskStarted(EngineEvent):
    """The program of a task began."""

    task: TaskAt


@dataclass(frozen=True)
class EngineTaskCheckpoint(EngineEvent):
    """A task that runs keeps `state` (a JSON object): launched anew with it laid over its arguments, it goes on from
    there. An engine whose tasks have no way to say so sends none."""

    task: TaskAt
    state: Mapping[str, Any]


@dataclass(frozen=True)
class EngineTaskEnded(EngineEvent):
    """A task's program returned `answer` (JSON) after `ran_s` seconds."""

    task: TaskAt
    ran_s: float
    answer: Any = None


@dataclass(frozen=True)
class EngineTaskFailed(EngineEvent):
    """A task stopped before its work was done. `lost`: its worker or its box died (it may be done again); else the
    program itself raised, with `why` for people, and would again."""

    task: TaskAt
    lost: bool
    why: str


@dataclass(frozen=True)
class EngineTaskCancelled(EngineEvent):
    """A task was stopped, as it was asked; nothing of it runs any more."""

    task: TaskAt


@dataclass(frozen=True)
class EngineBoxJoined(EngineEvent):
    """A box is there; it began empty."""

    box: EngineBox


@dataclass(frozen=True)
class EngineBoxGone(EngineEvent):
    """A box is gone, with all its tasks (each has an event of its own)."""

    box: str


@dataclass(frozen=True)
class EngineDied(EngineEvent):
    """The engine itself is gone, with all tasks that it ran. It may be opened anew."""

    why: str


class Engine(Protocol):
    """An engine that is open, used by one thread. Its calls return within seconds; none waits for a task's end.

    Its first events are the boxes that are there. Each task that `launch` took has exactly one last event: ended,
    failed or cancelled; once that was read, what the task held is free. Events come in the order in which the engine
    saw them.
    """

    @property
    def kind(self) -> EngineKind:
        """Which engine it is."""
        ...

    @property
    def mode(self) -> EngineMode:
        """The keeper of the amounts."""
        ...

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        """Make, resize or (0) remove a resource on a box, and answer the capacity in force: absolute, so that a repeat
        is harmless; not below what is in use. Raises InvalidValue for a bad name or amount, NotFound for a box that is
        not there, Unavailable where the engine does not answer."""
        ...

    def status(self) -> tuple[EngineBox, ...]:
        """The boxes that are there, by name. Raises Unavailable."""
        ...

    def launch(self, tasks: tuple[EngineTask, ...]) -> None:
        """Start these tasks, all or none. Raises InvalidValue for an unknown program, Conflict for a task that runs
        already or for amounts that its box does not have free, NotFound for a box, Unavailable."""
        ...

    def cancel(self, task: TaskAt) -> None:
        """Stop a task; `EngineTaskCancelled` follows. Nothing happens where it does not run (any more). Raises
        Unavailable."""
        ...

    def events(self, timeout_s: float) -> tuple[EngineEvent, ...]:
        """The events since the last call; waits at most so long for something."""
        ...

    def close(self) -> None:
        """End all tasks, and what the engine itself started. May be called twice."""
        ...
