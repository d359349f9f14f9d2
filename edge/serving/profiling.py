"""The cost of a batch of a model under a share: repeated runs in one process, and the table completed between them.

Measured is what the serving planner reckons with (`DeviceTable.latency_ms`): the part of a duty cycle that one batch
takes in steady use of its share. Where a share is kept by pacing (a token bucket: a batch runs at full speed, then the
next one waits) the waiting belongs to it, or a planned duty cycle could not be kept. It is never scaled from another
share. Only a sparse grid of shares and batches is measured; cells between are interpolated and marked so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue, Unavailable

#: A paced share is kept on average over this time (the bucket's burst, edge/shares/bucket.py).
EVEN_S = 0.020
#: A wait for the share that is longer than this is one.
_FELT_S = 2e-4
#: A stressor that slows its own like by less than this finds no bottleneck: models slow it only by noise.
_FELT_PRESSURE = 1.05
#: How a value of the table came about, one letter per batch in `details["origin"]`.
MEASURED, INTERPOLATED, EXTRAPOLATED = "m", "i", "x"


class Pacing(Protocol):
    """The share of the process that measures (edge.runtime.device.WorkerShare)."""

    def batch(self, stop: Callable[[], bool] | None = None) -> AbstractContextManager[bool]:
        """Wait until allowed, run the body, charge it."""


@dataclass(frozen=True)
class Effort:
    """How long one cell (a batch at a share) is measured: until `seconds` are over and at least `least` runs are in,
    never more than `most` runs. The first `skip` runs and those before the share was felt do not count."""

    seconds: float = 0.6
    least: int = 8
    most: int = 400
    skip: int = 2

    def __post_init__(self) -> None:
        checks.in_range("effort.seconds", self.seconds, 0.0, 600.0)
        checks.in_range("effort.least", self.least, 1, 10_000)
        checks.in_range("effort.most", self.most, self.least, 1_000_000)
        checks.in_range("effort.skip", self.skip, 0, 10_000)


@dataclass(frozen=True)
class Runs:
    """Repeated runs of one cell in milliseconds: `run_ms` the batch itself, `cycle_ms` from its start to the next one's
    when as many are run as the share allows, `cpu_ms` the CPU time of the process in it (waiting for a GPU spins)."""

    run_ms: tuple[float, ...]
    cycle_ms: tuple[float, ...]
    cpu_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        checks.not_empty("run_ms", self.run_ms)
        for name in ("cycle_ms", "cpu_ms"):
            if len(given := getattr(self, name)) != len(self.run_ms):
                raise InvalidValue(name, len(given), f"as many as run_ms ({len(self.run_ms)})")

    @property
    def mean_cycle_ms(self) -> float:
        """Mean cycle without the longest and the shortest twentieth (another process of the machine, mostly)."""
        return trimmed_mean(self.cycle_ms)

    @property
    def mean_cpu_ms(self) -> float:
        """Mean CPU time of a batch, trimmed alike. On a CPU neighbours make this longer (caches, memory, the other
        thread of a core), and a paced cycle is in proportion to it; unlike the cycle it does not grow when another
        program takes the core away for a while.
        """
        return trimmed_mean(self.cpu_ms)

    @property
    def typical_run_ms(self) -> float:
        """Median time of the batch itself, for comparison with live batch times."""
        return float(np.median(self.run_ms))

    def latency_ms(self, quantile: float = 0.95) -> float:
        """One batch's part of a duty cycle: the larger of two high quantiles, of the batch itself and of the cycle.

        A paced share evens out EVEN_S: cycles count as means over so many of them as fill that time.
        """
        checks.in_range("quantile", quantile, 0.5, 1.0)
        cycles = np.asarray(self.cycle_ms)
        window = max(1, min(len(cycles), math.ceil(1000.0 * EVEN_S / max(1e-6, float(cycles.mean())))))
        sums = np.convolve(cycles, np.ones(window) / window, mode="valid")
        return float(max(np.quantile(self.run_ms, quantile), np.quantile(sums, quantile)))


def trimmed_mean(values: Sequence[float], part: float = 0.05) -> float:
    """Mean without the smallest and the largest `part` of the values."""
    ordered = np.sort(np.asarray(values, dtype=float))
    cut = int(len(ordered) * part)
    return float(ordered[cut : len(ordered) - cut].mean())


def repeat(
    run: Callable[[], float | None],
    pacing: Pacing,
    effort: Effort,
    stop: Callable[[], bool] | None = None,
    now: Callable[[], float] = time.perf_counter,
    cpu: Callable[[], float] = time.process_time,
) -> Runs:
    """Run a batch again and again, as fast as the share allows, and keep the times. `run` may return the seconds that
    the batch itself took, where it does more (receiving it, answering it).

    `stop` is asked between runs and while waiting for the share (the place for a heartbeat). A share that paces lets
    some batches pass first (its burst): those before the first wait do not count, and the time begins anew there.
    Raises Unavailable if `stop` ends it.
    """
    starts: list[float] = []
    took: list[float] = []
    work: list[float] = []
    began = asked = now()
    first = effort.skip  # the first run that counts
    paced = False
    while True:
        with pacing.batch(stop) as go:
            if not go or (stop is not None and stop()):
                raise Unavailable("measuring was stopped")
            start, used = now(), cpu()
            seconds = run()
            end = now()
            work.append(cpu() - used)
        starts.append(start)
        took.append(end - start if seconds is None else seconds)
        if not paced and start - asked > _FELT_S and len(starts) > effort.skip:
            paced, first, began = True, len(starts) - 1, start
        asked = end
        counted = len(starts) - 1 - first  # the last run has no cycle yet
        if counted >= effort.most or (counted >= effort.least and end - began >= effort.seconds):
            break
    times = range(first, len(starts) - 1)
    return Runs(
        tuple(1000.0 * took[n] for n in times),
        tuple(1000.0 * (starts[n + 1] - starts[n]) for n in times),
        tuple(1000.0 * work[n] for n in times),
    )


# -- the grid


def batch_grid(largest: int) -> tuple[int, ...]:
    """Batches that are measured: powers of two up to `largest`, and `largest`."""
    checks.in_range("max_batch", largest, 1, 1024)
    powers = [2**n for n in range(largest.bit_length()) if 2**n <= largest]
    return tuple(sorted({*powers, largest}))


def default_shares(one_unit: float) -> tuple[int, ...]:
    """Shares (percent) of a table where none are asked for: each tenth of the device, and of the share that one thread
    can use (`one_unit`: the share of one core, 1.0 where there is no such), beyond which more shares bring nothing.
    """
    checks.in_range("one_unit", one_unit, 0.0, 1.0, low_open=True)
    fine = {max(1, math.ceil(10.0 * one_unit * n - 1e-6)) for n in range(1, 11)}
    return tuple(sorted(fine | set(range(10, 101, 10))))


def share_grid(shares: Sequence[int], one_unit: float) -> tuple[int, ...]:
    """Of the shares of the table (percent), those that are measured: smallest, largest, about a third, and where a
    model that computes in one thread stops to gain (`one_unit`: the share of one core, 1.0 where there is no such).
    """
    wanted = sorted(set(shares))
    checks.not_empty("shares", wanted)
    ends = {wanted[0], wanted[-1]}
    core = min((p for p in wanted if p >= 100 * one_unit - 1e-6), default=wanted[-1])
    middle = min(wanted, key=lambda p: abs(math.log(p / math.sqrt(wanted[0] * core))))
    return tuple(sorted({*ends, core, middle}))


@dataclass(frozen=True)
class Cell:
    """One measurement to make: `batch` at `share` percent; `seconds` it will take, about."""

    share: int
    batch: int
    seconds: float


def affordable(
    run_ms: Mapping[int, float],
    shares: Sequence[int],
    one_unit: float,
    effort: Effort,
    budget_s: float,
    longest_ms: float,
) -> tuple[tuple[Cell, ...], tuple[tuple[int, int], ...]]:
    """The cells that fit into `budget_s`, and those left out (share, batch).

    `run_ms` is what each batch takes alone on the whole device. A cell is expected to take as much longer as its share
    is smaller than what the model can use (`one_unit`). Cells longer than `longest_ms` per batch are left out, then the
    dearest until the rest fits; batch 1 stays at every share, and every batch at the largest share.
    """
    cells, left = [], []
    for share in shares:
        for batch, alone in run_ms.items():
            cycle = alone * max(1.0, 100.0 * one_unit / share)
            runs = effort.least + effort.skip + 1
            cell = Cell(share, batch, max(effort.seconds * 1.1, runs * cycle / 1000.0))
            must = batch == min(run_ms) or share == max(shares)
            if cycle > longest_ms and not must:
                left.append((share, batch))
            else:
                cells.append((must, cell))
    cells.sort(key=lambda c: (not c[0], c[1].seconds, -c[1].share, c[1].batch))
    while sum(c.seconds for _, c in cells) > budget_s and cells and not cells[-1][0]:
        dropped = cells.pop()[1]
        left.append((dropped.share, dropped.batch))
    kept = sorted((c for _, c in cells), key=lambda c: (-c.share, c.batch))
    return tuple(kept), tuple(sorted(left))


# -- completing


@dataclass(frozen=True)
class Completed:
    """A model's rows: `rows[share in percent]` a value per batch from 1, `origin[share]` a letter each (MEASURED,
    INTERPOLATED, EXTRAPOLATED). `smoothed` is the largest factor by which a measured value was moved so that values
    rise with the batch and fall with the share."""

    rows: Mapping[int, tuple[float, ...]]
    origin: Mapping[int, str]
    smoothed: float = 1.0


def complete(measured: Mapping[tuple[int, int], float], shares: Sequence[int], largest: int) -> Completed:
    """Every share (percent) and batch 1..`largest` from what was measured at some (share, batch).

    Along batches linear; along shares linear in 1/share, which lies above a curve that falls and then stays level.
    Beyond the largest batch measured at a share its row follows the next larger share's, in proportion; below the
    smallest share measured the value is in inverse proportion to it. Values never fall with the batch or rise with the
    share. Raises InvalidValue if nothing was measured.
    """
    checks.not_empty("measured", list(measured))
    checks.in_range("largest", largest, 1, 1024)
    wanted = sorted({int(p) for p in shares})
    known = sorted({share for share, _ in measured}, reverse=True)
    smooth, factor = _smoothed(measured)
    full = {}
    marks = {}
    above: NDArray[np.float64] | None = None
    for share in known:
        points = {b: v for (p, b), v in smooth.items() if p == share}
        row, mark = _row(points, above, largest)
        full[share], marks[share], above = row, mark, row
    rows, origin = {}, {}
    for share in wanted:
        rows[share], origin[share] = _at_share(share, full, marks)
    grid = np.array([rows[p] for p in wanted])
    grid = np.maximum.accumulate(grid, axis=1)
    grid = np.maximum.accumulate(grid[::-1], axis=0)[::-1]
    done = {p: tuple(round(float(v), 4) for v in grid[n]) for n, p in enumerate(wanted)}
    return Completed(done, origin, factor)


def _row(
    points: Mapping[int, float], above: NDArray[np.float64] | None, largest: int
) -> tuple[NDArray[np.float64], str]:
    """A full row from the batches measured at one share; `above` is the row of the next larger share."""
    known = sorted(points)
    values = [points[b] for b in known]
    batches = np.arange(1, largest + 1)
    row = np.interp(batches, known, values)
    top, low = known[-1], known[0]
    if above is not None:
        row[batches > top] = above[batches > top] * (points[top] / above[top - 1])
        row[batches < low] = above[batches < low] * (points[low] / above[low - 1])
    elif len(known) > 1:
        slope = (points[top] - points[known[-2]]) / (top - known[-2])
        row[batches > top] = points[top] + slope * (batches[batches > top] - top)
    else:
        row[batches > top] = points[top] * batches[batches > top] / top
    mark = "".join(MEASURED if b in points else INTERPOLATED if low < b < top else EXTRAPOLATED for b in batches)
    return row, mark


def _at_share(
    share: int, full: Mapping[int, NDArray[np.float64]], marks: Mapping[int, str]
) -> tuple[NDArray[np.float64], str]:
    if share in full:
        return full[share], marks[share]
    lower, upper = max((p for p in full if p < share), default=None), min((p for p in full if p > share), default=None)
    if lower is None:
        assert upper is not None
        row = full[upper] * (upper / share)
        return row, EXTRAPOLATED * len(row)
    if upper is None:
        return full[lower], EXTRAPOLATED * len(full[lower])
    part = (1.0 / share - 1.0 / lower) / (1.0 / upper - 1.0 / lower)
    row = full[lower] + part * (full[upper] - full[lower])
    return row, "".join(
        EXTRAPOLATED if EXTRAPOLATED in pair else INTERPOLATED for pair in zip(marks[lower], marks[upper], strict=True)
    )


def _smoothed(measured: Mapping[tuple[int, int], float]) -> tuple[dict[tuple[int, int], float], float]:
    """The values made to rise with the batch and fall with the share, near the measured (least squares of logarithms,
    pooled along rows and columns in turn), and the largest factor that one was moved by."""
    logs = {cell: math.log(value) for cell, value in measured.items()}
    lines = [sorted((c for c in logs if c[0] == p), key=lambda c: c[1]) for p in sorted({c[0] for c in logs})]
    lines += [sorted((c for c in logs if c[1] == b), key=lambda c: -c[0]) for b in sorted({c[1] for c in logs})]
    for _ in range(50):
        moved = 0.0
        for line in lines:
            for cell, value in zip(line, _rising([logs[c] for c in line]), strict=True):
                moved = max(moved, abs(value - logs[cell]))
                logs[cell] = value
        if moved < 1e-6:
            break
    result = {cell: math.exp(value) for cell, value in logs.items()}
    factor = max(max(result[c] / measured[c], measured[c] / result[c]) for c in measured)
    return result, round(factor, 4)


def _rising(values: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` (least squares; pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v1, n1), (v0, n0) = blocks.pop(), blocks.pop()
            blocks.append(((v0 * n0 + v1 * n1) / (n0 + n1), n0 + n1))
    return [v for v, n in blocks for _ in range(n)]


# -- interference


@dataclass(frozen=True)
class Side:
    """One of two that run side by side: a model's `batch` at `share` percent."""

    model: str
    batch: int
    share: int


