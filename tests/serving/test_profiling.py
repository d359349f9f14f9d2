"""Runs of a batch under a share, the sparse grid, its completion, pairs and pressure. The clock is passed in."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue, Unavailable
from edge.serving.profiling import (
    Effort,
    OtherLoad,
    Runs,
    affordable,
    batch_grid,
    complete,
    default_shares,
    pairs_to_measure,
    pressure,
    repeat,
    share_grid,
    trimmed_mean,
)
from edge.serving.stressors import STRESSORS, last_cache_bytes, make_stressor


class Bucket:
    """A share of `rate` that paces between batches and saves up `burst_s`, on a clock moved by hand."""

    def __init__(self, rate: float, burst_s: float = 0.0) -> None:
        self.now_s = self.used_s = 0.0
        self._rate, self._burst_s, self._balance, self._at = rate, burst_s, burst_s, 0.0

    def now(self) -> float:
        return self.now_s

    def work(self, seconds: float) -> None:
        self.now_s += seconds
        self.used_s += seconds

    @contextlib.contextmanager
    def batch(self, stop=None) -> Iterator[bool]:
        self._settle(0.0)
        if self._balance < 0:
            self.now_s += -self._balance / self._rate
            self._settle(0.0)
        used = self.used_s
        yield True
        self._settle(self.used_s - used)

    def _settle(self, used: float) -> None:
        self._balance = min(self._burst_s, self._balance + (self.now_s - self._at) * self._rate - used)
        self._at = self.now_s


def measured(rate: float, cost_s: float, burst_s: float = 0.0, effort: Effort | None = None) -> Runs:
    bucket = Bucket(rate, burst_s)
    return repeat(lambda: bucket.work(cost_s), bucket, effort or Effort(), now=bucket.now, cpu=lambda: bucket.used_s)


@given(st.floats(0.05, 0.85), st.floats(0.0005, 0.3), st.floats(0.0, 1.0))
def test_a_paced_share_costs_its_waiting_whatever_was_saved_up(rate, cost_s, saved):
    # A bucket saves up 20 ms of work, or one batch if that is more.
    runs = measured(rate, cost_s, saved * max(0.02, cost_s))
    assert runs.latency_ms() == pytest.approx(1000 * cost_s / rate, rel=0.02)
    assert runs.typical_run_ms == pytest.approx(1000 * cost_s, rel=1e-6)
    assert sum(runs.cpu_ms) == pytest.approx(1000 * cost_s * len(runs.cpu_ms), rel=1e-6)


def test_an_ample_share_costs_the_run_alone():
    runs = measured(4.0, 0.01)
    assert runs.latency_ms() == pytest.approx(10.0)
    assert runs.mean_cycle_ms == pytest.approx(10.0)


def test_effort_bounds_the_runs():
    assert len(measured(1.0, 0.5, effort=Effort(0.1, 5, 100)).run_ms) == 5
    assert len(measured(1.0, 1e-5, effort=Effort(10.0, 5, 40)).run_ms) == 40


def test_a_stop_ends_it():
    bucket = Bucket(1.0)
    with pytest.raises(Unavailable, match="stopped"):
        repeat(lambda: bucket.work(0.1), bucket, Effort(), lambda: bucket.now_s > 0.25, bucket.now)


def test_short_cycles_are_evened_out_over_what_a_bucket_saves():
    # Every other cycle of 1 ms waits 3 ms: over 20 ms that is 2.5 ms a batch, not 4.
    runs = Runs((1.0,) * 100, (1.0, 4.0) * 50, (1.0,) * 100)
    assert runs.latency_ms() == pytest.approx(2.5, rel=0.05)
    # Long ones are not.
    assert Runs((40.0,) * 100, (40.0, 80.0) * 50, (40.0,) * 100).latency_ms() == pytest.approx(80.0)


def test_a_batch_that_is_slow_itself_counts_even_where_cycles_even_out():
    assert Runs((1.0,) * 80 + (9.0,) * 20, (2.0,) * 100, (1.0,) * 100).latency_ms() == pytest.approx(9.0)


def test_trimmed_mean_leaves_out_the_ends():
    assert trimmed_mean([1.0] * 18 + [0.0, 1000.0]) == 1.0


def test_runs_are_checked():
    with pytest.raises(InvalidValue, match="run_ms"):
        Runs((), (), ())
    with pytest.raises(InvalidValue, match="cycle_ms"):
        Runs((1.0,), (), (1.0,))
    with pytest.raises(InvalidValue, match="quantile"):
        Runs((1.0,), (1.0,), (1.0,)).latency_ms(0.1)
    with pytest.raises(InvalidValue, match=r"effort\.most"):
        Effort(least=10, most=5)


# -- the grid


def test_grids():
    assert default_shares(1.0) == tuple(range(10, 101, 10))
    assert default_shares(0.5) == (*range(5, 51, 5), 60, 70, 80, 90, 100)
    assert default_shares(1 / 16) == (1, 2, 3, 4, 5, 6, 7, *range(10, 101, 10))
    assert batch_grid(1) == (1,)
    assert batch_grid(12) == (1, 2, 4, 8, 12)
    assert batch_grid(32) == (1, 2, 4, 8, 16, 32)
    tens = tuple(range(10, 101, 10))
    assert share_grid(tens, 0.5) == (10, 20, 50, 100)
    assert share_grid(tens, 1.0) == (10, 30, 100)
    assert share_grid((40,), 0.5) == (40,)


def test_cells_fit_the_budget_and_the_cheap_ones_are_kept():
    run_ms = {1: 5.0, 8: 40.0, 32: 160.0}
    effort = Effort(0.5, 8)
    every, none = affordable(run_ms, (10, 50), 0.5, effort, 1e6, 1e6)
    assert {(c.share, c.batch) for c in every} == {(p, b) for p in (10, 50) for b in run_ms}
    assert none == ()
    some, left = affordable(run_ms, (10, 50), 0.5, effort, 8.0, 1e6)
    assert left == ((10, 32),)
    assert sum(c.seconds for c in some) <= 8.0
    # Longer than anybody would wait for.
    _, long = affordable(run_ms, (10, 50), 0.5, effort, 1e6, 100.0)
    assert long == ((10, 8), (10, 32))


@given(st.floats(0.1, 200.0), st.sampled_from([1, 4, 32]), st.floats(0.0, 30.0))
def test_the_ends_are_always_measured(base, largest, budget):
    run_ms = {b: base * b for b in batch_grid(largest)}
    cells, left = affordable(run_ms, (10, 30, 100), 1.0, Effort(), budget, 1000.0)
    kept = {(c.share, c.batch) for c in cells}
    assert kept | set(left) == {(p, b) for p in (10, 30, 100) for b in run_ms}
    assert {(p, 1) for p in (10, 30, 100)} <= kept
    assert {(100, b) for b in run_ms} <= kept


# -- completing


def truth(share: int, batch: int) -> float:
    """A device as the planners' test table has it: level beyond what the model can use."""
    return 3.0 + 1.5 * batch / min(share / 100, 0.4 + 0.01 * batch)


