"""Ages in UTC on a clock that is set forward."""

from __future__ import annotations

from edge.outputs.clock_steps import ClockSteps


class SetClock:
    """A clock whose UTC a test sets."""

    def __init__(self) -> None:
        self.steady_s, self.utc_s = 100.0, 1_000_000.0

    def monotonic(self) -> float:
        return self.steady_s

    def utc(self) -> float:
        return self.utc_s

    def local_minute(self) -> int:
        return 0

    def advance(self, seconds: float) -> None:
        self.steady_s += seconds
        self.utc_s += seconds


def test_without_a_step_it_is_a_subtraction() -> None:
    clock = SetClock()
    steps = ClockSteps(clock)
    clock.advance(50.0)
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0


def test_a_step_forward_counts_while_something_from_before_it_is_young_enough() -> None:
    clock = SetClock()
    steps = ClockSteps(clock)
    clock.utc_s += 86_400.0
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0 - 86_400.0
    clock.advance(29.0)
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0 - 86_400.0
    clock.advance(1.0)
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0


def test_small_steps_and_steps_back_do_not_count() -> None:
    clock = SetClock()
    steps = ClockSteps(clock)
    clock.utc_s += 60.0
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0
    clock.utc_s -= 86_400.0
    assert steps.oldest_utc_s(30.0) == clock.utc_s - 30.0
