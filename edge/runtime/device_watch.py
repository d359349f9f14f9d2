"""The device under the workers: looked at, and mended where it is sick."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.journal_kinds import WorkerEntryKind
from edge.core.shares import Partitioner, Role
from edge.runtime.replacements import Replacements
from edge.runtime.seats import Seats
from edge.runtime.worker_state import WorkerState

log = logging.getLogger(__name__)

#: Seconds between two attempts to mend a sick device by starting all its workers again.
_MEND_BACKOFF_S = (0.0, 5.0, 15.0, 60.0)
#: All workers of a device that is started again are gone within this time, or those that are stay alone.
_RESTART_S = 10.0
_ROLE_ORDER: tuple[Role, ...] = ("inference", "golden", "retraining", "profiling")


class DeviceWatch:
    """`relaunch(worker)` starts a worker that waits. Events: device_sick, device_recovered, device_restart."""

    def __init__(
        self,
        partitioner: Partitioner,
        clock: Clock,
        on_event: Callable[[WorkerEntryKind, dict[str, Any]], None],
        workers: Mapping[str, WorkerState],
        seats: Seats,
        replacements: Replacements,
        relaunch: Callable[[WorkerState], None],
    ) -> None:
        self._partitioner, self._clock, self._on_event = partitioner, clock, on_event
        self._workers, self._seats, self._replacements, self._relaunch = workers, seats, replacements, relaunch
        self._mends = 0
        self._mend_at_s = 0.0
        #: All workers of the device are being ended: none is started before the last is gone.
        self.restarting = False
        #: The partitioner's complaint about the device, as of the last look (None: none).
        self.trouble: str | None = None

    async def look(self, now: float) -> None:
        """Ask how the device is, and mend one that is sick at two looks in a row. `now` is monotonic, in seconds."""
        if self._partitioner.caps.device == "cpu":
            trouble = self._partitioner.healthy()
        else:
            trouble = await asyncio.to_thread(self._partitioner.healthy)
        before, self.trouble = self.trouble, trouble
        if trouble is None:
            if before is not None:
                self._mends = 0
                self._on_event("worker.device_recovered", {"was": before})
        elif before is None:
            log.warning("device: %s", trouble)
            self._on_event("worker.device_sick", {"message": trouble})
        elif not self.restarting and now >= self._mend_at_s:
            # Sick at two looks in a row.
            self._mend_at_s = now + _MEND_BACKOFF_S[min(self._mends, len(_MEND_BACKOFF_S) - 1)]
            self._mends += 1
            await self._mend(trouble)

    async def _mend(self, trouble: str) -> None:
        """Put every worker under its share again; where the device itself is at fault, start all anew."""
        caps, respawned = self._partitioner.caps, False
        for worker in list(self._workers.values()):
            seat = worker.seat
            if seat is None or seat.gone or seat.process is None or not seat.there:
                continue
            if worker.replacement.handover is not None or not worker.spec.shared:
                continue
            try:
                if caps.device == "cpu":
                    self._partitioner.attach(seat.place, worker.spec.role, seat.process.pid, seat.share)
                elif not self._partitioner.resize(seat.place, seat.share).live:
                    respawned = True
                    self._replacements.respawn(worker, seat)
            except ShareError as error:
                self._seats.refused(worker, seat.share, error)
        if caps.fault_domain == "device" and not respawned:
            await self._restart_all(trouble)

    async def _restart_all(self, trouble: str) -> None:
        """All workers of the device end before the first is started again: only then does it recover."""
        self.restarting = True
        shared = [w for w in self._workers.values() if w.spec.shared]
        workers = sorted(shared, key=lambda w: (_ROLE_ORDER.index(w.spec.role), w.spec.name))
        self._on_event("worker.device_restart", {"message": trouble, "workers": [w.spec.name for w in workers]})
        try:
            for worker in workers:
                worker.replacement.handover = worker.replacement.twin = None
                for seat in worker.seats:
                    seat.last_error, seat.ending = f"ended with all workers of the device: {trouble}", True
                    seat.cause = "device"
            seats = [seat for worker in workers for seat in worker.seats]
            await asyncio.gather(*(self._seats.end(seat) for seat in seats))
            deadline = self._clock.monotonic() + _RESTART_S
            while any(not s.gone for s in seats) and self._clock.monotonic() < deadline:
                await asyncio.sleep(0.02)
        finally:
            self.restarting = False
        for worker in workers:
            if worker.state == "waiting":
                worker.restarts += 1
                self._relaunch(worker)
