"""Ways to feed whole machines of one module, for plans that are replayed before they are given (whole_punctual).

Every set of machines that the module may cost is looked at with every way of feeding it; of them stay those that few
others beat in worst case and cost. The worst case of a way is that of the rules or, where batches wait for each other,
the longest time that a short replay of the module alone shows.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from scheduler.pipelines.bounds import Allowance
from scheduler.pipelines.dispatch import CLOSE, SLACK, Allotted, Configuration, worst_case
from scheduler.pipelines.replay import FedModule, served
from scheduler.pipelines.search import FoundPoints
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_search import Machines, dealt_rates, least_dealt

#: Configurations in one set.
_MOST_CONFIGURATIONS = 3
#: A set, or a way, that so many others beat is left out. More than one stays: what a module does to the next one is
#: seen in the replay only.
_BEATEN = 3
#: Looking at a set takes as long as so many requests in a replay.
_STEPS_OF_SET = 6
#: To work out the worst case of one way to feed a set takes as long as so many requests in a replay.
_STEPS_OF_FEEDING = 25
#: Requests in the replay of a module alone.
_ALONE = 160
#: Batches of the first tuple to batches of the second one: batches that come to whole numbers wait least.
_BATCHES = ((1, 1), (2, 1), (3, 1), (4, 1), (6, 1), (8, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 8), (2, 3), (3, 2))
#: Parts of the second tuple's room that it takes, and of all spare places that dummies take.
_PARTS = (0.05, 0.5, 0.95)
_DUMMIES = (0.5, 1.0)
#: The same, both at once, where more ways are looked at.
_MORE_PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
_MORE_DUMMIES = (0.2, 0.4, 0.6, 0.8, 1.0)


class Way(NamedTuple):
    """Machines that cost `cost` and answer within `latency` seconds when fed as in `fed`."""

    cost: float
    latency: float
    fed: FedModule


def ways(
    configs: Sequence[Configuration], rate: float, allowed: Allowance, steps: CountedSteps, more: bool
) -> list[Way]:
    """The module's ways, the least cost first. `more`: two tuples with dummies share the rate in many ways, too."""
    drawn: list[Way] = []
    sets = _Sets([c for c in configs if c.duration <= allowed.longest], allowed, steps)
    sets.look(rate)
    for _, _, machines in _few(sets.found):
        cost = sum(m.number * m.configuration.price for m in machines)
        if steps.spent:
            break
        for fed in _feedings(machines, rate, allowed.longest, more):
            steps.take(_STEPS_OF_FEEDING)
            latency = worst_case(fed.tuples, fed.dispatch)
            if latency <= allowed.longest:
                drawn.append(Way(cost, latency, fed))
    kept = _FewBeaten()
    found = []
    for way in sorted(drawn, key=lambda way: (way.cost, way.latency)):
        if kept.beaten(way.latency):
            continue
        if len(way.fed.tuples) > 1 or way.fed.tuples[0].dummy:
            steps.take(_ALONE)
            way = way._replace(latency=max(way.latency, _alone(way.fed, rate)))
            if kept.beaten(way.latency) or way.latency > allowed.longest:
                continue
        kept.add(way.latency)
        found.append(way)
    return found


class _FewBeaten:
    """Latencies of what was taken so far, in the order of cost."""

    def __init__(self) -> None:
        self._latencies: list[float] = []

    def beaten(self, latency: float) -> bool:
        """Whether many take no longer."""
        return bisect_right(self._latencies, latency + CLOSE) >= _BEATEN

    def add(self, latency: float) -> None:
        """Take one in."""
        insort(self._latencies, latency)


def _alone(fed: FedModule, rate: float) -> float:
    times = np.arange(_ALONE) / rate
    took = served(fed, times) - times
    return float(took[np.isfinite(took)].max(initial=0.0))


_Set = tuple[float, float, tuple[Machines, ...]]


def _few(sets: list[_Set]) -> list[_Set]:
    """The sets (cost, least worst case, machines) that few others beat."""
    kept = _FewBeaten()
    found = []
    for one in sorted(sets, key=itemgetter(0, 1)):
        if not kept.beaten(one[1]):
            kept.add(one[1])
            found.append(one)
    return found


