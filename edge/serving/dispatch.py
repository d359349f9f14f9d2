"""Batches from queues to executors: the next turn, the outstanding batches, and their results.

An executor takes one batch of each of its models per cycle, in a fixed order, and is handed the next batch shortly
before it has finished the last one. Everything runs on the front's event loop; nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence

from edge.core.batching import Batching, Lane
from edge.core.errors import InvalidValue, MagpieError, Overloaded, Unavailable
from edge.core.front_messages import ExecutorConnected, ExecutorDrained, ExecutorGone, Layout
from edge.core.oip import InferResponse, Tensor
from edge.serving.arena import ArenaFull
from edge.serving.batch_times import BatchTimes
from edge.serving.deadlines import TICK_S, DeadlineWatch
from edge.serving.front_link import BatchDone, BatchInput, FrontLink
from edge.serving.lanes import LATE_S, ExecutorSeat, RunningBatch, SeatLane, Served, TurnGroup
from edge.serving.link_messages import Failed
from edge.serving.open_requests import OpenRequests, too_late
from edge.serving.outputs import checked_outputs
from edge.serving.queues import Pending, TakenRows
from edge.serving.routing import RoutingTable

log = logging.getLogger(__name__)

Event = ExecutorConnected | ExecutorDrained | ExecutorGone

#: The next batch is handed over so long before the running one is expected to end.
_LEAD_S = 0.001
#: A turn due so soon is due now.
_EARLY_S = 1e-6


class Dispatcher:
    """Hands batches to the executors of `routing` and answers `requests`. `on_event` receives executors that come, go
    and are drained.
    """

    def __init__(
        self,
        batching: Batching,
        routing: RoutingTable,
        requests: OpenRequests,
        on_event: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._batching, self._routing, self._requests = batching, routing, requests
        self._on_event, self._clock, self._wall = on_event, clock, wall
        self._loop = asyncio.get_running_loop()
        self._deadlines = DeadlineWatch(batching, requests, clock, self._settle)
        self._dirty: list[Served] = []
        self._scheduled = False
        self._closed = False

    # -- requests

    def admit(self, served: Served, request: Pending) -> None:
        """Take a request in (it has been counted as arrived). Raises Unavailable, Overloaded, DeadlineMissed, each
        counted."""
        version, requests, open_ = served.version, self._requests, served.open
        lanes = served.live_lanes()
        if not lanes:
            raise requests.refuse(
                served, "failed", Unavailable(f"{version.model}: no executor serves it now", "try again")
            )
        if open_ >= version.depth:
            message = f"{version.model}: {open_} requests are waiting or running, as many as its queue may hold"
            raise requests.refuse(served, "rejected", Overloaded(message))
        now_s = request.arrived_s
        ahead = served.queue.rows_before(request.order)
        if self._batching.hopeless(
            ahead, request.rows, request.deadline_s, [lane.view(now_s) for lane in lanes], now_s
        ):
            raise requests.refuse(served, "dropped", too_late(served, request, now_s))
        requests.admit(served, request)
        self._deadlines.sooner(served, request.deadline_s, now_s)
        self._touch(served)

    def cancelled(self, request: Pending) -> None:
        """The client of an open request is gone."""
        self._requests.cancel(request)
        if request.queue.leaving:
            self._settle()

    def close(self) -> None:
        """Fail what is open; nothing is sent any more."""
        self._closed = True
        self._deadlines.close()
        for served in list(self._routing.served.values()):
            for request in served.queue.pop(range(len(served.queue))):
                self._requests.fail(served, request, Unavailable("the serving front stops"))
            self._deadlines.forget(served)
        for seat in self._routing.seats.values():
            for batch in list(seat.running.values()):
                for request, _ in batch.parts:
                    self._requests.fail(batch.lane.served, request, Unavailable("the serving front stops"))
            if seat.timer is not None:
                seat.timer.cancel()

    # -- layout

    def apply(self, layout: Layout) -> None:
        """Routes in force from the next batch on. A request that waits for a version that is served no more goes to the
        version that is, if its tensors are the same and no version was asked for; else it is answered by its old
        executors. A request that has another queue of its version now goes there.
        """
        routing = self._routing
        if routing.layout is not None and layout.number < routing.layout.number:
            return
        for replaced in routing.apply(layout):
            self._requests.abandon(replaced, "another model took its place")
        for served in list(routing.served.values()):
            self._move(served)
        for served in list(routing.served.values()):
            self._touch(served)
            if served.queue and not served.live_lanes():
                self._requests.abandon(served, "its executors are gone")
        self._settle()

    def _move(self, served: Served) -> None:
        """Move requests that are to wait elsewhere now (`RoutingTable.home`)."""
        if not served.queue or not (served.queue.leaving or served.beside):
            return
        homes = {request: self._routing.home(served, request) for request in served.queue.waiting}
        for target in dict.fromkeys(home for home in homes.values() if home is not served):
            moved = [n for n, request in enumerate(served.queue.waiting) if homes[request] is target]
            for request in served.queue.hand_over(moved, target.queue):
                self._deadlines.sooner(target, request.deadline_s, self._clock())
            self._touch(target)

    def _settle(self) -> None:
        """Report the executors that are drained; forget versions and executors that nothing needs any more."""
        gone, drained = self._routing.settle()
        for served in gone:
            self._deadlines.forget(served)
        for executor in drained:
            self._on_event(ExecutorDrained(executor))

    # -- executors (edge.serving.front_link.LinkHandler)

    def joined(self, link: FrontLink) -> None:
        """An executor has connected."""
        seat = self._routing.seat(link.executor)
        link.handler = self
        seat.link, seat.blocked = link, False
        self._on_event(ExecutorConnected(link.executor))
        for lane in seat.lanes:
            self._touch(lane.served)

    def models_changed(self, link: FrontLink) -> None:
        """It has other versions loaded than before."""
        for lane in self._routing.seat(link.executor).lanes:
            self._touch(lane.served)

    def batch_done(self, link: FrontLink, done: BatchDone) -> None:
        """Answer the batch's requests and hand over the next one."""
        seat = self._routing.seats[link.executor]
        now_s = self._clock()
        batch = seat.answered(done.number, now_s)
        served, times = batch.lane.served, done.times
        seat.counts.batch(served.version.model, len(batch.parts), batch.rows, times.busy_s, times.waited_s)
        try:
            outputs = checked_outputs(served.version, done.outputs)
            self._deliver(served, batch, outputs, done, now_s)
        except Unavailable as error:
            for request, _ in batch.parts:
                self._requests.fail(served, request, error)
        finally:
            link.release(done.number)
        self._feed(seat)
        if served.queue.leaving or seat.report_drained:
            self._settle()

    def batch_failed(self, link: FrontLink, failed: Failed) -> None:
        """Try again what may succeed, fail the rest."""
        seat = self._routing.seats[link.executor]
        batch = seat.answered(failed.number, self._clock())
        served = batch.lane.served
        seat.counts.batch(
            served.version.model, len(batch.parts), batch.rows, failed.times.busy_s, failed.times.waited_s
        )
        small = failed.code == "output_too_large" and failed.needed_bytes > batch.output_bytes
        if (
            small
            and failed.needed_bytes <= link.arena.size // 2
            and served.sizes.too_small(failed.needed_bytes, batch.rows)
        ):
            for request, pieces in batch.parts:
                if not request.settled:
                    request.queue.give_back(request, pieces)
        else:
            reason = failed.reason.strip() or failed.code
            error = Unavailable(f"{served.version.model}: the model failed: {reason}")
            # One request that its model cannot take must not fail the others in its batch: each is tried alone. That
            # takes nothing from the one more try that each has if an executor is lost; it comes once, since a request
            # tried alone has no company to fail with.
            self._requests.try_again(served, batch.parts, error, alone=True, worth=len(batch.parts) > 1, counts=False)
        self._watch_again(served)
        self._feed(seat)
        self._settle()

    def link_lost(self, link: FrontLink, outstanding: tuple[int, ...], reason: str) -> None:
        """Its batches go to other executors, if there are any and there is time; else their requests fail."""
        seat = self._routing.seats[link.executor]
        if seat.link is not link:
            return
        before = self._routing.failed
        for n, batch in enumerate(seat.lost()):
            error = Unavailable(f"{batch.lane.served.version.model}: its executor was lost: {reason}")
            worth = not self._closed and batch.lane.served.any_live()
            # The first of them was running: if one of its requests ended the executor, only that one meets it again.
            self._requests.try_again(batch.lane.served, batch.parts, error, alone=n == 0, worth=worth)
            self._watch_again(batch.lane.served)
        for lane in seat.lanes:
            self._move(lane.served)
            if lane.served.queue and not lane.served.live_lanes():
                self._requests.abandon(lane.served, f"its executor was lost: {reason}")
            self._touch(lane.served)
        lost = self._routing.failed - before
        if not self._closed:
            self._on_event(ExecutorGone(link.executor, lost))
        self._settle()

    def _watch_again(self, served: Served) -> None:
        """Requests may have come back to the version's queues."""
        for one in (served, *served.beside):
            self._move(one)
            if one.queue:
                self._deadlines.watch(one, self._clock())
            self._touch(one)

    # -- batches

    def _touch(self, served: Served) -> None:
        """Look at its queue when requests sent together have come."""
        if not served.dirty:
            served.dirty = True
            self._dirty.append(served)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        dirty, self._dirty = self._dirty, []
        for served in dirty:
            served.dirty = False
            for seat in served.in_order() if served.queue else ():
                self._feed(seat)
        if any(served.queue.leaving for served in dirty):
            self._settle()

    def _feed(self, seat: ExecutorSeat) -> None:
        """Hand over the next batch, if it is time."""
        while seat.link is not None and not seat.blocked and not self._closed:
            now_s = self._clock()
            if seat.running:
                if len(seat.running) > 1:
                    return
                left_s = seat.free_s - now_s
                if left_s < -LATE_S:
                    return  # overdue: a waiting request is better off where it can still be given to another
                if left_s > _LEAD_S:
                    if any(lane.served.queue for lane in seat.lanes):
                        self._later(seat, max(TICK_S, left_s - _LEAD_S))
                    return
            if not self._next(seat, now_s):
                return

    def _later(self, seat: ExecutorSeat, seconds: float) -> None:
        due_s = self._loop.time() + seconds
        if seat.timer is not None:
            if seat.timer_s <= due_s:
                return
            seat.timer.cancel()
        seat.timer, seat.timer_s = self._loop.call_at(due_s, self._tick, seat), due_s

    def _tick(self, seat: ExecutorSeat) -> None:
        seat.timer = None
        for one in [seat] if seat.group is None else seat.group.in_order():
            self._feed(one)

    def _next(self, seat: ExecutorSeat, now_s: float) -> bool:
        """The next batch of the first model in turn that has one; False if there is none."""
        lanes, link = seat.lanes, seat.link
        assert link is not None
        again_s = held_s = math.inf
        first = seat.turn
        for k in range(len(lanes)):
            at = (first + k) % len(lanes)
            lane = lanes[at]
            fresh = not first or at < first  # its cycle is over, the next one begins here
            if seat.group is not None and fresh:
                seat.turn = 0
                held_s = self._held_s(seat.group, seat, now_s)
                if held_s > now_s + _EARLY_S:
                    break
                held_s = math.inf  # it is its turn: the rules of the batch say when to look again
            served = lane.taken_from()
            if served is None or served.key not in link.models:
                continue
            mine = lane.in_turn(now_s)
            others = self._others(lane, served, now_s) if served is not lane.served or len(served.lanes) > 1 else ()
            formed = self._batching.form(served.queue.waiting, mine, others, now_s)
            take = formed.take
            if formed.drop:
                for request in served.queue.pop(formed.drop):
                    self._requests.drop(served, request, now_s)
                if take:
                    gone = formed.drop
                    take = tuple((i - sum(d < i for d in gone), rows) for i, rows in take)
            if take:
                start_s = seat.free_at(now_s)
                if self._send(seat, lane, served, take, now_s):
                    seat.turn = (at + 1) % len(lanes)
                    if fresh:
                        seat.begins(start_s)
                    return True
                if seat.blocked:
                    return False
                continue
            if formed.again_s is not None:
                again_s = min(again_s, formed.again_s)
        # A turn is due to the instant; where the rules ask to be asked again, a tick more does not matter.
        wait_s = min(held_s, max(again_s, now_s + TICK_S)) - now_s
        if wait_s < math.inf:
            self._later(seat, wait_s)
        return False

    def _others(self, lane: SeatLane, served: Served, now_s: float) -> list[Lane]:
        """The further lanes of the queue, those of other groups as they are when it is their turn."""
        found = []
        for other in served.live_lanes():
            if other is lane:
                continue
            view, group = other.view(now_s), other.seat.group
            if group is not None and group is not lane.seat.group and not other.seat.turn:
                view = view._replace(free_s=max(view.free_s, self._held_s(group, other.seat, now_s)))
            found.append(view)
        return found

    def _held_s(self, group: TurnGroup, seat: ExecutorSeat, now_s: float) -> float:
        """When `seat` may be handed the first batch of its next cycle: now, or later where its turn is not yet."""
        start_s = seat.free_at(now_s)
        begin_s = self._batching.begin_s(group.turn(seat, now_s), group.queues(seat, TICK_S), start_s)
        return now_s + (begin_s - start_s)

    def _send(
        self, seat: ExecutorSeat, lane: SeatLane, served: Served, take: Sequence[tuple[int, int]], now_s: float
    ) -> bool:
        """Hand a batch of a queue over; False if nothing was sent (the queue may have changed)."""
        link = seat.link
        assert link is not None
        parts = served.queue.take(take)
        rows = sum(n for _, n in take)
        inputs = [
            BatchInput(spec.name, spec.datatype, [a for request, pieces in parts for a in request.pieces_of(n, pieces)])
            for n, spec in enumerate(served.version.inputs)
        ]
        output_bytes = served.sizes.room(rows)
        began_s = self._clock()
        try:
            number = link.send(served.version.model, served.version.version, inputs, output_bytes)
        except ArenaFull as error:
            self._no_room(seat, lane, parts, rows, error)
            return False
        except MagpieError as error:
            # Lost in this instant (its end is reported next), or tensors that cannot be joined: only these fail.
            for request, _ in parts:
                self._requests.fail(served, request, Unavailable(f"{served.version.model}: {error}"))
            return False
        input_s = self._clock() - began_s
        expected_s = lane.times.upper_s[min(rows, lane.batch) - 1]
        for request, _ in parts:
            if not request.stages.begun_s:
                request.stages.begun_s = now_s
            request.stages.input_s += input_s
        seat.sent(number, RunningBatch(lane, parts, rows, now_s, expected_s, input_s, output_bytes))
        return True

    def _no_room(
        self,
        seat: ExecutorSeat,
        lane: SeatLane,
        parts: list[TakenRows],
        rows: int,
        error: ArenaFull,
    ) -> None:
        """The arena cannot hold the batch: wait for one that runs, or make it smaller for good."""
        served = lane.served
        if not seat.running and rows <= 1:
            for request, _ in parts:
                given = f"{request.nbytes} bytes"
                self._requests.fail(
                    served, request, InvalidValue("inputs", given, f"what fits into an executor's memory: {error}")
                )
            return
        for request, pieces in parts:
            request.queue.give_back(request, pieces)
        if seat.running:
            seat.blocked = True
            return
        lane.batch = max(1, rows // 2)
        lane.times = BatchTimes(lane.batch, lane.times.upper_s[lane.batch - 1])
        log.warning("%s: batches of %s are cut to %d rows: %s", seat.name, served.key, lane.batch, error)
        self._touch(served)

    def _deliver(
        self, served: Served, batch: RunningBatch, outputs: Mapping[str, Tensor], done: BatchDone, now_s: float
    ) -> None:
        times = done.times
        at = 0
        version, statistics = served.version, served.statistics
        served.sizes.learn(done.outputs, batch.rows)
        statistics.last_utc_ms = int(self._wall() * 1000)
        answered = []
        for request, pieces in batch.parts:
            rows = sum(count for _, count in pieces)
            request.running -= rows
            stages = request.stages
            stages.infer_s += times.infer_s
            stages.output_s += times.output_s
            stages.input_s += times.input_s
            if not request.settled:
                try:
                    tensors = request.collect(version, pieces, outputs, at)
                    if tensors is not None:
                        answered.append((request, tensors))
                except Unavailable as error:
                    self._requests.fail(served, request, error)
            at += rows
        delivered_s = self._clock()
        output_s = times.output_s + delivered_s - now_s
        statistics.batch(batch.rows, batch.input_s + times.input_s, times.infer_s, output_s)
        for request, tensors in answered:
            total_s = delivered_s - request.arrived_s
            stages = request.stages
            queued_s = stages.begun_s - request.arrived_s + times.waited_s
            statistics.answered(total_s, queued_s, stages.input_s, stages.infer_s, stages.output_s)
            served.counts.latency(total_s, delivered_s > request.deadline_s)
            self._requests.answer(request, InferResponse(version.model, version.version, tensors, request.id))
