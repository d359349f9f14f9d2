"""Shares that a tenant's plan can use.

An executor of one model has a share that was measured. A budget between two of them does no more than the lower one, so
the rest of it is better with another tenant, or completed to the next one. An empty tuple: the tenant can use any
share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduler.tenants.shapes import Floats

_EPS = 1e-6


def at_most(usable: Sequence[float], share: float) -> float:
    """The largest usable share that is no larger than `share`; 0 where there is none."""
    return max((u for u in usable if u <= share + _EPS), default=0.0) if usable else share


def at_least(usable: Sequence[float], share: float) -> float:
    """The least usable share that is no smaller than `share`; `share` where there is none."""
    return min((u for u in usable if u >= share - _EPS), default=share)


def in_steps(utility: Floats, usable: Sequence[float], granularity: float) -> Floats:
    """`utility` over steps of the granularity as the plan turns them into performance: that of the largest usable share
    at or below each; below the least one that of no share."""
    if not usable:
        return utility
    steps = sorted({math.floor(u / granularity + _EPS) for u in usable})
    known = np.array([k for k in steps if k < len(utility)], dtype=int)
    if not len(known):
        return np.full_like(utility, utility[0])
    place = np.searchsorted(known, np.arange(len(utility)), side="right") - 1
    return np.asarray(np.where(place >= 0, utility[known[np.maximum(place, 0)]], utility[0]), dtype=np.float64)


def settled(
    shares: Sequence[float], lows: Sequence[float], highs: Sequence[float], usable: Sequence[Sequence[float]]
) -> list[float]:
    """`shares` with the same sum, each between its low and its high, as plans can use them.

    The rests beyond usable shares complete other tenants' to the next one, the nearest first. Tenants that can use any
    share have the remainder; it stays with its holders where there is none."""
    out = list(shares)
    count = range(len(out))
    for j in count:
        if usable[j]:
            out[j] = min(out[j], max(lows[j], at_most(usable[j], out[j])))
    spare = sum(shares) - sum(out)
    nexts = {
        j: up
        for j in count
        if usable[j] and shares[j] - out[j] > _EPS and shares[j] < (up := at_least(usable[j], shares[j])) <= highs[j]
    }
    for j in sorted(nexts, key=lambda j: (nexts[j] - shares[j], j)):
        if nexts[j] - out[j] <= spare + _EPS:
            spare -= nexts[j] - out[j]
            out[j] = nexts[j]
    spare = _given(out, spare, [0.0 if usable[j] else max(0.0, highs[j] - out[j]) for j in count])
    _given(out, spare, [max(0.0, shares[j] - out[j]) for j in count])
    return out


def _given(out: list[float], spare: float, room: Sequence[float]) -> float:
    """Give `spare` in proportion to the room that each has. Returns the remainder."""
    there = sum(room)
    if spare <= 0 or there <= 0.0:
        return spare
    part = min(1.0, spare / there)
    for j, more in enumerate(room):
        out[j] += part * more
    return spare - part * there
