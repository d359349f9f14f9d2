"""Owns the worker processes: starts them under their shares, notices crash, hang and lack of memory, starts them again.

All methods are called from the control process's event loop; callbacks come back on it too. Where a share cannot change
while a process lives, another process takes its place without a gap (`edge.shares.double_buffer` decides the steps).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import LaunchSpec, Partitioner, Role, Usage
from edge.runtime.device import device_environment
from edge.runtime.process import (
    Beat,
    Ready,
    Retire,
    Retired,
    Stop,
    TakeOver,
    WorkerError,
    WorkerMain,
    WorkerProcess,
    describe_exit,
)
from edge.shares import double_buffer as db

log = logging.getLogger(__name__)

#: A worker whose main loop says nothing for so long is taken for hung and killed. A long step under a small share is
#: slow, not hung: while a worker other than a camera's computes, it is given BUSY_FACTOR times as long.
HANG_S = 30.0
BUSY_FACTOR = 10.0
#: A worker may take so long from its start to its first word (model loading under a small share).
START_S = 90.0
_BACKOFF_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_HEALTHY_S = 60.0
#: Workers of these roles are replaced by a twin that is warm before the old one ends; the others have state that only
#: one process may hold (a checkpoint, a job in hand): they hand it over on disk, or finish it first.
_BESIDE: tuple[Role, ...] = ("inference", "golden")
#: What a worker that shall retire may take to finish what it has begun.
_DRAIN_S: dict[Role, float] = {"inference": 5.0, "golden": 20.0, "retraining": 30.0, "profiling": 120.0}
#: Commands held for a worker that is being replaced.
_HELD_LIMIT = 1000
#: Seconds between two attempts to mend a sick device by starting all its workers again.
_MEND_BACKOFF_S = (0.0, 5.0, 15.0, 60.0)
#: All workers of a device that is started again are gone within this time, or those that are stay alone.
_RESTART_S = 10.0
_ROLE_ORDER: tuple[Role, ...] = ("inference", "golden", "retraining", "profiling")


@dataclass(frozen=True)
class Patience:
    """Limits in seconds: silence of a running worker, first word of a starting one, watching interval."""

    hang_s: float
    start_s: float
    watch_s: float = 1.0
    backoff_s: tuple[float, ...] = _BACKOFF_S


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
    messages_lost: int = 0  # of those, told already


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
    beside: bool
    #: False: it holds no share of the device (it computes nothing there, or must never wait for a share).
    shared: bool = True
    seat: Seat | None = None
    twin: Seat | None = None
    #: All processes that are not gone: `seat`, `twin`, and those that are about to end.
    seats: list[Seat] = field(default_factory=list)
    handover: db.Handover | None = None
    #: The seat stands by until its predecessor has stopped.
    standing_by: bool = False
    held: deque[Any] = field(default_factory=deque)
    generation: int = 0
    restarts: int = 0
    respawns: int = 0
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

    @property
    def holds(self) -> bool:
        """True while commands wait for the process that takes the worker's place."""
        if self.standing_by:
            return True
        return self.handover is not None and (self.handover.phase in ("emptying", "starting"))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "pid": self.process.pid if self.process and self.seat and not self.seat.gone else None,
            "share": self.share,
            "restarts": self.restarts,
            "respawns": self.respawns,
            "last_error": self.last_error,
            "messages_lost": self.messages_lost,
        }


