"""Points (worst case, cost) of one module whose machines are paid whole: a number of machines of each of some
configurations, and how they are fed.

Each set of machines is judged twice. Strictly: the worst case that even arrivals never exceed. By the formula of TC
with all places of all machines filled by dummies, which a later tuple may exceed (docs/pipelines.md); such a point is
made a trifle dearer, so a strict one of the same price comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scheduler.pipelines.bounds import Allowance
from scheduler.pipelines.dispatch import SLACK, Configuration
from scheduler.pipelines.pareto import Point, pareto
from scheduler.pipelines.search import FoundPoints, FrontSearch
from scheduler.pipelines.steps import CountedSteps

#: The extra cost of a point by the formula, in the search only.
LAX = 1e-6
_HALVINGS = 24


class Machines(NamedTuple):
    """`number` whole machines of one configuration."""

    configuration: Configuration
    number: int

    @property
    def capacity(self) -> float:
        """Requests per second that they can do."""
        return self.number * self.configuration.throughput


class Fed(NamedTuple):
    """Machines in the order of dispatch, and how they are fed: "POOL" or "DT"; `strict` or by the formula."""

    machines: tuple[Machines, ...]
    dispatch: str
    strict: bool


def pool_rates(machines: Sequence[Machines], rate: float) -> list[float]:
    """Requests to each: the last ones are full, the first takes the rest, so each batch is collected at the highest
    rate that there is without dummies."""
    rates = []
    left = rate
    for m in reversed(machines[1:]):
        rates.append(min(m.capacity, left))
        left -= rates[-1]
    return [left, *reversed(rates)]


def strict_pool(machines: Sequence[Machines], rates: Sequence[float], dummies: bool) -> float:
    """The worst case with even arrivals: while an earlier tuple takes a batch in a row, a later one gets nothing. A
    stream with dummies is not quite even: one place more."""
    worst = waited = 0.0
    left = sum(rates)
    for m, rate in zip(machines, rates, strict=True):
        if left <= 0:
            return math.inf
        c = m.configuration
        worst = max(worst, c.duration + ((c.collected + dummies) / left + waited if c.collected else 0.0))
        waited += c.batch / left
        left -= rate
    return worst


def dealt_rates(machines: Sequence[Machines], rate: float, worst: float) -> list[float] | None:
    """Requests to each where they are dealt one by one and each collects for itself within `worst`, or None."""
    least = []
    for m in machines:
        c = m.configuration
        if worst <= c.duration:
            return None
        least.append(c.collected / (worst - c.duration))
        if least[-1] > m.capacity * (1 + SLACK):
            return None
    room = [m.capacity - x for m, x in zip(machines, least, strict=True)]
    left = rate - sum(least)
    if left < -SLACK * rate or sum(room) <= 0:
        return None
    return [x + left * r / sum(room) for x, r in zip(least, room, strict=True)]


def least_dealt(machines: Sequence[Machines], rate: float) -> float:
    """The least worst case where requests are dealt one by one."""
    low = max(m.configuration.duration + m.configuration.collected / m.capacity for m in machines)
    if dealt_rates(machines, rate, low * (1 + SLACK)) is not None:
        return low * (1 + SLACK)
    high = max(m.configuration.duration for m in machines) + sum(m.configuration.collected for m in machines) / rate
    if dealt_rates(machines, rate, max(low, high)) is None:
        return math.inf
    high = max(low, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if dealt_rates(machines, rate, middle) is None:
            low = middle
        else:
            high = middle
    return high


def least_front(configs: Sequence[Configuration], rate: float) -> list[Point]:
    """A lower bound of the module's front: parts of machines, at least the price of one."""
    return pareto(
        (c.duration + c.collected / (rate + c.throughput), max(rate * c.unit_cost, c.price), None) for c in configs
    )


class WholeSearch(FrontSearch):
    """A search with whole machines only; choices are `Fed`. `strict`: none by the formula."""

    def __init__(
        self,
        configs: Sequence[Configuration],
        rate: float,
        found: FoundPoints,
        allowed: Allowance,
        steps: CountedSteps,
        strict: bool = False,
    ) -> None:
        super().__init__(configs, rate, found, allowed, steps)
        self._strict = strict
        #: Least price of one machine of this or a later configuration.
        self._price = [math.inf] * (len(self._configs) + 1)
        for n in reversed(range(len(self._configs))):
            self._price[n] = min(self._price[n + 1], self._configs[n].price)

    def run(self) -> None:
        """Search."""
        self._from(0, self._rate, 0.0, (), 0.0)

    def _from(self, first: int, left: float, cost: float, before: tuple[Machines, ...], least: float) -> None:
        """Serve `left` with configurations from `first` on; no plan with the machines `before` is faster than
        `least`."""
        configs = self._configs
        if not self._steps.take(1 + len(configs) - first):
            return
        last = first
        for n in range(first, len(configs)):
            c = configs[n]
            bound = max(least, c.duration + c.collected / (left + c.throughput))
            if self._useful(bound, cost + max(left * c.unit_cost, self._price[n])):
                last = n + 1
        for n in range(first, last):
            c = configs[n]
            count = math.ceil(left / c.throughput * (1 - SLACK) - SLACK) or 1
            self._end((*before, Machines(c, count)), cost + count * c.price)
            bound = max(least, c.duration + c.collected / (left + self._fill[n]))
            if bound > self._longest or n + 1 == len(configs):
                continue
            for fewer in range(count - 1, 0, -1):
                rest, spent = left - fewer * c.throughput, cost + fewer * c.price
                if not self._useful(bound, spent + rest * configs[n + 1].unit_cost):
                    break
                if self._useful(bound, spent + self._price[n + 1]):
                    self._from(n + 1, rest, spent, (*before, Machines(c, fewer)), bound)
                if not self._steps.take():
                    return

    def _end(self, machines: tuple[Machines, ...], cost: float) -> None:
        """Take in what this set of machines can do."""
        full = [m.capacity for m in machines]
        formula, left = 0.0, sum(full)
        for m in machines:
            formula = max(formula, m.configuration.duration + m.configuration.collected / left)
            left -= m.capacity
        if formula > self._longest or not self._useful(formula, cost):
            return
        rates = pool_rates(machines, self._rate)
        self._offer(strict_pool(machines, rates, False), cost, Fed(machines, "POOL", True))
        self._offer(strict_pool(machines, full, True), cost, Fed(machines, "POOL", True))
        if len(machines) > 1 and self._useful(formula, cost):
            self._offer(least_dealt(machines, self._rate), cost, Fed(machines, "DT", True))
        if not self._strict:
            self._offer(formula, cost * (1 + LAX), Fed(machines, "POOL", False))

    def _offer(self, latency: float, cost: float, choice: Fed) -> None:
        if latency <= self._longest and self._useful(latency, cost):
            self._found.add(latency, cost, choice)
