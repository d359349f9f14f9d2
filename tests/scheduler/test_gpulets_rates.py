"""Rates: elapsed time counts, not ticks; head-room holds what chance brings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from scheduler.gpulets.rates import RateEstimate, RateSettings, planned_rate

SETTINGS = RateSettings()
rates = st.floats(0.0, 1e4)


@given(rates, st.integers(0, 10_000), st.floats(0.1, 60.0), st.integers(1, 20))
def test_many_short_periods_count_as_one_long_one(start: float, arrived: int, period_s: float, parts: int) -> None:
    once = RateEstimate.starting(start).seen(arrived * parts, period_s * parts, SETTINGS)
    many = RateEstimate.starting(start)
    for _ in range(parts):
        many = many.seen(arrived, period_s, SETTINGS)
    assert math.isclose(once.slow, many.slow, rel_tol=1e-6, abs_tol=1e-6)
    assert math.isclose(once.quick, many.quick, rel_tol=1e-6, abs_tol=1e-6)


@given(rates, rates, st.floats(0.01, 100.0))
def test_the_estimate_stays_between_what_was_and_what_is(before: float, now: float, period_s: float) -> None:
    seen = RateEstimate.starting(before).seen(round(now * period_s), period_s, SETTINGS)
    low, high = sorted((before, round(now * period_s) / period_s))
    assert low - 1e-6 <= seen.slow <= high + 1e-6
    assert low - 1e-6 <= seen.quick <= high + 1e-6


def test_half_of_a_step_is_seen_after_a_half_life() -> None:
    up = RateEstimate.starting(0.0)
    for _ in range(4):
        up = up.seen(100, 1.0, SETTINGS)
    assert up.rate == pytest.approx(50.0), "the quick one leads on the way up"
    down = RateEstimate.starting(100.0)
    for _ in range(20):
        down = down.seen(0, 1.0, SETTINGS)
    assert down.rate == pytest.approx(50.0), "the slow one on the way down"
    assert RateEstimate.starting(7.0).seen(100, 0.0, SETTINGS) == RateEstimate.starting(7.0)


@given(st.floats(0.001, 1e5), st.floats(0.001, 1e5))
def test_more_is_planned_for_more(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert planned_rate(low, SETTINGS) <= planned_rate(high, SETTINGS) + 1e-9
    assert planned_rate(low, SETTINGS) >= SETTINGS.headroom * low - 1e-9


@pytest.mark.parametrize("rate", [2.0, 15.0, 200.0])
def test_chance_exceeds_the_planned_rate_as_seldom_as_promised(rate: float) -> None:
    settings = RateSettings(headroom=1.0, risk=0.05)
    counts = np.random.default_rng(3).poisson(rate * settings.horizon_s, 20_000)
    over = float(np.mean(counts > planned_rate(rate, settings) * settings.horizon_s + 1))
    assert over < 1.1 * settings.risk
    at_least = float(np.mean(counts > (planned_rate(rate, settings) - 0.25 * rate) * settings.horizon_s))
    assert at_least > settings.risk, "and not by planning for anything"


def test_nothing_is_planned_for_nothing_and_bad_settings_are_refused() -> None:
    assert planned_rate(0.0, SETTINGS) == 0.0
    with pytest.raises(InvalidValue, match=r"rates\.headroom"):
        RateSettings(headroom=0.5)
    with pytest.raises(InvalidValue, match=r"rates\.half_life_s"):
        RateSettings(half_life_s=0.0)
