"""A worker's wanted share is put in force: live where that can be, else by another process that takes its place."""

from __future__ import annotations

from typing import Any

import pytest
import worker_mains as mains
from runtime_kit import Respawning

from edge.core.clock import ManualClock
from edge.core.errors import ShareError
from edge.core.shares import ResizeOutcome
from edge.core.workers import Worker
from edge.runtime.process import Ready, Retire, TakeOver
from edge.runtime.replacements import Replacements
from edge.runtime.seats import Seats
from edge.runtime.worker_state import Replacement, Seat, WorkerSpec, WorkerState
from edge.shares.cpu import CpuPartitioner


class FakeProcess:
    """A process that keeps what it is sent."""

    alive = True

    pid = 7

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> bool:
        self.sent.append(message)
        return True


class Answering(Respawning):
    """Answers every resize as ordered."""

    answer: ResizeOutcome | ShareError = ResizeOutcome(True)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        self.calls.append((f"resize {share}", worker))
        if isinstance(self.answer, ShareError):
            raise self.answer
        return self.answer


class Put:
    """A worker whose share changes, over one process that is only a list of commands."""

    def __init__(self, partitioner: CpuPartitioner, shared: bool = True) -> None:
        self.shares = Answering(partitioner)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.launched: list[str] = []
        self.said: list[Any] = []
        self.lost: list[str] = []
        self.clock = ManualClock()
        spec = WorkerSpec(
            Worker("w", "retrain"), mains.obedient, lambda: "now", self.said.append, self.lost.append,
            None, None, False, False, shared,
        )  # fmt: skip
        self.worker = WorkerState(spec, 0.2, True, Replacement(beside=False), generation=1, state="running")
        self.process = FakeProcess()
        self.seat = Seat("w", 1, 0.2, 0.0, 0.0, self.process, in_force=True)  # type: ignore[arg-type]
        self.worker.seat = self.seat
        self.worker.seats.append(self.seat)
        seats = Seats(self.shares, self.clock, self._note, lambda *args: None, lambda *args: None)
        self.replacements = Replacements(
            self.shares, self.clock, self._note, seats, lambda worker: self.launched.append(worker.spec.name), 60.0
        )

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append((kind, data))

    def want(self, share: float) -> None:
        self.worker.share = share
        self.replacements.apply_share(self.worker)


async def test_a_live_resize_needs_no_other_process(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner)
    put.want(0.2)
    assert put.shares.calls == [], "the same share"
    put.want(0.4)
    assert (put.shares.calls, put.seat.share, put.events) == ([("resize 0.4", "w")], 0.4, [])
    assert put.worker.replacement.handover is None


async def test_a_worker_without_a_share_is_never_resized(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner, shared=False)
    put.want(0.4)
    assert (put.shares.calls, put.seat.share) == ([], 0.4)


async def test_a_refused_share_is_reported_and_not_in_force(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner)
    put.shares.answer = ShareError("no room")
    put.want(0.4)
    assert put.events == [("worker.share_refused", {"worker": "w", "share": 0.4, "message": "no room"})]
    assert put.seat.share == 0.2


@pytest.mark.parametrize("state", ["waiting", "stopping", "stopped"])
async def test_a_worker_that_does_not_run_is_left_alone(partitioner: CpuPartitioner, state: str) -> None:
    put = Put(partitioner)
    put.worker.state = state
    put.want(0.4)
    assert put.shares.calls == []


async def test_one_with_state_retires_then_another_is_launched(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner)
    put.shares.answer = ResizeOutcome(False, reason="fixed at its start")
    put.want(0.4)
    assert put.events == [("worker.respawn", {"worker": "w", "share": 0.4, "reason": "fixed at its start"})]
    assert (put.process.sent, put.launched, put.worker.replacement.holds) == ([Retire()], [], True)
    put.seat.gone = True
    put.worker.seats.remove(put.seat)
    put.replacements.predecessor_gone(put.worker, put.seat, "ended", clean=True)
    assert (put.launched, put.lost, put.worker.replacement.handover) == (["w"], [], None)


async def test_a_successor_takes_over_once_its_predecessor_does_nothing_more(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner)
    successor = FakeProcess()
    put.worker.seat = Seat("w~1", 2, 0.4, 0.0, 0.0, successor, in_force=True)  # type: ignore[arg-type]
    put.worker.seats.append(put.worker.seat)
    put.worker.replacement.standing_by = True
    put.worker.replacement.held.append("held")
    put.replacements.take_over(put.worker)
    assert (successor.sent, put.said) == ([], []), "the other one is busy"
    put.seat.retired = True
    put.replacements.take_over(put.worker)
    assert (successor.sent, put.said) == ([TakeOver("now"), "held"], [Ready()])
    put.replacements.take_over(put.worker)
    assert len(successor.sent) == 2, "once"


async def test_a_predecessor_that_dies_with_work_in_hand_is_a_loss(partitioner: CpuPartitioner) -> None:
    put = Put(partitioner)
    put.replacements.predecessor_gone(put.worker, put.seat, "ended by SIGKILL", clean=False)
    assert put.lost == ["ended by SIGKILL; another process had taken its place"]
