"""Candidates of one model on several alike gpu-lets that are fed in turn, and each model's front at given prices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.gpulets.mosaic_columns import NEVER_MS, GpuletCandidates, Workload, candidates
from scheduler.gpulets.mosaic_search import Relaxed, unit_prices
from scheduler.grid import FloatArray, IntArray
from scheduler.pipelines.pareto import Point, pareto

#: Numbers of alike gpu-lets that are candidates.
COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
#: Weights of what a model would cost were gpu-lets divisible, against what it costs with whole ones.
FLUID, WHOLE = 0.0, 1.0
#: Models that share a gpu-let in time by equal parts.
_PARTS = (1, 2, 3, 4, 6)


def all_candidates(load: Workload) -> GpuletCandidates:
    """Those of `mosaic`, and blocks: n alike gpu-lets fed in turn, at the batch that gives most requests per second
    with (1 + 1 / n) times its execution time within the objective."""
    return _joined([candidates(load), *_blocks(load)])


def fronts(load: Workload, answer: Relaxed, whole: float) -> list[list[Point]]:
    """Of each model the front of (worst case in ms, price of its whole rate, None): how much of what is scarce it takes
    at each worst case. `whole` in [0, 1], from FLUID to WHOLE."""
    batch = np.arange(1, load.batches + 1)
    result = []
    for m in range(len(load.models)):
        work = load.work_ms[:, m]
        level, share, b = (axis.ravel() for axis in np.indices(work.shape))
        took = work.ravel()
        measured = took < NEVER_MS
        level, share, b, took = level[measured], share[measured], b[measured], took[measured]
        price = unit_prices(load, _columns(load, level, share, m, batch[b], np.ones(len(b), np.int64)), answer)
        gpulets = load.rate[m] * took / (1000.0 * batch[b])
        points: list[Point] = []
        # Within one gpu-let: paid for a part, a duty cycle is longer by as much. At least the part that it computes.
        for part in (np.minimum(gpulets, 1.0), *(np.full(len(took), 1 / k) for k in _PARTS)):
            some = (gpulets <= part + 1e-12) & (part > 0)
            paid = (1 - whole) * part + whole
            points += _points(2 * took / np.maximum(part, 1e-9), paid * price, some)
        for count in COUNTS:
            some = (gpulets <= count) & (np.ceil(gpulets - 1e-9) > count / 2)
            paid = (1 - whole) * np.maximum(gpulets, count - 1) + whole * count
            points += _points(took * (1 + 1 / count), paid * price, some)
        result.append(pareto(points))
    return result


def _points(latency: FloatArray, price: FloatArray, some: NDArray[np.bool_]) -> list[Point]:
    return [(float(x), float(y), None) for x, y in zip(latency[some], price[some], strict=True)]


def _blocks(load: Workload) -> list[GpuletCandidates]:
    found = []
    batch = np.arange(1, load.batches + 1)
    room = load.capacity * load.problem.devices
    for m in range(len(load.models)):
        work = load.work_ms[:, m]
        for count in COUNTS:
            rate = np.where((1 + 1 / count) * work <= load.slo_ms[m], count * batch * 1000.0 / work, 0.0)
            # The least batch that serves the whole rate, else the one that serves most.
            enough = rate >= load.rate[m]
            best = np.where(enough.any(axis=-1), enough.argmax(axis=-1), rate.argmax(axis=-1))
            most = np.take_along_axis(rate, best[..., None], axis=-1)[..., 0]
            fits = np.array([share * count <= room for share in load.shares])
            level, share = np.nonzero((most > 0) & fits[None, :])
            if len(level):
                counts = np.full(len(level), count)
                found.append(_columns(load, level, share, m, best[level, share] + 1, counts))
    return found


def _columns(
    load: Workload, level: IntArray, share: IntArray, model: int, batches: IntArray, count: IntArray
) -> GpuletCandidates:
    """Rows of one model."""
    work = load.work_ms[level, model, share, batches - 1]
    batch = np.zeros((len(level), len(load.models)), np.int64)
    rate: FloatArray = np.zeros((len(level), len(load.models)))
    batch[:, model] = batches
    rate[:, model] = count * batches * 1000.0 / work
    return GpuletCandidates(level, share, load.pressure[model, share, batches - 1], batch, rate, count)


def _joined(found: Sequence[GpuletCandidates]) -> GpuletCandidates:
    return GpuletCandidates(
        *(np.concatenate([getattr(f, name) for f in found]) for name in GpuletCandidates.__annotations__)
    )
