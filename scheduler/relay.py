"""Policy `relay` (the default): retrainings one after another, the one with the most gain per GPU-second first.

With nearly linear speed-up, finishing retrainings one after another never delays the last and brings the earlier ones
forward: the window is a weighted-completion-time problem, so the order is Smith's (gain per remaining GPU-second), on
a training budget; the rest of the devices is inference, split by an exact knapsack in each phase. Options, order,
budget by phase and (where speed-up is measured to be sub-linear) how many run side by side are searched together.
The better of this and the best static plan is the answer, so `relay` is never worse than `exact`.

Where the problem says so (`carry_s`), the window is planned as if it were so much longer and cut at its end: late or
half-finished training is not lost, since the next window begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge.core.plan_reasons import PlanReason
from edge.core.window import Segment, StreamAllocation, WindowPlan, WindowProblem
from scheduler.exact import best_static
from scheduler.grid import FloatArray, Grid, IntArray, Splits, as_share, build_grid, coarse_quantum, share_quantum
from scheduler.race import Race, Schedules
from scheduler.static import SAME_INSTANT_S, first_starts, make_plan, static_segments
from scheduler.timeline import evaluate

#: Training budgets tried at first, and how many are kept after each sweep over the streams.
BUDGETS = 14
KEPT_AFTER_SWEEP = (5, 3, 2)
#: Most improvement steps of the final local search.
LOCAL_STEPS = 40
#: Most quanta of a job that are tried where speed-up is sub-linear, as parts of a device.
CAP_PARTS = (1.0, 0.75, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08)
#: Budget changes that the local search tries, in quanta.
BUDGET_STEPS = (1, 2, 4, 8, 16, 32)


class RelayPolicy:
    """Retrain one after another in Smith's order; never worse than `exact`."""

    name = "relay"

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The best plan found. Shares are multiples of the problem's share step (unknown: of a part of `delta`)."""
        longer = replace(problem, window_s=problem.window_s + problem.carry_s)
        grid = build_grid(longer, share_quantum(problem))
        coarse = build_grid(longer, coarse_quantum(problem))
        plans = [static_segments(longer, best_static(coarse))]
        if grid.total > 0:
            splits = Splits(grid)
            plans += [realise(grid, s, splits) for s in search(Race(grid))]
        best = max(plans, key=lambda p: closeness(grid, p))
        within = [s for s in best if s.start_s < problem.window_s - SAME_INSTANT_S] or best[:1]
        return make_plan(self.name, problem, within, grid.floors.faults, _overview(best, best is plans[0]))


def _overview(segments: Sequence[Segment], is_static: bool) -> PlanReason:
    """The whole plan's reason."""
    jobs = len(first_starts(segments))
    if jobs == 0:
        return PlanReason("none_retrained")
    if is_static:
        return PlanReason("side_by_side", numbers={"retrainings": jobs})
    budget = sum(a.retraining_share for a in segments[0].streams.values())
    return PlanReason("one_after_another", numbers={"retrainings": jobs, "share": budget})


def closeness(grid: Grid, segments: Sequence[Segment]) -> tuple[float, float]:
    """How good a plan is: first how little it stays under floors, then its objective.

    A stream that can keep the floor counts with its lowest instant (no plan may be under it), one that cannot with
    the time that it is under it.
    """
    problem = grid.problem
    outcome = evaluate(problem, segments)
    if not problem.a_min:
        return 0.0, outcome.objective
    missing = 0.0
    for stream, level, hard in zip(problem.streams, grid.floors.level, grid.floors.hard, strict=True):
        if hard:
            under = level - outcome.lowest[stream.id]
            missing += 1e6 if under > 1e-7 else 0.0
        else:
            steps = (s for s in outcome.steps[stream.id] if s.start_s >= problem.label_delay_s - SAME_INSTANT_S)
            missing += sum(max(0.0, level - s.momentary) * (s.end_s - s.start_s) for s in steps)
    return -round(missing, 6), outcome.objective


# -- search


