"""Schedules are valued many at once, and moves are left out that cannot win: exactly what one at a time gives."""

from __future__ import annotations

import numpy as np
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import problems, table21_w1

from edge.core.window import WindowProblem
from scheduler.grid import FloatArray, Grid, IntArray, build_grid, share_quantum
from scheduler.race import FORBIDDEN, Race, Schedules
from scheduler.relay import BUDGET_STEPS, CAP_PARTS, all_at_once, neighbours, one_after_another

DRAWN = settings(max_examples=tried(25, 200))


def drawn_schedules(race: Race, seed: int, count: int) -> Schedules:
    """Any schedules: levels, orders, budgets and caps by chance."""
    chance, grid, n = np.random.default_rng(seed), race.grid, race.streams
    levels = np.array([[chance.choice(np.flatnonzero(valid)) for valid in grid.valid] for _ in range(count)], np.int64)
    order = np.array([chance.permutation(n) for _ in range(count)], np.int64)
    caps = chance.integers(1, grid.device + 1, (count, n)) if not race.linear else np.full((count, n), grid.device)
    return Schedules(levels, order, chance.integers(0, grid.total + 1, (count, n + 1)), caps)


def race_of(problem: WindowProblem) -> Race:
    grid = build_grid(problem, share_quantum(problem))
    return Race(grid)


def one_value(race: Race, s: Schedules) -> float:
    """The worth of one schedule (one row), played job by job."""
    grid = race.grid
    levels = [int(level) for level in s.levels[0]]
    waiting = [int(i) for i in s.order[0] if levels[i] > 0]
    work = {i: float(grid.work[i, levels[i]]) for i in waiting}
    begun = {i for i in waiting if race.running[i] == levels[i]}
    demand, worth = race.demand.copy(), race.worth.copy()
    left, total = grid.time_s, 0.0
    for phase in range(race.streams + 1):
        quanta = one_phase(grid, waiting, [int(s.caps[0, i]) for i in waiting], begun, int(s.budget[0, phase]))
        begun |= {i for i in waiting if quanta[i] > 0}
        speed = {i: k * grid.quantum if race.linear else float(race.speed[i, levels[i], k]) for i, k in quanta.items()}
        need = {i: work[i] / speed[i] if speed[i] > 0 else np.inf for i in waiting}
        step = min([*need.values(), left])
        total += one_worth(demand, worth, grid.total - sum(quanta.values())) * step
        left -= step
        over = [i for i in waiting if need[i] <= step + 1e-9]
        work = {i: work[i] - speed[i] * step for i in waiting}
        waiting = [i for i in waiting if i not in over]
        for i in over:
            place = i * grid.accuracy.shape[1] + levels[i]
            demand, worth = demand + race.more_demand[place], worth + race.more_worth[place]
        if not over:
            break
    return total


def one_phase(grid: Grid, waiting: list[int], caps: list[int], begun: set[int], budget: int) -> dict[int, int]:
    given = {}
    for i, cap in zip(waiting, caps, strict=True):
        given[i] = min(max(budget, 0), cap)
        budget -= cap
    for i, cap in zip(waiting, caps, strict=True):
        more = min(max(budget, 0), grid.device - cap)
        given[i], budget = given[i] + more, budget - (grid.device - cap)
    return {i: 1 if k == 0 and i in begun else k for i, k in given.items()}


def one_worth(demand: FloatArray, worth: FloatArray, spare: int) -> float:
    above = sum(d > spare for d in demand)
    if spare < 0 or above == len(demand):
        return FORBIDDEN
    low, high = max(above - 1, 0), above
    gap = demand[low] - demand[high]
    part = (spare - demand[high]) / gap if gap > 0 else 0.0
    return float(worth[high] + min(max(part, 0.0), 1.0) * (worth[low] - worth[high]))


