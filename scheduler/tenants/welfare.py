"""Exact maximisation of welfare over utilities in tables: the sum by a dynamic programme, the least by bisection.

Tables are (tenants, levels): the utility of each tenant at 0, 1, 2, ... steps of the resource, not falling. Steps
with a negative utility are not allowed. Answers are numbers of steps; their sum is at most levels - 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.tenants.shapes import Floats

BISECTIONS = 30
#: Rows of the programme that are held in memory at once.
BLOCK = 256
#: Where the insured answer is searched, around the exact one.
WINDOW = (0.7, 1.3)


def most_needed(tables: Floats) -> list[int]:
    """The least number of steps with which each tenant has its greatest utility."""
    return [int(k) for k in (tables >= tables[:, -1:] - 1e-9).argmax(1)]


def best_sum(tables: Floats) -> list[int]:
    """The steps with the greatest sum of utilities, and no step that adds nothing."""
    count, levels = tables.shape
    value: Floats = np.zeros(levels)
    picks: list[npt.NDArray[np.intp]] = []
    reach = 0
    for row, top in zip(tables, most_needed(tables), strict=True):
        # Everything above `reach` is the same: earlier tenants have all they can use.
        reach = min(levels - 1, reach + top)
        value, pick = _with_one_more(value, row[: top + 1], reach)
        picks.append(pick)
    left, out = int(value.argmax()), [0] * count
    for j in reversed(range(count)):
        out[j] = int(picks[j][left])
        left -= out[j]
    return out


def _with_one_more(value: Floats, row: Floats, reach: int) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The greatest value at each number of steps with one more tenant, and the steps that it then has."""
    best, pick = np.empty_like(value), np.empty(len(value), dtype=np.intp)
    before = np.concatenate([np.full(len(row) - 1, -np.inf), value])
    # Row x of the windows is value[x], value[x - 1], ...: what the others have if this tenant has 0, 1, ... steps.
    windows = np.lib.stride_tricks.sliding_window_view(before, len(row))[:, ::-1]
    for start in range(0, reach + 1, BLOCK):
        rows = slice(start, min(start + BLOCK, reach + 1))
        sums = windows[rows] + row
        pick[rows] = sums.argmax(1)
        best[rows] = sums[np.arange(len(sums)), pick[rows]]
    best[reach + 1 :], pick[reach + 1 :] = best[reach], pick[reach]
    return best, pick


def best_least(tables: Floats) -> list[int]:
    """The steps with the greatest least utility, then what is left where it adds most to the sum.

    A tenant whose greatest utility is below the others' gets that and does not hold them down."""
    levels = tables.shape[1]
    low, high = 0.0, float(tables.max())
    if _least_for(tables, high).sum() <= levels - 1:
        low = high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _least_for(tables, middle).sum() <= levels - 1 else (low, middle)
    base = _least_for(tables, low)
    return with_spare(tables, [int(b) for b in base])


def with_spare(tables: Floats, base: list[int]) -> list[int]:
    """`base`, and what it leaves where that adds most to the sum of `tables`."""
    levels = tables.shape[1]
    rest = np.arange(levels - sum(base))
    places = np.minimum(np.array(base)[:, None] + rest[None, :], levels - 1)
    more = best_sum(np.take_along_axis(tables, places, axis=1))
    return [b + m for b, m in zip(base, more, strict=True)]


def best_insured_least(tables: Floats, softness: float) -> list[int]:
    """Near the greatest least utility, insured: the greatest sum of -exp(-utility / softness).

    Utilities in tables are estimates, and the least of many estimates lies below each of them. Where a little more
    utility costs little, a tenant gets it; as `softness` goes to 0 this is `best_least`. Searched between 0.7 and 1.3
    times that answer."""
    levels = tables.shape[1]
    base = np.array(best_least(tables))
    rows = np.arange(len(base))
    held = tables[rows, base]
    open_ = tables[:, -1] > held + 1e-9
    least = float(held[open_].min()) if open_.any() else 1.0
    low = np.minimum(base, np.maximum((WINDOW[0] * base).astype(int), (tables < 0).sum(1)))
    high = np.minimum((WINDOW[1] * base).astype(int) + 8, levels - 1)
    rest = np.arange(levels - int(low.sum()))
    places = np.minimum(low[:, None] + rest[None, :], high[:, None])
    worth = -np.exp(-np.maximum(np.take_along_axis(tables, places, axis=1) - least, -6 * softness) / softness)
    return [int(b) + m for b, m in zip(low, best_sum(worth - worth[:, :1]), strict=True)]


def _least_for(tables: Floats, utility: float) -> npt.NDArray[np.intp]:
    """The least steps with which each tenant has `utility`, or its greatest if that is less."""
    return np.asarray((tables >= np.minimum(utility, tables[:, -1:]) - 1e-12).argmax(1), dtype=np.intp)
