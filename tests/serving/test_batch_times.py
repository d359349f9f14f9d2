"""How long a batch is expected to take: as planned until it is seen."""

from __future__ import annotations

from itertools import pairwise

import pytest

from edge.serving.batch_times import BatchTimes


def test_expected_times_follow_what_is_seen() -> None:
    times = BatchTimes(8, 0.080)
    assert times.upper_s == pytest.approx([0.01 * n for n in range(1, 9)])  # hopeful until seen
    for _ in range(20):
        times.saw(4, 0.060, 0.0)
    assert times.upper_s[3] == pytest.approx(0.060, rel=0.1)
    assert times.upper_s[0] == pytest.approx(times.upper_s[3] / 4)
    assert times.upper_s[7] == pytest.approx(0.080)  # not seen: as planned
    for n in range(40):
        times.saw(8, 0.020 if n % 2 else 0.080, 1.0)
    assert times.upper_s[7] == pytest.approx(0.080)  # no more than planned, as long as the mean is not
    for _ in range(60):
        times.saw(8, 0.160, 2.0)
    assert 0.150 < times.upper_s[7] < 0.180
    assert all(a <= b for a, b in pairwise(times.upper_s))
    times.forget(11.0)
    assert times.upper_s[3] == pytest.approx(times.upper_s[7] / 2)  # 4 rows: forgotten, 8 rows: not yet
    times.forget(30.0)
    assert times.upper_s == pytest.approx([0.01 * n for n in range(1, 9)])


def test_a_model_slower_than_planned_keeps_a_margin_for_its_slow_batches() -> None:
    times = BatchTimes(1, 0.080)
    for n in range(200):
        times.saw(1, 0.120 if n % 2 else 0.160, n / 100)
    assert times.upper_s[0] >= 0.160
    for n in range(200):
        times.saw(1, 0.140, 2.0 + n / 100)
    assert times.upper_s[0] == pytest.approx(0.140, rel=0.06)


def test_the_margin_does_not_jump_where_the_mean_crosses_the_plan() -> None:
    """A mean that is a millisecond longer does not make a batch half as long again."""
    uppers = []
    for mean_s in (0.078, 0.082, 0.086, 0.090):
        times = BatchTimes(1, 0.080)
        for n in range(200):
            times.saw(1, mean_s + (0.020 if n % 2 else -0.020), n / 100)
        uppers.append(times.upper_s[0])
    assert uppers == sorted(uppers)
    assert uppers[1] < 0.105, "half of the mean deviations count at most"
    assert uppers[3] >= 0.110, "a mean a tenth longer has them all"
