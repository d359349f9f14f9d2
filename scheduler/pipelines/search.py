"""All Pareto points (worst case, cost) of one module under TC: any number of full machines of each configuration, then
a part machine, or dummies that fill one more machine of the last configuration.

Depth first over configurations in the order of dispatch. A branch ends where what is still to be served costs at least
as much as a point that is known, or as the module is allowed, at the latency that the branch has at least.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler.pipelines.bounds import Allowance
from scheduler.pipelines.dispatch import CLOSE, SLACK, Allotted, Configuration
from scheduler.pipelines.pareto import Point
from scheduler.pipelines.steps import CountedSteps


class PlacedTuple(NamedTuple):
    """A tuple on the way: `waiting` is the rate that it and all after it serve."""

    configuration: Configuration
    machines: float
    waiting: float


class FoundPoints:
    """The front so far, as lists that a search can look into quickly. Latencies ascend, costs descend."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.costs: list[float] = []
        self.choices: list[Any] = []

    def beats(self, latency: float, cost: float) -> bool:
        """Whether a known point takes no longer and costs no more."""
        n = bisect_right(self.latencies, latency + 1e-12)
        return n > 0 and self.costs[n - 1] <= cost + CLOSE

    def add(self, latency: float, cost: float, choice: Any) -> None:
        """Take a point in, unless it is beaten; drop those that it beats."""
        if self.beats(latency, cost):
            return
        first = last = bisect_left(self.latencies, latency)
        while last < len(self.costs) and self.costs[last] >= cost - 1e-12:
            last += 1
        self.latencies[first:last] = [latency]
        self.costs[first:last] = [cost]
        self.choices[first:last] = [choice]

    def points(self) -> list[Point]:
        """The front."""
        return list(zip(self.latencies, self.costs, self.choices, strict=True))


class FrontSearch:
    """One search; `found` may begin with points that are known, and has the whole front after the run, up to what
    `allowed` lets the module take and cost, unless the steps ran out."""

    def __init__(
        self,
        configs: Sequence[Configuration],
        rate: float,
        found: FoundPoints,
        allowed: Allowance,
        steps: CountedSteps,
    ) -> None:
        self._rate, self._found, self._allowed, self._steps = rate, found, allowed, steps
        self._longest = allowed.longest
        self._configs = [c for c in configs if c.duration <= self._longest]
        #: Most throughput of one machine of this or a later configuration: dummies are fewer than that.
        self._fill = [0.0] * (len(self._configs) + 1)
        for n in reversed(range(len(self._configs))):
            self._fill[n] = max(self._fill[n + 1], self._configs[n].throughput)

    def _useful(self, latency: float, cost: float) -> bool:
        return cost < self._allowed.at(latency) and not self._found.beats(latency, cost)


class ModuleSearch(FrontSearch):
    """A search with part machines and dummies; choices are tuples of `Allotted`."""

    def run(self) -> None:
        """Search."""
        self._from(0, self._rate, 0.0, (), 0.0, 0.0, -1)

    def _from(
        self,
        first: int,
        left: float,
        cost: float,
        before: tuple[PlacedTuple, ...],
        worst: float,
        least: float,
        own: int,
    ) -> None:
        """Serve `left` with configurations from `first` on; `worst` is the latency of the tuples before without
        dummies, `least` with as many as there may be; `own` has all its full machines already."""
        configs = self._configs
        if not self._steps.take(1 + len(configs) - first):
            return
        last = first
        for n in range(first, len(configs)):
            c = configs[n]
            if self._useful(max(least, c.duration + c.collected / (left + c.throughput)), cost + left * c.unit_cost):
                last = n + 1
        for n in range(first, last):
            c = configs[n]
            here = c.duration + c.collected / left
            machines = math.ceil(left / c.throughput * (1 - SLACK) - SLACK) or 1
            if machines == 1 and max(worst, here) <= self._longest:
                total = cost + left * c.unit_cost
                if self._useful(max(worst, here), total):
                    self._add(max(worst, here), total, (*before, PlacedTuple(c, left / c.throughput, left)), 0.0)
            if n == own:
                continue
            self._filled(c, machines, left, cost, before)
            bound = max(least, c.duration + c.collected / (left + self._fill[n]))
            if bound <= self._longest:
                self._some(n, machines, left, cost, before, max(worst, here), bound)

    def _filled(
        self, c: Configuration, machines: int, left: float, cost: float, before: tuple[PlacedTuple, ...]
    ) -> None:
        """End here with whole machines only; dummies take what is left of the last one."""
        dummy = max(0.0, machines * c.throughput - left)
        total = cost + machines * c.price
        latency = c.duration + c.collected / (left + dummy)
        for placed in before:
            p = placed.configuration
            latency = max(latency, p.duration + p.collected / (placed.waiting + dummy))
        if latency <= self._longest and self._useful(latency, total):
            self._add(latency, total, (*before, PlacedTuple(c, machines, left)), dummy)

    def _some(
        self,
        n: int,
        machines: int,
        left: float,
        cost: float,
        before: tuple[PlacedTuple, ...],
        worst: float,
        bound: float,
    ) -> None:
        """Go on with some full machines of configuration `n` and others after it, the most machines first: with fewer
        the rest only costs more."""
        c = self._configs[n]
        after = self._configs[n + 1].unit_cost if n + 1 < len(self._configs) else math.inf
        for count in range(machines - 1, 0, -1):
            own = count == machines - 1
            rest = left - count * c.throughput
            spent = cost + count * c.price
            if not self._useful(bound, spent + rest * (c.unit_cost if own else after)):
                break
            self._from(
                n if own else n + 1, rest, spent, (*before, PlacedTuple(c, count, left)), worst, bound, n if own else -1
            )
            if not self._steps.take():
                break

    def _add(self, latency: float, cost: float, placed: tuple[PlacedTuple, ...], dummy: float) -> None:
        tuples = []
        for n, (c, machines, waiting) in enumerate(placed):
            after = placed[n + 1].waiting if n + 1 < len(placed) else 0.0
            tuples.append(Allotted(c, machines, waiting - after + (0.0 if after else dummy), 0.0 if after else dummy))
        self._found.add(latency, cost, tuple(tuples))