@DRAWN
@given(problem=problems(running=True), seed=st.integers(0, 1000))
def test_schedules_side_by_side_are_worth_what_each_is_alone(problem: WindowProblem, seed: int) -> None:
    race = race_of(problem)
    s = drawn_schedules(race, seed, 12)
    together = race.value(s)
    assert together.tolist() == [one_value(race, s.row(n)) for n in range(12)]
    assert together.tolist() == [float(race.value(s.row(n))[0]) for n in range(12)]


@DRAWN
@given(problem=problems(running=True), seed=st.integers(0, 1000))
def test_a_sweep_over_all_streams_at_once_is_one_after_another(problem: WindowProblem, seed: int) -> None:
    race = race_of(problem)
    drawn = drawn_schedules(race, seed, 6)
    s = Schedules(drawn.levels, race.smith_order(drawn.levels), drawn.budget, drawn.caps)
    value = race.value(s)
    one, value_one = one_after_another(race, s, value)
    all_, value_all = all_at_once(race, s, value)
    assert (one.levels.tolist(), one.order.tolist()) == (all_.levels.tolist(), all_.order.tolist())
    assert value_one.tolist() == value_all.tolist() == race.value(one).tolist()


@DRAWN
@given(problem=problems(running=True), seed=st.integers(0, 1000))
def test_moves_that_are_left_out_cannot_win(problem: WindowProblem, seed: int) -> None:
    race = race_of(problem)
    s = drawn_schedules(race, seed, 1)
    value, kept = float(race.value(s)[0]), neighbours(race, s)
    every = every_move(race, s)
    assert len(kept.levels) <= len(every.levels)
    values, of_all = race.value(kept), race.value(every)
    if of_all.max() <= value:
        assert not len(values) or values.max() <= value
        return
    best, first = kept.row(int(values.argmax())), every.row(int(of_all.argmax()))
    assert values.max() == of_all.max()
    for field in ("levels", "order", "budget", "caps"):
        assert getattr(best, field).tolist() == getattr(first, field).tolist(), field


def every_move(race: Race, s: Schedules) -> Schedules:
    """All moves from one schedule (one row), in order."""
    n, total, device = race.streams, race.grid.total, race.grid.device
    levels, order, budget, caps = s.levels[0], s.order[0], s.budget[0], s.caps[0]
    position = np.argsort(order)

    def at(stream: int, place: int) -> list[int]:
        rest = [int(i) for i in order if i != stream]
        return [*rest[:place], stream, *rest[place:]]

    other = [(i, level) for i in range(n) for level in np.flatnonzero(race.grid.valid[i]) if level != levels[i]]
    rows = [(_with(levels, i, level), order, budget, caps) for i, level in other]
    for i, level in other:
        before = [j for j in range(n) if j != i and race.index[j, levels[j]] >= race.index[i, level]]
        rows.append((_with(levels, i, level), at(i, len(before)), budget, caps))
    jobs = np.flatnonzero(levels > 0)
    places = range(min(n, len(jobs) + 1))
    rows += [(levels, at(int(i), p), budget, caps) for p in places for i in jobs if p != position[i]]
    phases = np.arange(n + 1)
    for change in (sign * step for step in BUDGET_STEPS for sign in (1, -1)):
        for where in (phases.__eq__, phases.__ge__):
            rows += [(levels, order, np.clip(budget + change * where(p), 0, total), caps) for p in range(len(jobs) + 1)]
    if not race.linear:
        sizes = [max(1, round(part * device)) for part in CAP_PARTS]
        rows += [(levels, order, budget, _with(caps, i, size)) for i in range(n) for size in sizes]
    return Schedules(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def _with(row: IntArray, i: int, value: int | np.integer) -> IntArray:
    changed = row.copy()
    changed[i] = value
    return changed


def test_no_schedules_are_no_values() -> None:
    race = race_of(table21_w1())
    none = drawn_schedules(race, 0, 1).rows(np.zeros(0, np.int64))
    assert race.value(none).tolist() == []
