"""Pauses between tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.retry_pace import RetryPace


@given(st.floats(0.01, 10), st.floats(10, 1000), st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_grow_to_their_limit_and_never_shrink(first: float, most: float, failures: int, chance: float) -> None:
    pace = RetryPace(first, most)
    pause = pace.pause_s(failures, chance)
    assert 0.75 * min(first, most) <= pause <= most
    assert pace.pause_s(failures + 1, chance) >= pause


def test_pauses_are_doubled_each_time() -> None:
    assert [RetryPace(1, 60).pause_s(n, 0.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert RetryPace(1, 60).pause_s(1, 1.0) == 0.75
