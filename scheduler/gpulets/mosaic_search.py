"""Which gpu-lets, on how few devices: the integer programme of `mosaic`, and the packing of its answer.

Per level the programme counts devices and gpu-lets; each model's rate must be covered, and the gpu-lets of a level
must fit its devices by share, pressure, memory and number together. Sums alone would let a gpu-let straddle two
devices, so dual feasible functions of the shares (Fekete and Schepers, "New classes of fast lower bounds for bin
packing problems", 2001) are summed too, which leaves little for the packing to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.gpulets.mosaic_columns import ALONE, GpuletCandidates, Workload
from scheduler.grid import FloatArray, IntArray

# Candidates with the least reduced cost in the integer programme, and its nodes: at first, and if that fails.
_EFFORTS = ((160, 60), (400, 20))
_OWN = 8
# Candidates in the linear programme at first, and added where they would make it cheaper. The first ones, single models
# and whole sets, cover what any others do.
_COLUMNS = 2000
# Relative gap at which the least total share is good enough on several devices; on one,
# where the rest is the cameras', the part of the shares' step.
_SHARE_GAP, _SHARE_GAP_OF_ONE = 0.1, 0.5
# Weight of a model against one of the next lower priority, where not all can be served.
_PRIORITY = 8.0
# Coverage asked beyond the rate, and slack of what devices hold: more than the solver's own tolerance, so that whole
# numbers never miss a row by a hair. Shares differ by far more; pressure is judged again when a device is settled.
_COVER = 1e-5
_SOLVER_SLACK = 1e-5
_DUAL_FEASIBLE = (1, 2, 3, 4)
# Several devices never divide the pressure quite evenly.
_PRESSURE_MARGIN = 1.02
_PACKING_STEPS = 4_000
# Share's weight against one device, so that of equal numbers of devices the smaller shares win.
_SHARE_COST = 1e-3
# A gpu-let is a process: of alike total shares, fewer.
_GPULET_COST = 5e-3


@dataclass(frozen=True)
class Composition:
    """Rows of the candidates by device: `devices[n]` the gpu-lets on device n. `bound` is the least number of devices
    that could do, by the linear programme; `covered` the part [0, 1] of each model's rate that is served."""

    devices: tuple[tuple[int, ...], ...]
    bound: float
    covered: tuple[float, ...]

    @property
    def complete(self) -> bool:
        """Every model's rate is served in full."""
        return all(c >= 1 for c in self.covered)


@dataclass(frozen=True)
class Relaxed:
    """The linear programme's answer: the least number of `devices` (inf: no number does), the candidates `ranked` by
    reduced cost, cheapest first, and the cost of one unit of each row (`marginals`, at most 0; empty without answer).
    """

    devices: float
    ranked: IntArray
    marginals: FloatArray


