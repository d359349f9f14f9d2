"""Allocations in whole steps of the granularity, and the procedure that gives no reason to complain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduler.tenants.shapes import Floats


def by_weight(weights: Sequence[float], units: float) -> list[float]:
    """`units` in proportion to the weights; by equal parts where they sum to nothing."""
    total = sum(weights)
    return [units * w / total if total > 0 else units / len(weights) for w in weights]


def to_steps(units: Floats, granularity: float, steps: int) -> tuple[int, ...]:
    """`units` in steps by largest remainders: their sum is that of `units` rounded down, at most `steps`."""
    parts = np.maximum(np.asarray(units, dtype=float), 0.0) / granularity
    if parts.sum() > steps:
        parts = parts * steps / parts.sum()
    whole = np.floor(parts + 1e-9).astype(int)
    spare = min(steps, math.floor(parts.sum() + 1e-6)) - int(whole.sum())
    for j in np.argsort(whole - parts, kind="stable")[: max(0, spare)]:
        whole[j] += 1
    return tuple(int(k) for k in whole)


def no_complaints(demands: Sequence[float], weights: Sequence[float], units: float) -> Floats:
    """Units of each: a tenant that demands less than its share has its demand, and the others share what is left.

    No tenant has less than its demand while another has more than its entitlement (thesis 3.4.1)."""
    out, left = np.zeros(len(demands)), float(units)
    open_ = [j for j in range(len(demands)) if weights[j] > 0]
    while open_:
        total = sum(weights[j] for j in open_)
        shares = {j: left * weights[j] / total for j in open_}
        content = [j for j in open_ if demands[j] <= shares[j]]
        if not content:
            for j in open_:
                out[j] = shares[j]
            break
        for j in content:
            out[j] = demands[j]
            left -= demands[j]
            open_.remove(j)
    return out


def with_floors(steps: Sequence[int], floors: Sequence[int]) -> tuple[int, ...]:
    """`steps`, with every floor kept: the lack is taken where most is above a floor. The floors' sum is at most that
    of the steps that there are; the sum of the steps grows only where they leave room for it."""
    out = [max(step, floor) for step, floor in zip(steps, floors, strict=True)]
    lack = sum(out) - sum(steps)
    for j in sorted(range(len(out)), key=lambda k: floors[k] - out[k]):
        given = min(lack, out[j] - floors[j])
        out[j] -= given
        lack -= given
    return tuple(out)


def first_steps(entitlements: Floats, granularity: float, steps: int, floors: Sequence[int]) -> tuple[int, ...]:
    """Entitlements in steps, with every floor kept."""
    return with_floors(to_steps(entitlements, granularity, steps), floors)
