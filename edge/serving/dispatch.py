"""Batches from queues to executors: whose turn it is, what is outstanding, what becomes of it.

An executor takes one batch of each of its models per cycle, in a fixed order, and is handed the next batch shortly
before it has finished the last one. Everything runs on the front's event loop; nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edge.core.batching import Batching, Lane
from edge.core.errors import DeadlineMissed, InvalidValue, MagpieError, Overloaded, Unavailable
from edge.core.layout import ExecutorConnected, ExecutorDrained, ExecutorGone, Layout, Route, ServedVersion
from edge.core.oip import InferResponse, Tensor
from edge.serving.arena import ArenaFull, aligned, tensor_bytes
from edge.serving.front_link import BatchDone, BatchInput, FrontLink
from edge.serving.link_messages import Failed
from edge.serving.queues import ModelQueue, Pending
from edge.serving.statistics import ExecutorCounts, ModelCounts, Outcome, VersionStatistics

log = logging.getLogger(__name__)

Event = ExecutorConnected | ExecutorDrained | ExecutorGone

#: The next batch is handed over so long before the running one is expected to end.
_LEAD_S = 0.001
#: Room for the outputs of a batch whose size nobody knows yet.
_UNKNOWN_OUTPUT = 64 * 1024
#: Weight of a new batch time in the moving mean; times of a size that was not seen for so long are forgotten.
_ALPHA, _FORGET_S = 0.15, 10.0
#: No request waits so short that a timer could tell.
_TICK_S = 0.001


class BatchTimes:
    """Expected time of a batch of n rows on one lane: what was planned, then what was seen.

    Seen is from handing over to the answer, with nothing before it in the executor: mean plus twice the mean
    deviation. Where that is more than planned, but the mean is not, the plan is believed: on a CPU share a batch after
    a pause is quick and one in steady use is as slow as planned, which makes the deviation large. Before anything was
    seen a smaller batch than planned for is taken to be faster in proportion: a hopeful guess is corrected by the first
    batch, a gloomy one would never be tried.
    """

    def __init__(self, batch: int, planned_s: float) -> None:
        self.batch, self.planned_s = batch, planned_s
        self._seen: dict[int, list[float]] = {}  # rows -> mean, mean deviation, count, when
        self.upper_s: tuple[float, ...] = self._uppers()

    def saw(self, rows: int, seconds: float, now_s: float) -> None:
        """A batch of `rows` took `seconds`."""
        rows = min(rows, self.batch)
        known = self._seen.get(rows)
        if known is None:
            self._seen[rows] = [seconds, 0.1 * seconds, 1.0, now_s]
            self.upper_s = self._uppers()
            return
        weight = max(_ALPHA, 1.0 / (known[2] + 1.0))
        known[1] += weight * (abs(seconds - known[0]) - known[1])
        known[0] += weight * (seconds - known[0])
        known[2] += 1.0
        known[3] = now_s
        told = self.upper_s[rows - 1]
        if abs(self._upper(known) - told) > 0.05 * told:
            self.upper_s = self._uppers()

    def forget(self, now_s: float) -> None:
        """Drop what was not seen for long: a hiccup must not keep a lane idle for ever."""
        old = [rows for rows, known in self._seen.items() if now_s - known[3] > _FORGET_S]
        for rows in old:
            del self._seen[rows]
        if old:
            self.upper_s = self._uppers()

    def _upper(self, known: list[float]) -> float:
        return min(known[0] + 2.0 * known[1], max(known[0], self.planned_s))

    def _uppers(self) -> tuple[float, ...]:
        known = sorted((rows, self._upper(v)) for rows, v in self._seen.items())
        if not known:
            return tuple(self.planned_s * n / self.batch for n in range(1, self.batch + 1))
        least, most = known[0], known[-1]
        out: list[float] = []
        at = 0
        for n in range(1, self.batch + 1):
            if n <= least[0]:
                value = least[1] * n / least[0]
            elif n >= most[0]:
                value = max(most[1], self.planned_s * n / self.batch if n > most[0] else 0.0)
            else:
                while known[at + 1][0] < n:
                    at += 1
                (r0, t0), (r1, t1) = known[at], known[at + 1]
                value = t0 + (t1 - t0) * (n - r0) / (r1 - r0)
            out.append(max(value, out[-1] if out else 0.0))
        return tuple(out)


class Served:
    """A version that requests can be for: its queue, the lanes that serve it, its counts.

    `leaving`: no layout names it any more; what waits is still answered, by the executors that had it.
    """

    def __init__(self, version: ServedVersion, counts: ModelCounts, statistics: VersionStatistics) -> None:
        self.version = version
        self.key = version.key
        self.counts, self.statistics = counts, statistics
        self.queue = ModelQueue()
        self.lanes: list[SeatLane] = []
        self.leaving = False
        self.open = 0
        self.dirty = False
        self.timer: asyncio.TimerHandle | None = None
        self.timer_s = math.inf
        #: Bytes per row of outputs whose size is not in their description, as far as seen.
        self.row_bytes: dict[str, float] = {}
        self._fixed = [
            None
            if o.datatype == "BYTES" or any(size < 0 for size in o.shape[1:])
            else tensor_bytes(o.datatype, o.shape[1:])
            for o in version.outputs
        ]

    def live_lanes(self) -> list[SeatLane]:
        """Lanes whose executor is connected and has the version loaded."""
        key = self.key
        return [lane for lane in self.lanes if (link := lane.seat.link) is not None and key in link.models]

    def output_bytes(self, rows: int) -> int:
        """Room for the outputs of a batch."""
        room = 0
        for spec, fixed in zip(self.version.outputs, self._fixed, strict=True):
            if fixed is not None:
                room += aligned(rows * fixed)
            else:
                room += aligned(max(_UNKNOWN_OUTPUT, int(rows * self.row_bytes.get(spec.name, 0.0) * 1.25)))
        return room

    def too_small(self, needed_bytes: int, rows: int) -> bool:
        """Outputs took more room than was thought; False if they may not, by the model's description."""
        unknown = [spec.name for spec, fixed in zip(self.version.outputs, self._fixed, strict=True) if fixed is None]
        for name in unknown:
            self.row_bytes[name] = max(self.row_bytes.get(name, 0.0), needed_bytes / rows)
        return bool(unknown)

    def learn(self, outputs: Sequence[Tensor], rows: int) -> None:
        """See how large outputs of unknown size are."""
        sizes = {t.name: t.array for t in outputs}
        for spec, fixed in zip(self.version.outputs, self._fixed, strict=True):
            array = sizes.get(spec.name)
            if fixed is None and array is not None:
                held = sum(4 + len(x) for x in array.flat) if spec.datatype == "BYTES" else array.nbytes
                self.row_bytes[spec.name] = max(self.row_bytes.get(spec.name, 0.0) * 0.99, held / max(1, rows))


