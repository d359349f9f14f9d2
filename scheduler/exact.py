"""The best static plan: the best one whose shares are fixed until a stream's own retraining ends.

Then its retraining share joins its own inference share. With the shares of a stream fixed, its worth depends on its
own quanta only, so the window is a multiple-choice knapsack over quanta, and dynamic programming solves it exactly
on multiples of `delta`.
"""

from __future__ import annotations

import numpy as np

from scheduler.grid import FloatArray, Grid, IntArray, as_share, split_capacity
from scheduler.static import StreamChoice


def best_static(grid: Grid) -> dict[str, StreamChoice]:
    """Per stream the choice of the best static plan on `grid`."""
    tables = [_table(grid, i) for i in range(len(grid.problem.streams))]
    _, quanta = split_capacity([t[0] for t in tables], grid.total)
    choices = {}
    for i, stream in enumerate(grid.problem.streams):
        _, level, retraining = tables[i]
        n = int(quanta[i])
        q, r = int(level[n]), int(retraining[n])
        hold = grid.hold[i]
        after = as_share(hold[min(n, grid.device)], grid.quantum)
        if q == 0:
            choices[stream.id] = StreamChoice(after)
            continue
        during = as_share(hold[min(n - r, grid.device)], grid.quantum)
        option = grid.options[i][q - 1]
        choices[stream.id] = StreamChoice(during, as_share(r, grid.quantum), option.id, after)
    return choices


def _table(grid: Grid, i: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Stream `i`: best worth (accuracy x seconds) at n quanta, and the level and retraining quanta that give it."""
    device, quantum, time_s = grid.device, grid.quantum, grid.time_s
    most = min(grid.total, int(grid.hold[i].max()) + device)
    own = np.arange(most + 1)
    start = grid.value(i, float(grid.accuracy[i, 0]))
    held = grid.hold[i][np.minimum(own, device)]
    best = start[held] * time_s
    level = np.zeros(most + 1, np.int64)
    retraining = np.zeros(most + 1, np.int64)
    if device == 0:
        return best, level, retraining
    r = np.arange(1, device + 1)
    left = own[:, None] - r[None, :]
    possible = left >= 0
    during = start[grid.hold[i][np.clip(left, 0, device)]]
    shares = [as_share(k, quantum) for k in range(1, device + 1)]
    for n, option in enumerate(grid.options[i], 1):
        speed = np.array([option.speed(share) for share in shares])
        with np.errstate(divide="ignore"):
            duration = np.where(speed > 0, grid.work[i, n] / np.maximum(speed, 1e-300), np.inf)
        in_time = duration <= time_s
        after = grid.value(i, float(grid.accuracy[i, n]))[held]
        spent = np.minimum(duration, time_s)
        with np.errstate(invalid="ignore"):
            worth = during * spent[None, :] + after[:, None] * (time_s - spent)[None, :]
        # 0 s x -inf is not a number; a share under the floor is refused even for no time.
        worth = np.where(possible & in_time[None, :] & ~np.isnan(worth), worth, -np.inf)
        pick = np.argmax(worth, axis=1)
        value = worth[own, pick]
        better = value > best + 1e-12
        best = np.where(better, value, best)
        level = np.where(better, n, level)
        retraining = np.where(better, r[pick], retraining)
    return best, level, retraining