class Supervisor:
    """Workers by name. `on_event(kind, data)` is told of every loss and restart, for the journal."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[str, dict[str, Any]], None],
        patience: Patience | None = None,
    ) -> None:
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._patience = patience or Patience(HANG_S, START_S)
        self._workers: dict[str, WorkerState] = {}
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._mending = False
        self._mends = 0
        self._mend_at_s = 0.0
        self._usage_due_s = 0.0
        #: What the partitioner says is wrong with the device, as of the last look (None: nothing).
        self.device_trouble: str | None = None

    # -- life

    def open(self) -> None:
        """Begin to watch workers and device."""
        self._watch = asyncio.create_task(self._watch_all(), name="worker-watch")

    async def close(self, drain_s: float = 5.0) -> None:
        """Stop every worker: ask, wait `drain_s`, then end."""
        self._closing = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await asyncio.gather(*(self.stop(name, drain_s) for name in list(self._workers)))
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        return worker is not None and worker.alive and not worker.holds

    def pid(self, name: str) -> int | None:
        """Process id of a running worker."""
        worker = self._workers.get(name)
        return worker.process.pid if worker and worker.process and worker.alive else None

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
        shared: bool = True,
    ) -> None:
        """Start a worker. `argument` may be a callable: it is asked anew at every start. One that is not `shared`
        holds no share of the device: `share` is shown only.

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
            beside=role in _BESIDE,
            shared=shared,
        )
        self._workers[name] = worker
        self._launch(worker)

    def send(self, name: str, message: Any) -> bool:
        """Send a command; False if the worker is not there, or does not read (then the command is lost and counted).

        While another process takes the worker's place the command waits for that one.
        """
        worker = self._workers.get(name)
        if worker is None:
            return False
        if worker.holds:
            if len(worker.held) < _HELD_LIMIT:
                worker.held.append(message)
                return True
            self._message_lost(worker, 1)
            return False
        return worker.process is not None and worker.alive and worker.process.send(message)

    def resize(self, name: str, share: float) -> None:
        """Change a worker's share, live where the share kind can; else by another process in its place."""
        worker = self._workers.get(name)
        if worker is None or abs(worker.share - share) < 1e-6:
            return
        worker.share = share
        self._apply_share(worker)

    async def stop(self, name: str, drain_s: float = 3.0, message: Any = None) -> None:
        """Ask a worker to end, wait, then end it."""
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.restart, worker.state = False, "stopping"
        worker.handover = None
        if worker.retry is not None:
            worker.retry.cancel()
        for other in [s for s in worker.seats if s is not worker.seat]:
            await self._end(other)
        seat = worker.seat
        if seat is not None and seat.process is not None and not seat.gone:
            seat.process.send(message if message is not None else Stop())
            try:
                async with asyncio.timeout(drain_s):
                    await worker.stopped.wait()
            except TimeoutError:
                await self._end(seat)
                await asyncio.to_thread(seat.process.join, 5.0)
        self._forget(worker)

    def kill(self, name: str, reason: str) -> None:
        """End a worker now; it is started again if it is one that is."""
        worker = self._workers.get(name)
        if worker is not None and worker.seat is not None and not worker.seat.ending:
            worker.seat.last_error, worker.seat.ending = reason, True
            self._spawn(self._end(worker.seat), f"kill {name}")

    def usage(self) -> tuple[Usage, ...]:
        """Shares asked, given and used by every worker since the last reset."""
        return merged(self._partitioner.usage())

    # -- starting

    def _launch(self, worker: WorkerState) -> None:
        """Start the worker's process; there is none."""
        worker.state, worker.standing_by = "starting", False
        worker.stopped = asyncio.Event()
        worker.seat = self._new_seat(worker, worker.share, standby=False)
        worker.seat.in_force = True
        self._send_held(worker)

    def _new_seat(self, worker: WorkerState, share: float, standby: bool) -> Seat:
        worker.generation += 1
        now = self._clock.monotonic()
        taken = {s.place for s in worker.seats}
        place = next(p for n in range(len(taken) + 1) if (p := f"{worker.name}~{n}" if n else worker.name) not in taken)
        seat = Seat(place, worker.generation, share, now, now)
        worker.seats.append(seat)
        launch = LaunchSpec()
        try:
            if worker.shared:
                launch = self._partitioner.launch_spec(place, worker.role, share)
        except ShareError as error:
            self._refused(worker, share, error)
        launch = replace(launch, env={**launch.env, **device_environment(self._partitioner.caps.device)})
        argument = worker.argument() if callable(worker.argument) else worker.argument

        def message(value: Any) -> None:
            self._from_thread(self._received, worker, seat, value)

        def gone(code: int | None) -> None:
            self._from_thread(self._exited, worker, seat, code)

        try:
            seat.process = WorkerProcess(
                worker.name, worker.main, argument, launch, message, gone, worker.killable, standby
            )
        except (OSError, EOFError) as error:
            # No process could be made (no memory, or the forkserver has just died): as if it had died at once.
            seat.last_error = f"could not be started: {error}"
            self._loop.call_soon(self._exited, worker, seat, None)
            return seat
        try:
            if worker.shared:
                self._partitioner.attach(place, worker.role, seat.process.pid, share)
        except ShareError as error:
            self._refused(worker, share, error)
        return seat

    def _from_thread(self, call: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(call, *args)

    def _refused(self, worker: WorkerState, share: float, error: ShareError) -> None:
        worker.last_error = str(error)
        self._on_event("share_refused", {"worker": worker.name, "share": share, "message": str(error)})

    # -- ending

    def _forget(self, worker: WorkerState) -> None:
        worker.state = "stopped"
        for seat in worker.seats:
            self._partitioner.detach(seat.place)
        worker.handover = None
        worker.held.clear()
        if self._workers.get(worker.name) is worker:
            del self._workers[worker.name]

    async def _end(self, seat: Seat) -> None:
        """Kill a process. On a GPU its work is dropped first, or the others could hang on it (docs/shares.md)."""
        if seat.process is None or seat.gone:
            return
        if self._partitioner.caps.device == "cpu":
            self._partitioner.before_kill(seat.place)
        else:
            await asyncio.to_thread(self._partitioner.before_kill, seat.place)
        seat.process.kill()

    def _exited(self, worker: WorkerState, seat: Seat, code: int | None) -> None:
        if seat.gone:
            return
        seat.gone = True
        worker.seats.remove(seat)
        self._count_lost(worker, seat)
        self._partitioner.detach(seat.place)
        if seat is worker.seat:
            worker.stopped.set()
        if worker.state in ("stopping", "stopped") or self._closing:
            return
        reason = seat.last_error if seat.last_error and code != 0 else describe_exit(code)
        clean = code == 0 or seat.retired
        if seat is worker.twin:
            self._twin_gone(worker, seat, reason, code)
        elif seat is not worker.seat:
            self._predecessor_gone(worker, seat, reason, clean)
        elif code == 0 and not seat.retired and (worker.finishes or not worker.restart):
            self._forget(worker)
        elif worker.handover is None or worker.handover.phase == "draining":
            self._end_others(worker)
            self._lost(worker, seat, reason, code)
        else:
            worker.state = "starting"
            if not clean:
                self._tell_lost(worker, reason, code)
            self._step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))

    def _tell_lost(self, worker: WorkerState, reason: str, code: int | None) -> None:
        worker.last_error = reason
        worker.on_lost(reason)
        self._on_event("worker_lost", {"worker": worker.name, "reason": reason, "exit_code": code})

    def _lost(self, worker: WorkerState, seat: Seat, reason: str, code: int | None) -> None:
        """Nothing of the worker is left: start it again after a while, or give it up."""
        self._tell_lost(worker, reason, code)
        if self._workers.get(worker.name) is not worker or worker.state == "stopping":
            return
        worker.state = "waiting"
        if self._mending:
            return
        if self._clock.monotonic() - seat.started_s > _HEALTHY_S:
            worker.failures_in_a_row = 0
        limit = worker.max_restarts
        if not worker.restart or (limit is not None and worker.failures_in_a_row >= limit):
            self._forget(worker)
            if worker.on_given_up is not None:
                worker.on_given_up(reason)
            return
        backoff = self._patience.backoff_s
        delay = backoff[min(worker.failures_in_a_row, len(backoff) - 1)]
        worker.failures_in_a_row += 1
        worker.restarts += 1
        worker.retry = self._loop.call_later(delay, self._relaunch, worker)

    def _relaunch(self, worker: WorkerState) -> None:
        owned = self._workers.get(worker.name) is worker and worker.state == "waiting"
        if owned and not self._closing and not self._mending:
            self._launch(worker)

    def _end_others(self, worker: WorkerState) -> None:
        """No handover any more: whatever else still runs of the worker is ended."""
        worker.handover = worker.twin = None
        for seat in worker.seats:
            if seat is not worker.seat:
                self._spawn(self._end(seat), f"kill {worker.name}")

    # -- messages

    def _received(self, worker: WorkerState, seat: Seat, message: Any) -> None:
        if worker.state == "stopped" or seat.gone:
            return
        seat.last_beat_s = self._clock.monotonic()
        seat.spoke = True
        if seat is worker.seat and worker.state == "starting":
            worker.state = "running"
        if isinstance(message, Beat):
            return
        if isinstance(message, WorkerError):
            seat.last_error, seat.error_code = message.message, message.code
            worker.last_error = message.message
            self._on_event("worker_error", {"worker": worker.name, "code": message.code, "message": message.message})
        elif isinstance(message, Retired):
            seat.retired = True
            self._take_over(worker)
        elif seat is worker.twin:
            # Its first word beyond a heartbeat says that it is warm; before it takes over nothing else of it counts.
            self._step(worker, db.TwinReady(self._clock.monotonic(), seat.generation))
        elif seat.in_force:
            worker.on_message(message)

    def _count_lost(self, worker: WorkerState, seat: Seat) -> None:
        if seat.process is not None and seat.process.messages_lost > seat.messages_lost:
            new = seat.process.messages_lost - seat.messages_lost
            seat.messages_lost += new
            self._message_lost(worker, new)

    def _message_lost(self, worker: WorkerState, count: int) -> None:
        worker.messages_lost += count
        self._on_event("messages_lost", {"worker": worker.name, "messages": count, "total": worker.messages_lost})

    def _send_held(self, worker: WorkerState) -> None:
        while worker.held and worker.process is not None:
            worker.process.send(worker.held.popleft())

    # -- another process in a worker's place

    def _apply_share(self, worker: WorkerState) -> None:
        """Put the wanted share in force for the worker's process; what is under way is waited for."""
        seat = worker.seat
        if seat is None or seat.gone or worker.handover is not None or worker.standing_by:
            return
        if worker.state not in ("starting", "running"):
            return
        if abs(seat.share - worker.share) < 1e-6:
            return
        if not worker.shared:
            seat.share = worker.share
            return
        try:
            result = self._partitioner.resize(seat.place, worker.share)
        except ShareError as error:
            self._refused(worker, worker.share, error)
            return
        if result.live:
            seat.share = worker.share
            return
        self._on_event("respawn", {"worker": worker.name, "share": worker.share, "reason": result.reason})
        self._respawn(worker, seat)

    def _respawn(self, worker: WorkerState, seat: Seat) -> None:
        settings = db.Settings(warm_timeout_s=self._patience.start_s, drain_timeout_s=_DRAIN_S[worker.role])
        # -1: the same share again (after a fault) is a change too.
        share = -1.0 if seat.share == worker.share else seat.share
        worker.handover = db.Handover(
            settings, share, "steady", active=seat.generation, last_generation=worker.generation
        )
        self._step(worker, db.ResizeWanted(self._clock.monotonic(), worker.share, worker.beside))

    def _step(self, worker: WorkerState, event: db.HandoverEvent) -> None:
        """One step of the handover, and what it orders."""
        if worker.handover is None:
            return
        state, orders = db.handle(worker.handover, event)
        worker.handover = state
        if isinstance(event, db.TwinReady) and worker.twin is not None and state.active == event.generation:
            worker.seat, worker.twin = worker.twin, None
            worker.seat.in_force = worker.standing_by = True
            worker.stopped, worker.state = asyncio.Event(), "running"
        for order in orders:
            if isinstance(order, db.StartWorker) and state.active is None:
                # Nobody is there to go on meanwhile: an ordinary start.
                worker.handover = None
                self._launch(worker)
            elif isinstance(order, db.StartWorker):
                worker.twin = self._new_seat(worker, order.share, standby=True)
            elif isinstance(order, db.Retire | db.Kill):
                self._dismiss(worker, order)
            elif isinstance(order, db.Commit):
                worker.respawns += 1
                self._on_event("respawned", {"worker": worker.name, "share": order.share})
            elif isinstance(order, db.Abandon):
                self._abandoned(worker, order)
        if worker.handover is state and state.phase == "steady":
            worker.handover = None
        self._take_over(worker)
        self._apply_share(worker)

    def _dismiss(self, worker: WorkerState, order: db.Retire | db.Kill) -> None:
        for seat in worker.seats:
            if seat.generation != order.generation or seat.process is None:
                continue
            if isinstance(order, db.Retire):
                seat.process.send(Retire())
            else:
                seat.last_error = seat.last_error or "did not get ready or end in time"
                self._spawn(self._end(seat), f"kill {worker.name}")

    def _abandoned(self, worker: WorkerState, order: db.Abandon) -> None:
        self._on_event("respawn_failed", {"worker": worker.name, "share": order.share, "reason": order.reason})
        twin, worker.twin = worker.twin, None
        out_of_memory = twin is not None and twin.error_code == "out_of_memory"
        if out_of_memory and worker.beside:
            worker.beside = False  # two do not fit: the old one makes room first
        elif worker.seat is not None and worker.share == order.share:
            worker.share = worker.seat.share  # until it is wished for again

    def _twin_gone(self, worker: WorkerState, seat: Seat, reason: str, code: int | None) -> None:
        if worker.seat is None or worker.seat.gone:
            # The worker it should have replaced died too.
            worker.handover = worker.twin = None
            self._lost(worker, seat, reason, code)
            return
        self._step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))

    def _predecessor_gone(self, worker: WorkerState, seat: Seat, reason: str, clean: bool) -> None:
        if seat.in_force and not clean:
            # What it had in hand is not done: who gave it work must know.
            worker.on_lost(f"{reason}; another process had taken its place")
        self._step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))
        self._take_over(worker)
        self._apply_share(worker)

    def _take_over(self, worker: WorkerState) -> None:
        """Once the predecessor has stopped its successor goes on."""
        busy = any(s.in_force and not s.retired for s in worker.seats if s is not worker.seat)
        if not worker.standing_by or worker.process is None or busy:
            return
        worker.standing_by = False
        argument = worker.argument() if callable(worker.argument) else worker.argument
        worker.process.send(TakeOver(argument))
        self._send_held(worker)
        worker.on_message(Ready())

    # -- watching

    async def _watch_all(self) -> None:
        patience = self._patience
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(patience.watch_s)
            now = self._clock.monotonic()
            late, last = now - last - patience.watch_s, now
            for worker in list(self._workers.values()):
                for seat in worker.seats:
                    # If this process itself stood still, what the workers said meanwhile is still to be read.
                    seat.last_beat_s += late if late > patience.watch_s else 0.0
                    self._count_lost(worker, seat)
                self._step(worker, db.Tick(now))
                self._look_after(worker, now)
            if now >= self._usage_due_s:
                # Counters of a process that dies are those of the last look.
                began = time.perf_counter()
                self._partitioner.usage()
                self._usage_due_s = now + 100 * (time.perf_counter() - began)
            await self._look_at_device(now)

    def _look_after(self, worker: WorkerState, now: float) -> None:
        seat = worker.seat
        if seat is None or seat.gone or seat.ending or worker.state not in ("starting", "running"):
            return
        silent = now - seat.last_beat_s
        limit = self._patience.hang_s if seat.spoke else self._patience.start_s
        if silent > limit / 2 and worker.role != "inference" and seat.process is not None:
            used_s, wants_core = computing(seat.process.pid)
            if wants_core or used_s > seat.cpu_s + 0.01:
                seat.cpu_s, seat.busy_s = used_s, now
        if silent > limit and (now - seat.busy_s > limit or silent > BUSY_FACTOR * limit):
            log.warning("worker %s is silent for %.0f s: killed", worker.name, silent)
            self.kill(worker.name, f"hung: silent for {silent:.0f} s")

    # -- the device

    async def _look_at_device(self, now: float) -> None:
        if self._partitioner.caps.device == "cpu":
            trouble = self._partitioner.healthy()
        else:
            trouble = await asyncio.to_thread(self._partitioner.healthy)
        before, self.device_trouble = self.device_trouble, trouble
        if trouble is None:
            if before is not None:
                self._mends = 0
                self._on_event("device_recovered", {"was": before})
        elif before is None:
            log.warning("device: %s", trouble)
            self._on_event("device_sick", {"message": trouble})
        elif not self._mending and now >= self._mend_at_s:
            # Sick at two looks in a row.
            self._mend_at_s = now + _MEND_BACKOFF_S[min(self._mends, len(_MEND_BACKOFF_S) - 1)]
            self._mends += 1
            await self._mend(trouble)

    async def _mend(self, trouble: str) -> None:
        """Put every worker under its share again; where the device itself is at fault, start all anew."""
        caps, respawned = self._partitioner.caps, False
        for worker in list(self._workers.values()):
            seat = worker.seat
            if seat is None or seat.gone or seat.process is None or worker.handover is not None or not worker.shared:
                continue
            try:
                if caps.device == "cpu":
                    self._partitioner.attach(seat.place, worker.role, seat.process.pid, seat.share)
                elif not self._partitioner.resize(seat.place, seat.share).live:
                    respawned = True
                    self._respawn(worker, seat)
            except ShareError as error:
                self._refused(worker, seat.share, error)
        if caps.fault_domain == "device" and not respawned:
            await self._restart_all(trouble)

    async def _restart_all(self, trouble: str) -> None:
        """All workers of the device end before the first is started again: only then does it recover."""
        self._mending = True
        shared = [w for w in self._workers.values() if w.shared]
        workers = sorted(shared, key=lambda w: (_ROLE_ORDER.index(w.role), w.name))
        self._on_event("device_restart", {"message": trouble, "workers": [w.name for w in workers]})
        try:
            for worker in workers:
                worker.handover = worker.twin = None
                for seat in worker.seats:
                    seat.last_error, seat.ending = f"ended with all workers of the device: {trouble}", True
            seats = [seat for worker in workers for seat in worker.seats]
            await asyncio.gather(*(self._end(seat) for seat in seats))
            deadline = self._clock.monotonic() + _RESTART_S
            while any(not s.gone for s in seats) and self._clock.monotonic() < deadline:
                await asyncio.sleep(0.02)
        finally:
            self._mending = False
        for worker in workers:
            if worker.state == "waiting":
                worker.restarts += 1
                self._relaunch(worker)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def computing(pid: int) -> tuple[float, bool]:
    """CPU time of a process so far, and whether it would use a core (or the disk) at this instant; (0, False): gone."""
    try:
        process = psutil.Process(pid)
        times, status = process.cpu_times(), process.status()
    except psutil.Error:
        return 0.0, False
    return float(times.user + times.system), status in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