def test_between_the_measured_it_is_near_and_hardly_ever_under():
    grid = {(p, b): truth(p, b) for p in (10, 30, 50, 100) for b in (1, 2, 4, 8, 16, 32)}
    done = complete(grid, range(10, 101, 10), 32)
    assert done.smoothed == 1.0
    for share, row in done.rows.items():
        for batch, value in enumerate(row, 1):
            assert value >= truth(share, batch) * 0.97
            assert value <= truth(share, batch) * 1.25
    assert done.origin[10][:5] == "mmimi"
    assert done.origin[20] == "i" * 32


def test_long_cells_follow_the_next_larger_share():
    grid = {(p, b): truth(p, b) for p in (10, 100) for b in (1, 4, 16, 32) if not (p == 10 and b > 4)}
    done = complete(grid, (5, 10, 100), 32)
    assert done.origin[10] == "mi" + "i" + "m" + "x" * 28
    assert done.rows[10][31] == pytest.approx(truth(10, 4) * truth(100, 32) / truth(100, 4), rel=1e-4)
    assert done.rows[5][0] == pytest.approx(2 * truth(10, 1), rel=1e-4)
    assert done.origin[5] == "x" * 32


def test_noise_is_smoothed_and_said():
    done = complete({(10, 1): 20.0, (10, 2): 18.0, (100, 1): 5.0, (100, 2): 9.0}, (10, 100), 2)
    assert done.rows[10] == pytest.approx((math.sqrt(360.0),) * 2, rel=1e-3)
    assert done.smoothed == pytest.approx(math.sqrt(20 / 18), rel=1e-3)


