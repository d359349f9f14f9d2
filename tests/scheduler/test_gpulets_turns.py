"""Alike gpu-lets in turn: when a cycle may begin, and what that promises each request."""

from __future__ import annotations

import math

import pytest
from examples_kit import tried
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge.core.batching import Turn, TurnQueue
from edge.core.serving import Gpulet, ModelBatch
from scheduler.gpulets.turns import alike, begin_s


def queue(rows: int, batch: int = 4, promised: int = 0, latest_s: float = math.inf) -> TurnQueue:
    return TurnQueue(rows, batch, promised, latest_s)


def test_a_cycle_begins_where_the_others_leave_a_place_at_every_beat() -> None:
    # Beats of 10 s. Both others are free: who comes next finds a place.
    assert begin_s(Turn(10.0, 0.0, (0.0, 0.0)), [queue(1)], 3.0) == 3.0
    # The first place beside this one is free at 25: from 15 on that is within a beat.
    assert begin_s(Turn(10.0, 12.0, (25.0,)), [queue(1)], 13.0) == 15.0
    # The second is free at 34: from 14 on that is within two beats; the first at 25 still decides.
    assert begin_s(Turn(10.0, 12.0, (34.0, 25.0)), [queue(1)], 13.0) == 15.0
    assert begin_s(Turn(10.0, 12.0, (38.0, 25.0)), [queue(1)], 13.0) == 18.0
    # At the latest a beat after the last beginning, however late the others are.
    assert begin_s(Turn(10.0, 12.0, (900.0, 25.0)), [queue(1)], 13.0) == 22.0
    assert begin_s(Turn(10.0, 12.0, (900.0,)), [queue(1)], 30.0) == 30.0, "not before it is free"


def test_more_than_a_full_batch_and_one_without_time_leave_at_once() -> None:
    held = Turn(10.0, 12.0, (25.0,))
    assert begin_s(held, [queue(5)], 13.0) == 13.0
    assert begin_s(held, [queue(4)], 13.0) == 15.0, "just full: it may have filled sooner than in a beat"
    assert begin_s(held, [queue(1, batch=1)], 13.0) == 13.0, "one is always full"
    assert begin_s(held, [queue(5, promised=4)], 13.0) == 15.0, "a cycle under way takes them"
    assert begin_s(held, [queue(9, promised=4)], 13.0) == 13.0
    assert begin_s(held, [queue(1, latest_s=14.0), queue(1)], 13.0) == 14.0
    assert begin_s(held, [queue(1, latest_s=2.0)], 13.0) == 13.0
    assert begin_s(held, [queue(0), queue(0, latest_s=1.0)], 13.0) == math.inf, "nothing waits"


def test_one_alone_never_waits() -> None:
    assert begin_s(Turn(10.0, 12.0, ()), [queue(1)], 13.0) == 13.0


def test_alike_are_the_same_models_batches_shares_and_cycles() -> None:
    one = Gpulet(0, 0.2, 20.0, (ModelBatch("a", 2), ModelBatch("b", 1)))
    assert alike(one) == alike(Gpulet(1, 0.2, 20.0, (ModelBatch("b", 1), ModelBatch("a", 2))))
    for other in (
        Gpulet(0, 0.3, 20.0, one.models),
        Gpulet(0, 0.2, 21.0, one.models),
        Gpulet(0, 0.2, 20.0, one.models[:1]),
        Gpulet(0, 0.2, 20.0, (ModelBatch("a", 3), ModelBatch("b", 1))),
    ):
        assert alike(one) != alike(other)


@settings(max_examples=tried(120, 300), deadline=None)
@given(
    count=st.integers(1, 6),
    times=st.lists(st.floats(0.5, 20.0), min_size=1, max_size=6).map(sorted),
    idle=st.floats(1.0, 1.5),
    load=st.floats(0.05, 1.0),
    burst=st.integers(0, 6),
)
@example(count=2, times=[10.0, 16.0], idle=1.0, load=1.0, burst=0)
@example(count=3, times=[9.0, 10.0], idle=1.0, load=0.9, burst=1)
def test_even_arrivals_at_the_planned_rate_are_answered_within_the_law(
    count: int, times: list[float], idle: float, load: float, burst: int
) -> None:
    """Event by event, in exact time: a batch of k takes times[k - 1]; `burst` gpu-lets are busy at the start."""
    batch, duty = len(times), times[-1] * idle
    gap, beat, law = duty / (count * batch * load), duty / count, times[-1] + duty / count
    # Their batches then were begun by the same rule: they end a beat after one another.
    free = [beat * (n + 1) if n < burst else 0.0 for n in range(count)]
    begun, now, late = -beat if burst else -math.inf, 0.0, 0.0
    arrivals = [n * gap for n in range(60)]
    taken, waiting = 0, 0
    while taken < len(arrivals):
        waiting = sum(at <= now + 1e-9 for at in arrivals) - taken
        one = min(range(count), key=free.__getitem__)
        start = max(now, free[one])
        others = [f for n, f in enumerate(free) if n != one]
        at = begin_s(Turn(beat, begun, [max(f, now) for f in others]), [queue(waiting, batch)], start)
        coming = arrivals[taken + waiting] if taken + waiting < len(arrivals) else math.inf
        if coming < at - 1e-9:
            now = coming
            continue
        now = at
        rows = min(batch, sum(a <= now + 1e-9 for a in arrivals) - taken)
        free[one], begun = now + times[rows - 1], now
        late = max(late, free[one] - arrivals[taken])
        taken += rows
    assert late <= law + 1e-6


def test_without_turns_alike_gpulets_fall_in_step() -> None:
    """Why there are turns: a gpu-let that takes what waits as soon as it is free leaves no place within a beat."""
    turn = Turn(8.0, 0.0, (16.0,))
    assert begin_s(turn, [queue(1, batch=2)], 1.0) == 8.0, "held, so that one is free at 8 and one at 16"
    assert begin_s(turn._replace(others_free_s=(8.5,)), [queue(1, batch=2)], 1.0) == pytest.approx(1.0)
