"""Owns the worker processes: starts them under their shares, notices crash, hang and lack of memory, starts them again.

All methods are called from the control process's event loop; callbacks come back on it too. Where a share cannot change
while a process lives, another process takes its place without a gap (`edge.runtime.replacements`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from edge.core.clock import Clock
from edge.core.journal_kinds import WorkerEntryKind
from edge.core.shares import Partitioner, Role, Usage
from edge.core.workers import LossCause, Worker
from edge.runtime.device_watch import DeviceWatch
from edge.runtime.memory_limit import own_bytes
from edge.runtime.process import Beat, Retired, Stop, WorkerError, WorkerMain, WorkerProcess, cause_of, describe_exit
from edge.runtime.replacements import Replacements, send_held
from edge.runtime.seats import Seats
from edge.runtime.worker_state import Replacement, Seat, WorkerSpec, WorkerState
from edge.runtime.worker_usage import merged
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
#: An ended process is waited for so long: one whose start has not come through yet ends as soon as it is there.
_JOIN_S = 5.0
#: Commands held for a worker that is being replaced.
_HELD_LIMIT = 1000


@dataclass(frozen=True)
class Patience:
    """Limits in seconds: silence of a running worker, first word of a starting one, watching interval."""

    hang_s: float
    start_s: float
    watch_s: float = 1.0
    backoff_s: tuple[float, ...] = _BACKOFF_S


class Supervisor:
    """Workers by name. `on_event(kind, data)` receives every loss and restart, for the journal; `on_lost(worker,
    cause)` every process that is gone without having been asked to end. `memory_limit_bytes`: a worker (but the front)
    that has more is ended. `process` makes a worker's process; `later(seconds, call, argument)` calls then, by the
    event loop unless another is given."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[WorkerEntryKind, dict[str, Any]], None],
        patience: Patience | None = None,
        on_lost: Callable[[Worker, LossCause], None] | None = None,
        memory_limit_bytes: int | None = None,
        process: Callable[..., WorkerProcess] = WorkerProcess,
        later: Callable[..., asyncio.TimerHandle] | None = None,
    ) -> None:
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._on_lost = on_lost or (lambda worker, cause: None)
        self.memory_limit_bytes = memory_limit_bytes
        self._patience = patience or Patience(HANG_S, START_S)
        self._workers: dict[str, WorkerState] = {}
        #: Also those that ended and still have an account of what they used.
        self._known: dict[str, Worker] = {}
        self._later = later or asyncio.get_running_loop().call_later
        self._watch: asyncio.Task[None] | None = None
        self._closing = False
        self._usage_due_s = 0.0
        self._seats = Seats(
            partitioner, clock, on_event, self._received, self._exited, self._attached, memory_limit_bytes, process
        )
        self._replacements = Replacements(
            partitioner, clock, on_event, self._seats, self._launch, self._patience.start_s
        )
        self.device = DeviceWatch(
            partitioner, clock, on_event, self._workers, self._seats, self._replacements, self._relaunch
        )

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
        await self._seats.close()

    # -- workers

    def workers(self) -> list[dict[str, Any]]:
        """All workers, for people."""
        return [w.to_json() for w in sorted(self._workers.values(), key=lambda w: w.spec.name)]

    def known(self, name: str) -> Worker | None:
        """The kind and camera of the worker of that name; None: none was started, or nothing is left of it."""
        return self._known.get(name)

    def has(self, name: str) -> bool:
        """True if a worker of that name is owned (running or about to run again)."""
        return name in self._workers

    def ready(self, name: str) -> bool:
        """True if a command would reach the worker now."""
        worker = self._workers.get(name)
        return worker is not None and worker.alive and not worker.replacement.holds

    def pid(self, name: str) -> int | None:
        """Process id of a running worker."""
        worker = self._workers.get(name)
        return (worker.process.pid or None) if worker and worker.process and worker.alive else None

    def start(
        self,
        worker: Worker,
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
        """Start `worker` with `share` of the device, 0-1. `argument` may be a callable: it is asked anew at every
        start. One that is not `shared` holds no share of the device: `share` is shown only.

        `on_lost(reason)` is called when the process is gone without having been asked to; `on_given_up(reason)` when
        it will not be started again. A worker that `finishes` is done when it ends by itself with code 0.
        """
        if worker.name in self._workers:
            raise ValueError(f"worker {worker.name} exists")
        lost = on_lost or (lambda reason: None)
        spec = WorkerSpec(
            worker, main, argument, on_message, lost, on_given_up, max_restarts, killable, finishes, shared
        )
        self._known[worker.name] = worker
        state = self._workers[worker.name] = WorkerState(spec, share, restart, Replacement(worker.role in _BESIDE))
        self._launch(state)

    def send(self, name: str, message: Any) -> bool:
        """Send a command; False if the worker is not there, or does not read (then the command is lost and counted).

        While another process takes the worker's place the command waits for that one.
        """
        worker = self._workers.get(name)
        if worker is None:
            return False
        if worker.replacement.holds:
            if len(worker.replacement.held) < _HELD_LIMIT:
                worker.replacement.held.append(message)
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
        self._replacements.apply_share(worker)

    async def stop(self, name: str, drain_s: float = 3.0, message: Any = None) -> None:
        """Ask a worker to end, wait, then end it."""
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.restart, worker.state = False, "stopping"
        worker.replacement.handover = None
        if worker.retry is not None:
            worker.retry.cancel()
        for other in [s for s in worker.seats if s is not worker.seat]:
            await self._seats.end(other)
        seat = worker.seat
        if seat is not None and seat.process is not None and not seat.gone:
            seat.process.send(message if message is not None else Stop())
            try:
                async with asyncio.timeout(drain_s):
                    await worker.stopped.wait()
            except TimeoutError:
                await self._seats.end(seat)
                if await asyncio.to_thread(seat.process.join, _JOIN_S):
                    await worker.stopped.wait()
        self._forget(worker)

    def kill(self, name: str, reason: str, cause: LossCause = "other") -> None:
        """End a worker now; it is started again if it is one that is."""
        worker = self._workers.get(name)
        if worker is not None and worker.seat is not None:
            self._kill(worker, worker.seat, reason, cause)

    def _kill(self, worker: WorkerState, seat: Seat, reason: str, cause: LossCause) -> None:
        if not seat.ending:
            seat.last_error, seat.cause = reason, cause
            self._seats.end_soon(worker, seat)

    def usage(self) -> tuple[tuple[Worker, Usage], ...]:
        """Shares asked, given and used by every worker since the last reset, also of those that ended meanwhile."""
        used, places = self._partitioner.usage(), self._seats.workers
        found = merged(used, places)
        accounts = {u.worker for u in found}
        self._known = {n: w for n, w in self._known.items() if n in self._workers or n in accounts}
        for place in [p for p, name in places.items() if name not in self._known]:
            del places[place]
        return tuple((self._known[u.worker], u) for u in found if u.worker in self._known)

    # -- starting

    def _launch(self, worker: WorkerState) -> None:
        """Start the worker's process; there is none."""
        worker.state, worker.replacement.standing_by = "starting", False
        worker.stopped = asyncio.Event()
        worker.seat = self._seats.start(worker, worker.share, standby=False)
        worker.seat.in_force = True
        send_held(worker)

    def _attached(self, worker: WorkerState, seat: Seat) -> None:
        if seat is worker.seat:
            self._replacements.apply_share(worker)  # it may have changed since the start began

    # -- ending

    def _forget(self, worker: WorkerState) -> None:
        """Its processes are waited for no longer. Each keeps its place, and its share, until it is gone."""
        worker.state = "stopped"
        for seat in worker.seats:
            if not seat.ending:
                self._seats.end_soon(worker, seat)
        worker.replacement.handover = None
        worker.replacement.held.clear()
        if self._workers.get(worker.spec.name) is worker:
            del self._workers[worker.spec.name]

    def _exited(self, worker: WorkerState, seat: Seat, code: int | None) -> None:
        if seat.gone:
            return
        seat.gone = True
        worker.seats.remove(seat)
        self._count_lost(worker, seat)
        self._seats.release(seat)
        if seat is worker.seat:
            worker.stopped.set()
        if worker.state in ("stopping", "stopped") or self._closing:
            return
        reason = seat.last_error if seat.last_error and code != 0 else describe_exit(code)
        clean = code == 0 or seat.retired
        if seat is worker.replacement.twin:
            self._twin_gone(worker, seat, reason, code)
        elif seat is not worker.seat:
            self._replacements.predecessor_gone(worker, seat, reason, clean)
        elif code == 0 and not seat.retired and (worker.spec.finishes or not worker.restart):
            self._forget(worker)
        elif worker.replacement.handover is None or worker.replacement.handover.phase == "draining":
            self._end_others(worker)
            self._lost(worker, seat, reason, code)
        else:
            worker.state = "starting"
            if not clean:
                self._report_lost(worker, seat, reason, code)
            self._replacements.step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))

    def _twin_gone(self, worker: WorkerState, seat: Seat, reason: str, code: int | None) -> None:
        if worker.seat is None or worker.seat.gone:
            # The worker it should have replaced died too.
            worker.replacement.handover = worker.replacement.twin = None
            self._lost(worker, seat, reason, code)
            return
        self._replacements.step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))

    def _report_lost(self, worker: WorkerState, seat: Seat, reason: str, code: int | None) -> None:
        cause = seat.cause or cause_of(code)
        worker.last_error = reason
        worker.spec.on_lost(reason)
        self._on_lost(worker.spec.worker, cause)
        self._on_event(
            "worker.worker_lost",
            {"worker": worker.spec.name, "reason": reason, "cause": cause, "exit_code": code},
        )

    def _lost(self, worker: WorkerState, seat: Seat, reason: str, code: int | None) -> None:
        """Nothing of the worker is left: start it again after a while, or give it up."""
        self._report_lost(worker, seat, reason, code)
        if self._workers.get(worker.spec.name) is not worker or worker.state == "stopping":
            return
        worker.state = "waiting"
        if self.device.restarting:
            return
        if self._clock.monotonic() - seat.started_s > _HEALTHY_S:
            worker.failures_in_a_row = 0
        limit = worker.spec.max_restarts
        if not worker.restart or (limit is not None and worker.failures_in_a_row >= limit):
            self._forget(worker)
            if worker.spec.on_given_up is not None:
                worker.spec.on_given_up(reason)
            return
        backoff = self._patience.backoff_s
        delay = backoff[min(worker.failures_in_a_row, len(backoff) - 1)]
        worker.failures_in_a_row += 1
        worker.restarts += 1
        worker.retry = self._later(delay, self._relaunch, worker)

    def _relaunch(self, worker: WorkerState) -> None:
        owned = self._workers.get(worker.spec.name) is worker and worker.state == "waiting"
        if owned and not self._closing and not self.device.restarting:
            self._launch(worker)

    def _end_others(self, worker: WorkerState) -> None:
        """No handover any more: all other processes of the worker are ended."""
        worker.replacement.handover = worker.replacement.twin = None
        for seat in worker.seats:
            if seat is not worker.seat:
                self._seats.end_soon(worker, seat)

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
            self._on_event(
                "worker.worker_error", {"worker": worker.spec.name, "code": message.code, "message": message.message}
            )
        elif isinstance(message, Retired):
            seat.retired = True
            self._replacements.take_over(worker)
        elif seat is worker.replacement.twin:
            # Its first word beyond a heartbeat says that it is warm; before it takes over nothing else of it counts.
            self._replacements.step(worker, db.TwinReady(self._clock.monotonic(), seat.generation))
        elif seat.in_force:
            worker.spec.on_message(message)

    def _count_lost(self, worker: WorkerState, seat: Seat) -> None:
        if seat.process is not None and seat.process.messages_lost > seat.messages_lost:
            new = seat.process.messages_lost - seat.messages_lost
            seat.messages_lost += new
            self._message_lost(worker, new)

    def _message_lost(self, worker: WorkerState, count: int) -> None:
        worker.messages_lost += count
        self._on_event(
            "worker.messages_lost", {"worker": worker.spec.name, "messages": count, "total": worker.messages_lost}
        )

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
                    # If this process itself stood still, the workers' messages of that time are still to be read.
                    seat.last_beat_s += late if late > patience.watch_s else 0.0
                    self._count_lost(worker, seat)
                    self._look_at_memory(worker, seat)
                self._replacements.step(worker, db.Tick(now))
                self._look_after(worker, now)
            if now >= self._usage_due_s:
                # Counters of a process that dies are those of the last look.
                began = time.perf_counter()
                self._partitioner.usage()
                self._usage_due_s = now + 100 * (time.perf_counter() - began)
            await self.device.look(now)

    def _look_at_memory(self, worker: WorkerState, seat: Seat) -> None:
        limit = self.memory_limit_bytes
        if limit is None or seat.process is None or seat.gone or seat.ending or not worker.spec.worker.memory_limited:
            return
        used = own_bytes(seat.process.pid)
        if used > limit:
            words = (
                f"it had {used / 2**20:.0f} MiB of memory, and may have {limit / 2**20:.0f} (machine.worker_memory_mb)"
            )
            log.warning("worker %s: %s: killed", worker.spec.name, words)
            self._kill(worker, seat, words, "memory")

    def _look_after(self, worker: WorkerState, now: float) -> None:
        seat = worker.seat
        if seat is None or not seat.there or seat.gone or seat.ending or worker.state not in ("starting", "running"):
            return
        silent = now - seat.last_beat_s
        limit = self._patience.hang_s if seat.spoke else self._patience.start_s
        if silent > limit / 2 and worker.spec.role != "inference" and seat.process is not None:
            used_s, wants_core = computing(seat.process.pid)
            if wants_core or used_s > seat.cpu_s + 0.01:
                seat.cpu_s, seat.busy_s = used_s, now
        if silent > limit and (now - seat.busy_s > limit or silent > BUSY_FACTOR * limit):
            log.warning("worker %s is silent for %.0f s: killed", worker.spec.name, silent)
            self.kill(worker.spec.name, f"hung: silent for {silent:.0f} s", "hung")


def computing(pid: int) -> tuple[float, bool]:
    """CPU time of a process so far, and whether it would use a core (or the disk) at this instant; (0, False): gone."""
    try:
        process = psutil.Process(pid)
        times, status = process.cpu_times(), process.status()
    except psutil.Error:
        return 0.0, False
    return float(times.user + times.system), status in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


__all__ = ["Patience", "Stop", "Supervisor"]
