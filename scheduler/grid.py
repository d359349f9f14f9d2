"""The window problem as arrays over a grid of shares, and the exact knapsack that splits a capacity over streams.

Index conventions: i stream, l level (0 = the model in force, 1.. = after option l-1), k share in quanta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.plan_faults import PlanFault
from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from scheduler.timeline import remaining_work

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Shares are compared to floors and capacities with this slack (accuracy points and devices alike).
SLACK = 1e-9
#: Accuracy under the floor costs this much per point where the floor cannot be kept (keeps it lexicographic).
SHORTFALL_PENALTY = 100.0
#: Policies that may use finer shares than `delta` count in about this part of a device ...
FINE_SHARE = 0.01
#: ... and in no less than `delta` divided by this.
FINE_PARTS = 10


def quanta(amount: float, quantum: float) -> int:
    """How many whole quanta fit into `amount`."""
    return max(0, math.floor(amount / quantum + 1e-6))


def share_quantum(problem: WindowProblem) -> float:
    """The share that finer policies count in: `delta`, or a whole part of it, about FINE_SHARE of a device.

    Where the problem names a `share_step`, it is the multiple of that step next to it (never finer than the step).
    """
    fine = problem.delta / max(1, min(FINE_PARTS, round(problem.delta / FINE_SHARE)))
    if problem.share_step is None:
        return fine
    return problem.share_step * max(1, round(fine / problem.share_step))


def coarse_quantum(problem: WindowProblem) -> float:
    """`delta`, as the nearest multiple of the problem's share step (at least one step)."""
    if problem.share_step is None:
        return problem.delta
    return problem.share_step * max(1, round(problem.delta / problem.share_step))


def as_share(k: int | np.integer, quantum: float) -> float:
    """`k` quanta as a share, free of binary dust (1e-9)."""
    return round(int(k) * quantum, 9)


def fits(problem: WindowProblem) -> float:
    """Seconds of the window that are left after the label delay."""
    return problem.window_s - problem.label_delay_s


def useful_options(stream: StreamProblem, time_s: float) -> tuple[RetrainingOption, ...]:
    """Options that gain accuracy, can end in `time_s` on a full device, and are not dominated by another.

    Dominated: another costs no more remaining work, ends no less accurate and is no slower at any share. Dropping them
    loses nothing: in any plan with a dominated option, the dominating one is done no later and no worse.
    """
    candidates = [
        (remaining_work(stream, o), o)
        for o in stream.options
        if o.end_accuracy > stream.start_accuracy and remaining_work(stream, o) <= o.speed(1.0) * time_s + SLACK
    ]
    candidates.sort(key=lambda c: (c[0], -c[1].end_accuracy))
    kept: list[tuple[float, RetrainingOption]] = []
    for work, option in candidates:
        dominated = any(
            k.end_accuracy >= option.end_accuracy and k.throughput == option.throughput and w <= work for w, k in kept
        )
        if not dominated:
            kept.append((work, option))
    return tuple(o for _, o in kept)


@dataclass(frozen=True)
class Floors:
    """The floor per stream. Where it cannot be kept it is soft: each point below it costs SHORTFALL_PENALTY.

    `level` (N,) accuracy to keep (0: none); `hard` (N,) whether every plan must keep it; `faults` name the streams that
    cannot keep it, and the best possible.
    """

    level: FloatArray
    hard: NDArray[np.bool_]
    faults: tuple[PlanFault, ...]


@dataclass(frozen=True)
class Grid:
    """Arrays of one problem on shares that are multiples of `quantum`.

    `total` quanta of all devices; `device` quanta of one device (no job has more); `time_s` what is left of the
    window; `factor` (N, K+1) accuracy factor at k quanta; `hold` (N, K+1) fewest quanta, at most k, with the best
    factor; `options[i][l-1]`; `accuracy` (N, L+1) and `work` (N, L+1, device seconds still to do) by level; `valid`
    (N, L+1) marks real levels.
    """

    problem: WindowProblem
    quantum: float
    total: int
    device: int
    time_s: float
    factor: FloatArray
    hold: IntArray
    options: tuple[tuple[RetrainingOption, ...], ...]
    accuracy: FloatArray
    work: FloatArray
    valid: NDArray[np.bool_]
    floors: Floors

    def value(self, i: int, accuracy: float) -> FloatArray:
        """(K+1,) momentary worth of stream `i` with a model of `accuracy` at k quanta; -inf under a hard floor."""
        momentary: FloatArray = accuracy * self.factor[i]
        floor = self.floors.level[i]
        if floor <= 0:
            return momentary
        under = momentary < floor - SLACK
        if self.floors.hard[i]:
            return np.where(under, -np.inf, momentary)
        missing: FloatArray = np.maximum(0.0, floor - momentary)
        return momentary - SHORTFALL_PENALTY * missing


def build_grid(problem: WindowProblem, quantum: float) -> Grid:
    """Arrays for `problem` on multiples of `quantum` devices."""
    streams = problem.streams
    total = quanta(problem.num_gpus, quantum)
    device = min(total, quanta(1.0, quantum))
    profiles = [s.inference_profile for s in streams]
    rows = [_by_quanta(p.kind, p.max_gpu, p.subsampling, p.factors, device, quantum) for p in profiles]
    factor = np.array([r[0] for r in rows])
    hold = np.array([r[1] for r in rows], np.int64)
    time_s = fits(problem)
    options = tuple(useful_options(s, time_s) for s in streams)
    width = 1 + max(len(o) for o in options)
    accuracy = np.zeros((len(streams), width))
    work = np.zeros((len(streams), width))
    valid = np.zeros((len(streams), width), np.bool_)
    for i, stream in enumerate(streams):
        accuracy[i, 0], valid[i, 0] = stream.start_accuracy, True
        for n, option in enumerate(options[i], 1):
            accuracy[i, n], work[i, n], valid[i, n] = option.end_accuracy, remaining_work(stream, option), True
    floors = find_floors(problem, factor, total, quantum)
    return Grid(
        problem, quantum, total, device, time_s, factor, hold, options, accuracy, work, valid, floors
    )  # fmt: skip


