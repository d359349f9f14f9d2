"""Executors and their lanes: when each is expected to be free, and for which model."""

from __future__ import annotations

from front_kit import pending, served, version

from edge.serving.batch_times import BatchTimes
from edge.serving.lanes import ExecutorSeat, RunningBatch, SeatLane


def seat(*batches: tuple[str, int, float]) -> ExecutorSeat:
    """An executor with a lane per (model, batch, seconds of a full batch)."""
    made = ExecutorSeat("e")
    made.lanes = [SeatLane(made, served(version(m)), n, BatchTimes(n, s)) for m, n, s in batches]
    return made


def running(lane: SeatLane, sent_s: float, expected_s: float) -> RunningBatch:
    return RunningBatch(lane, [], 2, sent_s, expected_s, 0.0, 0)


async def test_a_lane_is_free_behind_the_models_whose_turn_comes_first() -> None:
    s = seat(("a", 2, 0.2), ("b", 4, 0.4))
    a, b = s.lanes
    assert (b.view(10.0).free_s, b.view(10.0).cycle_s) == (10.0, 0.4), "nothing waits"
    a.served.queue.admit(pending(a.served, model="a"))
    assert b.view(10.0).free_s == 10.1, "one row of a comes first"
    assert b.view(10.0).cycle_s == 0.5
    s.turn = 1
    assert b.view(10.0).free_s == 10.0
    assert b.in_turn(10.0).cycle_s == 0.5


def test_an_executor_is_free_when_all_it_was_handed_is_expected_back() -> None:
    s = seat(("a", 2, 0.2))
    s.sent(1, running(s.lanes[0], 10.0, 0.2))
    s.sent(2, running(s.lanes[0], 10.1, 0.2))
    assert round(s.free_at(10.1), 6) == 10.4
    assert round(s.free_at(10.5), 6) == 10.7, "overdue: as if it had just begun"
    assert round(s.free_at(12.4), 6) == 14.4, "overdue for two seconds: two more are likely"
    assert s.answered(1, 10.3).sent_s == 10.0
    assert round(s.free_at(10.3), 6) == 10.5


def test_the_time_of_a_batch_counts_from_the_answer_before_it() -> None:
    s = seat(("a", 2, 9.0))
    times = s.lanes[0].times
    s.sent(1, running(s.lanes[0], 10.0, 0.2))
    s.sent(2, running(s.lanes[0], 10.1, 0.2))
    s.answered(1, 11.0)
    assert round(times.upper_s[1], 6) == 1.2  # a second, and a fifth for chance
    s.answered(2, 12.0)
    assert round(times.upper_s[1], 6) == 1.1  # a second again, not from when it was handed over


def test_a_lost_executor_gives_its_batches_back_in_the_order_of_their_sending() -> None:
    s = seat(("a", 2, 0.2))
    s.blocked = True
    first, second = running(s.lanes[0], 10.0, 0.2), running(s.lanes[0], 10.1, 0.2)
    s.sent(2, second)
    s.sent(1, first)
    assert s.lost() == [first, second]
    assert (s.running, s.blocked, s.free_at(11.0)) == ({}, False, 11.0)
