"""Many retraining schedules of one window, valued side by side in numpy; the inner loop of policy `relay`.

A schedule says per stream which option is retrained (its level, 0: none), in which order the jobs get devices, how
many quanta all jobs together get in each phase (a phase ends when a job ends), and the most quanta that one job gets.
In each phase jobs take, in order, what they may have of the budget; inference gets the rest, split by the concave
hull of the streams' value tables (an upper bound that is tight up to one quantum; `relay` replaces it by the exact
knapsack in the end).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.grid import FloatArray, Grid, IntArray, as_share

#: Prices at which the streams' demand is tabulated.
PRICES = 48
#: Worth of a state that breaks a hard floor or has not enough devices; large enough to lose against anything.
FORBIDDEN = -1e6


@dataclass(frozen=True)
class Schedules:
    """B schedules of N streams: `levels` (B, N), `order` (B, N) stream ids by priority, `budget` (B, N + 1) quanta
    by phase, `caps` (B, N) quanta by stream."""

    levels: IntArray
    order: IntArray
    budget: IntArray
    caps: IntArray

    def row(self, n: int) -> Schedules:
        """Schedule `n` alone."""
        return Schedules(self.levels[n : n + 1], self.order[n : n + 1], self.budget[n : n + 1], self.caps[n : n + 1])

    def rows(self, index: IntArray) -> Schedules:
        """The schedules that `index` names."""
        return Schedules(self.levels[index], self.order[index], self.budget[index], self.caps[index])


class Race:
    """Values schedules of one grid."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        n, width = grid.accuracy.shape
        self.streams = n
        self.running = np.zeros(n, np.int64)
        for n_stream, stream in enumerate(grid.problem.streams):
            for level, option in enumerate(grid.options[n_stream], 1):
                if stream.running == option.id:
                    self.running[n_stream] = level
        self.linear = all(not o.throughput for row in grid.options for o in row)
        shares = [as_share(k, grid.quantum) for k in range(grid.device + 1)]
        self.speed = np.zeros((n, width, grid.device + 1))
        self.gain = np.zeros((n, width))
        for i in range(n):
            for level, option in enumerate(grid.options[i], 1):
                self.speed[i, level] = [option.speed(x) for x in shares]
                self.gain[i, level] = (grid.accuracy[i, level] - grid.accuracy[i, 0]) * grid.factor[i].max()
        #: Smith's index: gain per remaining GPU-second, the running job first (stopping it would lose its work).
        self.index = self.gain / np.maximum(grid.work, 1e-9)
        self.index[np.arange(n), self.running] += np.where(self.running > 0, 1e9, 0.0)
        self._tabulate()

    def _tabulate(self) -> None:
        """Demand (quanta) and worth of each stream and level at each price; the last price buys the least allowed."""
        grid = self.grid
        n, width = grid.accuracy.shape
        k = np.arange(grid.device + 1)
        values = np.full((n, width, grid.device + 1), -np.inf)
        for i in range(n):
            for level in np.flatnonzero(grid.valid[i]):
                values[i, level] = grid.value(i, float(grid.accuracy[i, level]))
        with np.errstate(invalid="ignore"):
            slopes = np.diff(values, axis=2)
        slopes = slopes[np.isfinite(slopes) & (slopes > 0)]
        if len(slopes):
            spread = np.quantile(slopes, np.linspace(0, 1, PRICES))
            prices = np.concatenate(([0.0], spread * (1 + 1e-9), [spread[-1] * grid.device + 1.0]))
        else:
            prices = np.array([0.0, 1.0])
        net = values[:, :, None, :] - prices[None, None, :, None] * k[None, None, None, :]
        pick = np.argmax(net, axis=3)
        self.demand = pick.astype(np.float64)
        self.worth = np.take_along_axis(values, pick, axis=2)
        allowed = np.isfinite(self.worth)
        self.worth = np.where(allowed, self.worth, FORBIDDEN)

    def smith_order(self, levels: IntArray) -> IntArray:
        """(B, N) streams by gain per remaining GPU-second at these levels, those without a job last."""
        rows = np.arange(self.streams)
        return np.argsort(-self.index[rows, levels], axis=1, kind="stable")

    def job_quanta(
        self, budget: IntArray, caps: IntArray, waiting: NDArray[np.bool_], begun: NDArray[np.bool_]
    ) -> IntArray:
        """(B, N) quanta per job in order: up to its cap while the budget lasts; the surplus goes beyond the caps.

        A job that has begun keeps at least one quantum: taking its worker away would cost more than it saves.
        """
        device = self.grid.device
        cap = np.where(waiting, caps, 0)
        given = np.minimum(np.maximum(budget[:, None] - (np.cumsum(cap, axis=1) - cap), 0), cap)
        over = budget - cap.sum(axis=1)
        if (over > 0).any():
            room = np.where(waiting, device - cap, 0)
            given = given + np.clip(np.maximum(over, 0)[:, None] - (np.cumsum(room, axis=1) - room), 0, room)
        return np.where(begun & waiting & (given == 0), 1, given)

    def value(self, s: Schedules) -> FloatArray:
        """(B,) sum over streams of accuracy x seconds, from the first segment to the end of the window."""
        grid = self.grid
        count = len(s.levels)
        ids = s.order
        level = np.take_along_axis(s.levels, ids, axis=1)
        caps = np.take_along_axis(s.caps, ids, axis=1)
        waiting = level > 0
        begun = waiting & (self.running[ids] == level)
        work = grid.work[ids, level]
        demand = np.repeat(self.demand[:, 0].sum(axis=0)[None, :], count, axis=0)
        worth = np.repeat(self.worth[:, 0].sum(axis=0)[None, :], count, axis=0)
        left = np.full(count, grid.time_s)
        total = np.zeros(count)
        for phase in range(self.streams + 1):
            quanta = self.job_quanta(s.budget[:, phase], caps, waiting, begun)
            begun |= quanta > 0
            spare = grid.total - quanta.sum(axis=1)
            if self.linear:
                speed = quanta * grid.quantum
            else:
                speed = self.speed[ids, level, quanta]
            with np.errstate(divide="ignore", invalid="ignore"):
                need = np.where(waiting & (speed > 0), work / speed, np.inf)
            step = np.minimum(need.min(axis=1), left)
            total += self._inference(demand, worth, spare) * step
            left = left - step
            work = work - speed * step[:, None]
            done = waiting & (need <= step[:, None] + 1e-9) & (step < np.inf)[:, None]
            # A row whose step ended no job used up its window; N + 1 phases are enough for every row.
            if not done.any() or not (left > 1e-9).any():
                break
            waiting &= ~done
            # Mostly one job per row ends at a time; rows where several do take further rounds.
            while True:
                j = done.argmax(axis=1)
                b = np.flatnonzero(done[np.arange(count), j])
                if len(b) == 0:
                    break
                j = j[b]
                i, lv = ids[b, j], level[b, j]
                demand[b] += self.demand[i, lv] - self.demand[i, 0]
                worth[b] += self.worth[i, lv] - self.worth[i, 0]
                done[b, j] = False
        return total

    def _inference(self, demand: FloatArray, worth: FloatArray, spare: IntArray) -> FloatArray:
        """(B,) worth of inference with `spare` quanta: between the two prices whose demands enclose it."""
        rows = np.arange(len(demand))
        above = (demand > spare[:, None] + 1e-9).sum(axis=1)
        last = demand.shape[1] - 1
        high = np.minimum(above, last)
        low = np.maximum(high - 1, 0)
        d1, d0 = demand[rows, high], demand[rows, low]
        v1, v0 = worth[rows, high], worth[rows, low]
        gap = d0 - d1
        part = np.where(gap > 0, (spare - d1) / np.where(gap > 0, gap, 1.0), 0.0)
        value = v1 + np.minimum(np.maximum(part, 0.0), 1.0) * (v0 - v1)
        return np.where((above > last) | (spare < 0), FORBIDDEN, value)
