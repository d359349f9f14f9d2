"""Requests that arrive at random, through the gpu-lets of one plan or of several in turn: how many are late?

The rule of the gpu-lets paper's front: a batch of a model goes to a gpu-let that is free when it is full, or when a
duty cycle has passed since the gpu-let's last batch of that model. Requests that would be late are dropped and counted
as late. A batch takes the table's time for its size, times the slowdown beside the neighbours that the plan has.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edge.core.serving import DeviceTable, Gpulet
from scheduler.gpulets.verdict import times

Arrivals = Mapping[str, Sequence[float]]


@dataclass
class ServedRequests:
    """Requests of all models, and how many of them were answered after their objective or dropped."""

    requests: int = 0
    missed: int = 0
    missed_at_s: list[float] = field(default_factory=list)
    missed_of: Counter[str] = field(default_factory=Counter)

    def miss(self, model: str, at_s: Sequence[float]) -> None:
        """Those of `model` that came at these seconds."""
        self.missed += len(at_s)
        self.missed_at_s += at_s
        self.missed_of[model] += len(at_s)

    @property
    def part(self) -> float:
        """The part that missed its objective."""
        return self.missed / max(1, self.requests)


@dataclass
class _Lane:
    """A gpu-let in use: free from `free_s` on; its models' batches, seconds by batch size, and last starts."""

    duty_s: float
    free_s: float
    batches: dict[str, int]
    times_s: dict[str, tuple[float, ...]]
    last_s: dict[str, float]


def poisson(rates: Mapping[str, float], seconds: float, seed: int) -> dict[str, list[float]]:
    """Arrivals by model, in seconds, ascending."""
    return {m: _poisson([(0.0, rate)], seconds, f"{seed} {m}") for m, rate in rates.items()}


def varying(rates: Mapping[str, Sequence[tuple[float, float]]], seconds: float, seed: int) -> dict[str, list[float]]:
    """The same with rates that hold from a second on: (second, requests/s), the first at second 0."""
    return {m: _poisson(steps, seconds, f"{seed} {m}") for m, steps in rates.items()}


def _poisson(steps: Sequence[tuple[float, float]], seconds: float, seed: str) -> list[float]:
    rng = np.random.default_rng(random.Random(seed).randrange(2**32))
    found: list[float] = []
    for (begin, rate), end in zip(steps, [*(s for s, _ in steps[1:]), seconds], strict=True):
        found += sorted(rng.uniform(begin, end, rng.poisson(rate * (end - begin))).tolist())
    return found


def replayed(
    table: DeviceTable,
    plans: Iterable[tuple[float, Sequence[Gpulet]]],
    arrivals: Arrivals,
    slo_ms: Mapping[str, float],
    seconds: float,
    errors: Mapping[tuple[str, int], float] | None = None,
) -> ServedRequests:
    """The fate of all requests; `plans` are (in force from second, gpu-lets) in order, the first from 0. `errors`:
    (model, share in percent) -> factor by which batches take longer than the table says."""
    heads = dict.fromkeys(arrivals, 0)
    out = ServedRequests(requests=sum(len(found) for found in arrivals.values()))
    steps = list(plans)
    for n, (begin, gpulets) in enumerate(steps):
        end = steps[n + 1][0] if n + 1 < len(steps) else math.inf
        _run(_lanes(table, gpulets, begin, errors or {}), begin, end, heads, arrivals, slo_ms, out)
    for model, found in arrivals.items():
        out.miss(model, found[heads[model] :])
    return out


def _lanes(
    table: DeviceTable, gpulets: Sequence[Gpulet], begin: float, errors: Mapping[tuple[str, int], float]
) -> list[_Lane]:
    lanes = []
    for timing in times(table, gpulets):
        gpulet = timing.gpulet
        took = {}
        for part, factor in zip(gpulet.models, timing.factors, strict=True):
            longer = factor * errors.get((part.model, gpulet.percent), 1.0)
            row = table.latency_ms[part.model][gpulet.percent][: part.batch]
            took[part.model] = tuple(ms * longer / 1000 for ms in row)
        batches = {part.model: part.batch for part in gpulet.models}
        duty_s = gpulet.duty_cycle_ms / 1000
        lanes.append(_Lane(duty_s, begin, batches, took, dict.fromkeys(batches, begin - duty_s)))
    return lanes


def _run(
    lanes: Sequence[_Lane],
    begin: float,
    end: float,
    heads: dict[str, int],
    arrivals: Arrivals,
    slo_ms: Mapping[str, float],
    out: ServedRequests,
) -> None:
    """Until `end`; batches that began before it are finished. A lane's next start never moves to an earlier time, for
    other lanes only take requests away: so the heap may hold old ones."""
    heap = [(begin, n) for n in range(len(lanes))]
    while heap:
        known, n = heapq.heappop(heap)
        start, model = _next(lanes[n], heads, arrivals)
        if start >= end:
            continue
        if start > known:
            heapq.heappush(heap, (start, n))
            continue
        lane, waiting, slo_s = lanes[n], arrivals[model], slo_ms[model] / 1000
        batch = min(lane.batches[model], bisect_right(waiting, start, heads[model]) - heads[model])
        first = heads[model]
        while batch and waiting[first] + slo_s < start + lane.times_s[model][batch - 1]:
            out.miss(model, [waiting[first]])
            first += 1
            batch = min(lane.batches[model], bisect_right(waiting, start, first) - first)
        heads[model] = first + batch
        if batch:
            lane.last_s[model] = start
            lane.free_s = start + lane.times_s[model][batch - 1]
        heapq.heappush(heap, (max(start, lane.free_s), n))


def _next(lane: _Lane, heads: Mapping[str, int], arrivals: Arrivals) -> tuple[float, str]:
    """When the lane begins its next batch, and of which model, if no other lane takes the requests: of several that
    are ready, the one that was so first."""
    best, chosen = (math.inf, math.inf), ""
    for model, batch in lane.batches.items():
        waiting, head = arrivals[model], heads[model]
        if head >= len(waiting):
            continue
        full = waiting[head + batch - 1] if head + batch <= len(waiting) else math.inf
        ready = min(full, max(waiting[head], lane.last_s[model] + lane.duty_s))
        found = (max(lane.free_s, ready), ready)
        if found < best:
            best, chosen = found, model
    return best[0], chosen
