"""Served versions, executors as the front knows them, and the lanes between the two."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

from edge.core.batching import Lane, Turn, TurnQueue
from edge.core.front_messages import Route, ServedVersion
from edge.serving.batch_times import BatchTimes
from edge.serving.front_link import FrontLink
from edge.serving.outputs import OutputSizes
from edge.serving.queues import ModelQueue, TakenRows
from edge.serving.statistics import ExecutorCounts, ModelCounts, VersionStatistics

#: A batch that is late by so little is expected in this instant.
LATE_S = 0.001


class Served:
    """A version that requests can be for: one `number`ed queue of it, the lanes that serve that, the version's counts.
    `beside` are its other queues."""

    def __init__(
        self, version: ServedVersion, counts: ModelCounts, statistics: VersionStatistics, number: int = 0
    ) -> None:
        self.version = version
        self.key = version.key
        self.number = number
        self.beside: tuple[Served, ...] = ()
        self.counts, self.statistics = counts, statistics
        self.queue = ModelQueue(counts)
        self.lanes: list[SeatLane] = []
        self.sizes = OutputSizes(version.outputs)
        #: Its queue is to be looked at when requests sent together have come.
        self.dirty = False

    def in_order(self) -> list[ExecutorSeat]:
        """Its executors in the order in which they are asked to take what waits: the fastest first, and those of a
        group in turn; then those of the version's other queues, which may help."""
        seats: dict[ExecutorSeat, None] = {}
        for lane in self.lanes:
            group = lane.seat.group
            seats |= dict.fromkeys([lane.seat] if group is None else group.in_order())
        for lane in (lane for other in self.beside for lane in other.lanes):
            if lane.seat.group is None:
                seats[lane.seat] = None
        return list(seats)

    @property
    def open(self) -> int:
        """Requests that wait or run, in all queues of the version."""
        return self.queue.open + sum(other.queue.open for other in self.beside)

    def overfull(self) -> bool:
        """More waits than its own executors take in a batch each."""
        return self.queue.rows > sum(lane.batch for lane in self.live_lanes())

    def any_live(self) -> bool:
        """Some executor answers requests of the version, whichever queue they wait in."""
        return bool(self.live_lanes()) or any(other.live_lanes() for other in self.beside)

    def live_lanes(self) -> list[SeatLane]:
        """Lanes whose executor is connected and has the version loaded."""
        key = self.key
        return [lane for lane in self.lanes if (link := lane.seat.link) is not None and key in link.models]


@dataclass(eq=False)
class SeatLane:
    """One model's place in an executor's cycle. Times are in seconds on the front's clock."""

    seat: ExecutorSeat
    served: Served
    batch: int
    times: BatchTimes

    def view(self, now_s: float) -> Lane:
        """The lane as its model sees it now: behind what runs and behind the models whose turn comes first."""
        seat = self.seat
        self.times.forget(now_s)
        free_s = seat.free_at(now_s)
        if len(seat.lanes) == 1:
            return Lane(seat.name, self.batch, self.times.upper_s, free_s, self.times.upper_s[-1], seat.group_name)
        for k in range(len(seat.lanes)):
            other = seat.lanes[(seat.turn + k) % len(seat.lanes)]
            if other is self:
                break
            if other.served.queue.rows:
                free_s += other.times.upper_s[min(other.served.queue.rows, other.batch) - 1]
        return Lane(seat.name, self.batch, self.times.upper_s, free_s, self.cycle_s(), seat.group_name)

    def in_turn(self, now_s: float) -> Lane:
        """The lane as it is when it is its model's turn."""
        seat = self.seat
        return Lane(
            seat.name, self.batch, self.times.upper_s, seat.free_at(now_s), self.cycle_s(), seat.group_name
        )  # fmt: skip

    def cycle_s(self) -> float:
        """Time of one cycle of the executor: a full batch of this model, and the waiting ones of the others."""
        cycle_s = self.times.upper_s[-1]
        for other in self.seat.lanes:
            if other is not self and other.served.queue.rows:
                cycle_s += other.times.upper_s[min(other.served.queue.rows, other.batch) - 1]
        return cycle_s

    def taken_from(self) -> Served | None:
        """The queue that its next batch is of; None: nothing waits for it. It helps the version's other queue when its
        own is empty and more waits there than the executors of that queue take in a batch each. Its own requests are
        as soon answered as behind a batch of their own, which takes as long. Gpu-lets that begin in turn do not help:
        the others count on their beat."""
        if self.served.queue or self.seat.group is not None:
            return self.served if self.served.queue else None
        return next((other for other in self.served.beside if other.overfull()), None)