@dataclass(frozen=True)
class _Programme:
    """Rows `matrix x <= 0` over candidates (`rows`), devices per level and, last, coverage per model; for at most
    `count` devices, or (None, the linear programme) for any number."""

    load: Workload
    pool: GpuletCandidates
    rows: IntArray
    count: int | None = None

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.load.levels) + len(self.load.models)

    def cover(self) -> FloatArray:
        """[model, row]: the part of the model's rate that the candidate serves, up to all that is asked."""
        part = self.pool.rate[self.rows] / self.load.rate
        return np.where(part >= 1.0 - 1e-12, 1.0 + 2 * _COVER, part).T

    def shares(self) -> FloatArray:
        """[row]: share of each gpu-let as a part of what a device has to give."""
        percent = np.array(self.load.shares, np.float64)[self.pool.share[self.rows]]
        return np.asarray(percent / self.load.capacity)

    def devices(self) -> FloatArray:
        """The row that counts devices."""
        levels = len(self.load.levels)
        parts = [np.zeros(len(self.rows)), np.ones(levels), np.zeros(len(self.load.models))]
        return np.concatenate(parts)[None, :]

    def matrix(self) -> FloatArray:
        """Constraint rows, all `<= 0`: coverage asked less coverage given, then what each level's devices hold."""
        load, n = self.load, len(self.rows)
        levels, models = len(load.levels), len(load.models)
        asked = np.zeros((models, self.size))
        asked[:, :n] = -self.cover()
        asked[:, n + levels :] = np.eye(models) * (1 + _COVER)
        result = [asked]
        share = self.shares()
        each = self.pool.count[self.rows].astype(np.float64)
        memory = ((self.pool.batch[self.rows] > 0) * load.memory_mb).sum(axis=1)
        for number, level in enumerate(load.levels):
            here = self.pool.level[self.rows] == number
            if level == ALONE:
                uses = [np.ones(n)]
            else:
                uses = [share]
                if level > 0 and level < load.levels[0]:
                    pressure = self.pool.pressure[self.rows] / level
                    uses.append(pressure)
                    if self.count != 1:
                        uses[-1] = pressure * (1.0 if self.count is None else _PRESSURE_MARGIN)
                        uses += [_dual_feasible(np.minimum(1.0, pressure), k) for k in _DUAL_FEASIBLE[:2]]
                if self.count != 1:
                    uses += [_dual_feasible(share, k) for k in _DUAL_FEASIBLE]
                if load.problem.max_gpulets is not None:
                    uses.append(np.full(n, 1.0 / load.problem.max_gpulets))
            if math.isfinite(load.device_memory_mb):
                uses.append(np.minimum(1.0, memory / max(load.device_memory_mb, 1e-9)))
                if self.count != 1:
                    uses += [_dual_feasible(uses[-1], k) for k in _DUAL_FEASIBLE[:2]]
            block = np.zeros((len(uses), self.size))
            block[:, :n] = np.stack(uses) * each * here
            block[:, n + number] = -1.0
            result.append(block)
        return np.concatenate(result)


def _dual_feasible(share: FloatArray, k: int) -> FloatArray:
    """u(k): sizes in (0, 1] such that sets that fit in 1 still fit, and more unpackable sets are detected."""
    scaled = share * (k + 1)
    whole = np.abs(scaled - np.round(scaled)) < 1e-9
    return np.asarray(np.where(whole, share, np.floor(scaled) / k))


def compositions(load: Workload, pool: GpuletCandidates, easier: Relaxed) -> Iterator[Composition]:
    """Compositions that serve every rate, fewest devices first, then least total share; a later one is for when an
    earlier one does not settle. None where the linear programme, whose answer is `easier`, shows that there are too few
    devices."""
    bound, ranked = easier.devices, easier.ranked
    least = max(1, math.ceil(bound - 1e-6)) if math.isfinite(bound) else load.problem.devices + 1
    for count in range(least, load.problem.devices + 1):
        # That no answer is found costs one device more, or, on the last, the plan.
        for size, nodes in _EFFORTS if count == load.problem.devices else _EFFORTS[:1]:
            found = _solved(_Programme(load, pool, np.sort(ranked[:size]), count), nodes, None)
            if found is not None:
                yield replace(found, bound=bound)
            if size >= len(ranked):
                break


def closest(load: Workload, pool: GpuletCandidates, bound: float) -> Composition:
    """The plan that serves most of the rates on the present devices; of several, models of higher priority come
    first. `bound`: the least number of devices that could do."""
    ranks = sorted({m.priority for m in load.models})
    weight = np.array([_PRIORITY ** ranks.index(m.priority) for m in load.models])
    weight /= weight.sum()
    nothing = Composition((), bound, (0.0,) * len(load.models))
    if not len(pool):
        return nothing
    ranked = relaxed(load, pool, weight).ranked
    size, nodes = _EFFORTS[0]
    found = _solved(_Programme(load, pool, np.sort(ranked[:size]), load.problem.devices), nodes, weight)
    return nothing if found is None else replace(found, bound=bound)