@dataclass(frozen=True)
class Together:
    """`side` ran beside `other` and its batches took `slowdown` times as long as alone (means: of cycles, on a CPU of
    CPU time)."""

    side: Side
    other: Side
    slowdown: float


def pairs_to_measure(
    models: Mapping[str, Sequence[int]], splits: Sequence[tuple[int, int]], most: int
) -> tuple[tuple[Side, Side], ...]:
    """Pairs of sides to run together: every two of `models` (each with its batches), and each model with itself.

    At most `most`, as many of each two models as of any other; the same ones each time. Each gives two slowdowns.
    """
    names = sorted(models)
    every = [
        (Side(a, ba, pa), Side(b, bb, pb))
        for n, a in enumerate(names)
        for b in names[n:]
        for ba in models[a]
        for bb in models[b]
        for pa, pb in splits
        if not (a == b and (ba, pa) > (bb, pb))
    ]
    kinds: dict[tuple[str, str], list[tuple[Side, Side]]] = {}
    for pair in every:
        kinds.setdefault((pair[0].model, pair[1].model), []).append(pair)
    rng = np.random.default_rng(0)
    queues = [[pairs[n] for n in rng.permutation(len(pairs))] for pairs in kinds.values()]
    chosen: list[tuple[Side, Side]] = []
    while len(chosen) < min(most, len(every)):
        for queue in queues:
            if queue and len(chosen) < most:
                chosen.append(queue.pop())
    return tuple(chosen)


def pressure(beside_model: float, beside_stressor: float) -> float:
    """Use of a shared resource [0, 1]: how much a model slows the calibrated probe of that resource, relative to how
    much the stressor that does nothing else slows it (both as slowdowns, 1 = not at all). 0 where the stressor itself
    is hardly felt."""
    if beside_stressor < _FELT_PRESSURE:
        return 0.0
    return round(min(1.0, max(0.0, (beside_model - 1.0) / (beside_stressor - 1.0))), 4)


@dataclass
class OtherLoad:
    """How busy the machine was with work that is not ours while measuring: the mean of samples, each in cores."""

    samples: list[float] = field(default_factory=list)

    def add(self, all_busy_s: float, own_s: float, wall_s: float) -> None:
        """`all_busy_s` CPU seconds of the whole machine, `own_s` of ours, in `wall_s`."""
        if wall_s > 0:
            self.samples.append(max(0.0, (all_busy_s - own_s) / wall_s))

    @property
    def cores(self) -> float:
        """Mean number of cores that others kept busy."""
        return float(np.mean(self.samples)) if self.samples else 0.0
