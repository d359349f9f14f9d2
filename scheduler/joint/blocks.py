"""Candidates on several alike gpu-lets that are fed in turn, and each model's front at given prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scheduler.gpulets.mosaic_columns import NEVER_MS, GpuletCandidates, Workload, candidates
from scheduler.gpulets.mosaic_search import Relaxed, unit_prices
from scheduler.grid import FloatArray, IntArray
from scheduler.pipelines.pareto import Point, pareto

#: Numbers of alike gpu-lets that are candidates.
COUNTS = (2, 3, 4, 5, 6, 8, 12)
#: Weights of what a model would cost were gpu-lets divisible, against what it costs with whole ones.
FLUID, WHOLE = 0.0, 1.0
#: Models that share a gpu-let in time by equal parts.
_PARTS = (1, 2, 3, 4, 6)


def all_candidates(load: Workload) -> GpuletCandidates:
    """Those of `mosaic`, and the same as n alike gpu-lets fed in turn.

    Each of them serves an n-th of the rate, and a request waits for an n-th of a duty cycle: E + E / n is within the
    objective where 2 E is within 2 / (1 + 1 / n) of it.
    """
    found = [candidates(load)]
    room = load.capacity * load.problem.devices
    for count in COUNTS:
        if count * load.shares[0] > room:
            break
        one = candidates(replace(load, rate=load.rate / count, slo_ms=load.slo_ms * 2 / (1 + 1 / count)))
        one = one.take(np.nonzero(np.array(load.shares)[one.share] * count <= room)[0])
        found.append(replace(one, rate=one.rate * count, count=np.full(len(one), count)))
    return GpuletCandidates(
        *(np.concatenate([getattr(f, name) for f in found]) for name in GpuletCandidates.__annotations__)
    )


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
        for count in (1, *COUNTS):
            # Of each gpu-let a part is paid, and the duty cycle is longer by as much: at least the part in use.
            for part in (np.clip(gpulets / count, 1e-9, 1.0), *(np.full(len(took), 1 / k) for k in _PARTS)):
                some = gpulets <= count * part * (1 + 1e-9)
                paid = count * ((1 - whole) * part + whole)
                points += _points(took / part * (1 + 1 / count), paid * price, some)
        result.append(pareto(points))
    return result


def _points(latency: FloatArray, price: FloatArray, some: NDArray[np.bool_]) -> list[Point]:
    return [(float(x), float(y), None) for x, y in zip(latency[some], price[some], strict=True)]


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
