"""Processes of workers at the partitioner: a place each, a refused share is reported, and none is left behind."""

from __future__ import annotations

from typing import Any

import worker_mains as mains
from runtime_kit import Respawning, until

from edge.core.clock import SystemClock
from edge.core.errors import ShareError
from edge.core.shares import Grant, Role
from edge.core.workers import Worker
from edge.runtime.process import Ready
from edge.runtime.replacements import send_held
from edge.runtime.seats import Seats
from edge.runtime.worker_state import Replacement, Seat, WorkerSpec, WorkerState
from edge.shares.cpu import CpuPartitioner


class Refusing(Respawning):
    """Lets no process under a share."""

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        raise ShareError("no room")


class Heard:
    """Seats over real processes, and what came of them."""

    def __init__(self, shares: Respawning) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.said: list[tuple[Seat, Any]] = []
        self.exited: list[tuple[Seat, int | None]] = []
        self.seats = Seats(
            shares, SystemClock(), lambda kind, data: self.events.append((kind, data)),
            lambda worker, seat, message: self.said.append((seat, message)),
            lambda worker, seat, code: self.exited.append((seat, code)),
        )  # fmt: skip

    def worker(self, argument: Any = None) -> WorkerState:
        spec = WorkerSpec(
            Worker("w", "profiler"), mains.obedient, argument, lambda message: None, lambda why: None,
            None, None, False, False,
        )  # fmt: skip
        return WorkerState(spec, 0.2, True, Replacement(beside=False))


async def test_two_processes_of_a_worker_have_two_places(partitioner: CpuPartitioner) -> None:
    shares = Respawning(partitioner)
    heard = Heard(shares)
    worker = heard.worker()
    first = heard.seats.start(worker, 0.2, standby=False)
    second = heard.seats.start(worker, 0.3, standby=True)
    assert [(s.place, s.generation, s.share) for s in worker.seats] == [("w", 1, 0.2), ("w~1", 2, 0.3)]
    assert first.process is not None
    assert second.process is not None
    await until(lambda: len(shares.attached) == 2)
    assert shares.attached == {"w": first.process.pid, "w~1": second.process.pid}
    heard.seats.end_soon(worker, first)
    await heard.seats.end(second)
    await heard.seats.close()
    await until(lambda: len(heard.exited) == 2)
    assert {(s.place, code) for s, code in heard.exited} == {("w", -9), ("w~1", -9)}
    assert {name for call, name in shares.calls if call == "before_kill"} == {"w", "w~1"}


async def test_a_refused_share_is_reported_and_the_process_runs(partitioner: CpuPartitioner) -> None:
    heard = Heard(Refusing(partitioner))
    worker = heard.worker()
    seat = heard.seats.start(worker, 0.2, standby=False)
    await until(lambda: bool(heard.events))
    assert heard.events == [("worker.share_refused", {"worker": "w", "share": 0.2, "message": "no room"})]
    assert worker.last_error == "no room"
    assert seat.process is not None
    assert seat.process.alive
    seat.process.kill()
    await until(lambda: bool(heard.exited))


async def test_one_that_cannot_be_made_is_reported_as_dead_after_its_start(partitioner: CpuPartitioner) -> None:
    heard = Heard(Respawning(partitioner))

    def no_memory() -> Any:
        raise OSError("cannot allocate memory")

    worker = heard.worker(Unpicklable(no_memory))
    seat = heard.seats.start(worker, 0.2, standby=False)
    assert heard.exited == [], "never before its start has returned"
    await until(lambda: bool(heard.exited))
    assert heard.exited == [(seat, None)]
    assert (seat.process, seat.last_error) == (None, "could not be started: cannot allocate memory")
    await heard.seats.end(seat)


class Unpicklable:
    """An argument that fails on its way to the process."""

    def __init__(self, fail: Any) -> None:
        self._fail = fail

    def __reduce__(self) -> Any:
        return self._fail()


def test_held_commands_wait_for_a_process() -> None:
    sent: list[Any] = []

    class FakeProcess:
        """Takes every command."""

        def send(self, message: Any) -> bool:
            sent.append(message)
            return True

    worker = WorkerState(
        WorkerSpec(
            Worker("w", "golden"), mains.obedient, None, lambda m: None, lambda w: None, None, None, False, False
        ),
        0.2, True, Replacement(beside=True),
    )  # fmt: skip
    worker.replacement.held.extend([1, Ready()])
    send_held(worker)
    assert (sent, len(worker.replacement.held)) == ([], 2)
    worker.seat = Seat("w", 1, 0.2, 0.0, 0.0, FakeProcess())  # type: ignore[arg-type]
    send_held(worker)
    assert (sent, len(worker.replacement.held)) == ([1, Ready()], 0)
