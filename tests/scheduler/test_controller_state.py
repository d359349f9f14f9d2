"""The controller's values: what a whole retraining costs by its progress."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.window import RetrainingOption
from scheduler.controller_state import LEAST_PROGRESS, Job


def job() -> Job:
    return Job("j", "a", RetrainingOption("x", 0.7, 10.0), 0.5, 0.0)


parts = st.floats(0.0, 1.0)


@given(st.floats(0.0, 20.0), st.floats(0.1, 50.0), st.lists(parts, min_size=1, max_size=8).map(sorted))
def test_the_whole_is_told_whatever_precedes_the_first_step(
    before_s: float, work_s: float, fractions: list[float]
) -> None:
    one = job()
    for fraction in fractions:
        one = one.reported(before_s + work_s * fraction, fraction, 1.0)
        whole = one.whole(fraction)
        if fraction >= 1.0 or fraction < fractions[0] + LEAST_PROGRESS:
            assert whole is None, "too early to tell, or over"
        else:
            assert whole == pytest.approx(before_s + work_s)


def test_a_late_report_takes_nothing_back() -> None:
    one = job().reported(1.0, 0.1, 9.0).reported(4.0, 0.4, 10.0).reported(3.0, 0.3, 11.0)
    assert (one.device_seconds, one.last_report_s) == (4.0, 11.0)
    assert one.whole(0.4) == pytest.approx(10.0)
