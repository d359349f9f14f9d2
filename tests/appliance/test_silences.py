"""How long the control loop was silent, by a clock that is passed in."""

from __future__ import annotations

import random

import pytest

from edge.appliance.silences import Silences


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def monotonic(self) -> float:
        return self.now_s

    def utc(self) -> float:
        return self.now_s

    def local_minute(self) -> int:
        return 0


def looked(steps_s: list[float]) -> tuple[Silences, Clock]:
    """Looks after each of `steps_s`; the first only says when the next is due."""
    clock = Clock()
    silences = Silences(clock)
    silences.look()
    for step_s in steps_s:
        clock.now_s += step_s
        silences.look()
    return silences, clock


def test_a_loop_that_comes_when_it_is_due_was_never_silent() -> None:
    silences, _ = looked([0.25, 0.2, 0.25])
    assert silences.to_json() == {"longest_s": 0.0, "longest_in_hour_s": 0.0, "count": 0, "seconds": 0.0}


def test_what_comes_late_was_silence() -> None:
    silences, _ = looked([0.25, 72.25, 0.75, 3.25, 0.25])
    assert silences.to_json() == {"longest_s": 72.0, "longest_in_hour_s": 72.0, "count": 2, "seconds": 75.0}


def test_the_longest_of_the_last_hour_is_forgotten_in_time() -> None:
    silences, clock = looked([10.25, 1800.25])
    assert silences.to_json()["longest_in_hour_s"] == 1800.0
    clock.now_s += 1800.25
    silences.look()
    clock.now_s += 3000.0
    assert silences.to_json()["longest_in_hour_s"] == 1800.0, "the last look was 3000 s ago"
    clock.now_s += 700.0
    answer = silences.to_json()
    assert (answer["longest_s"], answer["longest_in_hour_s"]) == (1800.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_of_the_last_hour_is_that_of_all_its_looks(seed: int) -> None:
    rng = random.Random(seed)
    clock = Clock()
    silences = Silences(clock)
    silences.look()
    seen = [(clock.now_s, 0.0)]
    for _ in range(300):
        step_s = rng.choice((0.25, 0.3, rng.uniform(0.25, 400.0)))
        clock.now_s += step_s
        silences.look()
        seen.append((clock.now_s, step_s - 0.25))
        hour = max(s for at, s in seen if clock.now_s - at <= 3600.0)
        answer = silences.to_json()
        assert answer["longest_in_hour_s"] == pytest.approx(hour, abs=2e-3)
        assert answer["longest_s"] == pytest.approx(max(s for _, s in seen), abs=2e-3)
        assert len(silences._recent) <= len(seen)
