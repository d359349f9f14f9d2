"""Curves of a device table for the models of one problem; built once per plan.

Times are in milliseconds, rates in requests per second, shares in whole percent of a device. The law is that of
`scheduler.gpulets.verdict`: a gpu-let with duty cycle D and execution time E holds when E <= D and E + D <= SLO. So
batches b serve rates r exactly when E <= min(b 1000 / r) and 2 E <= SLO; any duty cycle from E to
min(b 1000 / r, SLO - E) then holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel, ServingProblem

#: Rounding error that a rate or a time may have.
EPS = 1e-9
#: Any smaller rate that is not 0 is planned for as this (requests per second): a decaying rate never becomes 0.
LEAST_RATE = 1e-3
#: Any longer objective is planned for as this (milliseconds; a day).
MOST_SLO_MS = 86_400_000.0


@dataclass(frozen=True)
class Load:
    """Requests per second of a model (by its number in the problem) that a gpu-let has to serve."""

    model: int
    rate: float


@dataclass(frozen=True)
class Fit:
    """Batches (in the order of the loads) that hold in a gpu-let, its duty cycle, its execution time per cycle, and the
    slowdown that it adds to each neighbour.
    """

    batches: tuple[int, ...]
    duty_ms: float
    busy_ms: float
    pressure: float


def planned(problem: ServingProblem) -> ServingProblem:
    """`problem` without rates between 0 and LEAST_RATE and without objectives beyond MOST_SLO_MS. A plan that holds for
    it holds for `problem`."""
    if all((m.rate == 0 or m.rate >= LEAST_RATE) and m.slo_ms <= MOST_SLO_MS for m in problem.models):
        return problem
    models = tuple(
        replace(m, rate=max(m.rate, LEAST_RATE) if m.rate > 0 else 0.0, slo_ms=min(m.slo_ms, MOST_SLO_MS))
        for m in problem.models
    )
    return replace(problem, models=models)


class Curves:
    """The table as seen by one problem. `interference` False leaves the neighbours out of account.

    Raises InvalidValue for a model that was not measured.
    """

    def __init__(self, problem: ServingProblem, table: DeviceTable, interference: bool = True) -> None:
        problem = planned(problem)
        self.problem = problem
        #: Shares that some model of the problem was measured at and that the capacity allows, ascending.
        self.capacity = int(problem.capacity * 100 + 1e-6)
        self.models: tuple[ServedModel, ...] = problem.models
        self.solo: list[dict[int, tuple[float, ...]]] = []
        self.own: list[list[float]] = []
        self.push: list[list[float]] = []
        self.memory: list[float] = []
        self.device_memory = table.device_memory_mb
        c1, c2, c3, c4, c5 = table.interference if interference else (0.0, 0.0, 0.0, 0.0, 1.0)
        self.constant = c5
        shares: set[int] = set()
        for n, model in enumerate(problem.models):
            rows = table.latency_ms.get(model.name)
            if rows is None:
                raise InvalidValue(f"models[{n}].name", model.name, "one of " + ", ".join(table.latency_ms))
            self.solo.append({p: tuple(b) for p, b in sorted(rows.items()) if p <= self.capacity})
            shares |= set(self.solo[n])
            used = [table.utilised(model.name, b + 1) for b in range(max(len(r) for r in rows.values()))]
            self.own.append([c1 * u.l2 + c3 * u.dram for u in used])
            self.push.append([c2 * u.l2 + c4 * u.dram for u in used])
            self.memory.append(table.memory_mb.get(model.name, 0.0))
        self.shares = tuple(sorted(shares))
        self._curves: dict[tuple[int, float], list[tuple[int, float]]] = {}
        #: By model and share: the least time per request and the least time of a batch, alone, within the SLO.
        self._least: list[dict[int, tuple[float, float]]] = []
        for asked, by_share in zip(problem.models, self.solo, strict=True):
            held = {
                p: [(t / (n + 1), t) for n, t in enumerate(row) if 2 * t <= asked.slo_ms] for p, row in by_share.items()
            }
            self._least.append({p: (min(h)[0], min(t for _, t in h)) for p, h in held.items() if h})

    @property
    def fiercest(self) -> float:
        """The most pressure per whole device of share that any batch of any model of the problem can have."""
        wanted = [row for m, row in zip(self.models, self.push, strict=True) if m.rate > 0]
        return max((max(row) for row in wanted), default=0.0)

    def largest_share(self, free: int, model: int | None = None) -> int | None:
        """The largest share measured (for `model`, or any model) that fits into `free` percent."""
        return max((p for p in (self.shares if model is None else self.solo[model]) if p <= free), default=None)

    def fit(self, share: int, loads: Sequence[Load], pressure: float | None) -> Fit | None:
        """The smallest batches that serve `loads` in a gpu-let of `share`, or None.

        `pressure` is the sum of the neighbours' (None: no neighbour). Small batches press least on the neighbours.
        """
        if len(loads) == 1:
            return self._fit_one(share, loads[0], pressure)
        work = together = 0.0
        for load in loads:
            least = self._least[load.model].get(share)
            if least is None:
                return None
            work += load.rate * least[0]
            together += least[1]
        slo = min(self.models[load.model].slo_ms for load in loads)
        if work > 1000.0 or 2 * together > slo:
            return None
        at = share / 100
        times = []
        for load in loads:
            row = self.solo[load.model][share]
            times.append(row if pressure is None else self._slowed(load.model, row, at, pressure))
        # The batches change only where the duty cycle lets one more request of some model gather.
        duties = sorted(
            {k * 1000.0 / load.rate for load, t in zip(loads, times, strict=True) for k in range(1, len(t) + 1)}
        )
        for duty in duties:
            busy, batches = 0.0, []
            for load, t in zip(loads, times, strict=True):
                batch = max(1, -int(-load.rate * duty / 1000.0 * (1 - EPS) // 1))
                if batch > len(t):
                    return None
                batches.append(batch)
                busy += t[batch - 1]
            if busy <= duty and 2 * busy <= slo:
                pushed = max(self.push[load.model][b - 1] for load, b in zip(loads, batches, strict=True)) * at
                return Fit(tuple(batches), _roomy(busy, duty, slo), busy, pushed)
            if busy * 2 > slo and duty > slo:
                return None
        return None

    def _fit_one(self, share: int, load: Load, pressure: float | None) -> Fit | None:
        row = self.solo[load.model].get(share)
        if row is None:
            return None
        slo, at = self.models[load.model].slo_ms, share / 100
        own, cycle = self.own[load.model], 1000.0 / load.rate
        for n, solo in enumerate(row):
            busy = solo if pressure is None else solo * max(1.0, self.constant + own[n] * at + pressure)
            duty = (n + 1) * cycle
            if 2 * busy <= slo and busy <= duty * (1 + EPS):
                return Fit((n + 1,), _roomy(busy, duty, slo), busy, self.push[load.model][n] * at)
        return None

    def _slowed(self, model: int, row: Sequence[float], at: float, pressure: float) -> tuple[float, ...]:
        own, base = self.own[model], self.constant + pressure
        return tuple([t * max(1.0, base + own[n] * at) for n, t in enumerate(row)])

    def affordable(self, model: int, share: int, pressure: float | None = None) -> float:
        """The largest rate that a gpu-let of `share` can serve of `model` alone within its SLO (0: none)."""
        row = self.solo[model].get(share)
        if row is None:
            return 0.0
        slo, at, own = self.models[model].slo_ms, share / 100, self.own[model]
        best = 0.0
        for n, solo in enumerate(row):
            busy = solo if pressure is None else solo * max(1.0, self.constant + own[n] * at + pressure)
            if 2 * busy <= slo:
                best = max(best, (n + 1) * 1000.0 / busy)
        return best

    def affordable_curve(self, model: int, expected: float = 0.0) -> list[tuple[int, float]]:
        """(share, largest rate) for each share of the model, ascending. `expected` is the pressure to reckon with per
        whole device of neighbours; they get what the share leaves of the capacity."""
        known = self._curves.get((model, expected))
        if known is None:
            known = []
            for share in self.solo[model]:
                rest = (self.capacity - share) / 100 * expected
                known.append((share, self.affordable(model, share, rest if rest > 0 else None)))
            self._curves[model, expected] = known
        return known


def _roomy(busy: float, longest: float, slo: float) -> float:
    """The duty cycle from `busy` to `longest` at which work, rate and objective all have about the same room."""
    even = (math.sqrt(busy * busy + 4 * slo * busy) - busy) / 2  # duty / busy = slo / (busy + duty)
    return max(busy, min(math.sqrt(busy * longest), even))


def knee(curve: Sequence[tuple[int, float]]) -> int | None:
    """The share at which a (share, rate) curve bends most (gpu-lets, section 4.3, MaxEfficientPartition); None where
    no share serves anything.

    Curvature -y'' / (1 + y'^2)^1.5 on both axes scaled to [0, 1], by differences at the measured shares. A curve that
    bends nowhere downwards has no knee: then the share with the most rate per share, the smallest of those.
    """
    points = [(x, y) for x, y in curve if y > 0]
    if not points:
        return None
    best, bend = max(points, key=lambda p: (p[1] / p[0], -p[0]))[0], EPS
    width, height = points[-1][0], max(y for _, y in points)
    # The curve starts at the origin: a share of nothing serves nothing.
    scaled = [(0.0, 0.0), *((x / width, y / height) for x, y in points)]
    for n in range(1, len(scaled) - 1):
        (x0, y0), (x1, y1), (x2, y2) = scaled[n - 1 : n + 2]
        left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
        second, first = 2 * (right - left) / (x2 - x0), (y2 - y0) / (x2 - x0)
        curvature = -second / (1 + first * first) ** 1.5
        if curvature > bend:
            best, bend = points[n - 1][0], curvature
    return best


def least_share(curve: Sequence[tuple[int, float]], rate: float) -> int | None:
    """The smallest share that serves `rate` (gpu-lets, MinRequiredPartition); None where none does."""
    return next((share for share, most in curve if most >= rate * (1 - EPS)), None)