def search(race: Race) -> list[Schedules]:
    """Promising schedules (one row each): coordinate ascent for many budgets at once, then local search."""
    kept = _sweeps(race, _start(race))
    rows = [kept.row(n) for n in range(len(kept.levels))]
    best = _local(race, rows[0])
    return rows if best is rows[0] else [best, *rows]


def _start(race: Race) -> Schedules:
    """One schedule without retraining for each budget (and, where speed-up is sub-linear, each cap)."""
    grid, n = race.grid, race.streams
    idle = max(0, grid.total - int(grid.hold.max(axis=1).sum()))
    budgets = np.unique(np.linspace(max(1, idle), grid.total, BUDGETS).astype(np.int64))
    # Small budgets matter most where devices are scarce, so the lower half is tried more finely.
    budgets = np.unique(np.concatenate((budgets, np.linspace(max(1, idle), budgets.mean(), BUDGETS).astype(np.int64))))
    parts = (1.0,) if race.linear else CAP_PARTS
    caps = np.unique(np.maximum(1, np.round(np.array(parts) * grid.device))).astype(np.int64)
    grid_b, grid_c = (a.ravel() for a in np.meshgrid(budgets, caps))
    count = len(grid_b)
    levels = np.zeros((count, n), np.int64)
    # The running retraining goes on unless the search finds better: its work is paid already.
    levels[:] = race.running
    return Schedules(
        levels,
        race.smith_order(levels),
        np.repeat(grid_b[:, None], n + 1, axis=1),
        np.repeat(grid_c[:, None], n, axis=1),
    )


def _sweeps(race: Race, s: Schedules) -> Schedules:
    """Coordinate ascent over the streams' options in Smith's order; the best budgets are kept. Best first."""
    value = race.value(s)
    sweep = one_after_another
    for keep in KEPT_AFTER_SWEEP:
        before = value.max()
        s, value = sweep(race, s, value)
        top = np.argsort(-value, kind="stable")[:keep]
        s, value = s.rows(top), value[top]
        if value[0] <= before + 1e-9:
            break
        sweep = all_at_once
    return s


def one_after_another(race: Race, s: Schedules, value: FloatArray) -> tuple[Schedules, FloatArray]:
    """One sweep over schedules of this `value` (B,): each stream in turn gets the option that is best for it."""
    rows = np.arange(len(value))
    for i in range(race.streams):
        choices = np.flatnonzero(race.grid.valid[i])
        other = choices != s.levels[:, i : i + 1]
        row, column = np.nonzero(other)
        if len(row) == 0:
            continue
        values = np.empty(other.shape)
        values[~other] = value
        values[other] = race.value(_changed(race, s, row, i, choices[column]))
        pick = values.argmax(axis=1)
        s, value = _changed(race, s, rows, i, choices[pick]), values[rows, pick]
    return s, value


def all_at_once(race: Race, s: Schedules, value: FloatArray) -> tuple[Schedules, FloatArray]:
    """The same sweep, sooner done where few streams change: the options of all streams are valued together, and those
    of the streams after one that changes once more."""
    valid, value = race.grid.valid, value.copy()
    since, rows = np.zeros(len(value), np.int64), np.arange(len(value))
    while True:
        levels = s.levels[rows]
        present = np.arange(valid.shape[1]) == levels[:, :, None]
        after = np.arange(race.streams) >= since[rows, None]
        row, stream, level = np.nonzero(valid & ~present & after[:, :, None])
        if len(row) == 0:
            return s, value
        values = np.where(present, value[rows, None, None], -np.inf)
        values[row, stream, level] = race.value(_changed(race, s, rows[row], stream, level))
        best = values.argmax(axis=2)
        moves = best != levels
        changed = np.flatnonzero(moves.any(axis=1))
        rows, first = rows[changed], moves[changed].argmax(axis=1)
        new = best[changed, first]
        value[rows], since[rows] = values[changed, first, new], first + 1
        levels = s.levels.copy()
        levels[rows, first] = new
        s = Schedules(levels, race.smith_order(levels), s.budget, s.caps)


