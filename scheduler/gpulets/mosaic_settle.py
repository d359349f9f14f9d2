"""The gpu-lets of one device beside each other: batches and duty cycles that hold with the neighbours there really are.

A device was composed for the most pressure that its level allows; here each gpu-let gets the smallest share that
still holds, and then the batches that leave most room. Room is the least of three ratios, each at least 1: duty cycle
to execution time, requests served to requests asked, SLO to worst latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.gpulets.mosaic_columns import NEVER_MS, Workload
from scheduler.grid import FloatArray

# Multiples of the rates for which batches are tried: larger batches than needed may leave more room.
_SPARE = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
_ROUNDS = 3
# Room of what holds: 1, but for rounding.
_HOLDS = 1.0 - 1e-12


@dataclass(frozen=True)
class PlacedGpulet:
    """A gpu-let: `share` (number), its `models` (numbers), the `rates` that it has to serve, and the `batches`."""

    share: int
    models: tuple[int, ...]
    rates: tuple[float, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True)
class Timing:
    """How a gpu-let runs: `busy_ms` of execution, `duty_ms` chosen to leave most room, and that `room` (under 1: it
    does not hold)."""

    busy_ms: float
    duty_ms: float
    room: float


def pressures(load: Workload, gpulets: Sequence[PlacedGpulet]) -> list[float | None]:
    """The pressure on each gpu-let: the sum of its neighbours' pressures, None without neighbours."""
    own = []
    for g in gpulets:
        part = load.shares[g.share] / 100
        own.append(max(float(load.press[m, b - 1]) * part for m, b in zip(g.models, g.batches, strict=True)))
    total = sum(own)
    return [total - p if len(own) > 1 else None for p in own]


def timing(load: Workload, gpulet: PlacedGpulet, beside: float | None) -> Timing:
    """Execution time and duty cycle of `gpulet` with a pressure of `beside` on it."""
    busy = 0.0
    for m, b in zip(gpulet.models, gpulet.batches, strict=True):
        busy += float(load.solo_ms[m, gpulet.share, b - 1] * load.factor(m, gpulet.share, beside)[b - 1])
    slo = min(float(load.slo_ms[m]) for m in gpulet.models)
    longest = min(b * 1000 / r for b, r in zip(gpulet.batches, gpulet.rates, strict=True))
    duty, room = _roomiest(np.array([busy]), np.array([longest]), slo)
    return Timing(busy, float(duty[0]), float(room[0]))


def _roomiest(busy: FloatArray, longest: FloatArray, slo: float) -> tuple[FloatArray, FloatArray]:
    """Duty cycles that leave most room, and that room; `longest` is the duty cycle at which the rates are just met.

    A longer cycle leaves more room for execution times and less for rate and latency, so the best is where the first
    meets the lesser of the other two: D^2 = E longest, or D (D + E) = SLO E.
    """
    duty = np.minimum(np.sqrt(busy * longest), (np.sqrt(busy * busy + 4 * slo * busy) - busy) / 2)
    duty = np.maximum(duty, busy)
    room = np.minimum(duty / busy, np.minimum(longest / duty, slo / (busy + duty)))
    return duty, room


def fitted(load: Workload, gpulet: PlacedGpulet, share: int, beside: float | None) -> PlacedGpulet | None:
    """`gpulet` at `share` with the batches that leave most room beside that pressure, or None if none hold."""
    members = list(gpulet.models)
    rates = np.array(gpulet.rates)
    asked = rates[:, None] * np.array(_SPARE)
    slo = float(load.slo_ms[members].min())
    points = (np.arange(1, load.batches + 1)[None, None, :] * 1000.0 / asked[:, :, None]).reshape(-1)
    spare = np.broadcast_to(np.array(_SPARE)[None, :, None], (len(members), len(_SPARE), load.batches)).reshape(-1)
    points = np.append(np.minimum(points, slo), slo)
    spare = np.append(spare, 1.0)
    need = np.maximum(1, np.ceil(rates[:, None] * spare * points / 1000.0 - 1e-9).astype(np.int64))
    possible = (need <= load.batches).all(axis=0)
    need = np.minimum(need, load.batches)
    busy = np.zeros(len(points))
    for n, m in enumerate(members):
        busy += (load.solo_ms[m, share] * load.factor(m, share, beside))[need[n] - 1]
    longest = (need * 1000.0 / rates[:, None]).min(axis=0)
    _, room = _roomiest(np.where(possible, busy, NEVER_MS), longest, slo)
    best = int(room.argmax())
    if room[best] < _HOLDS:
        return None
    return replace(gpulet, share=share, batches=tuple(int(b) for b in need[:, best]))


def rooms(load: Workload, gpulets: Sequence[PlacedGpulet]) -> list[float]:
    """The room that each gpu-let of a device leaves."""
    beside = pressures(load, gpulets)
    return [timing(load, g, b).room for g, b in zip(gpulets, beside, strict=True)]


def settled(load: Workload, gpulets: Sequence[PlacedGpulet]) -> tuple[PlacedGpulet, ...] | None:
    """The gpu-lets of one device, each within its objectives beside the others; None if no way was found.

    First what does not hold gets other batches, or a larger share where some is free; then shares are made smaller
    while all hold; then batches are changed while that leaves more room.
    """
    held = _held(load, tuple(gpulets))
    return None if held is None else _roomier(load, _smaller(load, held))


def _smaller(load: Workload, gpulets: tuple[PlacedGpulet, ...]) -> tuple[PlacedGpulet, ...]:
    """Each gpu-let's share made smaller while all hold, the largest first."""
    current = gpulets
    for _ in range(_ROUNDS):
        before = current
        for n in sorted(range(len(current)), key=lambda k: (-current[k].share, k)):
            while current[n].share > 0:
                smaller = _changed(load, current, n, current[n].share - 1)
                if smaller is None or min(rooms(load, smaller)) < _HOLDS:
                    break
                current = smaller
        if current == before:
            break
    return current


def _roomier(load: Workload, gpulets: tuple[PlacedGpulet, ...]) -> tuple[PlacedGpulet, ...]:
    """Other batches at the same shares while that leaves more room where there is least."""
    current = gpulets
    for _ in range(_ROUNDS):
        before = current
        for n in range(len(current)):
            other = _changed(load, current, n, current[n].share)
            if other is not None and sorted(rooms(load, other)) > sorted(rooms(load, current)):
                current = other
        if current == before:
            break
    return current


def _changed(load: Workload, gpulets: tuple[PlacedGpulet, ...], n: int, share: int) -> tuple[PlacedGpulet, ...] | None:
    """`gpulets` with number `n` at `share`, its batches fitted to the neighbours as they are."""
    new = fitted(load, gpulets[n], share, pressures(load, gpulets)[n])
    return None if new is None else (*gpulets[:n], new, *gpulets[n + 1 :])


def _held(load: Workload, gpulets: tuple[PlacedGpulet, ...]) -> tuple[PlacedGpulet, ...] | None:
    """`gpulets` changed until all hold, or None."""
    current = gpulets
    for _ in range(_ROUNDS * len(gpulets)):
        room = rooms(load, current)
        worst = min(range(len(room)), key=lambda k: (room[k], k))
        if room[worst] >= _HOLDS:
            return current
        free = load.capacity - sum(load.shares[g.share] for g in current)
        for share in range(current[worst].share, len(load.shares)):
            if load.shares[share] - load.shares[current[worst].share] > free:
                return None
            other = _changed(load, current, worst, share)
            if other is not None:
                current = other
                break
        else:
            return None
    return None
