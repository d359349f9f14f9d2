"""Which requests go into an executor's next batch, and which can no longer be answered in time. Pure functions.

Queues are in order of priority, then deadline. Executors ask for work whenever they are about to be free, so that
several gpu-lets of one model get requests in proportion to their throughput, in batches as full as the queue allows.
No request waits for a batch to fill: while a batch runs the next one gathers, so that batches grow with the load up to
the planned size, and a cycle of planned batches is never longer than the planned duty cycle (gpu-lets, section 4.1).
Only gpu-lets that the plan counts as fed in turn may wait for their turn (`scheduler.gpulets.turns`). Requests are
dropped early, when no executor could answer them in time (as in Nexus and gpu-lets, section 5).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from edge.core.batching import Formed, Lane, Turn, TurnQueue, WaitingRequest
from scheduler.gpulets import turns

#: Rounding of deadlines must not drop anybody.
_EPS = 1e-9
#: Heads of the queue, in batches, that are looked through for one that a full batch can begin with.
_LOOK = 4
#: An executor that stands back for a faster one looks again after at least so long.
_AGAIN_S = 0.001


def form(waiting: Sequence[WaitingRequest], lane: Lane, others: Sequence[Lane], now_s: float) -> Formed:
    """The next batch of `lane`. Rows are taken in the queue's order, at most `lane.batch` of them, of one kind, and
    only as many as leave each of them in time; a request may be cut. Requests that a further lane answers sooner are
    left to it, but for those of its own group.

    Dropped are requests at the head that no lane can answer in time; and those that could only be answered by a batch
    so small that the requests behind them would be late for it: were they kept, batches would shrink from one to the
    next and most of the capacity would be lost.
    """
    start_s = max(now_s, lane.free_s)
    first, again_s = _left_to_faster(waiting, lane, others, start_s, now_s) if others else (0, None)
    drop: list[int] = []
    small: Formed | None = None
    passed: list[int] = []  # answerable by a small batch only
    soonest_s = _soonest(others, now_s)
    for n in range(first, len(waiting)):
        head = waiting[n]
        slack_s = head.deadline_s - start_s + _EPS
        if lane.times_s[0] > slack_s:
            if soonest_s > head.deadline_s + _EPS:
                drop.append(n)
            continue
        take, rows = _gather(waiting, n, lane.batch)
        if lane.times_s[rows - 1] <= slack_s:
            return _in_time(waiting, take, rows, start_s, lane, sorted(drop + passed))
        if small is None:
            rows = bisect_right(lane.times_s, slack_s, 0, rows)
            small = _in_time(waiting, _cut(take, rows), rows, start_s, lane, list(drop))
            if not _endangers(waiting, small, rows, start_s, lane):
                return small
        if soonest_s > head.deadline_s + _EPS:
            passed.append(n)
        if len(passed) > _LOOK * lane.batch:
            break
    return small if small is not None else Formed((), tuple(drop), again_s)


def _in_time(
    waiting: Sequence[WaitingRequest],
    take: list[tuple[int, int]],
    rows: int,
    start_s: float,
    lane: Lane,
    drop: list[int],
) -> Formed:
    """The batch without those that would be late in it: behind a higher priority there may be earlier deadlines."""
    end_s = start_s + lane.times_s[rows - 1] - _EPS
    if any(waiting[index].deadline_s < end_s for index, _ in take):
        take = [(index, part) for index, part in take if waiting[index].deadline_s >= end_s]
    return Formed(tuple(take), tuple(drop))


def _endangers(waiting: Sequence[WaitingRequest], small: Formed, rows: int, start_s: float, lane: Lane) -> bool:
    """True if the batch after this small one could not be a full one (or all that is left) in time."""
    last, part = small.take[-1]
    behind = last if part < waiting[last].rows else last + 1
    if behind >= len(waiting):
        return False
    left = waiting[last].rows - part
    for n in range(last + 1, len(waiting)):
        if left >= lane.batch:
            break
        left += waiting[n].rows
    next_s = start_s + lane.times_s[rows - 1] + max(0.0, lane.cycle_s - lane.times_s[-1])
    return next_s + lane.time_s(left) > waiting[behind].deadline_s + _EPS


def hopeless(ahead_rows: int, rows: int, deadline_s: float, lanes: Sequence[Lane], now_s: float) -> bool:
    """True if a request of `rows` behind `ahead_rows` others cannot be answered by `deadline_s`, though all `lanes` run
    full batches from when they are free. False without lanes: nothing is known then."""
    if not lanes:
        return False
    return expected_end_s(ahead_rows, rows, lanes, now_s) > deadline_s + _EPS


def expected_end_s(ahead_rows: int, rows: int, lanes: Sequence[Lane], now_s: float) -> float:
    """When a request of `rows` behind `ahead_rows` others will be answered if all `lanes` (at least one) run full
    batches from when they are free, and its last batch holds nothing behind it."""
    need = ahead_rows + rows
    if len(lanes) == 1:
        only = lanes[0]
        before = (need - 1) // only.batch
        return max(now_s, only.free_s) + before * only.cycle_s + only.time_s(need - before * only.batch)
    starts = [max(now_s, lane.free_s) for lane in lanes]
    # All lanes together begin at most `rate * (t - earliest) + burst` rows by t: so long no row of ours has begun.
    rate = sum(lane.batch / max(lane.cycle_s, _EPS) for lane in lanes)
    burst = sum(lane.batch for lane in lanes)
    surely_before_s = min(starts) + max(0.0, (need - 1 - burst) / rate)
    done = 0
    for n, lane in enumerate(lanes):
        batches = max(0, int((surely_before_s - starts[n]) / max(lane.cycle_s, _EPS)))
        done += batches * lane.batch
        starts[n] += batches * lane.cycle_s
    while True:
        n = min(range(len(lanes)), key=lambda k: starts[k])
        if done + lanes[n].batch >= need:
            able = [k for k in range(len(lanes)) if done + lanes[k].batch >= need]
            return min(starts[k] + lanes[k].time_s(need - done) for k in able)
        done += lanes[n].batch
        starts[n] += lanes[n].cycle_s


def overdue(waiting: Sequence[WaitingRequest], lanes: Sequence[Lane], now_s: float) -> tuple[int, ...]:
    """Indices of requests that no lane can answer in time, were it to begin with them."""
    soonest_s = _soonest(lanes, now_s) if lanes else now_s
    return tuple(n for n, request in enumerate(waiting) if request.deadline_s + _EPS < soonest_s)


class DeadlineBatching:
    """The functions above as `edge.core.batching.Batching`."""

    def form(self, waiting: Sequence[WaitingRequest], lane: Lane, others: Sequence[Lane], now_s: float) -> Formed:
        """See `form`."""
        return form(waiting, lane, others, now_s)

    def begin_s(self, turn: Turn, queues: Sequence[TurnQueue], start_s: float) -> float:
        """See `scheduler.gpulets.turns.begin_s`."""
        return turns.begin_s(turn, queues, start_s)

    def hopeless(self, ahead_rows: int, rows: int, deadline_s: float, lanes: Sequence[Lane], now_s: float) -> bool:
        """See `hopeless`."""
        return hopeless(ahead_rows, rows, deadline_s, lanes, now_s)

    def overdue(self, waiting: Sequence[WaitingRequest], lanes: Sequence[Lane], now_s: float) -> tuple[int, ...]:
        """See `overdue`."""
        return overdue(waiting, lanes, now_s)


def _soonest(lanes: Sequence[Lane], now_s: float) -> float:
    return min((max(now_s, lane.free_s) + lane.times_s[0] for lane in lanes), default=float("inf"))


def _left_to_faster(
    waiting: Sequence[WaitingRequest], lane: Lane, others: Sequence[Lane], start_s: float, now_s: float
) -> tuple[int, float | None]:
    """How many requests at the head are answered sooner by further lanes, and when to look whether they were."""
    first, again_s = 0, None
    for other in sorted(others, key=lambda o: max(now_s, o.free_s) + o.times_s[-1]):
        if lane.group and other.group == lane.group:
            continue  # they are alike: their turn decides, not the measurement
        begin_s = max(now_s, other.free_s)
        room, end, rows = other.batch, first, 0
        most = max(other.batch, lane.batch)
        while end < len(waiting) and rows < most:
            rows += waiting[end].rows
            end += 1
        if not rows or begin_s + other.time_s(rows) >= start_s + lane.time_s(rows):
            continue
        while first < len(waiting) and waiting[first].rows <= room:
            if begin_s + other.time_s(other.batch - room + waiting[first].rows) > waiting[first].deadline_s:
                break
            room -= waiting[first].rows
            first += 1
            again_s = max(begin_s, now_s + _AGAIN_S) if again_s is None else min(again_s, begin_s)
    return first, None if again_s is None else max(again_s, now_s + _AGAIN_S)


def _gather(waiting: Sequence[WaitingRequest], first: int, most: int) -> tuple[list[tuple[int, int]], int]:
    """Up to `most` rows from `first` on, of its kind: (index, rows) pairs and their sum."""
    head = waiting[first]
    rows = min(head.rows, most)
    take = [(first, rows)]
    if head.alone:
        return take, rows
    for n in range(first + 1, len(waiting)):
        if rows >= most:
            break
        request = waiting[n]
        if request.kind != head.kind or request.alone:
            continue
        part = min(request.rows, most - rows)
        take.append((n, part))
        rows += part
    return take, rows


def _cut(take: list[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """The first `rows` rows of `take`."""
    kept: list[tuple[int, int]] = []
    for index, part in take:
        if rows <= 0:
            break
        kept.append((index, min(part, rows)))
        rows -= part
    return kept