def test_one_measured_cell_is_enough():
    assert complete({(100, 1): 5.0}, (50, 100), 3).rows == {50: (10.0, 20.0, 30.0), 100: (5.0, 10.0, 15.0)}
    assert complete({(50, 1): 5.0}, (50, 100), 1).rows == {50: (5.0,), 100: (5.0,)}
    with pytest.raises(InvalidValue, match="measured"):
        complete({}, (50,), 3)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([10, 25, 50, 100]), st.sampled_from([1, 2, 4, 8])), st.floats(0.1, 500.0), min_size=1
    )
)
def test_whatever_was_measured_values_rise_with_the_batch_and_fall_with_the_share(grid):
    done = complete(grid, (5, 10, 20, 50, 80, 100), 8)
    rows = np.array([done.rows[p] for p in (5, 10, 20, 50, 80, 100)])
    assert np.isfinite(rows).all()
    assert (rows > 0).all()
    assert (np.diff(rows, axis=1) >= 0).all()
    assert (np.diff(rows, axis=0) <= 0).all()
    assert all(len(mark) == 8 for mark in done.origin.values())


# -- interference


def test_pairs_are_spread_over_all_kinds():
    models = {"a": (1, 8), "b": (1, 8), "c": (4,)}
    splits = ((50, 50), (30, 70), (70, 30))
    every = pairs_to_measure(models, splits, 1000)
    assert len(set(every)) == len(every)
    some = pairs_to_measure(models, splits, 12)
    assert len(set(some)) == 12
    assert {frozenset({x.model, y.model}) for x, y in some} >= {
        frozenset("ab"),
        frozenset("ac"),
        frozenset("bc"),
        frozenset("a"),
    }
    assert some == pairs_to_measure(models, splits, 12)


def test_pressure_is_relative_to_the_stressor():
    assert pressure(1.25, 1.5) == 0.5
    assert pressure(0.98, 1.5) == 0.0
    assert pressure(2.0, 1.5) == 1.0
    assert pressure(1.5, 1.04) == 0.0


def test_other_load_is_what_is_not_ours():
    load = OtherLoad()
    assert load.cores == 0.0
    load.add(1.5, 0.5, 1.0)
    load.add(0.4, 0.5, 1.0)
    load.add(1.0, 0.0, 0.0)
    assert load.cores == 0.5


def test_stressors_work_and_the_cache_is_found(tmp_path: Path):
    for name in STRESSORS:
        stressor = make_stressor(name, cache_bytes=1 << 16)
        assert stressor.name == name
        for _ in range(3):
            stressor.run()
    with pytest.raises(InvalidValue, match="stressor"):
        make_stressor("disk")
    for index, (level, size) in enumerate([("1", "32K"), ("3", "12M"), ("x", "1M")]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "level").write_text(level)
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_cache_bytes("cpu", tmp_path) == 12 << 20
    assert last_cache_bytes("cpu", tmp_path / "none") == 8 << 20
