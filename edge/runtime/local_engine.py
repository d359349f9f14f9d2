"""The engine `local`: no engine. A task is a worker process of this box, started as all workers are.

Nothing of it exists while no task runs. There is one box, this one, and the fleet's matcher keeps its amounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edge.core import checks
from edge.core import engine as port
from edge.core.errors import Conflict, Unavailable
from edge.core.fleet import TaskAt, check_name, check_resource
from edge.core.shares import LaunchSpec
from edge.engines.amounts import BoxAmounts
from edge.engines.inbox import Inbox
from edge.engines.programs import check_program
from edge.runtime import program_worker as worker
from edge.runtime.process import OUT_OF_MEMORY, WorkerError, WorkerProcess, describe_exit

_END_S: Final = 5.0
_OUT_OF_MEMORY_CODE: Final = "out_of_memory"


@dataclass(frozen=True)
class LocalSettings:
    """The box's name and its `amounts` by resource. Workers are started as `launch` says (default: they give way to all
    others); beyond twice `memory_limit_bytes` the system refuses them memory."""

    box: str
    amounts: Mapping[str, float]
    launch: LaunchSpec = field(default_factory=lambda: LaunchSpec(nice=19))
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        check_name("box", self.box)
        for name, amount in self.amounts.items():
            check_resource(f"amounts.{name}", name, physical=True)
            checks.in_range(f"amounts.{name}", amount, 0.0, 1e6)


@dataclass(frozen=True)
class _Opened:
    """The engine is open."""


@dataclass(frozen=True)
class _ProcessEnded:
    """A task's process is gone; None: it could not be made, or did not end by itself."""

    code: int | None


@dataclass
class _LocalRun:
    """A task that was launched, and what its process said."""

    process: WorkerProcess | None = None
    cancelled: bool = False
    answered: worker.ProgramAnswered | None = None
    error: WorkerError | None = None
    not_started: str | None = None


class LocalEngine:
    """An open engine of this box. `clock` tells the caller's seconds."""

    kind: Final[port.EngineKind] = "local"
    mode: Final[port.EngineMode] = "pinned"

    def __init__(self, settings: LocalSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._amounts = BoxAmounts()
        self._runs: dict[TaskAt, _LocalRun] = {}
        self._inbox = Inbox(clock)
        self._closed = False
        self._inbox.put((None, _Opened()))

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        """See the port."""
        self._check_open()
        return self._amounts.set(box, name, capacity)

    def status(self) -> tuple[port.EngineBox, ...]:
        """See the port."""
        self._check_open()
        return self._amounts.boxes()

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        """See the port. Does not wait for the processes."""
        self._check_open()
        for number, task in enumerate(tasks):
            check_program(f"tasks[{number}].work.program", task.work.program)
            if task.at in self._runs:
                raise Conflict(f"task {task.at.job}/{task.at.task} runs already")
        self._amounts.book(tasks)
        for task in tasks:
            self._start(task)

    def cancel(self, task: TaskAt) -> None:
        """See the port."""
        self._check_open()
        run = self._runs.get(task)
        if run is not None and not run.cancelled:
            run.cancelled = True
            if run.process is not None:
                run.process.kill()

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        """See the port."""
        return () if self._closed else self._inbox.events(timeout_s, self._heard)

    def close(self) -> None:
        """See the port."""
        self._closed = True
        processes = [run.process for run in self._runs.values() if run.process is not None]
        for process in processes:
            process.kill()
        for process in processes:
            process.join(_END_S)
        self._runs.clear()

    def _start(self, task: port.EngineTask) -> None:
        at, run = task.at, _LocalRun()
        self._runs[at] = run

        def started(why: str | None) -> None:
            run.not_started = why

        run.process = WorkerProcess(
            f"fleet-{at.job}-{at.task}",
            worker.program_worker,
            task.work,
            self._settings.launch,
            lambda message: self._inbox.put((at, message)),
            lambda code: self._inbox.put((at, _ProcessEnded(code))),
            killable=True,
            memory_limit_bytes=self._settings.memory_limit_bytes,
            on_started=started,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the engine is closed")

    def _heard(self, at_s: float, message: tuple[TaskAt | None, Any]) -> list[port.EngineEvent]:
        task, said = message
        if task is None:
            box = self._amounts.add(self._settings.box, self._settings.amounts)
            return [port.EngineBoxJoined(at_s, box)]
        run = self._runs[task]
        match said:
            case worker.ProgramStarted():
                return [port.EngineTaskStarted(at_s, task)]
            case worker.ProgramCheckpoint(state=state):
                return [port.EngineTaskCheckpoint(at_s, task, state)]
            case worker.ProgramAnswered():
                run.answered = said
            case WorkerError():
                run.error = said
            case _ProcessEnded(code=code):
                del self._runs[task]
                self._amounts.free(task)
                return [_last_event(at_s, task, run, code)]
        return []


def _last_event(at_s: float, task: TaskAt, run: _LocalRun, code: int | None) -> port.EngineEvent:
    """The last event of a task whose process is gone. One that asks for more memory than there is would do so again."""
    if run.answered is not None:
        return port.EngineTaskEnded(at_s, task, run.answered.ran_s, run.answered.answer)
    if run.cancelled:
        return port.EngineTaskCancelled(at_s, task)
    if run.error is not None and run.error.code != _OUT_OF_MEMORY_CODE:
        return port.EngineTaskFailed(at_s, task, lost=False, why=run.error.message)
    if run.error is not None or code == OUT_OF_MEMORY:
        return port.EngineTaskFailed(at_s, task, lost=False, why="it needs more memory than there is")
    why = f"its process {run.not_started or describe_exit(code)}"
    return port.EngineTaskFailed(at_s, task, lost=True, why=why)