def _changed(race: Race, s: Schedules, rows: IntArray, stream: IntArray | int, level: IntArray) -> Schedules:
    """These rows of `s`, each with another option of one stream, in Smith's order."""
    levels = s.levels[rows]
    levels[np.arange(len(rows)), stream] = level
    return Schedules(levels, race.smith_order(levels), s.budget[rows], s.caps[rows])


def _local(race: Race, s: Schedules) -> Schedules:
    """Steepest ascent from one schedule over options, order, budgets by phase, and caps."""
    value = float(race.value(s)[0])
    for _ in range(LOCAL_STEPS):
        trial = neighbours(race, s)
        values = race.value(trial)
        n = int(values.argmax()) if len(values) else -1
        if n < 0 or values[n] <= value + 1e-7 * race.grid.time_s:
            break
        s, value = trial.row(n), float(values[n])
    return s


def neighbours(race: Race, s: Schedules) -> Schedules:
    """Every schedule one move away from `s` (one row): another option, another place in the order, another budget
    (in one phase, or from it on), or another cap. Without moves that change nothing, or the same as one before them."""
    grid, n = race.grid, race.streams
    levels, order, budget, caps = s.levels[0], s.order[0], s.budget[0], s.caps[0]
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)

    stream, level = np.nonzero(grid.valid)
    changed = level != levels[stream]
    stream, level = stream[changed], level[changed]
    count = len(stream)
    new_levels = np.repeat(levels[None, :], count, axis=0)
    new_levels[np.arange(count), stream] = level
    # The same with the stream at the place that its new index asks for.
    present = race.index[np.arange(n), levels]
    ahead = (present[None, :] >= race.index[stream, level][:, None]) & (np.arange(n)[None, :] != stream[:, None])
    place = ahead.sum(axis=1)
    other = np.flatnonzero((place != position[stream]) & (level > 0))
    replaced = _moved(position, stream[other], place[other])

    movable = np.flatnonzero(levels > 0)
    jobs = len(movable)
    in_front = jobs == n or bool((position[movable] < jobs).all())
    mover, place = (a.ravel() for a in np.meshgrid(movable, np.arange(jobs + (not in_front))))
    apart = position[mover] != place
    moved = _moved(position, mover[apart], place[apart])

    # A phase ends with a job, so that no job is left after so many phases.
    change = np.array([sign * step for step in BUDGET_STEPS for sign in (1, -1)], np.int64)
    phase = np.arange(jobs)
    here = (np.arange(n + 1)[None, :] == phase[:, None]).astype(np.int64)
    later = (np.arange(n + 1)[None, :] >= phase[:-1, None]).astype(np.int64)
    where = np.concatenate((here, later))
    shifts = (change[:, None, None] * where[None, :, :]).reshape(-1, n + 1)
    budgets = np.minimum(np.maximum(budget[None, :] + shifts, 0), grid.total)
    budgets = budgets[(budgets != budget)[:, :jobs].any(axis=1)]

    new_caps = np.zeros((0, n), np.int64)
    if not race.linear:
        sizes = np.array([max(1, round(part * grid.device)) for part in CAP_PARTS], np.int64)
        new_caps = np.repeat(caps[None, :], jobs * len(sizes), axis=0)
        new_caps[np.arange(jobs * len(sizes)), np.repeat(movable, len(sizes))] = np.tile(sizes, jobs)
        new_caps = new_caps[(new_caps != caps).any(axis=1)]

    def same(row: IntArray, times: int) -> IntArray:
        return np.repeat(row[None, :], times, axis=0)

    rest = len(moved) + len(budgets) + len(new_caps)
    return Schedules(
        np.concatenate((new_levels, new_levels[other], same(levels, rest))),
        np.concatenate((same(order, count), replaced, moved, same(order, len(budgets) + len(new_caps)))),
        np.concatenate((same(budget, count + len(other) + len(moved)), budgets, same(budget, len(new_caps)))),
        np.concatenate((same(caps, count + len(other) + len(moved) + len(budgets)), new_caps)),
    )