@dataclass(eq=False)
class SeatLane:
    """One model's place in an executor's cycle."""

    seat: Seat
    served: Served
    batch: int
    times: BatchTimes


@dataclass(eq=False)
class _Running:
    lane: SeatLane
    parts: list[tuple[Pending, list[tuple[int, int]]]]
    rows: int
    sent_s: float
    expected_s: float
    input_s: float
    output_bytes: int


@dataclass(eq=False)
class Seat:
    """One executor as the front knows it."""

    name: str
    link: FrontLink | None = None
    route: Route | None = None
    lanes: list[SeatLane] = field(default_factory=list)
    turn: int = 0
    running: dict[int, _Running] = field(default_factory=dict)
    free_s: float = 0.0
    answered_s: float = 0.0
    blocked: bool = False
    tell_drained: bool = False
    timer: asyncio.TimerHandle | None = None
    timer_s: float = 0.0
    counts: ExecutorCounts = field(default_factory=ExecutorCounts)

    def free_at(self, now_s: float) -> float:
        """When it is expected to have finished what it was handed."""
        if not self.running:
            return now_s
        if self.free_s > now_s:
            return self.free_s
        return now_s + next(iter(self.running.values())).expected_s  # overdue: nobody knows


class Dispatcher:
    """Queues, executors and what runs where. `on_event` is told of executors that come, go and are drained."""

    def __init__(
        self,
        batching: Batching,
        on_event: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._batching, self._on_event, self._clock, self._wall = batching, on_event, clock, wall
        self._loop = asyncio.get_running_loop()
        self.layout: Layout | None = None
        self.served: dict[str, Served] = {}  # by key
        self.current: dict[str, Served] = {}  # by model
        self.seats: dict[str, Seat] = {}
        self.counts: dict[str, ModelCounts] = {}
        self.statistics: dict[str, VersionStatistics] = {}
        self.held_bytes = 0
        self._dirty: list[Served] = []
        self._scheduled = False
        self._closed = False

    # -- requests

    def admit(self, served: Served, request: Pending) -> None:
        """Take a request in (it has been counted as arrived). Raises Unavailable, Overloaded, DeadlineMissed, each
        counted."""
        version = served.version
        lanes = served.live_lanes()
        if not lanes:
            raise self._refused(
                served, "failed", Unavailable(f"{version.model}: no executor serves it now", "try again")
            )
        if served.open >= version.depth:
            message = f"{version.model}: {served.open} requests are waiting or running, as many as its queue may hold"
            raise self._refused(served, "rejected", Overloaded(message))
        now_s = request.arrived_s
        ahead = served.queue.rows_before(request.order)
        if self._batching.hopeless(
            ahead, request.rows, request.deadline_s, [self._lane(lane, now_s) for lane in lanes], now_s
        ):
            raise self._refused(served, "dropped", _too_late(served, request, now_s))
        served.open += 1
        self.held_bytes += request.nbytes
        served.queue.add(request)
        if request.deadline_s < served.timer_s:
            self._watch(served, now_s)
        self._touch(served)

    def cancelled(self, request: Pending) -> None:
        """The client of an open request is gone."""
        self._end(request, "cancelled")
        if request.served.leaving:
            self._settle()

    def close(self) -> None:
        """Fail what is open; nothing is sent any more."""
        self._closed = True
        for served in list(self.served.values()):
            for request in served.queue.pop(range(len(served.queue))):
                self._fail(served, request, Unavailable("the serving front stops"))
            if served.timer is not None:
                served.timer.cancel()
        for seat in self.seats.values():
            for batch in list(seat.running.values()):
                for request, _ in batch.parts:
                    self._fail(batch.lane.served, request, Unavailable("the serving front stops"))
            if seat.timer is not None:
                seat.timer.cancel()

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return sum(c.open for c in self.counts.values())

    # -- layout

    def apply(self, layout: Layout) -> None:
        """Routes in force from the next batch on. What waits for a version that is served no more goes to the version
        that is, if its tensors are the same and no version was asked for; else it is answered by its old executors."""
        if self.layout is not None and layout.number < self.layout.number:
            return
        self.layout = layout
        versions = {v.key: v for v in layout.models}
        for key, version in versions.items():
            self._serve(key, version)
        routes: dict[str, Route] = {r.executor: r for r in layout.routes}
        lanes = {name: self._route_lanes(r, versions) for name, r in routes.items()}
        for name in {*lanes, *self.seats}:
            seat = self._seat(name)
            before = seat.lanes
            seat.lanes = lanes.get(name, [])
            route = routes.get(name)
            if route is None and seat.route is not None:
                seat.tell_drained = True
            elif route is not None:
                seat.tell_drained = False
            seat.route = route
            # What no layout names any more is answered where it was served.
            seat.lanes += [lane for lane in before if lane.served.key not in versions]
            seat.turn = seat.turn % len(seat.lanes) if seat.lanes else 0
        self.current = {}
        for version in sorted(layout.models, key=_version_order):
            self.current[version.model] = self.served[version.key]
        for key, served in self.served.items():
            served.leaving = key not in versions
            served.lanes = sorted(
                (lane for seat in self.seats.values() for lane in seat.lanes if lane.served is served),
                key=lambda lane: lane.times.upper_s[-1] / lane.batch,
            )
        for served in list(self.served.values()):
            if served.leaving:
                self._move(served)
        for served in list(self.served.values()):
            self._touch(served)
            if served.queue and not served.live_lanes():
                self._abandon(served, "its executors are gone")
        self._settle()

    def _serve(self, key: str, version: ServedVersion) -> None:
        known = self.served.get(key)
        if known is not None and _same_tensors(known.version, version):
            known.version = version  # perhaps with other content: what waits is answered by that
            return
        if known is not None and known.queue:
            # What waits was checked against other tensors under the same name.
            self._abandon(known, "another model took its place")
        counts = self.counts.setdefault(version.model, ModelCounts(version.model))
        statistics = self.statistics.setdefault(key, VersionStatistics(version.model, version.version))
        self.served[key] = Served(version, counts, statistics)

    def _route_lanes(self, route: Route, versions: dict[str, ServedVersion]) -> list[SeatLane]:
        seat = self._seat(route.executor)
        lanes = []
        for part in route.gpulet.models:
            served = self.served.get(f"{part.model}/{route.versions.get(part.model, '')}")
            if served is None or served.key not in versions:
                log.warning("layout: %s has no version of %s that is served", route.executor, part.model)
                continue
            batch = max(1, min(part.batch, served.version.max_batch))
            planned_s = route.batch_ms.get(part.model, route.gpulet.duty_cycle_ms) / 1000.0
            before = next((lane for lane in seat.lanes if lane.served is served), None)
            same_share = seat.route is not None and abs(seat.route.gpulet.share - route.gpulet.share) < 1e-6
            if before is not None and before.batch == batch and same_share:
                before.times.planned_s = planned_s
                lanes.append(before)
            else:
                lanes.append(SeatLane(seat, served, batch, BatchTimes(batch, planned_s)))
        return lanes

    def _move(self, served: Served) -> None:
        target = self.current.get(served.version.model)
        if target is None or not _same_tensors(target.version, served.version) or not target.live_lanes():
            return
        free = [n for n, r in enumerate(served.queue.waiting) if not r.pinned and not r.running and r.outputs is None]
        for request in served.queue.pop(free):
            served.open -= 1
            target.open += 1
            request.served = target
            target.queue.add(request)
            if request.deadline_s < target.timer_s:
                self._watch(target, self._clock())

    def _settle(self) -> None:
        """Report the executors that are drained; forget versions and executors that nothing needs any more."""
        for key, served in list(self.served.items()):
            if served.leaving and not served.open:
                for lane in served.lanes:
                    if lane in lane.seat.lanes:
                        lane.seat.lanes.remove(lane)
                        lane.seat.turn = 0
                if served.timer is not None:
                    served.timer.cancel()
                del self.served[key]
                del self.statistics[key]
        for name, seat in list(self.seats.items()):
            if seat.tell_drained and not seat.running and not seat.lanes:
                seat.tell_drained = False
                self._on_event(ExecutorDrained(name))
            if seat.link is None and seat.route is None and not seat.running and not seat.tell_drained:
                del self.seats[name]

    def _seat(self, name: str) -> Seat:
        seat = self.seats.get(name)
        if seat is None:
            seat = self.seats[name] = Seat(name)
        return seat

    # -- executors (edge.serving.front_link.LinkHandler)

    def joined(self, link: FrontLink) -> None:
        """An executor has connected."""
        seat = self._seat(link.executor)
        link.handler = self
        seat.link, seat.blocked = link, False
        self._on_event(ExecutorConnected(link.executor))
        for lane in seat.lanes:
            self._touch(lane.served)

    def models_changed(self, link: FrontLink) -> None:
        """It has other versions loaded than before."""
        for lane in self._seat(link.executor).lanes:
            self._touch(lane.served)

    def batch_done(self, link: FrontLink, done: BatchDone) -> None:
        """Answer the batch's requests and hand over the next one."""
        seat = self.seats[link.executor]
        batch = seat.running.pop(done.number)
        now_s = self._clock()
        self._answered(seat, batch, now_s)
        lane, times = batch.lane, done.times
        served = lane.served
        seat.counts.batch(served.version.model, len(batch.parts), batch.rows, times.busy_s, times.waited_s)
        try:
            outputs = _checked_outputs(served.version, done.outputs)
            self._deliver(served, batch, outputs, done, now_s)
        except Unavailable as error:
            for request, _ in batch.parts:
                self._fail(served, request, error)
        finally:
            link.release(done.number)
        self._feed(seat)
        if served.leaving or seat.tell_drained:
            self._settle()

    def batch_failed(self, link: FrontLink, failed: Failed) -> None:
        """Try again what may succeed, fail the rest."""
        seat = self.seats[link.executor]
        batch = seat.running.pop(failed.number)
        served = batch.lane.served
        self._answered(seat, batch, self._clock())
        seat.counts.batch(
            served.version.model, len(batch.parts), batch.rows, failed.times.busy_s, failed.times.waited_s
        )
        small = failed.code == "output_too_large" and failed.needed_bytes > batch.output_bytes
        if small and failed.needed_bytes <= link.arena.size // 2 and served.too_small(failed.needed_bytes, batch.rows):
            for request, pieces in batch.parts:
                if not request.settled:
                    served.queue.give_back(request, pieces)
        else:
            reason = failed.reason.strip() or failed.code
            error = Unavailable(f"{served.version.model}: the model failed: {reason}")
            # One request that its model cannot take must not fail the others in its batch: each is tried alone. That
            # takes nothing from the one more try that each has if an executor is lost; it comes once, since what is
            # tried alone has no company to fail with.
            self._again(served, batch.parts, error, alone=True, worth=len(batch.parts) > 1, counts=False)
        self._touch(served)
        self._feed(seat)
        self._settle()

    def link_lost(self, link: FrontLink, outstanding: tuple[int, ...], reason: str) -> None:
        """Its batches go to other executors, if there are any and there is time; else their requests fail."""
        seat = self.seats[link.executor]
        if seat.link is not link:
            return
        seat.link, seat.blocked, seat.free_s = None, False, 0.0
        batches = [seat.running[number] for number in sorted(seat.running)]
        seat.running.clear()
        before = sum(c.failed for c in self.counts.values())
        for n, batch in enumerate(batches):
            error = Unavailable(f"{batch.lane.served.version.model}: its executor was lost: {reason}")
            worth = not self._closed and bool(batch.lane.served.live_lanes())
            # The first of them was running: if one of its requests ended the executor, only that one meets it again.
            self._again(batch.lane.served, batch.parts, error, alone=n == 0, worth=worth)
        for lane in seat.lanes:
            if lane.served.queue and not lane.served.live_lanes():
                self._abandon(lane.served, f"its executor was lost: {reason}")
            self._touch(lane.served)
        lost = sum(c.failed for c in self.counts.values()) - before
        if not self._closed:
            self._on_event(ExecutorGone(link.executor, lost))
        self._settle()

    # -- batches

    def _touch(self, served: Served) -> None:
        """Look at its queue when what came together has come."""
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
            for lane in served.lanes if served.queue else ():
                self._feed(lane.seat)
        if any(served.leaving for served in dirty):
            self._settle()

    def _feed(self, seat: Seat) -> None:
        """Hand over the next batch, if it is time."""
        while seat.link is not None and not seat.blocked and not self._closed:
            now_s = self._clock()
            if seat.running:
                if len(seat.running) > 1:
                    return
                left_s = seat.free_s - now_s
                if left_s < -_LEAD_S:
                    return  # overdue: what waits is better off where it can still be given to another
                if left_s > _LEAD_S:
                    if any(lane.served.queue for lane in seat.lanes):
                        self._later(seat, left_s - _LEAD_S)
                    return
            if not self._next(seat, now_s):
                return

    def _later(self, seat: Seat, seconds: float) -> None:
        due_s = self._loop.time() + max(_TICK_S, seconds)
        if seat.timer is not None:
            if seat.timer_s <= due_s:
                return
            seat.timer.cancel()
        seat.timer, seat.timer_s = self._loop.call_at(due_s, self._tick, seat), due_s

    def _tick(self, seat: Seat) -> None:
        seat.timer = None
        self._feed(seat)

    def _next(self, seat: Seat, now_s: float) -> bool:
        """The next batch of the first model in turn that has one; False if there is none."""
        lanes, link = seat.lanes, seat.link
        assert link is not None
        again_s = math.inf
        for k in range(len(lanes)):
            at = (seat.turn + k) % len(lanes)
            lane = lanes[at]
            served = lane.served
            if not served.queue or served.key not in link.models:
                continue
            free_s = seat.free_at(now_s)
            mine = Lane(seat.name, lane.batch, lane.times.upper_s, free_s, self._cycle_s(lane))
            others = (
                [self._lane(o, now_s) for o in served.live_lanes() if o is not lane] if len(served.lanes) > 1 else ()
            )
            formed = self._batching.form(served.queue.waiting, mine, others, now_s)
            take = formed.take
            if formed.drop:
                for request in served.queue.pop(formed.drop):
                    self._drop(served, request, now_s)
                if take:
                    gone = formed.drop
                    take = tuple((i - sum(d < i for d in gone), rows) for i, rows in take)
            if take:
                if self._send(seat, lane, take, now_s):
                    seat.turn = (at + 1) % len(lanes)
                    return True
                if seat.blocked:
                    return False
                continue
            if formed.again_s is not None:
                again_s = min(again_s, formed.again_s)
        if again_s < math.inf:
            self._later(seat, again_s - now_s)
        return False

    def _lane(self, lane: SeatLane, now_s: float) -> Lane:
        """How a model sees one of its lanes now."""
        seat = lane.seat
        lane.times.forget(now_s)
        free_s = seat.free_at(now_s)
        if len(seat.lanes) == 1:
            return Lane(seat.name, lane.batch, lane.times.upper_s, free_s, lane.times.upper_s[-1])
        for k in range(len(seat.lanes)):
            other = seat.lanes[(seat.turn + k) % len(seat.lanes)]
            if other is lane:
                break
            if other.served.queue.rows:
                free_s += other.times.upper_s[min(other.served.queue.rows, other.batch) - 1]
        return Lane(seat.name, lane.batch, lane.times.upper_s, free_s, self._cycle_s(lane))

    def _cycle_s(self, lane: SeatLane) -> float:
        cycle_s = lane.times.upper_s[-1]
        for other in lane.seat.lanes:
            if other is not lane and other.served.queue.rows:
                cycle_s += other.times.upper_s[min(other.served.queue.rows, other.batch) - 1]
        return cycle_s

    def _send(self, seat: Seat, lane: SeatLane, take: Sequence[tuple[int, int]], now_s: float) -> bool:
        """Hand a batch over; False if nothing was sent (the queue may have changed)."""
        served, link = lane.served, seat.link
        assert link is not None
        parts = served.queue.take(take)
        rows = sum(n for _, n in take)
        inputs = [
            BatchInput(spec.name, spec.datatype, [a for request, pieces in parts for a in _cut(request, n, pieces)])
            for n, spec in enumerate(served.version.inputs)
        ]
        output_bytes = served.output_bytes(rows)
        began_s = self._clock()
        try:
            number = link.send(served.version.model, served.version.version, inputs, output_bytes)
        except ArenaFull as error:
            self._no_room(seat, lane, parts, rows, error)
            return False
        except MagpieError as error:
            # Lost in this instant (its end is reported next), or tensors that cannot be joined: only these fail.
            for request, _ in parts:
                self._fail(served, request, Unavailable(f"{served.version.model}: {error}"))
            return False
        input_s = self._clock() - began_s
        expected_s = lane.times.upper_s[min(rows, lane.batch) - 1]
        for request, _ in parts:
            if not request.begun_s:
                request.begun_s = now_s
            request.input_s += input_s
        seat.running[number] = _Running(lane, parts, rows, now_s, expected_s, input_s, output_bytes)
        seat.free_s = max(now_s, seat.free_s) + expected_s
        return True

    def _no_room(
        self,
        seat: Seat,
        lane: SeatLane,
        parts: list[tuple[Pending, list[tuple[int, int]]]],
        rows: int,
        error: ArenaFull,
    ) -> None:
        """The arena cannot hold the batch: wait for one that runs, or make it smaller for good."""
        served = lane.served
        if not seat.running and rows <= 1:
            for request, _ in parts:
                given = f"{request.nbytes} bytes"
                self._fail(
                    served, request, InvalidValue("inputs", given, f"what fits into an executor's memory: {error}")
                )
            return
        for request, pieces in parts:
            served.queue.give_back(request, pieces)
        if seat.running:
            seat.blocked = True
            return
        lane.batch = max(1, rows // 2)
        lane.times = BatchTimes(lane.batch, lane.times.upper_s[lane.batch - 1])
        log.warning("%s: batches of %s are cut to %d rows: %s", seat.name, served.key, lane.batch, error)
        self._touch(served)

    def _answered(self, seat: Seat, batch: _Running, now_s: float) -> None:
        """A batch is off the executor; see how long it was on it."""
        took_s = now_s - max(batch.sent_s, seat.answered_s)
        seat.answered_s = now_s
        batch.lane.times.saw(batch.rows, took_s, now_s)
        seat.blocked = False
        seat.free_s = now_s + sum(b.expected_s for b in seat.running.values())

    def _deliver(
        self, served: Served, batch: _Running, outputs: dict[str, Tensor], done: BatchDone, now_s: float
    ) -> None:
        times = done.times
        at = 0
        version, statistics = served.version, served.statistics
        served.learn(done.outputs, batch.rows)
        statistics.last_utc_ms = int(self._wall() * 1000)
        answered = []
        for request, pieces in batch.parts:
            rows = sum(count for _, count in pieces)
            request.running -= rows
            request.infer_s += times.infer_s
            request.output_s += times.output_s
            request.input_s += times.input_s
            if not request.settled:
                try:
                    tensors = _part(version, request, pieces, outputs, at)
                    if tensors is not None:
                        answered.append((request, tensors))
                except Unavailable as error:
                    self._fail(served, request, error)
            at += rows
        delivered_s = self._clock()
        output_s = times.output_s + delivered_s - now_s
        statistics.batch(batch.rows, batch.input_s + times.input_s, times.infer_s, output_s)
        for request, tensors in answered:
            total_s = delivered_s - request.arrived_s
            queued_s = request.begun_s - request.arrived_s + times.waited_s
            statistics.answered(total_s, queued_s, request.input_s, request.infer_s, request.output_s)
            served.counts.latency(total_s, delivered_s > request.deadline_s)
            request.future.set_result(InferResponse(version.model, version.version, tensors, request.id))
            self._end(request, "answered")

    # -- ends

    def _again(
        self,
        served: Served,
        parts: list[tuple[Pending, list[tuple[int, int]]]],
        error: Unavailable,
        alone: bool,
        worth: bool,
        counts: bool = True,
    ) -> None:
        """Requests of a batch that was not computed: once more (where that `counts`), if it is worth it; else they
        fail."""
        for request, pieces in parts:
            if request.settled:
                continue
            if worth and (not counts or request.retries == 0):
                request.retries += counts
                request.alone = request.alone or alone
                served.queue.give_back(request, pieces)
            else:
                self._fail(served, request, error)
        if served.queue:
            self._watch(served, self._clock())

    def _abandon(self, served: Served, reason: str) -> None:
        """Nobody serves this version: what waits fails at once."""
        for request in served.queue.pop(range(len(served.queue))):
            self._fail(served, request, Unavailable(f"{served.version.model}: {reason}"))

    def _watch(self, served: Served, now_s: float) -> None:
        """Look at the queue again when its earliest deadline comes too close."""
        earliest_s = served.queue.earliest_s()
        if served.timer is not None:
            served.timer.cancel()
            served.timer, served.timer_s = None, math.inf
        if earliest_s is None or self._closed:
            return
        least_s = min((lane.times.upper_s[0] for lane in served.lanes), default=0.0)
        served.timer_s = earliest_s
        served.timer = self._loop.call_later(max(_TICK_S, earliest_s - least_s - now_s), self._look, served)

    def _look(self, served: Served) -> None:
        now_s = self._clock()
        served.timer, served.timer_s = None, math.inf
        lanes = [self._lane(lane, now_s) for lane in served.live_lanes()]
        gone = self._batching.overdue(served.queue.waiting, lanes, now_s)
        for request in served.queue.pop(gone):
            self._drop(served, request, now_s)
        self._watch(served, now_s)
        if served.leaving:
            self._settle()

    def _drop(self, served: Served, request: Pending, now_s: float) -> None:
        if request.running:
            # Part of it runs; the answer would be incomplete in time, so there is none.
            log.debug("%s: a request is dropped though %d rows of it run", served.version.model, request.running)
        self._fail(served, request, _too_late(served, request, now_s), "dropped")

    def _refused(self, served: Served, outcome: Outcome, error: MagpieError) -> MagpieError:
        served.counts.end(outcome)
        served.statistics.fail.add(1, 0.0)
        return error

    def _fail(self, served: Served, request: Pending, error: MagpieError, outcome: Outcome = "failed") -> None:
        if request.settled:
            return
        request.future.set_exception(error)
        served.statistics.fail.add(1, self._clock() - request.arrived_s)
        self._end(request, outcome)

    def _end(self, request: Pending, outcome: Outcome) -> None:
        """Every open request ends here, once."""
        if request.queue is not None:
            request.queue.discard(request)
        self.held_bytes -= request.nbytes
        request.nbytes = 0
        request.inputs = None
        request.outputs = None
        request.served.open -= 1
        request.served.counts.end(outcome)


def _too_late(served: Served, request: Pending, now_s: float) -> DeadlineMissed:
    given_ms = 1000.0 * (request.deadline_s - request.arrived_s)
    waited_ms = 1000.0 * (now_s - request.arrived_s)
    return DeadlineMissed(
        f"{served.version.model}: dropped after {waited_ms:.1f} ms: it could not be answered within {given_ms:.1f} ms",
        f"{served.queue.rows} rows are waiting",
    )


def _version_order(version: ServedVersion) -> tuple[str, int, str]:
    return version.model, int(version.version) if version.version.isdigit() else -1, version.version


def _same_tensors(one: ServedVersion, other: ServedVersion) -> bool:
    return one.inputs == other.inputs and one.outputs == other.outputs


def _cut(request: Pending, n: int, pieces: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    assert request.inputs is not None
    array = request.inputs[n]
    if len(pieces) == 1 and pieces[0][1] == request.total_rows:
        return [array]
    return [array[first : first + count] for first, count in pieces]


def _checked_outputs(version: ServedVersion, outputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """What an executor says is its model's answer. Raises Unavailable if that is not what the model declares."""
    found = {t.name: t for t in outputs}
    for spec in version.outputs:
        tensor = found.get(spec.name)
        if tensor is None or tensor.datatype != spec.datatype:
            given = "missing" if tensor is None else tensor.datatype
            raise Unavailable(f"{version.model}: output {spec.name} is {given}, declared is {spec.datatype}")
        shape = tensor.array.shape
        wrong = any(w >= 0 and w != g for w, g in zip(spec.shape[1:], shape[1:], strict=False))
        if len(shape) != len(spec.shape) or wrong:
            raise Unavailable(f"{version.model}: output {spec.name} is {list(shape)}, declared is {list(spec.shape)}")
    return found


def _part(
    version: ServedVersion,
    request: Pending,
    pieces: Sequence[tuple[int, int]],
    outputs: dict[str, Tensor],
    at: int,
) -> tuple[Tensor, ...] | None:
    """Copy a request's rows out of a batch; its tensors if it is complete now."""
    names = request.wanted or tuple(spec.name for spec in version.outputs)
    rows = sum(count for _, count in pieces)
    if rows == request.total_rows and len(pieces) == 1:
        return tuple(Tensor(name, outputs[name].datatype, outputs[name].array[at : at + rows].copy()) for name in names)
    if request.outputs is None:
        request.outputs = {
            name: np.empty((request.total_rows, *outputs[name].array.shape[1:]), outputs[name].array.dtype)
            for name in names
        }
    for first, count in pieces:
        for name in names:
            whole, part = request.outputs[name], outputs[name].array
            if whole.shape[1:] != part.shape[1:]:
                raise Unavailable(
                    f"{version.model}: output {name} is {list(part.shape[1:])} per row in one batch and "
                    f"{list(whole.shape[1:])} in another",
                    "ask for fewer rows at a time",
                )
            whole[first : first + count] = part[at : at + count]
        at += count
    if request.rows or request.running:
        return None
    return tuple(Tensor(name, outputs[name].datatype, request.outputs[name]) for name in names)
