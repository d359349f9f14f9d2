"""Arrivals: their statistics, not their speed. Limits are five standard deviations and more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue, NotFound
from edge.load.arrivals import (
    Bursty,
    Flat,
    Floats,
    OfferedLoad,
    Pattern,
    Poisson,
    RecordedRates,
    RecordedTimes,
    Sine,
    Steps,
    Wave,
    arrivals,
)
from edge.load.recorded import read_recorded

seeds = st.integers(0, 2**32)
waves: st.SearchStrategy[Wave] = st.one_of(
    st.just(Flat()),
    st.builds(Sine, st.floats(0.5, 100), st.floats(0, 1), st.floats(-1, 1)),
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 4)), min_size=1, max_size=5, unique_by=lambda s: s[0]).map(
        lambda steps: Steps(tuple(sorted((float(a), f) for a, f in steps)), 60.0)
    ),
)
patterns: st.SearchStrategy[Pattern] = st.one_of(
    st.just(Poisson()),
    st.builds(Bursty, st.floats(1, 20), st.floats(0.05, 5), st.floats(0, 0.9)),
    st.lists(st.floats(0, 50), min_size=1, max_size=6)
    .filter(lambda rates: sum(rates) > 1)
    .map(lambda rates: RecordedRates(np.array(rates), 3.0)),
    st.lists(st.floats(0, 9), min_size=1, max_size=20).map(lambda times: RecordedTimes(np.sort(np.array(times)), 10.0)),
)


@settings(max_examples=60)
@given(patterns, waves, st.floats(0, 200), st.floats(0.1, 100), seeds)
def test_times_are_ordered_within_the_run_and_repeatable(
    pattern: Pattern, wave: Wave, rate: float, duration_s: float, seed: int
) -> None:
    demand = OfferedLoad(pattern, rate, wave)
    times = arrivals(demand, duration_s, seed, "a")
    assert np.all(np.diff(times) >= 0)
    assert np.all((times >= 0) & (times < duration_s))
    assert np.array_equal(times, arrivals(demand, duration_s, seed, "a"))


@settings(max_examples=50)
@given(waves, st.floats(20, 500), seeds)
def test_as_many_arrive_as_rate_and_wave_say(wave: Wave, rate: float, seed: int) -> None:
    times = arrivals(OfferedLoad(Poisson(), rate, wave), 120.0, seed)
    for begin, end in ((0.0, 120.0), (0.0, 40.0), (40.0, 120.0)):
        low, high = wave.accumulated(np.array([begin, end]))
        expected = rate * (high - low)
        got = np.count_nonzero((times >= begin) & (times < end))
        assert abs(got - expected) <= 6 * np.sqrt(expected) + 6


@given(st.floats(5, 300), seeds)
@settings(max_examples=30)
def test_poisson_gaps_are_exponential(rate: float, seed: int) -> None:
    gaps = np.sort(np.diff(arrivals(OfferedLoad(Poisson(), rate), 2000 / rate, seed)))
    # Kolmogorov-Smirnov: the distance to the exponential distribution, limit at p about 1e-7.
    expected = 1 - np.exp(-gaps * rate)
    distance = np.max(np.abs(expected - np.arange(1, len(gaps) + 1) / len(gaps)))
    assert distance < 2.9 / np.sqrt(len(gaps)) + 0.02


@pytest.mark.parametrize(("burstiness", "calm"), [(2.0, 0.0), (5.0, 0.0), (5.0, 0.5), (20.0, 0.1)])
def test_bursts_keep_the_mean_and_are_as_uneven_as_asked(burstiness: float, calm: float) -> None:
    pattern = Bursty(burstiness, 0.5, calm)
    times = arrivals(OfferedLoad(pattern, 100), 20_000, 3)
    assert len(times) / 20_000 == pytest.approx(100, rel=0.1)
    counts = np.bincount(np.floor(times / 20).astype(int), minlength=1000)
    # Variance over mean of the counts in long intervals: 1 for Poisson, plus what the two states' rates add.
    part = pattern.burst_part
    calm_s = 0.5 * (1 - part) / part
    decay_s = 0.5 * calm_s / (0.5 + calm_s)
    expected = 1 + 2 * 100 * part * (1 - part) * (burstiness - calm) ** 2 * decay_s
    assert counts.var() / counts.mean() == pytest.approx(expected, rel=0.3)


def test_burstiness_of_one_is_poisson() -> None:
    times = arrivals(OfferedLoad(Bursty(1.0), 200), 1000, 5)
    counts = np.bincount(times.astype(int), minlength=1000)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.25)


def test_a_burst_is_as_fast_as_asked() -> None:
    times = arrivals(OfferedLoad(Bursty(10.0, burst_s=20.0), 50), 4000, 1)
    counts = np.bincount(times.astype(int), minlength=4000)
    assert np.median(counts[counts > 200]) == pytest.approx(500, rel=0.05)
    assert np.count_nonzero(counts == 0) > 3000


@given(st.lists(st.floats(0, 9), min_size=1, max_size=20), st.integers(1, 4))
def test_recorded_instants_come_back_and_loop(times: list[float], rounds: int) -> None:
    record = RecordedTimes(np.sort(np.array(times)), 10.0)
    got = arrivals(OfferedLoad(record), 10.0 * rounds, 0)
    assert np.allclose(got, np.concatenate([record.times_s + 10 * n for n in range(rounds)]))


@given(st.lists(st.floats(0, 9), min_size=1, max_size=20), st.floats(0.2, 5))
def test_another_rate_replays_the_record_at_another_speed(times: list[float], speed: float) -> None:
    record = RecordedTimes(np.sort(np.array(times)), 10.0)
    got = arrivals(OfferedLoad(record, record.mean_rate * speed), 9.99 / speed, 0)
    assert np.allclose(got, record.times_s / speed)


def test_recorded_rates_are_followed_and_scaled() -> None:
    record = RecordedRates(np.array([10.0, 0.0, 50.0]), 5.0)
    assert record.mean_rate == pytest.approx(20)
    for rate, factor in ((None, 1.0), (200.0, 10.0)):
        times = arrivals(OfferedLoad(record, rate), 3000.0, 2)
        per_phase = np.bincount((times % 15 // 5).astype(int), minlength=3) / 1000
        assert per_phase == pytest.approx([10 * factor, 0, 50 * factor], rel=0.05)


def test_models_get_different_times_and_the_order_of_models_does_not_matter() -> None:
    demand = OfferedLoad(Poisson(), 10)
    a, b = (arrivals(demand, 60, 7, name) for name in ("a", "b"))
    assert not np.array_equal(a[:5], b[:5])
    assert not np.array_equal(a[:5], arrivals(demand, 60, 8, "a")[:5])


@pytest.mark.parametrize(
    "wave",
    [Sine(10, 0.5), Steps(((0, 1), (10, 0), (20, 3))), Steps(((5, 2),), 7), Steps(((5, 2),))],
    ids=["sine", "steps", "repeated", "late"],
)
def test_a_waves_integral_is_that_of_its_factor(wave: Wave) -> None:
    def factor(at: float) -> float:
        if isinstance(wave, Sine):
            return 1 + wave.depth * float(np.sin(2 * np.pi * at / wave.period_s))
        assert isinstance(wave, Steps)
        at = at % wave.repeat_s if wave.repeat_s else at
        return next((f for second, f in reversed(wave.steps) if at >= second), 1.0)

    middle = np.arange(0, 40, 0.001) + 0.0005
    summed = np.concatenate([[0.0], np.cumsum([factor(t) * 0.001 for t in middle])])
    at = np.arange(0, 40.0005, 0.5)
    assert wave.accumulated(at) == pytest.approx(summed[::500][: len(at)], abs=0.01)
    # Between two points of the grid the integral is straight.
    grid = wave.grid(40.0)
    between = (grid[1:] + grid[:-1]) / 2
    straight = (wave.accumulated(grid)[1:] + wave.accumulated(grid)[:-1]) / 2
    assert wave.accumulated(between) == pytest.approx(straight, abs=1e-3)


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda: Sine(0, 0.5), "wave.period_s"),
        (lambda: Sine(10, 1.5), "wave.depth"),
        (lambda: Steps(()), "wave.steps"),
        (lambda: Steps(((5, 1), (5, 2))), r"wave.steps\[1\].second"),
        (lambda: Steps(((0, -1),)), r"wave.steps\[0\].factor"),
        (lambda: Steps(((0, 1), (10, 2)), 10), "wave.repeat_s"),
        (lambda: Bursty(0.5), "arrivals.burstiness"),
        (lambda: RecordedTimes(np.array([]), 1.0), "recorded times"),
        (lambda: RecordedTimes(np.array([2.0, 1.0]), 3.0), "recorded times"),
        (lambda: RecordedTimes(np.array([0.0, 1.0]), 1.0), "recorded period_s"),
        (lambda: RecordedRates(np.array([0.0]), 1.0), "recorded rates"),
        (lambda: arrivals(OfferedLoad(Poisson()), 10, 0), "rate"),
        (lambda: arrivals(OfferedLoad(Poisson(), -1), 10, 0), "rate"),
        (lambda: arrivals(OfferedLoad(Poisson(), 1e6), 1e6, 0), "rate"),
        (lambda: arrivals(OfferedLoad(Poisson(), 1), 0, 0), "duration_s"),
    ],
)
def test_bad_numbers_are_named(build: object, path: str) -> None:
    with pytest.raises(InvalidValue, match=path):
        build()  # type: ignore[operator]


def _recorded(tmp_path: Path, text: str, name: str = "r.csv", model: str = "") -> RecordedTimes | RecordedRates:
    path = tmp_path / name
    path.write_text(text)
    return read_recorded(path, model)


def _times(record: RecordedTimes | RecordedRates) -> Floats:
    assert isinstance(record, RecordedTimes)
    return record.times_s


def test_recorded_files_are_read(tmp_path: Path) -> None:
    csv = _recorded(tmp_path, "# from the gate\ntime_s\n1700000002.5\n1700000000\n1700000001\n")
    assert _times(csv).tolist() == [0, 1, 2.5]
    assert csv.mean_rate == pytest.approx(2 / 2.5)  # three instants, two gaps
    rates = _recorded(tmp_path, "start_s,rate\n0,5\n60,10\n120,0\n")
    assert isinstance(rates, RecordedRates)
    assert (rates.rates.tolist(), rates.interval_s) == ([5, 10, 0], 60)
    several = "time_s,model\n0,a\n1,b\n2,a\n3,b\n4,a\n"
    assert _times(_recorded(tmp_path, several, model="a")).tolist() == [0, 2, 4]
    assert _times(_recorded(tmp_path, "[5, 6, 8]")).tolist() == [0, 1, 3]
    value = {"models": {"a": {"times_s": [0, 1], "period_s": 9}, "b": {"rates": [1, 2], "interval_s": 3}}}
    a, b = (_recorded(tmp_path, json.dumps(value), model=m) for m in "ab")
    assert isinstance(a, RecordedTimes)
    assert isinstance(b, RecordedRates)
    assert (a.period_s, b.interval_s) == (9, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a column time_s"),
        ("when\n1\n", "a column time_s"),
        ("time_s\n", "at least one item"),
        ("time_s\n1\n", "two different instants"),
        ("time_s\n1\nx\n", "'x', allowed: numbers"),
        ("time_s\n1\nnan\n", "finite"),
        ("time_s,model\n1\n", "2 columns"),
        ("time_s,model\n1,b\n", "one of b"),
        ("start_s,rate\n0,1\n", "two intervals"),
        ("start_s,rate\n0,1\n5,1\n20,1\n", "one length"),
        ("start_s,rate\n0,-1\n5,1\n", "rates of 0 or more"),
        ("{", "JSON or CSV"),
        ("{}", "times_s, or rates"),
        ('{"rates": [1]}', "interval_s"),
        ('{"rates": ["x"], "interval_s": 1}', "numbers"),
        ('{"times_s": [0, 1], "perod_s": 1}', "perod_s"),
        ('{"models": {"b": {}}}', "one of b"),
        ('{"times_s": [0, 5], "period_s": 1}', "period_s"),
    ],
)
def test_bad_records_are_refused_in_words(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        _recorded(tmp_path, text, model="a")


def test_a_missing_record_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        read_recorded(tmp_path / "none.csv")