def relaxed(load: Workload, pool: GpuletCandidates, weight: FloatArray | None = None) -> Relaxed:
    """The linear programme: on the least number of devices; with `weight`, the plan that serves most on those there
    are.
    """
    from scipy.optimize import linprog  # loaded when first needed: it takes half a second

    levels, models, n = len(load.levels), len(load.models), len(pool)
    programme = _Programme(load, pool, np.arange(n), 1 if load.problem.devices == 1 else None)
    matrix = programme.matrix()
    each = pool.count.astype(np.float64)
    cost = np.concatenate([_SHARE_COST * programme.shares() * each, np.ones(levels), np.zeros(models)])
    low = np.zeros(programme.size)
    high = np.full(programme.size, np.inf)
    high[n + levels :] = 1.0
    limit = np.full(len(matrix), 0.0)
    if weight is None:
        low[n + levels :] = 1.0
    else:
        cost[n:] = np.concatenate([np.zeros(levels), -weight])
        matrix = np.concatenate([matrix, programme.devices()])
        limit = np.append(limit, load.problem.devices)
    rest = np.arange(n, programme.size)
    rows = np.arange(min(n, max(_COLUMNS, models * len(load.shares) * levels)))
    while True:
        used = np.concatenate([rows, rest])
        answer = linprog(
            cost[used],
            A_ub=matrix[:, used],
            b_ub=limit,
            bounds=list(zip(low[used].tolist(), high[used].tolist(), strict=True)),
            method="highs",
        )
        if answer.status != 0 or answer.x is None:
            return Relaxed(math.inf, np.arange(n), np.zeros(0))
        reduced = cost[:n] - matrix[:, :n].T @ answer.ineqlin.marginals
        missing = np.setdiff1d(np.nonzero(reduced < -1e-7)[0], rows)
        if not len(missing):
            break
        dearest = missing[np.argsort(reduced[missing], kind="stable")[:_COLUMNS]]
        rows = np.sort(np.concatenate([rows, dearest]))
    devices = float(answer.x[len(rows) : len(rows) + levels].sum())
    order = np.argsort(np.round(reduced, 9), kind="stable")
    # Each model keeps some candidates of its own, however dear.
    own = [order[pool.batch[order, m] > 0][:_OWN] for m in range(models)]
    ranked = np.concatenate([*own, order])
    _, first = np.unique(ranked, return_index=True)
    return Relaxed(devices, ranked[np.sort(first)], np.asarray(answer.ineqlin.marginals))


def unit_prices(load: Workload, pool: GpuletCandidates, answer: Relaxed) -> FloatArray:
    """[row]: the scarce share, pressure, memory and number that a row of `pool` takes, in devices, at the prices of a
    linear programme of the same workload's size; its share alone where there was no answer."""
    programme = _Programme(load, pool, np.arange(len(pool)), 1 if load.problem.devices == 1 else None)
    each = pool.count.astype(np.float64)
    own = programme.shares() * each
    if not len(answer.marginals):
        alone = np.array([level == ALONE for level in load.levels])[pool.level]
        return np.asarray(np.where(alone, each, own))
    models = len(load.models)
    uses = programme.matrix()[models:, : len(pool)]
    return np.asarray(_SHARE_COST * own - uses.T @ answer.marginals[models : models + len(uses)])


