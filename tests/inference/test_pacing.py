"""Which frames are answered."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.inference import Pacer


def answered(rate: float, times: list[float]) -> list[float]:
    pacer = Pacer(rate)
    return [t for t in times if pacer.due(t)]


def test_every_second_frame_of_ten_at_five_per_second() -> None:
    times = [n / 10 for n in range(100)]
    assert answered(5, times) == pytest.approx(times[::2])


def test_all_frames_when_the_rate_is_the_streams_own_despite_jitter() -> None:
    times = [n / 10 + (0.02 if n % 3 == 1 else 0.0) for n in range(50)]
    assert len(answered(10, times)) == 50


def test_three_of_eight_come_out_on_average() -> None:
    times = [n / 8 for n in range(800)]
    assert len(answered(3, times)) == pytest.approx(300, abs=2)


def test_after_a_pause_nothing_is_made_up_for() -> None:
    times = [0.0, 0.5, 60.0, 60.1, 60.2, 60.3, 60.4, 60.5]
    assert answered(2, times) == [0.0, 0.5, 60.0, 60.4]


@given(
    st.floats(0.2, 30),
    st.lists(st.floats(0.001, 3.0), min_size=2, max_size=200),
)
@settings(max_examples=150, deadline=None)
def test_never_more_than_asked_and_not_far_less(rate: float, gaps: list[float]) -> None:
    times = [sum(gaps[:n]) for n in range(len(gaps))]
    taken = answered(rate, times)
    span = times[-1] - times[0]
    assert taken[0] == times[0]
    assert len(taken) <= span * rate + 1.3 + 1e-6
    # Between two answers no frame that was later than one period was passed over.
    for early, late in itertools.pairwise(taken):
        between = [t for t in times if early < t < late]
        assert all(t - early < 1 / rate * 1.31 + 1e-9 for t in between)


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValue, match="frame_rate"):
        Pacer(0)
