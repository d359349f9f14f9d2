"""Replays even arrivals through a pipeline, batch by batch: does every request end within the objective?

It follows the dispatch of docs/pipelines.md. Under TC and POOL a tuple opens a batch every batch / rate seconds (one
that is behind opens the next at once), takes the next requests until the batch is full, and leaves the others to the
tuples after it; the last takes the rest. Under DT each request goes to the tuple that has most to get. A tuple's
machines take batches in turn. Dummies come evenly. A module hands a whole batch on at once, and one that is asked more
or less often than the source gets that many requests of each of the source's. So a replay shows what no bound of one
module tells: batches that arrive in bursts, machines that are not free yet, and requests that overtake others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.pipelines.dispatch import SLACK, Allotted
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.steps import CountedSteps

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: A batch may open this many seconds before it is due: sums of times are not exact.
_EARLY: Final = 1e-9
#: Requests are dealt in blocks of so many, which are kept.
_DEALT: Final = 500
#: A tuple that is behind makes up for this many requests at most.
_BEHIND: Final = 64


class FedModule(NamedTuple):
    """A module's tuples in the order of dispatch ("TC", "POOL" or "DT")."""

    dispatch: str
    tuples: tuple[Allotted, ...]


class PipelineReplay:
    """`requests` requests that come to the source evenly; `rates` of the graph's modules in requests/s. The ends of
    modules are kept, so plans that begin alike are replayed once up to there. Modules are given in the order of the
    graph (`PipelineGraph.order`); those at the end may be missing. Each request in a module is one of `steps`."""

    def __init__(self, graph: PipelineGraph, rates: Sequence[float], requests: int, steps: CountedSteps) -> None:
        self._graph, self._rates, self._steps = graph, rates, steps
        self._source = rates[graph.order[0]]
        self._arrivals = np.arange(requests) / self._source
        self._ends: dict[tuple[object, ...], FloatArray] = {}

    def worst(self, fed: Sequence[FedModule]) -> float:
        """The longest time in seconds from arrival to the end of all these modules, of requests whose batches filled;
        0 where none did."""
        return self._longest(np.maximum.reduce(self._all(fed)))

    def last(self, fed: Sequence[FedModule]) -> float:
        """The longest time in seconds from arrival to the end of the last of these modules."""
        return self._longest(self._all(fed)[-1])

    def _longest(self, ends: FloatArray) -> float:
        took = ends - self._arrivals
        return float(took[np.isfinite(took)].max(initial=0.0))

    def _all(self, fed: Sequence[FedModule]) -> list[FloatArray]:
        ends: dict[int, FloatArray] = {}
        keys: dict[int, tuple[object, ...]] = {}
        for m, how in zip(self._graph.order, fed, strict=False):
            parents = self._graph.parents[m]
            keys[m] = (m, how, *(keys[p] for p in parents))
            if keys[m] not in self._ends:
                at = np.maximum.reduce([ends[p] for p in parents]) if parents else self._arrivals
                self._ends[keys[m]] = self._through(m, how, at)
                self._steps.take(len(at))
            ends[m] = self._ends[keys[m]]
        return list(ends.values())

    def _through(self, m: int, fed: FedModule, at: FloatArray) -> FloatArray:
        """When each request of the source has left module `m`; infinity for one whose batch did not fill."""
        ratio = self._source / self._rates[m]
        owners = (np.arange(int(len(at) / ratio)) * ratio + 1e-9).astype(np.int64)
        owners = owners[owners < len(at)]
        owners = owners[np.isfinite(at[owners])]
        owners = owners[np.argsort(at[owners], kind="stable")]
        end = at.copy()
        np.maximum.at(end, owners, served(fed, at[owners]))
        return end


