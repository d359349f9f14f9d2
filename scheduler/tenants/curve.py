"""A tenant's performance over its share, learned from reports: a mean that never falls, and how far it is known.

The posterior is taken in two steps. Every shape of `scheduler.tenants.shapes` is weighed by how well it explains the
reports; the weighted shapes give a mean and a spread. A Gaussian process on the same grid then follows the residuals,
so that a curve outside the family is learned where it was visited. Reports are kept as discounted sums on the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from edge.core import checks
from scheduler.tenants.remembered import check_count, check_each
from scheduler.tenants.shapes import GRID, LOWEST, POINTS, STEP, Ending, Floats, shapes, tops

#: A report counts half after 27 rounds: load-dependent effects that the grid does not see move slowly.
FORGET = 0.975
#: Curves outside the family: the residual's standard deviation and its length on the grid (ln share).
RESIDUAL, LENGTH = 0.03, 0.6
#: The noise of a report before any was seen, as if PRIOR_PAIRS pairs had shown it.
NOISE, PRIOR_PAIRS, LEAST_NOISE = 0.03, 4.0, 0.003
#: A round of one report shows noise beside earlier reports at its place that weigh at least so much.
LEAST_BESIDE = 1.0
#: A change: so many rounds in a row outside so many standard deviations, on the same side.
OUTSIDE, ROUNDS_OUTSIDE = 2.5, 3
#: Sums of performance are at most this, and their squares are finite.
MOST_SUM = 1e50
#: Places are sums of four logarithms of numbers that can be written.
MOST_PLACE = 4.0 * 745.0
#: Sums are divided by no less.
LEAST_DIVISOR = 1e-6
#: Old reports keep this part of their weight after a change.
KEPT = 0.01
#: Where reports are cut at 1, noise above this biases their mean enough to be undone.
CENSORED_FROM = 0.05


@dataclass(frozen=True)
class CurveMemory:
    """Discounted reports on the grid: `weights` and `sums` (weight x performance) of the bins in `bins`; the noise as
    `pairs` seen and their `squares`; `outside`: rounds in a row outside the band, negative below it; `changes` counts
    what was forgotten; `reports` the reports since then."""

    bins: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    sums: tuple[float, ...] = ()
    pairs: float = PRIOR_PAIRS
    squares: float = PRIOR_PAIRS * NOISE**2
    outside: int = 0
    changes: int = 0
    reports: int = 0
    recent: tuple[tuple[float, float], ...] = ()

    @property
    def noise(self) -> float:
        """Standard deviation of one report."""
        return max(LEAST_NOISE, math.sqrt(self.squares / self.pairs))

    def check(self, path: str) -> None:
        """Raises InvalidValue, with the field's path, for what no reports can lead to."""
        check_count(f"{path}.weights", self.weights, len(self.bins), "of the bins")
        check_count(f"{path}.sums", self.sums, len(self.bins), "of the bins")
        check_each(f"{path}.bins", self.bins, 0, POINTS - 1)
        checks.unique(f"{path}.bins", self.bins)
        # Bins of hardly any weight are left out, and pairs grow from PRIOR_PAIRS to a limit above it: anything much
        # smaller is damage, and divides sums to more than numbers can be.
        check_each(f"{path}.weights", self.weights, LEAST_DIVISOR, 1e12)
        check_each(f"{path}.sums", self.sums, 0.0, MOST_SUM)
        checks.in_range(f"{path}.pairs", self.pairs, LEAST_DIVISOR, 1e12)
        checks.in_range(f"{path}.squares", self.squares, 0.0, MOST_SUM**2)
        checks.in_range(f"{path}.outside", self.outside, -ROUNDS_OUTSIDE, ROUNDS_OUTSIDE)
        checks.in_range(f"{path}.changes", self.changes, 0, 1e12)
        checks.in_range(f"{path}.reports", self.reports, 0, 1e12)
        for n, (place, performance) in enumerate(self.recent):
            checks.in_range(f"{path}.recent[{n}][0]", place, -MOST_PLACE, MOST_PLACE)
            checks.in_range(f"{path}.recent[{n}][1]", performance, 0.0, MOST_SUM)


