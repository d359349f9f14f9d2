"""Owns the worker processes: starts them under their shares, notices crash, hang and lack of memory, starts them again.

All methods are called from the control process's event loop; callbacks come back on it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import LaunchSpec, Partitioner, Role, Usage
from edge.runtime.process import Beat, WorkerError, WorkerMain, WorkerProcess, describe_exit

log = logging.getLogger(__name__)

#: A worker whose main loop says nothing for so long is taken for hung and killed. A starved share is slow, not hung.
HANG_S = 30.0
#: A worker may take so long from its start to its first word (model loading under a small share).
START_S = 90.0
_BACKOFF_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_HEALTHY_S = 60.0


@dataclass
class WorkerState:
    """What is known of one worker; read by /workers and the page."""

    name: str
    role: Role
    share: float
    main: WorkerMain
    argument: Any
    restart: bool
    killable: bool
    finishes: bool
    on_message: Callable[[Any], None]
    on_lost: Callable[[str], None]
    on_given_up: Callable[[str], None] | None
    max_restarts: int | None
    process: WorkerProcess | None = None
    generation: int = 0
    restarts: int = 0
    failures_in_a_row: int = 0
    started_s: float = 0.0
    last_beat_s: float = 0.0
    spoke: bool = False
    state: str = "starting"  # starting | running | waiting | stopping | stopped
    last_error: str = ""
    retry: asyncio.TimerHandle | None = field(default=None, repr=False)
    stopped: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "pid": self.process.pid if self.process and self.state in ("starting", "running") else None,
            "share": self.share,
            "restarts": self.restarts,
            "last_error": self.last_error,
            "messages_lost": self.process.messages_lost if self.process else 0,
        }


class Supervisor:
    """Workers by name. `on_event(kind, data)` is told of every loss and restart, for the journal."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._workers: dict[str, WorkerState] = {}
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._closing = False

    # -- life

    def open(self) -> None:
        """Begin to watch for hung workers."""
        self._watch = asyncio.create_task(self._watch_beats(), name="worker-watch")

    async def close(self, drain_s: float = 5.0) -> None:
        """Stop every worker: ask, wait `drain_s`, then end."""
        self._closing = True
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.gather(*(self.stop(name, drain_s) for name in list(self._workers)))

    # -- workers

    def workers(self) -> list[dict[str, Any]]:
        """All workers, for people."""
        return [w.to_json() for w in sorted(self._workers.values(), key=lambda w: w.name)]

    def has(self, name: str) -> bool:
        """True if a worker of that name is owned (running or about to run again)."""
        return name in self._workers

    def ready(self, name: str) -> bool:
        """True if a command would reach the worker now."""
        worker = self._workers.get(name)
        return worker is not None and worker.process is not None and worker.process.alive

    def pid(self, name: str) -> int | None:
        """Process id of a running worker."""
        worker = self._workers.get(name)
        return worker.process.pid if worker and worker.process and worker.process.alive else None

    def start(
        self,
        name: str,
        role: Role,
        share: float,
        main: WorkerMain,
        argument: Any,
        on_message: Callable[[Any], None],
        on_lost: Callable[[str], None] | None = None,
        on_given_up: Callable[[str], None] | None = None,
        restart: bool = True,
        max_restarts: int | None = None,
        killable: bool = False,
        finishes: bool = False,
    ) -> None:
        """Start a worker. `argument` may be a callable: it is asked anew at every start.

        `on_lost(reason)` is called when the process is gone without having been asked to; `on_given_up(reason)` when
        it will not be started again. A worker that `finishes` is done when it ends by itself with code 0.
        """
        if name in self._workers:
            raise ValueError(f"worker {name} exists")
        worker = WorkerState(
            name,
            role,
            share,
            main,
            argument,
            restart,
            killable,
            finishes,
            on_message,
            on_lost or (lambda reason: None),
            on_given_up,
            max_restarts,
        )
        self._workers[name] = worker
        self._launch(worker)

    def send(self, name: str, message: Any) -> bool:
        """Send a command; False if the worker is not there."""
        worker = self._workers.get(name)
        if worker is None or worker.process is None or not worker.process.alive:
            return False
        worker.process.send(message)
        return True

    def resize(self, name: str, share: float) -> None:
        """Change a worker's share, live where the share kind can; else by a new process beside the old one."""
        worker = self._workers.get(name)
        if worker is None or abs(worker.share - share) < 1e-6:
            return
        worker.share = share
        if worker.process is None or not worker.process.alive:
            return
        try:
            result = self._partitioner.resize(name, share)
        except ShareError as error:
            worker.last_error = str(error)
            self._on_event("share_refused", {"worker": name, "share": share, "message": str(error)})
            return
        if not result.live:
            self._on_event("respawn", {"worker": name, "share": share, "reason": result.reason})
            self._replace(worker)

    async def stop(self, name: str, drain_s: float = 3.0, message: Any = None) -> None:
        """Ask a worker to end, wait, then end it."""
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.restart, worker.state = False, "stopping"
        if worker.retry is not None:
            worker.retry.cancel()
        process = worker.process
        if process is not None and process.alive:
            process.send(message if message is not None else Stop())
            try:
                await asyncio.wait_for(worker.stopped.wait(), drain_s)
            except TimeoutError:
                process.kill()
                await asyncio.to_thread(process.join, 5.0)
        self._forget(worker)

    def kill(self, name: str, reason: str) -> None:
        """End a worker now; it is started again if it is one that is."""
        worker = self._workers.get(name)
        if worker is not None and worker.process is not None:
            worker.last_error = reason
            worker.process.kill()

    def usage(self) -> tuple[Usage, ...]:
        """Shares asked, given and used by every worker since the last reset."""
        return self._partitioner.usage()

    # -- inside

    def _forget(self, worker: WorkerState) -> None:
        worker.state = "stopped"
        self._partitioner.detach(worker.name)
        if self._workers.get(worker.name) is worker:
            del self._workers[worker.name]

    def _launch(self, worker: WorkerState) -> None:
        worker.generation += 1
        worker.spoke, worker.state = False, "starting"
        worker.started_s = worker.last_beat_s = self._clock.monotonic()
        worker.stopped = asyncio.Event()
        generation = worker.generation
        try:
            launch = self._partitioner.launch_spec(worker.name, worker.role, worker.share)
        except ShareError as error:
            worker.last_error = str(error)
            self._on_event("share_refused", {"worker": worker.name, "share": worker.share, "message": str(error)})
            launch = LaunchSpec()
        argument = worker.argument() if callable(worker.argument) else worker.argument

        def message(value: Any) -> None:
            self._loop.call_soon_threadsafe(self._received, worker, generation, value)

        def gone(code: int | None) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._exited, worker, generation, code)

        worker.process = WorkerProcess(worker.name, worker.main, argument, launch, message, gone, worker.killable)
        try:
            self._partitioner.attach(worker.name, worker.role, worker.process.pid, worker.share)
        except ShareError as error:
            worker.last_error = str(error)
            self._on_event("share_refused", {"worker": worker.name, "share": worker.share, "message": str(error)})

    def _replace(self, worker: WorkerState) -> None:
        """Respawn for a share that cannot change live: the new process is asked for as soon as the old has drained."""
        if worker.process is not None:
            worker.failures_in_a_row = -1  # a wanted respawn is no failure
            worker.process.send(Stop())

    def _received(self, worker: WorkerState, generation: int, message: Any) -> None:
        if generation != worker.generation:
            return
        worker.last_beat_s = self._clock.monotonic()
        if not worker.spoke:
            worker.spoke = True
            if worker.state == "starting":
                worker.state = "running"
        if isinstance(message, Beat):
            return
        if isinstance(message, WorkerError):
            worker.last_error = message.message
            self._on_event("worker_error", {"worker": worker.name, "code": message.code, "message": message.message})
            return
        worker.on_message(message)

    def _exited(self, worker: WorkerState, generation: int, code: int | None) -> None:
        if generation != worker.generation or worker.state == "stopped":
            return
        worker.stopped.set()
        if worker.state == "stopping" or self._closing:
            return
        reason = worker.last_error if code not in (0, None) and worker.last_error else describe_exit(code)
        wanted = worker.failures_in_a_row < 0
        self._partitioner.detach(worker.name)
        if code == 0 and (worker.finishes or not worker.restart):
            self._forget(worker)
            return
        if not wanted:
            worker.on_lost(reason)
            self._on_event("worker_lost", {"worker": worker.name, "reason": reason, "exit_code": code})
        now = self._clock.monotonic()
        if now - worker.started_s > _HEALTHY_S:
            worker.failures_in_a_row = 0
        limit = worker.max_restarts
        if not worker.restart or (limit is not None and worker.failures_in_a_row >= limit):
            self._forget(worker)
            if worker.on_given_up is not None:
                worker.on_given_up(reason)
            return
        delay = 0.0 if wanted else _BACKOFF_S[min(max(worker.failures_in_a_row, 0), len(_BACKOFF_S) - 1)]
        worker.failures_in_a_row += 1
        worker.restarts += 0 if wanted else 1
        worker.state = "waiting"
        worker.retry = self._loop.call_later(delay, self._relaunch, worker)

    def _relaunch(self, worker: WorkerState) -> None:
        if self._workers.get(worker.name) is worker and worker.state == "waiting" and not self._closing:
            self._launch(worker)

    async def _watch_beats(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = self._clock.monotonic()
            for worker in list(self._workers.values()):
                limit = HANG_S if worker.spoke else START_S
                if worker.state in ("starting", "running") and now - worker.last_beat_s > limit:
                    silent = now - worker.last_beat_s
                    log.warning("worker %s is silent for %.0f s: killed", worker.name, silent)
                    self.kill(worker.name, f"hung: silent for {silent:.0f} s")


@dataclass(frozen=True)
class Stop:
    """Finish what you do and end."""
