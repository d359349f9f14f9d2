"""One worker's state: how it is to be run, its processes, and the replacement under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge.core.shares import Role
from edge.core.workers import LossCause, Worker
from edge.runtime.process import WorkerMain, WorkerProcess
from edge.shares import double_buffer as db


@dataclass(frozen=True)
class WorkerSpec:
    """How a worker is to be run, and the receivers of its events. `argument` may be a callable: it is asked anew at
    every start.
    """

    worker: Worker
    main: WorkerMain
    argument: Any
    on_message: Callable[[Any], None]
    on_lost: Callable[[str], None]
    on_given_up: Callable[[str], None] | None
    max_restarts: int | None
    killable: bool
    finishes: bool
    #: False: it holds no share of the device (it computes nothing there, or must never wait for a share).
    shared: bool = True

    @property
    def name(self) -> str:
        """The worker's."""
        return self.worker.name

    @property
    def role(self) -> Role:
        """How its share is enforced."""
        return self.worker.role

    def argument_now(self) -> Any:
        """The argument of a process that starts, or takes over, at this instant."""
        return self.argument() if callable(self.argument) else self.argument


@dataclass
class Seat:
    """One process of a worker. `place` is its name at the partitioner: two processes of a worker have two places."""

    place: str
    generation: int
    share: float
    started_s: float
    last_beat_s: float
    process: WorkerProcess | None = None
    cpu_s: float = 0.0  # as last looked at, while silent
    busy_s: float = 0.0  # when it was last seen to compute
    spoke: bool = False
    in_force: bool = False  # is, or was, the worker
    retired: bool = False
    ending: bool = False
    gone: bool = False
    last_error: str = ""
    error_code: str = ""
    cause: LossCause | None = None  # why it was ended, if the supervisor ended it
    messages_lost: int = 0  # of those, reported already

    @property
    def there(self) -> bool:
        """Its process has been made: it has a share that can be changed, and can be silent."""
        return self.process is not None and self.process.pid != 0


@dataclass
class Replacement:
    """Another process takes the worker's place: how far that is, and the commands that wait for it."""

    #: A twin warms up while the old process goes on; False: the old one ends first.
    beside: bool
    twin: Seat | None = None
    handover: db.Handover | None = None
    #: The seat stands by until its predecessor has stopped.
    standing_by: bool = False
    held: deque[Any] = field(default_factory=deque)
    #: Replacements that were carried through.
    count: int = 0

    @property
    def holds(self) -> bool:
        """True while commands wait for the process that takes the worker's place."""
        if self.standing_by:
            return True
        return self.handover is not None and (self.handover.phase in ("emptying", "starting"))


@dataclass
class WorkerState:
    """The state of one worker; read by /workers and the page."""

    spec: WorkerSpec
    share: float
    restart: bool
    replacement: Replacement
    seat: Seat | None = None
    #: All processes that are not gone: `seat`, the twin, and those that are about to end.
    seats: list[Seat] = field(default_factory=list)
    generation: int = 0
    restarts: int = 0
    failures_in_a_row: int = 0
    state: str = "starting"  # starting | running | waiting | stopping | stopped
    last_error: str = ""
    messages_lost: int = 0
    retry: asyncio.TimerHandle | None = field(default=None, repr=False)
    stopped: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def process(self) -> WorkerProcess | None:
        """The process that is the worker now."""
        return None if self.seat is None else self.seat.process

    @property
    def alive(self) -> bool:
        """True while that process runs."""
        return self.process is not None and self.process.alive

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "role": self.spec.role,
            "kind": self.spec.worker.kind,
            "camera": self.spec.worker.camera,
            "state": self.state,
            "pid": (self.process.pid or None) if self.process and self.seat and not self.seat.gone else None,
            "share": self.share,
            "restarts": self.restarts,
            "respawns": self.replacement.count,
            "last_error": self.last_error,
            "messages_lost": self.messages_lost,
        }