@dataclass(frozen=True)
class LearnedCurve:
    """`mean` and standard deviation `spread` of the performance over `GRID`, and its bounds, none of which falls."""

    mean: Floats
    spread: Floats

    def at(self, places: Floats, widths: float = 0.0) -> Floats:
        """The mean plus `widths` standard deviations at `places` on the grid's axis (-inf: no share, so 0)."""
        bound = self.mean + widths * self.spread
        # An upper bound is no higher than any to its right, a lower one no lower than any to its left.
        bound = np.minimum.accumulate(bound[::-1])[::-1] if widths > 0 else np.maximum.accumulate(bound)
        return np.interp(places, GRID, np.maximum(bound, 0.0), left=0.0)


#: The curve learned after one round is asked for again when the next one is judged by it: some hundred tenants.
@lru_cache(maxsize=256)
def learned(memory: CurveMemory, ending: Ending) -> LearnedCurve:
    """The posterior, of curves that end so."""
    ends, family, capped = tops(ending), shapes(), ending != "multiple"
    places = np.array(memory.bins, dtype=int)
    if not memory.bins:
        mean, square = _moments(np.full(len(ends), 1.0 / len(ends)), ends)
        return LearnedCurve(mean, np.sqrt(square))
    weights = np.array(memory.weights)
    seen = np.array(memory.sums) / weights
    errors = memory.noise**2 / weights
    at = ends[:, None] * family[:, places]
    censored = capped and memory.noise > CENSORED_FROM
    if censored:
        at = cut_mean(at, memory.noise)
    misfit = (((seen - at) ** 2) / (errors + RESIDUAL**2)).sum(1)
    odds = np.exp(-0.5 * (misfit - misfit.min()))
    mean, square = _moments(odds / odds.sum(), ends)
    expected = cut_mean(mean[places], memory.noise) if censored else mean[places]
    kernel = _kernel()
    across = kernel[:, places]
    gain = np.linalg.solve(across[places] + np.diag(errors), across.T).T
    mean = mean + gain @ (seen - expected)
    rest = np.maximum(np.diag(kernel) - (gain * across).sum(1), 0.0)
    top = 1.0 if capped else np.inf
    return LearnedCurve(np.clip(_rising(mean, 1.0 / (rest + square + 1e-6)), 0.0, top), np.sqrt(square + rest))


def with_round(
    memory: CurveMemory, curve: LearnedCurve, seen: Sequence[tuple[float, float]], ending: Ending
) -> CurveMemory:
    """With the reports of one round, (place, performance) each. `curve` is what was believed before them."""
    if not seen:
        return memory
    memory = _noise_from(memory, seen)
    place = float(np.mean([p for p, _ in seen]))
    value = float(np.mean([y for _, y in seen]))
    expected, spread = float(curve.at(np.array([place]))[0]), float(np.interp(place, GRID, curve.spread))
    if ending != "multiple" and memory.noise > CENSORED_FROM:
        expected = float(cut_mean(np.array([expected]), memory.noise)[0])
    away = (value - expected) / math.sqrt(spread**2 + memory.noise**2 / len(seen) + 1e-6)
    side = (away > OUTSIDE) - (away < -OUTSIDE)
    outside = memory.outside + side if side * memory.outside >= 0 and side else side
    recent = (*memory.recent, *seen)[-ROUNDS_OUTSIDE * 4 :] if side else ()
    memory = replace(memory, outside=outside, recent=recent)
    # One report beyond the band may be noise; more of them on one side are about to be a change.
    if len(seen) == 1 and abs(outside) <= 1:
        memory = _noise_beside(memory, curve, place, value)
    if abs(outside) >= ROUNDS_OUTSIDE:
        memory = _changed(memory, curve)
    sums = {b: (FORGET * w, FORGET * s) for b, w, s in zip(memory.bins, memory.weights, memory.sums, strict=True)}
    for p, y in seen:
        # A report lies between two grid points; each gets its part.
        where = _bin(p)
        low, part = int(where), where - int(where)
        for b, w in ((low, 1 - part), (low + 1, part)):
            weight, total = sums.get(b, (0.0, 0.0))
            sums[b] = (weight + w, total + w * y)
    kept = sorted((b, w, s) for b, (w, s) in sums.items() if w > 1e-3)
    return replace(
        memory,
        bins=tuple(b for b, _, _ in kept),
        weights=tuple(w for _, w, _ in kept),
        sums=tuple(s for _, _, s in kept),
        reports=memory.reports + len(seen),
    )


