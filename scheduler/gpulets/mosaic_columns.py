"""The contents of one gpu-let: candidates from which `mosaic` composes devices.

A device is planned at a level: the pressure of all its gpu-lets together is at most `level`, so each has at most
`level` less its own beside it, and its execution times are known before its neighbours are. Level ALONE is a device
with a single gpu-let (no interference). Arrays are indexed by level, model, share and batch - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from edge.core import checks
from edge.core.serving import DeviceTable, ServedModel, ServingProblem
from scheduler.grid import FloatArray, IntArray

ALONE = -1.0
# Execution time of what was not measured: longer than any objective, and finite so that sums stay numbers.
NEVER_MS = 1e15
# Levels are powers of this ratio, the same for every problem, under the most that a whole device can have.
_LEVEL_RATIO = 1.2
# One device is often filled in part only, so its levels reach further down.
_LEVELS, _LEVELS_OF_ONE = 6, 12
# Up to so many models every set of them is a candidate; of more, so many sets of each size.
_ALL_SETS_OF = 6
_SETS_PER_SIZE = 120
_LARGEST_SET = 12
# Batch sizes of the first model of a mixed pair where there are many models.
_FEW_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MANY_MODELS = 8


@dataclass(frozen=True)
class Workload:
    """The models with a rate, and their rows of the device table.

    `shares` in percent, ascending; `levels` ALONE or a pressure; `solo_ms` [model, share, batch], NEVER_MS where
    not measured; `own` and `press` [model, batch]: slowdown of the model itself and of each neighbour per whole device
    of share; `work_ms` [level, model, share, batch], not falling with the batch; `pressure` [model, share, batch].
    """

    problem: ServingProblem
    models: tuple[ServedModel, ...]
    shares: tuple[int, ...]
    capacity: int
    rate: FloatArray
    slo_ms: FloatArray
    memory_mb: FloatArray
    device_memory_mb: float
    constant: float
    solo_ms: FloatArray
    own: FloatArray
    press: FloatArray
    levels: tuple[float, ...]
    work_ms: FloatArray
    pressure: FloatArray

    @property
    def batches(self) -> int:
        """The largest batch measured for any model."""
        return int(self.solo_ms.shape[2])

    def factor(self, model: int, share: int, neighbours: float | None) -> FloatArray:
        """Slowdown [batch] of `model` at share number `share` beside a pressure of `neighbours` (None: alone)."""
        if neighbours is None:
            return np.ones(self.batches)
        own = self.own[model] * (self.shares[share] / 100)
        return np.asarray(np.maximum(1.0, self.constant + own + neighbours))


def workload(problem: ServingProblem, table: DeviceTable) -> Workload:
    """The arrays of `problem` on `table`. Raises InvalidValue for a model that the table does not have."""
    for n, model in enumerate(problem.models):
        checks.one_of(f"models[{n}].name", model.name, table.latency_ms)
    models = tuple(m for m in problem.models if m.rate > 0)
    capacity = math.floor(problem.capacity * 100 + 1e-6)
    shares = tuple(sorted({p for m in models for p in table.latency_ms[m.name] if p <= capacity}))
    most = max((len(b) for m in models for b in table.latency_ms[m.name].values()), default=1)
    solo = np.full((len(models), len(shares), most), NEVER_MS)
    for i, model in enumerate(models):
        for j, share in enumerate(shares):
            row = table.latency_ms[model.name].get(share, ())
            solo[i, j, : len(row)] = row
    c1, c2, c3, c4, c5 = table.interference
    used = [[table.utilised(m.name, b) for b in range(1, most + 1)] for m in models]
    use = np.array([[(u.l2, u.dram) for u in row] for row in used]).reshape(-1, most, 2)
    own = c1 * use[..., 0] + c3 * use[..., 1]
    press = c2 * use[..., 0] + c4 * use[..., 1]
    part = np.array(shares, np.float64) / 100
    pressure = np.maximum(0.0, press)[:, None, :] * part[None, :, None]
    levels, works = _levels(problem, solo, own[:, None, :] * part[None, :, None], pressure, c5, capacity)
    return Workload(
        problem,
        models,
        shares,
        capacity,
        np.array([m.rate for m in models]),
        np.array([m.slo_ms for m in models]),
        np.array([table.memory_mb.get(m.name, 0.0) for m in models]),
        math.inf if table.device_memory_mb is None else table.device_memory_mb,
        c5,
        solo,
        own,
        press,
        levels,
        works,
        pressure,
    )


def _levels(
    problem: ServingProblem,
    solo: FloatArray,
    own: FloatArray,
    pressure: FloatArray,
    constant: float,
    capacity: int,
) -> tuple[tuple[float, ...], FloatArray]:
    """The levels worth planning at and the execution times at each, not falling with the batch."""
    most = float(pressure[:, -1].max(initial=0.0)) if pressure.shape[1] else 0.0
    pressures: list[float] = []
    count = _LEVELS if problem.devices > 1 else _LEVELS_OF_ONE
    if most > 0:
        top = math.ceil(math.log(most, _LEVEL_RATIO) - 1e-9)
        pressures = [most, *(_LEVEL_RATIO ** (top - k) for k in range(1, count))]
    else:
        pressures = [0.0]
    if problem.max_gpulets == 1:
        pressures = []
    levels: list[float] = []
    works: list[FloatArray] = []
    for level in [*pressures, ALONE]:
        if level == ALONE:
            work = solo
        else:
            beside = np.maximum(0.0, level - pressure)
            work = solo * np.maximum(1.0, constant + own + beside)
        work = np.maximum.accumulate(work, axis=-1)
        # A level at which nothing gets faster than at the one above, which allows more, is of no use.
        if not (works and np.array_equal(work, works[-1])):
            levels.append(level)
            works.append(work)
    return tuple(levels), np.stack(works)


@dataclass(frozen=True)
class GpuletCandidates:
    """Gpu-lets that hold, one per row: `level` (number), `share` (number), `pressure`, and for each model `batch` (0:
    not in it) and `rate` (requests per second) with the duty cycle at its shortest. A row stands for `count` alike
    gpu-lets, of each of which are share, pressure and batch, and of all together the rate."""

    level: IntArray
    share: IntArray
    pressure: FloatArray
    batch: IntArray
    rate: FloatArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.level)

    def take(self, rows: IntArray) -> GpuletCandidates:
        """These rows."""
        return GpuletCandidates(*(getattr(self, name)[rows] for name in GpuletCandidates.__annotations__))


def candidates(load: Workload) -> GpuletCandidates:
    """All gpu-lets from which devices are composed: one model at its fastest; sets of models whose whole rates fit;
    pairs in every mixture."""
    found = _joined(load, [_singles(load), *_whole_sets(load), *_mixed_pairs(load)])
    level = np.array([math.inf if one == ALONE else one for one in load.levels])[found.level]
    memory = (found.batch > 0) @ load.memory_mb
    return found.take(np.nonzero((found.pressure <= level + 1e-12) & (memory <= load.device_memory_mb + 1e-6))[0])


def _rows(
    load: Workload, level: IntArray, share: IntArray, models: Sequence[int], batches: IntArray
) -> GpuletCandidates:
    """Candidates with `batches` [row, model of `models`]; the duty cycle is the sum of the execution times."""
    m = np.asarray(models)
    work = load.work_ms[level[:, None], m[None, :], share[:, None], batches - 1]
    pressure = load.pressure[m[None, :], share[:, None], batches - 1].max(axis=1)
    batch = np.zeros((len(level), len(load.models)), np.int64)
    rate = np.zeros((len(level), len(load.models)))
    batch[:, m] = batches
    rate[:, m] = batches * 1000.0 / work.sum(axis=1)[:, None]
    return GpuletCandidates(level, share, pressure, batch, rate, np.ones(len(level), np.int64))


def _singles(load: Workload) -> GpuletCandidates:
    """One model, at the batch that gives most requests per second with twice its execution time within the SLO."""
    found = []
    batch = np.arange(1, load.batches + 1)
    for m in range(len(load.models)):
        work = load.work_ms[:, m]
        rate = np.where(2 * work <= load.slo_ms[m], batch / work, 0.0)
        best = rate.argmax(axis=-1)
        level, share = np.nonzero(rate.max(axis=-1) > 0)
        found.append(_rows(load, level, share, [m], best[level, share][:, None] + 1))
    return _joined(load, found)


def _joined(load: Workload, found: Sequence[GpuletCandidates]) -> GpuletCandidates:
    if not found:
        return _rows(load, *(np.zeros(0, np.int64),) * 2, [], np.zeros((0, 0), np.int64))
    return GpuletCandidates(
        *(np.concatenate([getattr(f, name) for f in found]) for name in GpuletCandidates.__annotations__)
    )


def _whole_sets(load: Workload) -> Iterator[GpuletCandidates]:
    """Sets of models that share a gpu-let in time with their whole rates, in the smallest share at each level.

    Duty cycles are searched exactly. Between two neighbouring points of {batch / rate} no batch changes, so neither
    does the sum E of execution times, and it holds if E is within that time and twice E within the least SLO.
    """
    count = len(load.models)
    points = np.unique((np.arange(1, load.batches + 1)[None, :] * 1000.0 / load.rate[:, None]).ravel())
    longest = float(load.slo_ms.max(initial=0.0))
    points = np.append(points[points < longest], longest)
    need = np.maximum(1, np.ceil(load.rate[:, None] * points / 1000.0 - 1e-9).astype(np.int64))
    batch = np.minimum(need, load.batches)
    work = np.stack(
        [np.where(need[m] <= load.batches, load.work_ms[:, m][:, :, batch[m] - 1], NEVER_MS) for m in range(count)]
    )
    levels = np.arange(len(load.levels))
    sizes: dict[tuple[int, ...], FloatArray] = {}
    apart = np.zeros((count, len(levels)))
    sets: list[tuple[int, ...]] = [(m,) for m in range(count)]
    while sets:
        saved: list[tuple[float, tuple[int, ...]]] = []
        sums: dict[tuple[int, ...], FloatArray] = {}
        for members in sets:
            before = sizes.get(members[:-1])
            busy = work[members[-1]] if before is None else before + work[members[-1]]
            slo = float(load.slo_ms[list(members)].min())
            fits = busy <= np.minimum(slo - busy, points)
            share_fits = fits.any(axis=2)
            if not share_fits.any():
                continue
            smallest = share_fits.argmax(axis=1)
            level = levels[share_fits.any(axis=1)]
            share = smallest[level]
            # The smallest batches that do: they press least on neighbours.
            at = fits[level, share].argmax(axis=1)
            yield _rows(load, level, share, members, np.stack([batch[m][at] for m in members], axis=1))
            used = np.full(len(levels), 2.0 * load.capacity)
            used[level] = np.array(load.shares)[share]
            if len(members) == 1:
                apart[members[0]] = used
            gain = float((apart[list(members)].sum(axis=0) - used)[level].max())
            saved.append((gain, members))
            sums[members] = busy
        if count > _ALL_SETS_OF:
            saved = sorted(saved, key=lambda s: (-s[0], s[1]))[:_SETS_PER_SIZE]
        kept = sorted(members for _, members in saved)
        sizes = {members: sums[members] for members in kept}
        if not kept or len(kept[0]) >= _LARGEST_SET:
            return
        sets = [(*members, m) for members in kept for m in range(members[-1] + 1, count)]


def _mixed_pairs(load: Workload) -> Iterator[GpuletCandidates]:
    """Two models in one gpu-let, with the longest duty cycle that both SLOs allow and every division of it."""
    count = len(load.models)
    first = np.arange(1, load.batches + 1)
    if count > _MANY_MODELS:
        first = np.array([b for b in _FEW_BATCHES if b <= load.batches])
    for a, b in combinations(range(count), 2):
        duty = min(load.slo_ms[a], load.slo_ms[b]) / 2
        left = duty - load.work_ms[:, a][:, :, first - 1]
        second = (load.work_ms[:, b][:, :, None, :] <= left[..., None]).sum(axis=-1)
        level, share, row = np.nonzero(second > 0)
        # The same second batch beside a smaller first one is only a worse mixture.
        more = np.concatenate([second[:, :, 1:], np.zeros_like(second[:, :, :1])], axis=2)
        keep = second[level, share, row] > more[level, share, row]
        level, share, row = level[keep], share[keep], row[keep]
        if len(level):
            batches = np.stack([first[row], second[level, share, row]], axis=1)
            yield _rows(load, level, share, [a, b], batches)