@dataclass(eq=False)
class RunningBatch:
    """A batch that was handed to an executor. `parts` are its requests with the rows of each."""

    lane: SeatLane
    parts: list[TakenRows]
    rows: int
    sent_s: float
    expected_s: float
    input_s: float
    output_bytes: int


@dataclass(eq=False)
class ExecutorSeat:
    """One executor as the front knows it."""

    name: str
    link: FrontLink | None = None
    route: Route | None = None
    lanes: list[SeatLane] = field(default_factory=list)
    turn: int = 0
    running: dict[int, RunningBatch] = field(default_factory=dict)
    free_s: float = 0.0
    answered_s: float = 0.0
    blocked: bool = False
    report_drained: bool = False
    group: TurnGroup | None = None
    begun_s: float = -math.inf
    timer: asyncio.TimerHandle | None = None
    timer_s: float = 0.0
    counts: ExecutorCounts = field(default_factory=ExecutorCounts)

    @property
    def group_name(self) -> str:
        """Of the group whose gpu-lets begin in turn with this one; empty: it begins whenever it is free."""
        return "" if self.group is None else self.group.name

    def begins(self, at_s: float) -> None:
        """A cycle begins: the first batch of it is handed over."""
        self.begun_s = at_s
        if self.group is not None:
            self.group.begun_s = at_s

    def free_at(self, now_s: float) -> float:
        """When it is expected to have finished what it was handed."""
        if not self.running:
            return now_s
        if self.free_s > now_s - LATE_S:
            return max(now_s, self.free_s)
        # Overdue: not known. The longer it is, the longer it is likely to be, so that one that hangs looks worse and
        # worse to the requests that were left to it.
        return now_s + max(next(iter(self.running.values())).expected_s, now_s - self.free_s)

    def cycle_ends(self, now_s: float) -> float:
        """When it is expected to be free for its next cycle, with full batches of the models that are still to come in
        this one."""
        rest = self.lanes[self.turn :] if self.turn else ()
        return self.free_at(now_s) + sum(lane.times.upper_s[-1] for lane in rest)

    def sent(self, number: int, batch: RunningBatch) -> None:
        """A batch was handed over."""
        self.running[number] = batch
        self.free_s = max(batch.sent_s, self.free_s) + batch.expected_s

    def answered(self, number: int, now_s: float) -> RunningBatch:
        """A batch is off the executor: see how long it was on it; returns it."""
        batch = self.running.pop(number)
        took_s = now_s - max(batch.sent_s, self.answered_s)
        self.answered_s = now_s
        batch.lane.times.saw(batch.rows, took_s, now_s)
        self.blocked = False
        self.free_s = now_s + sum(b.expected_s for b in self.running.values())
        return batch

    def lost(self) -> list[RunningBatch]:
        """The link has ended; returns the batches that it had, in the order of their sending."""
        self.link, self.blocked, self.free_s = None, False, 0.0
        batches = [self.running[number] for number in sorted(self.running)]
        self.running.clear()
        return batches


@dataclass(eq=False)
class TurnGroup:
    """Executors with alike gpu-lets, which begin their cycles in turn. `cycle_s`: how long one lasts; `begun_s`: when
    the last one began, on whichever of them."""

    name: str
    cycle_s: float = 0.0
    seats: list[ExecutorSeat] = field(default_factory=list)
    begun_s: float = -math.inf

    def turn(self, mine: ExecutorSeat, now_s: float) -> Turn:
        """As `mine` sees it: an executor that is lost leaves the others longer beats."""
        others = [seat for seat in self.seats if seat.link is not None and seat is not mine]
        free_s = [seat.cycle_ends(now_s) for seat in others]
        return Turn(self.cycle_s / (len(others) + 1), self.begun_s, free_s)

    def in_order(self) -> list[ExecutorSeat]:
        """Its executors, the one that began longest ago first."""
        return sorted(self.seats, key=lambda seat: seat.begun_s)

    def queues(self, seat: ExecutorSeat, margin_s: float) -> list[TurnQueue]:
        """The queues of the models of `seat`. A batch is to begin `margin_s` before it must."""
        found = []
        for lane in seat.lanes:
            queue = lane.served.queue
            earliest_s = queue.earliest_s()
            latest_s = math.inf if earliest_s is None else earliest_s - lane.cycle_s() - margin_s
            found.append(TurnQueue(queue.rows, lane.batch, self._promised(lane), latest_s))
        return found

    def _promised(self, lane: SeatLane) -> int:
        """Rows of its model that cycles under way are still to take."""
        return sum(
            other.batch
            for seat in self.seats
            if seat.turn and seat.link is not None
            for other in seat.lanes[seat.turn :]
            if other.served is lane.served
        )