def served(fed: FedModule, times: FloatArray) -> FloatArray:
    """When each request that arrives at `times` (seconds, ascending) is answered; infinity where its batch did not
    fill."""
    done = np.full(len(times) + 1, np.inf)  # the last is the dummies'
    which = np.arange(len(times))
    dummy = sum(t.dummy for t in fed.tuples)
    if len(times) and dummy > 0:
        extra = times[0] + (np.arange(int((times[-1] - times[0]) * dummy)) + 0.5) / dummy
        both = np.concatenate([extra, times])
        order = np.argsort(both, kind="stable")
        which = np.concatenate([np.full(len(extra), len(times)), which])[order]
        times = both[order]
    if fed.dispatch == "DT":
        total = sum(t.rate for t in fed.tuples)
        got = dealt(tuple(t.rate / total for t in fed.tuples), -(-len(times) // _DEALT))[: len(times)]
        for n, t in enumerate(fed.tuples):
            mine = np.nonzero(got == n)[0]
            _run(t, times[mine], which[mine], np.arange(0, len(mine), t.configuration.batch), done)
        return done[:-1]
    for t in fed.tuples[:-1]:
        opened = _opened(t, times.tolist())
        taken = _run(t, times, which, opened, done)
        times, which = times[~taken], which[~taken]
    _run(fed.tuples[-1], times, which, np.arange(0, len(times), fed.tuples[-1].configuration.batch), done)
    return done[:-1]


def _opened(t: Allotted, times: list[float]) -> IntArray:
    """TC and POOL: the positions at which the tuple opens a batch; it takes the next requests until it is full."""
    batch, rate = t.configuration.batch, t.rate
    opened: list[int] = []
    due, first, count = 0.0, 0, len(times)
    while True:
        first = bisect_left(times, due - _EARLY, first)
        if first >= count:
            return np.array(opened, np.int64)
        opened.append(first)
        due = max(due, times[first] - _BEHIND / rate) + batch / rate
        first += batch


@lru_cache(maxsize=64)
def dealt(gains: tuple[float, ...], blocks: int) -> IntArray:
    """DT: the tuple of each of `blocks` x 500 requests, the one that has most to get, where each gets the part `gains`
    of them."""
    count = blocks * _DEALT
    return np.array(_dealt_to_two(*gains, count) if len(gains) == 2 else _dealt_to_many(gains, count), np.int8)


def _dealt_to_two(gain: float, other_gain: float, count: int) -> list[int]:
    """The common case of `_dealt_to_many`, several times as fast, with the very same sums."""
    credit = other = 0.0
    got = []
    for _ in range(count):
        credit += gain
        other += other_gain
        if other > credit:
            other -= 1.0
            got.append(1)
        else:
            credit -= 1.0
            got.append(0)
    return got


def _dealt_to_many(gains: tuple[float, ...], count: int) -> list[int]:
    credits = [0.0] * len(gains)
    got = []
    numbered = tuple(enumerate(gains))
    for _ in range(count):
        best, most = 0, -2.0
        for n, gain in numbered:
            credits[n] = credit = credits[n] + gain
            if credit > most:
                best, most = n, credit
        credits[best] = most - 1.0
        got.append(best)
    return got


def _run(t: Allotted, times: FloatArray, which: IntArray, opened: IntArray, done: FloatArray) -> np.ndarray:
    """The tuple's machines take the batches that begin at the positions `opened` in turn, and their ends go into
    `done`; whether the tuple takes each request."""
    batch, duration = t.configuration.batch, t.configuration.duration
    taken = np.zeros(len(times), bool)
    full = opened[opened + batch <= len(times)]
    if len(opened) > len(full):
        taken[opened[-1] :] = True
    if not len(full):
        return taken
    free = [0.0] * math.ceil(t.machines - SLACK)
    last = len(free) - 1
    ends, turn = [], 0
    for closed in times[full + batch - 1].tolist():
        begin = free[turn]
        free[turn] = end = (closed if closed > begin else begin) + duration
        ends.append(end)
        turn = turn + 1 if turn < last else 0
    places = (full[:, None] + np.arange(batch)).ravel()
    taken[places] = True
    done[which[places]] = np.repeat(ends, batch)
    return taken
