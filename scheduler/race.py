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


@dataclass
class _RacePhase:
    """Schedules (R of them) in one phase; those that are over may be left out. `row` (R,) are their places in the
    answer; by job, in order (R, J): the place of its model in the race's tables (`model`), `cap` (0: no job waits
    there), `begun`, `work` (inf: no job waits there); `demand` and `worth` (R, P) of inference by price; `left` (R,)
    seconds."""

    row: IntArray
    model: IntArray
    budget: IntArray
    cap: IntArray
    begun: NDArray[np.bool_]
    work: FloatArray
    demand: NDArray[np.int32]
    worth: FloatArray
    left: FloatArray

    def keep(self, index: NDArray[np.bool_]) -> None:
        """Only these from here on."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name)[index])


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
        self.speed = np.zeros((n, width, grid.device + 1))
        if not self.linear:
            shares = [as_share(k, grid.quantum) for k in range(grid.device + 1)]
            for i in range(n):
                for level, option in enumerate(grid.options[i], 1):
                    self.speed[i, level] = [option.speed(x) for x in shares]
        most = grid.factor.max(axis=1)
        self.gain = np.where(grid.valid, (grid.accuracy - grid.accuracy[:, :1]) * most[:, None], 0.0)
        #: Smith's index: gain per remaining GPU-second, the running job first (stopping it would lose its work).
        self.index = self.gain / np.maximum(grid.work, 1e-9)
        self.index[np.arange(n), self.running] += np.where(self.running > 0, 1e9, 0.0)
        self._tabulate()

    def _tabulate(self) -> None:
        """Demand (quanta) and worth at each price: of all streams with the models in force, and what each stream's
        level adds to that; the last price buys the least allowed."""
        grid = self.grid
        n, width = grid.accuracy.shape
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
        # No share above the one with the best factor is worth a price.
        k = np.arange(int(grid.hold.max(initial=0)) + 1)
        values = values[:, :, : len(k)]
        net = values[:, :, None, :] - prices[None, None, :, None] * k[None, None, None, :]
        pick = np.argmax(net, axis=3)
        demand = pick.astype(np.int32)
        worth = np.take_along_axis(values, pick, axis=2)
        worth = np.where(np.isfinite(worth), worth, FORBIDDEN)
        self.demand, self.worth = demand[:, 0].sum(axis=0, dtype=np.int32), worth[:, 0].sum(axis=0)
        self.more_demand = (demand - demand[:, :1]).reshape(n * width, -1)
        self.more_worth = (worth - worth[:, :1]).reshape(n * width, -1)

    def smith_order(self, levels: IntArray) -> IntArray:
        """(B, N) streams by gain per remaining GPU-second at these levels, those without a job last."""
        rows = np.arange(self.streams)
        return np.argsort(-self.index[rows, levels], axis=1, kind="stable")

    def job_quanta(self, budget: IntArray, cap: IntArray, begun: NDArray[np.bool_]) -> IntArray:
        """(B, J) quanta per job in order: up to its cap (0: no job waits) while the budget lasts; the surplus goes
        beyond the caps.

        A job that has begun keeps at least one quantum: taking its worker away would cost more than it saves.
        """
        device = self.grid.device
        upto = cap.cumsum(axis=1)
        given = np.minimum(np.maximum(budget[:, None] - (upto - cap), 0), cap)
        over = budget - upto[:, -1]
        if np.count_nonzero(over > 0):
            room = np.where(cap > 0, device - cap, 0)
            given = given + np.clip(np.maximum(over, 0)[:, None] - (np.cumsum(room, axis=1) - room), 0, room)
        given[begun & (given == 0)] = 1
        return given

    def value(self, s: Schedules) -> FloatArray:
        """(B,) sum over streams of accuracy x seconds, from the first segment to the end of the window. The worth of a
        schedule does not depend on those beside it."""
        grid, total = self.grid, np.zeros(len(s.levels))
        if not len(total):
            return total
        now = self._begin(s)
        for phase in range(self.streams + 1):
            quanta = self.job_quanta(now.budget[:, phase], now.cap, now.begun)
            now.begun |= quanta > 0
            speed = quanta * grid.quantum if self.linear else self.speed.reshape(-1, grid.device + 1)[now.model, quanta]
            need = np.empty(speed.shape)
            need.fill(np.inf)
            np.divide(now.work, speed, out=need, where=speed > 0)
            step = np.minimum(np.minimum.reduce(need, axis=1), now.left)
            total[now.row] += self._inference(now, grid.total - np.add.reduce(quanta, axis=1)) * step
            now.left = now.left - step
            now.work -= speed * step[:, None]
            done = need <= step[:, None] + 1e-9
            if not np.count_nonzero(done) or not np.count_nonzero(now.left):
                break
            self._end(now, done)
        return total

    def _begin(self, s: Schedules) -> _RacePhase:
        """The first phase."""
        count = len(s.levels)
        row = np.arange(count)
        level = s.levels[row[:, None], s.order]
        jobs = int(np.flatnonzero(np.logical_or.reduce(level > 0, axis=0)).max(initial=0)) + 1
        ids, level = s.order[:, :jobs], level[:, :jobs]
        waiting = level > 0
        model = ids * self.grid.accuracy.shape[1] + level
        demand = np.empty((count, len(self.demand)), np.int32)
        worth = np.empty((count, len(self.worth)))
        demand[:], worth[:] = self.demand, self.worth
        return _RacePhase(
            row,
            model,
            s.budget,
            np.where(waiting, s.caps[row[:, None], ids], 0),
            waiting & (self.running[ids] == level),
            np.where(waiting, self.grid.work.ravel()[model], np.inf),
            demand,
            worth,
            np.full(count, self.grid.time_s),
        )

    def _end(self, now: _RacePhase, done: NDArray[np.bool_]) -> None:
        """The jobs that are `done` (R, J) end. A schedule in which none is has used up its window: it may be left
        out."""
        np.copyto(now.cap, 0, where=done)
        np.copyto(now.begun, False, where=done)
        np.copyto(now.work, np.inf, where=done)
        any_done = np.logical_or.reduce(done, axis=1)
        if 2 * np.count_nonzero(any_done) < len(done):
            now.keep(any_done)
            done = done[any_done]
        # Mostly one job of a schedule ends at a time; where several do they are added one after another.
        rows = np.arange(len(done))
        while True:
            job = done.argmax(axis=1)
            # The first model of the table adds nothing.
            model = np.where(done[rows, job], now.model[rows, job], 0)
            now.demand += self.more_demand[model]
            now.worth += self.more_worth[model]
            if np.count_nonzero(done) == np.count_nonzero(model):
                return
            done[rows, job] = False

    def _inference(self, now: _RacePhase, spare: IntArray) -> FloatArray:
        """(R,) worth of inference with `spare` quanta: between the two prices whose demands enclose it."""
        demand, worth = now.demand, now.worth
        rows = np.arange(len(demand))
        more = demand > spare[:, None]
        above = np.add.reduce(more.view(np.int8), axis=1, dtype=np.int64)
        last = demand.shape[1] - 1
        high = np.minimum(above, last)
        low = np.maximum(high - 1, 0)
        d1, d0 = demand[rows, high], demand[rows, low]
        v1, v0 = worth[rows, high], worth[rows, low]
        gap = d0 - d1
        part = np.where(gap > 0, (spare - d1) / np.where(gap > 0, gap, 1.0), 0.0)
        value: FloatArray = v1 + np.minimum(np.maximum(part, 0.0), 1.0) * (v0 - v1)
        return np.where((above > last) | (spare < 0), FORBIDDEN, value)