@lru_cache(maxsize=256)
def _by_quanta(
    kind: Literal["linear", "subsampling"],
    max_gpu: float,
    subsampling: tuple[float, ...],
    factors: tuple[float, ...],
    device: int,
    quantum: float,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Factor and `hold` at k quanta of an inference profile. Cameras keep theirs, so that plans ask for the same again
    and again."""
    profile = InferenceProfile(kind, max_gpu, subsampling, factors)
    factor = [profile.factor(as_share(k, quantum)) for k in range(device + 1)]
    # A stream may leave a part of its share unused, so no share above the one with the best factor is of use.
    hold = [0]
    for k in range(1, device + 1):
        hold.append(k if factor[k] > factor[hold[-1]] else hold[-1])
    return tuple(factor), tuple(hold)


def find_floors(problem: WindowProblem, factor: FloatArray, total: int, quantum: float) -> Floors:
    """Which streams can keep `a_min` at the first instant, all devices given to inference: the best that any plan can.

    The first instant decides: later a plan can always go on with the first split. Streams outside the least total
    shortfall keep a hard floor, the others a soft one (so that the shortfall over the whole window is smallest).
    """
    n = len(problem.streams)
    if not problem.a_min:
        return Floors(np.zeros(n), np.ones(n, np.bool_), ())
    level = np.full(n, problem.a_min)
    start = np.array([s.start_accuracy for s in problem.streams])
    shortfall = np.maximum(0.0, level[:, None] - start[:, None] * factor)
    shortfall[shortfall <= SLACK] = 0.0
    _, split = split_capacity([-row for row in shortfall], total)
    missing = shortfall[np.arange(n), split]
    faults = []
    for i in np.flatnonzero(missing > 0):
        best = start[i] * factor[i, split[i]]
        faults.append(PlanFault.unreachable(problem.streams[i].id, problem.a_min, best, as_share(split[i], quantum)))
    return Floors(level, missing <= 0, tuple(faults))


def split_capacity(values: Sequence[FloatArray], capacity: int) -> tuple[float, IntArray]:
    """The exact multiple-choice knapsack: quanta per stream that make the sum of `values[i][k_i]` largest.

    `values[i]` (K_i+1,) may hold -inf (not allowed). At most `capacity` quanta together. Returns the best sum (-inf
    when nothing is allowed) and the quanta per stream; ties take the fewest quanta. Time: O(streams x capacity x K).
    """
    # More quanta than those of its best value are worth nothing to a stream, nor to all of them together.
    useful = [value[: int(value.argmax()) + 1] for value in values]
    capacity = min(capacity, sum(len(value) - 1 for value in useful))
    best, picks = np.zeros(capacity + 1), []
    for value in useful:
        best, pick = _one_more(best, value)
        picks.append(pick)
    if not np.isfinite(best[capacity]):
        return float("-inf"), np.zeros(len(values), np.int64)
    return float(best[capacity]), _chosen(picks, capacity)


def _one_more(best: FloatArray, value: FloatArray) -> tuple[FloatArray, IntArray]:
    """The best sums by capacity (C+1,) with one more stream of `value`, and its quanta."""
    count, width = len(best), min(len(value), len(best))
    padded = np.concatenate((np.full(width - 1, -np.inf), best))
    # before[c, k] = best[c - k]
    before = np.ndarray((count, width), np.float64, padded, (width - 1) * 8, (8, -8))
    sums = before + value[:width]
    pick = sums.argmax(axis=1)
    return sums[np.arange(count), pick], pick


def _chosen(picks: Sequence[IntArray], capacity: int) -> IntArray:
    """Quanta per stream, from those of each stream by capacity."""
    chosen = np.zeros(len(picks), np.int64)
    left = capacity
    for i in range(len(picks) - 1, -1, -1):
        chosen[i] = picks[i][left]
        left -= int(chosen[i])
    return chosen


class Splits:
    """Exact splits of the devices over the inference of a grid's streams, for many states of their models. The first
    streams of two states may have the same models: their part of the knapsack is worked out once."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._capacity = min(grid.total, int(grid.hold[:, -1].sum()))
        self._values: dict[tuple[int, int], FloatArray] = {}
        self._stages: dict[tuple[int, ...], tuple[FloatArray, IntArray]] = {}

    def split(self, levels: Sequence[int], capacity: int) -> IntArray:
        """(N,) quanta per stream, as `split_capacity` finds them for streams whose models have these levels."""
        best, picks = np.zeros(self._capacity + 1), []
        for i, level in enumerate(levels):
            state = tuple(levels[: i + 1])
            if state not in self._stages:
                self._stages[state] = _one_more(best, self._value(i, level))
            best, pick = self._stages[state]
            picks.append(pick)
        capacity = max(0, min(capacity, self._capacity))
        return _chosen(picks, capacity) if np.isfinite(best[capacity]) else np.zeros(len(picks), np.int64)

    def _value(self, i: int, level: int) -> FloatArray:
        found = self._values.get((i, level))
        if found is None:
            value = self._grid.value(i, float(self._grid.accuracy[i, level]))
            found = self._values[i, level] = value[: int(value.argmax()) + 1]
        return found