def _moved(position: IntArray, stream: IntArray, place: IntArray) -> IntArray:
    """(M, N) orders in which `stream[m]` is taken out of the order given by `position` and put in at `place[m]`."""
    rows = np.arange(len(stream))
    keys = 2 * (position[None, :] - (position[None, :] > position[stream][:, None]))
    keys[rows, stream] = 2 * place - 1
    return np.argsort(keys, axis=1, kind="stable")


# -- from a schedule to segments


@dataclass
class _RaceJob:
    stream: int
    level: int
    left: float


def realise(grid: Grid, s: Schedules, splits: Splits | None = None) -> tuple[Segment, ...]:
    """The segments of schedule `s` (one row): the same phases, with inference split by the exact knapsack."""
    race_order = [int(i) for i in s.order[0]]
    problem = grid.problem
    jobs = [
        _RaceJob(i, int(s.levels[0, i]), float(grid.work[i, s.levels[0, i]])) for i in race_order if s.levels[0, i] > 0
    ]
    splits = splits or Splits(grid)
    levels = [0] * len(problem.streams)
    begun = {j.stream for j in jobs if problem.streams[j.stream].running == grid.options[j.stream][j.level - 1].id}
    now, segments, phase = problem.label_delay_s, [], 0
    while now < problem.window_s - SAME_INSTANT_S:
        quanta = _phase_quanta(grid, s, jobs, begun, int(s.budget[0, min(phase, s.budget.shape[1] - 1)]))
        spare = grid.total - sum(quanta)
        split = splits.split(levels, spare)
        idle = max(0, spare - int(split.sum()))
        for n in range(len(jobs)):  # shares that inference cannot use
            more = min(idle, grid.device - quanta[n])
            quanta[n], idle = quanta[n] + more, idle - more
        begun |= {j.stream for j, k in zip(jobs, quanta, strict=True) if k > 0}
        segments.append(_segment(grid, now, jobs, quanta, split))
        speeds = [
            grid.options[j.stream][j.level - 1].speed(as_share(k, grid.quantum))
            for j, k in zip(jobs, quanta, strict=True)
        ]
        needs = [j.left / v if v > 0 else float("inf") for j, v in zip(jobs, speeds, strict=True)]
        step = min(needs, default=float("inf"))
        if now + step >= problem.window_s:
            break
        remaining = []
        for job, need, speed in zip(jobs, needs, speeds, strict=True):
            if need <= step + SAME_INSTANT_S:
                levels[job.stream] = job.level
            else:
                job.left -= speed * step
                remaining.append(job)
        jobs, now, phase = remaining, now + step, phase + 1
    return tuple(segments)


def _phase_quanta(grid: Grid, s: Schedules, jobs: list[_RaceJob], begun: set[int], budget: int) -> list[int]:
    """Quanta of the waiting jobs in order; the same rule as `Race.job_quanta`."""
    given, left = [], budget
    for job in jobs:
        k = max(0, min(left, int(s.caps[0, job.stream])))
        given.append(k)
        left -= int(s.caps[0, job.stream])
    for n in range(len(jobs)):
        if left <= 0:
            break
        more = min(left, grid.device - given[n])
        given[n], left = given[n] + more, left - more
    return [1 if k == 0 and j.stream in begun else k for k, j in zip(given, jobs, strict=True)]


def _segment(grid: Grid, now: float, jobs: list[_RaceJob], quanta: list[int], split: IntArray) -> Segment:
    training = {j.stream: (j, k) for j, k in zip(jobs, quanta, strict=True) if k > 0}
    allocations = {}
    for i, stream in enumerate(grid.problem.streams):
        inference = as_share(split[i], grid.quantum)
        if i in training:
            job, k = training[i]
            name = grid.options[i][job.level - 1].id
            allocations[stream.id] = StreamAllocation(inference, as_share(k, grid.quantum), name)
        else:
            allocations[stream.id] = StreamAllocation(inference)
    return Segment(now, allocations)
