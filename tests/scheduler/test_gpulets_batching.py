"""Batches and drops: properties of single decisions, and what they add up to over a simulated minute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench_batching import SimulatedRequest, lane, poisson, served_without_deadlines, simulate
from edge.core.batching import Lane
from scheduler.gpulets.batching import expected_end_s, form, hopeless, overdue

_TIMES = st.lists(st.floats(0.001, 0.05), min_size=1, max_size=12)


@st.composite
def lanes(draw: st.DrawFn, name: str = "e") -> Lane:
    steps = draw(_TIMES)
    times = tuple(sum(steps[: n + 1]) for n in range(len(steps)))
    return Lane(name, len(times), times, draw(st.floats(0.0, 0.5)), times[-1] + draw(st.floats(0.0, 0.2)))


_QUEUES = st.lists(
    st.builds(
        SimulatedRequest,
        deadline_s=st.floats(0.0, 1.5),
        rows=st.integers(1, 6),
        kind=st.integers(0, 1),
        alone=st.booleans(),
    ),
    max_size=30,
).map(lambda asked: sorted(asked, key=lambda a: a.deadline_s))


@given(_QUEUES, lanes(), st.lists(lanes("other"), max_size=3), st.floats(0.0, 0.4))
def test_a_batch_is_legal_and_in_time(
    waiting: list[SimulatedRequest], mine: Lane, others: list[Lane], now_s: float
) -> None:
    formed = form(waiting, mine, others, now_s)
    taken = [n for n, _ in formed.take]
    assert taken == sorted(set(taken))
    assert not set(taken) & set(formed.drop)
    start_s = max(now_s, mine.free_s)
    for n in formed.drop:  # none is dropped that another lane could answer, or this one without shrinking its batch
        for other in others:
            assert max(now_s, other.free_s) + other.times_s[0] > waiting[n].deadline_s
        rows = waiting[n].rows
        if not waiting[n].alone:
            rows += sum(a.rows for a in waiting[n + 1 :] if a.kind == waiting[n].kind and not a.alone)
        assert start_s + mine.time_s(rows) > waiting[n].deadline_s
        if start_s + mine.times_s[0] <= waiting[n].deadline_s:
            assert formed.take
    if formed.take:
        rows = sum(count for _, count in formed.take)
        assert rows <= mine.batch
        end_s = max(now_s, mine.free_s) + mine.times_s[rows - 1]
        for n, count in formed.take:
            assert 1 <= count <= waiting[n].rows
            assert waiting[n].deadline_s >= end_s - 1e-6
            assert len(taken) == 1 or not waiting[n].alone
            assert waiting[n].kind == waiting[taken[0]].kind
        # Only the last of them may be cut.
        assert all(count == waiting[n].rows for n, count in formed.take[:-1])


@given(_QUEUES, lanes(), st.floats(0.0, 0.4))
def test_one_lane_never_idles_while_it_can_answer(waiting: list[SimulatedRequest], mine: Lane, now_s: float) -> None:
    formed = form(waiting, mine, (), now_s)
    possible = [n for n, a in enumerate(waiting) if max(now_s, mine.free_s) + mine.times_s[0] <= a.deadline_s]
    assert bool(formed.take) == bool(possible)
    # In order, but for those that are dropped so that batches stay full.
    assert set(range(formed.take[0][0] if possible else 0)) <= set(formed.drop)
    assert set(formed.drop) - set(possible) == set(formed.drop) or formed.take[0][0] > possible[0]


@given(_QUEUES, lanes(), st.lists(lanes("other"), min_size=1, max_size=3), st.floats(0.0, 0.4))
def test_a_lane_stands_back_only_for_a_faster_one(
    waiting: list[SimulatedRequest], mine: Lane, others: list[Lane], now_s: float
) -> None:
    formed = form(waiting, mine, others, now_s)
    start_s = max(now_s, mine.free_s)
    possible = [n for n, a in enumerate(waiting) if start_s + mine.times_s[0] <= a.deadline_s]
    if possible and not formed.take:
        assert formed.again_s is not None
        assert formed.again_s > now_s
        soonest_s = min(max(now_s, o.free_s) + o.times_s[0] for o in others)
        assert soonest_s < start_s + mine.times_s[-1]


@given(lanes(), st.lists(lanes("other"), max_size=3), st.integers(0, 300), st.integers(1, 20), st.floats(0.0, 0.4))
def test_expected_ends_grow_with_what_is_ahead(
    mine: Lane, others: list[Lane], ahead: int, rows: int, now_s: float
) -> None:
    every = [mine, *others]
    end_s = expected_end_s(ahead, rows, every, now_s)
    assert end_s >= now_s + min(one.times_s[0] for one in every)
    assert expected_end_s(ahead + 1, rows, every, now_s) >= end_s - 1e-9 or len(every) > 1
    assert end_s <= expected_end_s(ahead, rows, [mine], now_s) + 1e-9
    assert hopeless(ahead, rows, end_s - 1e-6, every, now_s)
    assert not hopeless(ahead, rows, end_s, every, now_s)


def test_expected_ends_by_hand() -> None:
    one = lane(batch=4, one_s=0.010, more_s=0.002, free_s=1.0)  # full batch: 16 ms
    assert expected_end_s(0, 1, [one], 0.0) == pytest.approx(1.010)
    assert expected_end_s(3, 1, [one], 0.0) == pytest.approx(1.016)
    assert expected_end_s(4, 1, [one], 0.0) == pytest.approx(1.026)
    assert expected_end_s(4, 1, [one], 2.0) == pytest.approx(2.026)
    assert expected_end_s(0, 9, [one], 0.0) == pytest.approx(1.042)
    two = replace_lane(one, free_s=1.004)
    assert expected_end_s(4, 1, [one, two], 0.0) == pytest.approx(1.014)
    assert expected_end_s(1000 * 8, 1, [one, two], 0.0) == pytest.approx(1.0 + 1000 * 0.016 + 0.010)
    assert not hopeless(10**6, 1, 0.0, [], 0.0)


def replace_lane(one: Lane, free_s: float) -> Lane:
    return one._replace(free_s=free_s)


def test_a_head_that_would_spoil_all_batches_is_dropped() -> None:
    # The head leaves time for three rows only, and those behind it need full batches at once.
    waiting = [SimulatedRequest(0.014), *[SimulatedRequest(0.025)] * 20]
    formed = form(waiting, lane(), (), 0.0)
    assert formed.drop == (0,)
    assert len(formed.take) == 8


def test_a_batch_stays_small_enough_for_its_earliest_deadline() -> None:
    waiting = [SimulatedRequest(0.014), *[SimulatedRequest(1.0)] * 20]
    assert form(waiting, lane(), (), 0.0).take == ((0, 1), (1, 1), (2, 1))
    assert len(form(waiting[1:], lane(), (), 0.0).take) == 8


def test_large_requests_are_cut_to_fill_the_batch() -> None:
    waiting = [SimulatedRequest(1.0, rows=5), SimulatedRequest(1.0, rows=20), SimulatedRequest(1.0)]
    assert form(waiting, lane(), (), 0.0).take == ((0, 5), (1, 3))
    assert form([SimulatedRequest(1.0, rows=20)], lane(), (), 0.0).take == ((0, 8),)


def test_what_a_faster_lane_answers_sooner_is_left_to_it() -> None:
    fast = lane("fast", batch=4, one_s=0.004, more_s=0.001, free_s=0.002)
    slow = lane("slow", batch=4, one_s=0.040, more_s=0.010)
    left = form([SimulatedRequest(1.0)] * 3, slow, [fast], 0.0)
    assert left.take == ()
    assert left.again_s == pytest.approx(0.002)
    # More than the fast one takes next: the rest is for the slow one.
    assert form([SimulatedRequest(1.0)] * 6, slow, [fast], 0.0).take == ((4, 1), (5, 1))
    # The fast one is busy for long: no reason to wait.
    assert form([SimulatedRequest(1.0)] * 3, slow, [replace_lane(fast, free_s=0.5)], 0.0).take == (
        (0, 1),
        (1, 1),
        (2, 1),
    )


def test_nothing_is_left_to_a_faster_one_of_the_same_group() -> None:
    waiting = [SimulatedRequest(10.0)]
    mine, other = lane("mine", one_s=0.2), lane("other", one_s=0.1)
    assert not form(waiting, mine, [other], 0.0).take
    assert form(waiting, mine._replace(group="g"), [other._replace(group="g")], 0.0).take == ((0, 1),)
    assert not form(waiting, mine._replace(group="g"), [other._replace(group="h")], 0.0).take


def test_a_request_that_no_lane_can_answer_is_dropped_wherever_it_waits() -> None:
    waiting = [SimulatedRequest(0.005), SimulatedRequest(0.5), SimulatedRequest(0.009)]
    assert form(waiting, lane(), (), 0.0).drop == (0,)
    assert overdue(waiting, [lane()], 0.0) == (0, 2)
    assert overdue(waiting, [lane(), lane(one_s=0.006)], 0.0) == (0,)
    assert overdue(waiting, [], 0.006) == (0,)


def test_alone_is_alone() -> None:
    waiting = [SimulatedRequest(1.0), replace(SimulatedRequest(1.0), alone=True), SimulatedRequest(1.0)]
    assert form(waiting, lane(), (), 0.0).take == ((0, 1), (2, 1))
    assert form(waiting[1:], lane(), (), 0.0).take == ((0, 1),)


# -- what decisions add up to


@pytest.mark.parametrize(("load", "slo_s", "most"), [(0.8, 0.046, 0.01), (0.9, 0.060, 0.005), (0.95, 0.060, 0.02)])
def test_up_to_the_planned_rate_the_objective_is_kept(load: float, slo_s: float, most: float) -> None:
    only = lane(batch=16, one_s=0.008, more_s=0.001)  # a full batch takes 23 ms: 695 requests per second
    arrivals = poisson(load * 16 / 0.023, 12.0)
    got = simulate([only], arrivals, slo_s)
    assert got.in_time + got.late + got.dropped == len(arrivals)
    assert got.late == 0
    assert got.dropped < most * len(arrivals)
    assert got.in_time >= served_without_deadlines(only, arrivals, slo_s).in_time


@pytest.mark.parametrize("admit", [True, False])
def test_under_twice_the_load_the_capacity_is_used(admit: bool) -> None:
    only = lane(batch=16, one_s=0.008, more_s=0.001)
    arrivals = poisson(2.0 * 16 / 0.023, 5.0)
    got = simulate([only], arrivals, 0.060, admit)
    assert got.late == 0
    assert got.in_time >= 0.97 * 5.0 * 16 / 0.023
    assert got.in_time > 20 * served_without_deadlines(only, arrivals, 0.060).in_time


def test_lanes_get_requests_in_proportion_to_their_throughput_in_full_batches() -> None:
    big = lane("big", batch=16, one_s=0.008, more_s=0.001)  # 695/s
    small = lane("small", batch=4, one_s=0.012, more_s=0.004)  # 166/s
    arrivals = poisson(0.97 * (16 / 0.023 + 4 / 0.024), 8.0)
    got = simulate([small, big], arrivals, 0.080)
    assert got.in_time >= 0.98 * len(arrivals)
    assert got.rows[1] / got.rows[0] == pytest.approx((16 / 0.023) / (4 / 0.024), rel=0.25)
    assert got.rows[1] / got.batches[1] > 12
    assert got.rows[0] / got.batches[0] > 3


def test_at_low_load_the_faster_lane_answers() -> None:
    fast = lane("fast", batch=16, one_s=0.004, more_s=0.001)
    slow = lane("slow", batch=16, one_s=0.040, more_s=0.010)
    got = simulate([slow, fast], poisson(50.0, 10.0), 0.2)
    assert got.rows[0] == 0
    assert got.dropped == got.late == 0
