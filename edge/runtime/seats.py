"""The processes of workers at the partitioner: started under a share, and ended with certainty."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.journal_kinds import WorkerEntryKind
from edge.core.shares import LaunchSpec, Partitioner
from edge.runtime.device import device_environment
from edge.runtime.process import WorkerProcess
from edge.runtime.worker_state import Seat, WorkerState


class Seats:
    """`received(worker, seat, message)`, `exited(worker, seat, code)` and `attached(worker, seat)`, when a process has
    its share, are called on the event loop, which never waits for a start. A share that the partitioner refuses is
    reported as an event; the process runs without it. `process` makes one."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[WorkerEntryKind, dict[str, Any]], None],
        received: Callable[[WorkerState, Seat, Any], None],
        exited: Callable[[WorkerState, Seat, int | None], None],
        attached: Callable[[WorkerState, Seat], None] = lambda worker, seat: None,
        memory_limit_bytes: int | None = None,
        process: Callable[..., WorkerProcess] = WorkerProcess,
    ) -> None:
        self._attached, self._process = attached, process
        # CUDA maps far more than it touches: there a process is looked at only.
        self._mappings = memory_limit_bytes if partitioner.caps.device == "cpu" else None
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._received, self._exited = received, exited
        self._loop = asyncio.get_running_loop()
        self._ending: set[asyncio.Task[None]] = set()
        #: A worker's name by the place that one of its processes has at the partitioner, or had. The owner forgets.
        self.workers: dict[str, str] = {}
        #: Places of processes that are not gone, also of those whose worker was stopped and forgotten.
        self._taken: set[str] = set()

    def start(self, worker: WorkerState, share: float, standby: bool) -> Seat:
        """Start another process of the worker: it is there soon after."""
        worker.generation += 1
        now = self._clock.monotonic()
        name = worker.spec.name
        place = next(p for n in range(len(self._taken) + 1) if (p := f"{name}~{n}" if n else name) not in self._taken)
        self._taken.add(place)
        self.workers[place] = name
        seat = Seat(place, worker.generation, share, now, now)
        worker.seats.append(seat)
        launch = LaunchSpec()
        try:
            if worker.spec.shared:
                launch = self._partitioner.launch_spec(place, worker.spec.role, share)
        except ShareError as error:
            self.refused(worker, share, error)
        launch = replace(launch, env={**launch.env, **device_environment(self._partitioner.caps.device)})
        argument = worker.spec.argument_now()

        def message(value: Any) -> None:
            self._from_thread(self._received, worker, seat, value)

        def gone(code: int | None) -> None:
            self._from_thread(self._exited, worker, seat, code)

        def started(failure: str | None) -> None:
            self._from_thread(self._started, worker, seat, failure)

        seat.process = self._process(
            worker.spec.name, worker.spec.main, argument, launch, message, gone, worker.spec.killable, standby,
            self._mappings if worker.spec.worker.memory_limited else None, started,
        )  # fmt: skip
        return seat

    def _started(self, worker: WorkerState, seat: Seat, failure: str | None) -> None:
        """The process is there (None), or none could be made: that is reported as one that died at once."""
        if failure is not None:
            seat.last_error, seat.process = failure, None
        # A process whose worker was stopped meanwhile ends as soon as it is there: it gets no share.
        if failure is not None or seat.gone or seat.process is None or worker.state == "stopped":
            return
        seat.last_beat_s = self._clock.monotonic()
        try:
            if worker.spec.shared:
                self._partitioner.attach(seat.place, worker.spec.role, seat.process.pid, seat.share)
        except ShareError as error:
            self.refused(worker, seat.share, error)
        self._attached(worker, seat)

    def _from_thread(self, call: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no receiver left
            self._loop.call_soon_threadsafe(call, *args)

    def refused(self, worker: WorkerState, share: float, error: ShareError) -> None:
        """Report that the partitioner did not grant `share`."""
        worker.last_error = str(error)
        self._on_event("worker.share_refused", {"worker": worker.spec.name, "share": share, "message": str(error)})

    def release(self, seat: Seat) -> None:
        """Its process is gone: give back the share and the place."""
        self._partitioner.detach(seat.place)
        self._taken.discard(seat.place)

    async def end(self, seat: Seat) -> None:
        """Kill a process. On a GPU its work is dropped first, or the others could hang on it (docs/shares.md)."""
        seat.ending = True
        if seat.process is None or seat.gone:
            return
        if not seat.process.pid:
            pass  # it has nothing yet
        elif self._partitioner.caps.device == "cpu":
            self._partitioner.before_kill(seat.place)
        else:
            await asyncio.to_thread(self._partitioner.before_kill, seat.place)
        seat.process.kill()

    def end_soon(self, worker: WorkerState, seat: Seat) -> None:
        """`end`, without waiting for it."""
        seat.ending = True
        task = asyncio.create_task(self.end(seat), name=f"kill {worker.spec.name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Wait for all that `end_soon` has begun."""
        await asyncio.gather(*self._ending, return_exceptions=True)
