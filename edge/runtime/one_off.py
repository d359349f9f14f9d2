"""A process that does one job, such as checking a model's file, and reports the result with its first message.

It may have as much memory as any worker (`machine.worker_memory_mb`), whatever the file asks for: it is looked at while
it works and when it answers, and beyond twice that much the system refuses it memory (edge.runtime.memory_limit).
"""

from __future__ import annotations

import os
import queue
import signal
import time
from dataclasses import dataclass
from typing import Any, Final

from edge.core.errors import MagpieError, MemoryLimitExceeded, Unavailable, WeightsError, WorkerFailed, says_no_memory
from edge.core.shares import LaunchSpec
from edge.runtime.memory_limit import own_bytes, usable_bytes, worker_limit_bytes
from edge.runtime.process import OUT_OF_MEMORY, Beat, Channel, WorkerError, WorkerMain, WorkerProcess, describe_exit

_PATIENCE_S: Final = 120.0
#: So often its memory is looked at, and sooner at first: some are quick.
_LOOK_S: Final = 0.1
_FIRST_LOOK_S: Final = 0.005


def first_message(
    name: str,
    main: WorkerMain,
    argument: Any,
    about: str,
    limit_bytes: int | None = None,
    patience_s: float = _PATIENCE_S,
    launch: LaunchSpec | None = None,
    killable: bool = False,
) -> Any:
    """Run `main` to its first message, which may be a WorkerError, and return that. `about` names the file that it
    works on; `limit_bytes` None: as for workers without a setting. Blocks.

    Raises MemoryLimitExceeded, WorkerFailed (it ended without a word), Unavailable (it took too long).
    """
    limit = worker_limit_bytes(None, usable_bytes()) if limit_bytes is None else limit_bytes
    said: queue.Queue[Any] = queue.Queue()
    process = WorkerProcess(
        name, _weighed, (main, argument), launch or LaunchSpec(), said.put, lambda code: said.put(_Ended(code)),
        killable=killable, memory_limit_bytes=limit,
    )  # fmt: skip
    deadline = time.monotonic() + patience_s
    try:
        message = _first(process, said, about, limit, deadline)
    except queue.Empty:
        raise Unavailable(f"{about} could not be opened and tried within {patience_s:.0f} s") from None
    finally:
        process.kill()
    if isinstance(message, WorkerError) and (message.code == "out_of_memory" or says_no_memory(message.message)):
        raise MemoryLimitExceeded(about, limit)
    if isinstance(message, _Ended):
        if message.code == OUT_OF_MEMORY:
            raise MemoryLimitExceeded(about, limit)
        raise WorkerFailed(f"{about}: its process {describe_exit(message.code)}", _of_a_crash(message.code, limit))
    return message


def _of_a_crash(code: int | None, limit: int) -> str:
    """Native code that is refused memory rarely says so: it crashes, as it does on a damaged file."""
    if code is None or -code not in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        return ""
    return (
        f"it may have needed more memory than one process may have (machine.worker_memory_mb: {limit / 2**20:.0f} MiB)"
    )


@dataclass(frozen=True)
class _Weight:
    """The memory that the process had when it answered."""

    own_bytes: int


class _Weighing:
    """A channel that tells the memory of its process before each message: one that is quick ends before it is looked
    at from outside."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, message: Any) -> None:
        self._channel.send(_Weight(own_bytes(os.getpid())))
        self._channel.send(message)


def _weighed(channel: Channel, task: tuple[WorkerMain, Any]) -> None:
    main, argument = task
    weighing: Any = _Weighing(channel)
    main(weighing, argument)


class _Ended:
    def __init__(self, code: int | None) -> None:
        self.code = code


def _first(process: WorkerProcess, said: queue.Queue[Any], about: str, limit: int, deadline: float) -> Any:
    pause_s = _FIRST_LOOK_S
    while True:
        try:
            message = said.get(timeout=pause_s)
        except queue.Empty:
            message = None
        if isinstance(message, _Weight):
            own, message = message.own_bytes, None
        else:
            own = own_bytes(process.pid)
        if own > limit:
            raise MemoryLimitExceeded(about, limit)
        if message is not None and not isinstance(message, Beat):
            return message
        if time.monotonic() > deadline:
            raise queue.Empty
        pause_s = min(_LOOK_S, 2 * pause_s)


def run_once(name: str, main: WorkerMain, argument: Any, about: str, limit_bytes: int | None = None) -> Any:
    """As `first_message`, of which errors are raised: WeightsError, or MagpieError with the worker's own words."""
    message = first_message(name, main, argument, about, limit_bytes)
    if isinstance(message, WorkerError):
        raise WeightsError(message.message) if message.code == WeightsError.code else MagpieError(message.message)
    return message