def _solved(programme: _Programme, nodes: int, weight: FloatArray | None) -> Composition | None:
    """The programme's answer, packed. Least total share with every rate covered; with
    `weight` most weighted coverage instead. None if there is none, or none that packs, within so many nodes."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    load, n = programme.load, len(programme.rows)
    devices = programme.count or load.problem.devices
    levels, models = len(load.levels), len(load.models)
    matrix = np.concatenate([programme.matrix(), programme.devices()])
    high = np.full(len(matrix), _SOLVER_SLACK)
    high[:models] = 0.0
    high[-1] += devices
    each = programme.pool.count[programme.rows]
    cost = np.concatenate([(programme.shares() + _GPULET_COST) * each, np.zeros(levels + models)])
    low = np.zeros(programme.size)
    if weight is None:
        low[n + levels :] = 1.0
    else:
        cost *= _SHARE_COST / devices
        cost[n + levels :] = -weight
    most = np.concatenate([np.full(n + levels, np.inf), np.ones(models)])
    step = math.gcd(*load.shares) / load.capacity
    answer = milp(
        cost,
        constraints=LinearConstraint(matrix, -np.inf, high),
        integrality=np.concatenate([np.ones(n + levels), np.zeros(models)]),
        bounds=Bounds(low, most),
        options={"node_limit": nodes, "mip_rel_gap": _SHARE_GAP if devices > 1 else _SHARE_GAP_OF_ONE * step},
    )
    if answer.x is None:
        return None
    times = np.round(answer.x[:n]).astype(np.int64)
    per_level = np.round(answer.x[n : n + levels]).astype(np.int64)
    packed: list[tuple[int, ...]] = []
    for number in range(levels):
        here = programme.pool.level[programme.rows] == number
        chosen = np.repeat(programme.rows[here], (times * each)[here]).tolist()
        if chosen:
            bins = pack(load, programme.pool, chosen, int(per_level[number]))
            if bins is None:
                return None
            packed += bins
    cover = programme.cover() @ times.astype(np.float64)
    return Composition(tuple(packed), 0.0, tuple(min(1.0, float(c)) for c in cover))


def pack(load: Workload, pool: GpuletCandidates, chosen: Sequence[int], devices: int) -> list[tuple[int, ...]] | None:
    """`chosen` gpu-lets of one level on so many devices: each within capacity, memory, number and pressure; or, where
    that was not found, pressure divided as evenly as may be, which often settles too. None if neither was found."""
    return _packed(load, pool, chosen, devices, True) or _packed(load, pool, chosen, devices, False)


def _packed(
    load: Workload, pool: GpuletCandidates, chosen: Sequence[int], devices: int, strict: bool
) -> list[tuple[int, ...]] | None:
    """Largest first, depth first, so many counted steps; where not `strict` the device with least pressure first."""
    level = load.levels[int(pool.level[chosen[0]])]
    order = sorted(chosen, key=lambda row: (-load.shares[int(pool.share[row])], -float(pool.pressure[row]), row))
    most = 1 if level == ALONE else (load.problem.max_gpulets or len(order))
    limit = level + 1e-9 if strict and level != ALONE else math.inf
    uses = [
        (load.shares[int(pool.share[r])], float(pool.pressure[r]), float(load.memory_mb[pool.batch[r] > 0].sum()))
        for r in order
    ]
    bins: list[list[int]] = [[] for _ in range(devices)]

    def places(k: int) -> Iterator[int]:
        share, pressure, memory = uses[k]
        held = [[sum(uses[i][part] for i in one) for part in range(3)] for one in bins]
        seen = set()
        for number in sorted(range(devices), key=lambda d: 0.0 if strict else held[d][1]):
            if len(bins[number]) >= most or (used := held[number])[0] + share > load.capacity:
                continue
            if used[1] + pressure > limit or used[2] + memory > load.device_memory_mb + 1e-6:
                continue
            state = (used[0], round(used[1], 9), round(used[2], 6), len(bins[number]))
            if state not in seen:
                seen.add(state)
                yield number

    stack, taken = [places(0)], list[int]()
    for _ in range(_PACKING_STEPS):
        number = next(stack[-1], None)
        if number is not None:
            bins[number].append(len(taken))
            taken.append(number)
            if len(taken) == len(order):
                return [tuple(order[i] for i in one) for one in bins if one]
            stack.append(places(len(taken)))
            continue
        stack.pop()
        if not taken:
            return None
        bins[taken.pop()].pop()
    return None