def merged(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """One Usage per worker: processes that stood in for each other are one worker (their time is added up)."""
    groups: dict[str, list[Usage]] = {}
    for usage in usages:
        groups.setdefault(usage.worker.partition("~")[0], []).append(usage)
    return tuple(_one(name, rows) for name, rows in sorted(groups.items()))


def _one(worker: str, rows: list[Usage]) -> Usage:
    if len(rows) == 1:
        return replace(rows[0], worker=worker)
    wall = sum(r.wall_s for r in rows)

    def mean(values: Iterable[float]) -> float:
        return sum(v * r.wall_s for v, r in zip(values, rows, strict=True)) / max(wall, 1e-9)

    known = [r.given_share for r in rows if r.given_share is not None]
    newest = next((r for r in rows if r.running), rows[-1])
    return Usage(
        worker=worker,
        asked=mean(r.asked for r in rows),
        granted=mean(r.granted for r in rows),
        used_share=mean(r.used_share for r in rows),
        device_seconds=sum(r.device_seconds for r in rows),
        wall_s=wall,
        throttled_fraction=mean(r.throttled_fraction for r in rows),
        visible_units=newest.visible_units,
        given_share=mean(r.given_share or 0.0 for r in rows) if len(known) == len(rows) else None,
        waited_fraction=mean(r.waited_fraction for r in rows),
        demand_limited=any(r.demand_limited for r in rows),
        running=any(r.running for r in rows),
    )


__all__ = ["Patience", "Stop", "Supervisor", "merged"]