class _Sets:
    """Every set of machines that can do the module's rate and may be paid, less most of those that many others beat."""

    def __init__(self, configs: Sequence[Configuration], allowed: Allowance, steps: CountedSteps) -> None:
        self._configs, self._allowed, self._steps = configs, allowed, steps
        #: A set is in the first layer that does not beat it, so what the last one beats is beaten by all.
        self._layers = [FoundPoints() for _ in range(_BEATEN)]
        self._price = [math.inf] * (len(configs) + 1)
        for n in reversed(range(len(configs))):
            self._price[n] = min(self._price[n + 1], configs[n].price)
        self.found: list[_Set] = []

    def look(
        self,
        rate: float,
        first: int = 0,
        before: tuple[Machines, ...] = (),
        cost: float = 0.0,
        least: float = 0.0,
    ) -> None:
        """Sets that do `rate` with configurations from `first` on, besides the machines `before`, which cost `cost` and
        whose longest duration is `least`. The least worst case of a set is that with all places filled."""
        more, beaten = len(before) + 1 < _MOST_CONFIGURATIONS, self._layers[-1].beats
        for n in range(first, len(self._configs)):
            c = self._configs[n]
            shortest = max(least, c.duration)
            most = self._allowed.at(shortest)
            behind = self._configs[n + 1].unit_cost if more and n + 1 < len(self._configs) else math.inf
            for count in range(1, int((most - cost) / c.price + CLOSE) + 1):
                if not self._steps.take(_STEPS_OF_SET):
                    return
                spent = cost + count * c.price
                if beaten(shortest, spent):
                    break
                missing = max(0.0, rate - count * c.throughput)
                if missing <= rate * SLACK:
                    machines = (*before, Machines(c, count))
                    self._take(_filled(machines), spent, machines)
                if behind < math.inf:
                    rest = spent + max(self._price[n + 1], missing * behind)
                    if rest < most and not beaten(shortest, rest):
                        self.look(missing, n + 1, (*before, Machines(c, count)), spent, shortest)

    def _take(self, latency: float, cost: float, machines: tuple[Machines, ...]) -> None:
        if cost < self._allowed.at(latency) and not self._layers[-1].beats(latency, cost):
            self.found.append((cost, latency, machines))
            next(layer for layer in self._layers if not layer.beats(latency, cost)).add(latency, cost, None)


def _filled(machines: Sequence[Machines]) -> float:
    worst = left = 0.0
    for c, count in reversed(machines):
        left += count * c.throughput
        worst = max(worst, c.duration + c.collected / left)
    return worst


def _feedings(machines: Sequence[Machines], rate: float, longest: float, more: bool) -> Iterator[FedModule]:
    """The ways to feed one set."""
    full = [m.capacity for m in machines]
    spare = max(0.0, sum(full) - rate)
    if len(machines) == 1:
        yield FedModule("POOL", allotted(machines, [rate], rate))
    else:
        least = least_dealt(machines, rate)
        dealt = dealt_rates(machines, rate, least) if least <= longest else None
        if dealt is not None and min(dealt) > 0:
            yield FedModule("DT", allotted(machines, dealt, rate))
        if len(machines) == 2:
            for second in _seconds(machines, rate, _PARTS):
                yield FedModule("POOL", allotted(machines, [rate - second, second], rate))
    for part in _DUMMIES if spare > SLACK * rate else ():
        total = rate + part * spare
        filled = [x * total / sum(full) for x in full]
        for dispatch in ("POOL",) if len(machines) == 1 else ("POOL", "DT"):
            yield FedModule(dispatch, allotted(machines, filled, rate))
    for part in _MORE_DUMMIES if more and len(machines) == 2 and spare > SLACK * rate else ():
        total = rate + part * spare
        for second in _seconds(machines, total, _MORE_PARTS):
            yield FedModule("POOL", allotted(machines, [total - second, second], rate))


def _seconds(machines: Sequence[Machines], rate: float, parts: Sequence[float]) -> list[float]:
    """Rates of the second of two tuples."""
    first, second = machines
    low, high = max(0.0, rate - first.capacity), min(second.capacity, rate)
    found = {low + (high - low) * part for part in parts}
    for p, q in _BATCHES:
        one, other = p * first.configuration.batch, q * second.configuration.batch
        found.add(rate * other / (one + other))
    return sorted(x for x in found if max(low, SLACK * rate) <= x <= min(high, rate * (1 - SLACK)))


def allotted(machines: Sequence[Machines], rates: Sequence[float], rate: float) -> tuple[Allotted, ...]:
    """The machines with the requests they are sent; requests above `rate` are dummies, for the last ones first."""
    dummies = max(0.0, sum(rates) - rate)
    tuples: list[Allotted] = []
    for m, sent in zip(reversed(machines), reversed(rates), strict=True):
        of_it = min(dummies, sent)
        dummies -= of_it
        tuples.insert(0, Allotted(m.configuration, m.number, sent, of_it))
    return tuple(tuples)
