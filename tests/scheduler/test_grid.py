"""The knapsack, and what is dropped before planning."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, problems

from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.grid import (
    Splits,
    as_share,
    build_grid,
    coarse_quantum,
    quanta,
    share_quantum,
    split_capacity,
    useful_options,
)
from scheduler.race import Race
from scheduler.relay import realise, search
from scheduler.timeline import evaluate

value_tables = st.lists(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=5), min_size=1, max_size=4)


@settings(deadline=None)
@given(tables=value_tables, capacity=st.integers(0, 8))
def test_the_knapsack_is_exact(tables: list[list[float]], capacity: int) -> None:
    best, chosen = split_capacity([np.array(t) for t in tables], capacity)
    brute = max(
        sum(t[k] for t, k in zip(tables, ks, strict=True))
        for ks in itertools.product(*(range(len(t)) for t in tables))
        if sum(ks) <= capacity
    )
    assert best == pytest.approx(brute)
    assert sum(chosen) <= capacity
    assert sum(t[int(k)] for t, k in zip(tables, chosen, strict=True)) == pytest.approx(best)


def test_the_knapsack_says_when_nothing_is_allowed() -> None:
    best, _ = split_capacity([np.array([-np.inf, -np.inf, 1.0])], 1)
    assert best == -np.inf


def test_quanta_of_binary_fractions() -> None:
    assert quanta(0.3, 0.1) == 3
    assert quanta(0.85, 0.1) == 8
    assert quanta(0.05, 0.1) == 0


def test_finer_shares_are_parts_of_delta_or_steps() -> None:
    stream = StreamProblem("a", 0.4, LINEAR)
    for delta, fine in ((0.1, 0.01), (0.05, 0.01), (0.005, 0.005), (1.0, 0.1), (0.25, 0.025)):
        assert share_quantum(WindowProblem("q", 1.0, 10.0, (stream,), delta=delta)) == pytest.approx(fine)
    stepped = WindowProblem("q", 1.0, 10.0, (stream,), delta=0.1, share_step=0.04)
    assert share_quantum(stepped) == pytest.approx(0.04)
    assert coarse_quantum(stepped) == pytest.approx(0.08)


def test_options_without_use_are_dropped() -> None:
    stream = StreamProblem(
        "a",
        0.4,
        LINEAR,
        (
            RetrainingOption("good", 0.6, 10.0),
            RetrainingOption("worse-and-dearer", 0.55, 12.0),
            RetrainingOption("loses", 0.3, 1.0),
            RetrainingOption("too-long", 0.9, 200.0),
            RetrainingOption("faster-for-its-cost", 0.55, 12.0, throughput=((0.5, 1.0), (1.0, 1.0))),
        ),
    )
    assert [o.id for o in useful_options(stream, 100.0)] == ["good", "faster-for-its-cost"]


@settings(max_examples=25, deadline=None)
@given(problem=problems(running=True, floor=False))
def test_the_search_value_bounds_what_its_schedules_bring(problem: WindowProblem) -> None:
    """The batch value splits inference by concave hulls: never under the exact value of the same schedule, except
    for what the exact one does with devices that inference has no use for."""
    grid = build_grid(problem, share_quantum(problem))
    if grid.total == 0:
        return
    race = Race(grid)
    for schedule in search(race):
        claimed = float(race.value(schedule)[0])
        outcome = evaluate(problem, realise(grid, schedule))
        steps = [x for row in outcome.steps.values() for x in row if x.start_s >= problem.label_delay_s - 1e-9]
        brought = sum(x.momentary * (x.end_s - x.start_s) for x in steps)
        assert brought >= 0.9 * claimed


def plain_split(tables: list[list[float]], capacity: int) -> tuple[float, list[int]]:
    """The knapsack over all capacities and all quanta, the fewest of equally good ones."""
    best, picks, chosen = [0.0] * (capacity + 1), [], list[int]()
    for table in tables:
        sums = [[best[c - k] + v for k, v in enumerate(table[: c + 1])] for c in range(capacity + 1)]
        picks.append([row.index(max(row)) for row in sums])
        best = [max(row) for row in sums]
    left = capacity
    for pick in reversed(picks):
        chosen.insert(0, pick[left])
        left -= pick[left]
    return best[capacity], chosen if best[capacity] > -np.inf else [0] * len(tables)


#: Tables with ties, and with shares that are not allowed.
tied_tables = st.lists(
    st.lists(st.sampled_from([-np.inf, -0.3, 0.0, 0.1, 0.2, 0.3, 0.6]), min_size=1, max_size=6), min_size=1, max_size=4
)


@given(tables=st.one_of(value_tables, tied_tables), capacity=st.integers(0, 14))
def test_what_the_knapsack_leaves_out_changes_nothing(tables: list[list[float]], capacity: int) -> None:
    best, chosen = split_capacity([np.array(t) for t in tables], capacity)
    assert (best, chosen.tolist()) == plain_split(tables, capacity)


@given(problem=problems(), capacity=st.integers(-1, 60), seed=st.integers(0, 100))
def test_splits_that_share_their_work_are_those_of_the_knapsack(
    problem: WindowProblem, capacity: int, seed: int
) -> None:
    grid = build_grid(problem, share_quantum(problem))
    splits, chance = Splits(grid), np.random.default_rng(seed)
    for _ in range(4):
        levels = [int(chance.choice(np.flatnonzero(valid))) for valid in grid.valid]
        values = [grid.value(i, float(grid.accuracy[i, level])) for i, level in enumerate(levels)]
        capacity = min(capacity, grid.total)
        assert splits.split(levels, capacity).tolist() == split_capacity(values, max(0, capacity))[1].tolist()


@given(
    kind=st.sampled_from(["linear", "subsampling"]),
    most=st.sampled_from([0.06, 0.25, 0.5, 1.0, 1.7]),
    curve=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
    quantum=st.sampled_from([0.01, 0.025, 0.04, 0.05]),
)
def test_the_grid_has_the_factors_of_each_share(
    kind: Literal["linear", "subsampling"], most: float, curve: list[float], quantum: float
) -> None:
    profile = InferenceProfile(kind, most, tuple(2.0**n for n in range(len(curve))), tuple(curve))
    grid = build_grid(WindowProblem("w", 1.0, 60.0, (StreamProblem("a", 0.5, profile),)), quantum)
    factors = [profile.factor(as_share(k, quantum)) for k in range(grid.device + 1)]
    assert grid.factor[0].tolist() == factors
    assert grid.hold[0].tolist() == [int(np.argmax(factors[: k + 1])) for k in range(grid.device + 1)]
