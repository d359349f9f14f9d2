"""The device under the workers: reported when it is sick, mended at the second look in a row, and only when that is
due."""

from __future__ import annotations

from typing import Any

import pytest
from runtime_kit import Respawning

from edge.core.clock import ManualClock
from edge.core.shares import Grant, ResizeOutcome, Role
from edge.core.workers import GOLDEN
from edge.runtime.device_watch import DeviceWatch
from edge.runtime.replacements import Replacements
from edge.runtime.seats import Seats
from edge.runtime.worker_state import Replacement, Seat, WorkerSpec, WorkerState
from edge.shares.cpu import CpuPartitioner


class FakeProcess:
    """A process that is only a number."""

    pid = 4711
    alive = True


class Attaching(Respawning):
    """Writes down what is put under its share; there is no process to put under one."""

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        self.calls.append((f"attach {role} {pid} {share}", worker))
        return Grant(worker, role, share, share)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        return ResizeOutcome(True)


class Watched:
    """A watch over one worker's device, and all its messages."""

    pid = 7

    def __init__(self, partitioner: CpuPartitioner, device: str = "cpu", shared: bool = True) -> None:
        self.shares = Attaching(partitioner, device)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.relaunched: list[str] = []
        clock = ManualClock()
        spec = WorkerSpec(
            GOLDEN, lambda channel, argument: None, None, lambda message: None, lambda why: None,
            None, None, False, False, shared,
        )  # fmt: skip
        self.worker = WorkerState(spec, 0.3, True, Replacement(beside=True), state="running")
        self.worker.seat = Seat("golden", 1, 0.3, 0.0, 0.0, FakeProcess())  # type: ignore[arg-type]
        seats = Seats(self.shares, clock, self._note, lambda *args: None, lambda *args: None)
        replacements = Replacements(self.shares, clock, self._note, seats, lambda worker: None, 60.0)
        self.watch = DeviceWatch(
            self.shares, clock, self._note, {"golden": self.worker}, seats, replacements, self._relaunch
        )

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append((kind, data))

    def _relaunch(self, worker: WorkerState) -> None:
        self.relaunched.append(worker.spec.name)


async def test_trouble_is_reported_once_and_so_is_its_end(partitioner: CpuPartitioner) -> None:
    w = Watched(partitioner)
    await w.watch.look(0.0)
    assert (w.watch.trouble, w.events) == (None, [])
    w.shares.sick = "no answer"
    await w.watch.look(1.0)
    assert w.watch.trouble == "no answer"
    w.shares.sick = None
    await w.watch.look(2.0)
    await w.watch.look(3.0)
    assert w.watch.trouble is None
    assert w.events == [
        ("worker.device_sick", {"message": "no answer"}),
        ("worker.device_recovered", {"was": "no answer"}),
    ]
    assert w.shares.calls == [], "one bad look mends nothing"


async def test_a_sick_device_is_mended_at_once_then_after_growing_pauses(partitioner: CpuPartitioner) -> None:
    w = Watched(partitioner)
    w.shares.sick = "the control group is gone"
    mended = []
    for second in range(30):
        w.shares.calls.clear()
        await w.watch.look(float(second))
        if w.shares.calls:
            assert w.shares.calls == [("attach golden 4711 0.3", "golden")]
            mended.append(second)
    assert mended == [1, 2, 7, 22], "0, 5, 15 s between"


@pytest.mark.parametrize("how", ["not shared", "being replaced", "gone"])
async def test_a_worker_without_a_share_of_its_own_is_left_alone(partitioner: CpuPartitioner, how: str) -> None:
    w = Watched(partitioner, shared=how != "not shared")
    seat = w.worker.seat
    assert seat is not None
    if how == "gone":
        seat.gone = True
    elif how == "being replaced":
        w.worker.replacement.handover = object()  # type: ignore[assignment]
    w.shares.sick = "the control group is gone"
    await w.watch.look(0.0)
    await w.watch.look(1.0)
    assert w.shares.calls == []


async def test_where_the_device_is_at_fault_waiting_workers_are_started_again(partitioner: CpuPartitioner) -> None:
    w = Watched(partitioner, device="GPU-1")
    w.worker.state = "waiting"
    w.shares.sick = "MPS server 12 is in FAULT"
    await w.watch.look(0.0)
    await w.watch.look(1.0)
    assert w.events[1:] == [("worker.device_restart", {"message": "MPS server 12 is in FAULT", "workers": ["golden"]})]
    assert w.relaunched == ["golden"]
    assert (w.worker.restarts, w.watch.restarting) == (1, False)
