"""Another process takes a worker's place without a gap: `edge.shares.double_buffer` decides the steps, taken here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.journal_kinds import WorkerEntryKind
from edge.core.shares import Partitioner, Role
from edge.runtime.process import Ready, Retire, TakeOver
from edge.runtime.seats import Seats
from edge.runtime.worker_state import Seat, WorkerState
from edge.shares import double_buffer as db

#: The time that a worker that shall retire may take to finish its begun work.
_DRAIN_S: dict[Role, float] = {"inference": 5.0, "golden": 20.0, "retraining": 30.0, "profiling": 120.0}


class Replacements:
    """Puts shares in force. `launch(worker)` starts a worker of which no process is left; a twin gets `warm_s` seconds
    to be ready. Events: respawn, respawned, respawn_failed."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[WorkerEntryKind, dict[str, Any]], None],
        seats: Seats,
        launch: Callable[[WorkerState], None],
        warm_s: float,
    ) -> None:
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._seats, self._launch, self._warm_s = seats, launch, warm_s

    def apply_share(self, worker: WorkerState) -> None:
        """Put the wanted share in force for the worker's process; a change under way is waited for."""
        seat = worker.seat
        if seat is None or seat.gone or worker.replacement.handover is not None or worker.replacement.standing_by:
            return
        if worker.state not in ("starting", "running") or not seat.there:
            return
        if abs(seat.share - worker.share) < 1e-6:
            return
        if not worker.spec.shared:
            seat.share = worker.share
            return
        try:
            result = self._partitioner.resize(seat.place, worker.share)
        except ShareError as error:
            self._seats.refused(worker, worker.share, error)
            return
        if result.live:
            seat.share = worker.share
            return
        self._on_event("worker.respawn", {"worker": worker.spec.name, "share": worker.share, "reason": result.reason})
        self.respawn(worker, seat)

    def respawn(self, worker: WorkerState, seat: Seat) -> None:
        """Begin to replace the worker's process, `seat`, by one under the wanted share."""
        settings = db.HandoverSettings(warm_timeout_s=self._warm_s, drain_timeout_s=_DRAIN_S[worker.spec.role])
        # -1: the same share again (after a fault) is a change too.
        share = -1.0 if seat.share == worker.share else seat.share
        worker.replacement.handover = db.Handover(
            settings, share, "steady", active=seat.generation, last_generation=worker.generation
        )
        self.step(worker, db.ResizeWanted(self._clock.monotonic(), worker.share, worker.replacement.beside))

    def step(self, worker: WorkerState, event: db.HandoverEvent) -> None:
        """One step of the handover, and its orders."""
        if worker.replacement.handover is None:
            return
        state, orders = db.handle(worker.replacement.handover, event)
        worker.replacement.handover = state
        if isinstance(event, db.TwinReady) and worker.replacement.twin is not None and state.active == event.generation:
            worker.seat, worker.replacement.twin = worker.replacement.twin, None
            worker.seat.in_force = worker.replacement.standing_by = True
            worker.stopped, worker.state = asyncio.Event(), "running"
        for order in orders:
            if isinstance(order, db.StartWorker) and state.active is None:
                # There is no process to go on meanwhile: an ordinary start.
                worker.replacement.handover = None
                self._launch(worker)
            elif isinstance(order, db.StartWorker):
                worker.replacement.twin = self._seats.start(worker, order.share, standby=True)
            elif isinstance(order, db.RetireWorker | db.Kill):
                self._dismiss(worker, order)
            elif isinstance(order, db.Commit):
                worker.replacement.count += 1
                self._on_event("worker.respawned", {"worker": worker.spec.name, "share": order.share})
            elif isinstance(order, db.Abandon):
                self._abandoned(worker, order)
        if worker.replacement.handover is state and state.phase == "steady":
            worker.replacement.handover = None
        self.take_over(worker)
        self.apply_share(worker)

    def _dismiss(self, worker: WorkerState, order: db.RetireWorker | db.Kill) -> None:
        for seat in worker.seats:
            if seat.generation != order.generation or seat.process is None:
                continue
            if isinstance(order, db.RetireWorker):
                seat.process.send(Retire())
            else:
                seat.last_error = seat.last_error or "did not get ready or end in time"
                self._seats.end_soon(worker, seat)

    def _abandoned(self, worker: WorkerState, order: db.Abandon) -> None:
        self._on_event(
            "worker.respawn_failed", {"worker": worker.spec.name, "share": order.share, "reason": order.reason}
        )
        twin, worker.replacement.twin = worker.replacement.twin, None
        out_of_memory = twin is not None and twin.error_code == "out_of_memory"
        if out_of_memory and worker.replacement.beside:
            worker.replacement.beside = False  # two do not fit: the old one makes room first
        elif worker.seat is not None and worker.share == order.share:
            worker.share = worker.seat.share  # until it is wished for again

    def predecessor_gone(self, worker: WorkerState, seat: Seat, reason: str, clean: bool) -> None:
        """A process whose place another one has taken is gone."""
        if seat.in_force and not clean:
            # Its work in hand is not done: the giver of that work must know.
            worker.spec.on_lost(f"{reason}; another process had taken its place")
        self.step(worker, db.WorkerDied(self._clock.monotonic(), seat.generation, reason))
        self.take_over(worker)
        self.apply_share(worker)

    def take_over(self, worker: WorkerState) -> None:
        """Once the predecessor has stopped its successor goes on."""
        busy = any(s.in_force and not s.retired for s in worker.seats if s is not worker.seat)
        if not worker.replacement.standing_by or worker.process is None or busy:
            return
        worker.replacement.standing_by = False
        argument = worker.spec.argument_now()
        worker.process.send(TakeOver(argument))
        send_held(worker)
        worker.spec.on_message(Ready())


def send_held(worker: WorkerState) -> None:
    """Send the commands that waited for the worker's process."""
    while worker.replacement.held and worker.process is not None:
        worker.process.send(worker.replacement.held.popleft())