def cut_mean(mean: Floats, noise: float) -> Floats:
    """The mean of a report, cut to [0, 1], of performance `mean` with Gaussian noise."""
    table = np.linspace(-0.5, 1.5, 81)
    draws = np.clip(table[:, None] + noise * _normals()[None, :], 0.0, 1.0).mean(1)
    return np.asarray(np.interp(mean, table, draws), dtype=np.float64)


@cache
def _normals() -> Floats:
    return np.array([NormalDist().inv_cdf((k + 0.5) / 64) for k in range(64)])


def _moments(odds: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the shapes over the grid."""
    heavy = np.flatnonzero(odds > 1e-6)
    curves = ends[heavy, None] * shapes()[heavy]
    mean = odds[heavy] @ curves
    return mean, np.maximum(odds[heavy] @ curves**2 - mean**2, 0.0)


@cache
def _kernel() -> Floats:
    gap = np.sqrt(3.0) * np.abs(GRID[:, None] - GRID[None, :]) / LENGTH
    return np.asarray(RESIDUAL**2 * (1.0 + gap) * np.exp(-gap), dtype=np.float64)


def _rising(values: Floats, weights: Floats) -> Floats:
    """The curve that never falls and is nearest to `values`: pools of neighbours that violate it."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        size = 1
        while pools and pools[-1][0] > value:
            v, w, n = pools.pop()
            value, weight, size = (v * w + value * weight) / (w + weight), w + weight, size + n
        pools.append((value, weight, size))
    return np.repeat([v for v, _, _ in pools], [n for _, _, n in pools])


def _noise_from(memory: CurveMemory, seen: Sequence[tuple[float, float]]) -> CurveMemory:
    """Half the square of the difference of two reports of one round estimates the noise."""
    return _with_pairs(memory, [(a[1] - b[1]) ** 2 / 2 for a, b in pairwise(seen)])


def _noise_beside(memory: CurveMemory, curve: LearnedCurve, place: float, value: float) -> CurveMemory:
    """The only report of its round beside earlier ones at its place, where there are some, all less the curve.

    A report far outside the band counts as one just outside. Reports that agree say little of those at other places (of
    requests that are all in time none can be more in time), so the noise is not lowered below NOISE by them."""
    where = _bin(place)
    near = [(b, w, s) for b, w, s in zip(memory.bins, memory.weights, memory.sums, strict=True) if abs(b - where) < 1.0]
    weight = sum(w for _, w, _ in near)
    if weight < LEAST_BESIDE:
        return memory
    here, *there = curve.at(np.array([place, *(GRID[b] for b, _, _ in near)])).tolist()
    before = sum(s - w * mean for (_, w, s), mean in zip(near, there, strict=True)) / weight
    away = (value - here - before) ** 2 * weight / (weight + 1.0)
    found = _with_pairs(memory, [min(away, (OUTSIDE * memory.noise) ** 2)])
    return replace(found, squares=max(found.squares, found.pairs * min(NOISE, memory.noise) ** 2))


def _with_pairs(memory: CurveMemory, squares: Sequence[float]) -> CurveMemory:
    if not squares:
        return memory
    pairs = 0.98 * memory.pairs + len(squares)
    return replace(memory, pairs=pairs, squares=0.98 * memory.squares + sum(squares))


def _bin(place: float) -> float:
    """Where a place lies among the points of the grid; places beyond the grid count as its end."""
    return min(max((place - LOWEST) / STEP, 0.0), POINTS - 1.001)


def _changed(memory: CurveMemory, curve: LearnedCurve) -> CurveMemory:
    """After a change: old reports are moved along the grid to where the recent ones fit best, and hardly count.

    A model that became slower needs so many times the share for the same performance: a shift of the logarithm."""
    shifts = np.arange(-12, 13)
    costs = [
        sum((y - float(curve.at(np.array([p - s * STEP]))[0])) ** 2 for p, y in memory.recent) + 1e-5 * abs(int(s))
        for s in shifts
    ]
    shift = int(shifts[int(np.argmin(costs))])
    moved = [
        (b + shift, KEPT * w, KEPT * s)
        for b, w, s in zip(memory.bins, memory.weights, memory.sums, strict=True)
        if 0 <= b + shift < POINTS
    ]
    return replace(
        memory,
        bins=tuple(b for b, _, _ in moved),
        weights=tuple(w for _, w, _ in moved),
        sums=tuple(s for _, _, s in moved),
        outside=0,
        changes=memory.changes + 1,
        reports=0,
        recent=(),
    )
