"""The model that all pipeline planners share: configurations, tuples, and the worst case of each kind of dispatch.

A tuple collects a batch at a rate w that the dispatch fixes; its worst case is duration + batch / w, or the duration
alone for batch 1. TC and POOL: w is the rate of this tuple and of all after it (the best throughput per price first).
DT: the rate of this tuple. RR: the rate of one machine. (Harpagon, section III-B; docs/pipelines.md.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from edge.core.pipelines import ModulePlan, PipelineModule, PipelineTuple

#: Relative slack of comparisons of rates and machines.
SLACK: Final = 1e-9
#: Slack of comparisons of times (seconds) and costs; the plans' checker allows 1e-6.
CLOSE: Final = 1e-9


class Configuration(NamedTuple):
    """One row of a profile: `throughput` requests/s of one machine, `unit_cost` its price per request/s, `collected`
    the requests that it waits for (0 for batch 1, which waits for none)."""

    batch: int
    duration: float
    hardware: str
    price: float
    throughput: float
    unit_cost: float
    collected: int


class Allotted(NamedTuple):
    """A tuple: `machines` of one configuration are sent `rate` requests/s, `dummy` of them dummies."""

    configuration: Configuration
    machines: float
    rate: float
    dummy: float = 0.0


Tuples = tuple[Allotted, ...]


def configurations(module: PipelineModule) -> tuple[Configuration, ...]:
    """The module's profile, the least price per request/s first, the faster first where that is equal."""
    rows = [
        Configuration(
            row.batch,
            row.duration_s,
            row.hardware,
            row.price,
            row.batch / row.duration_s,
            row.price * row.duration_s / row.batch,
            row.batch if row.batch > 1 else 0,
        )
        for row in module.profile
    ]
    return tuple(sorted(rows, key=lambda c: (c.unit_cost, c.duration)))


def whole_machines(rate: float, throughput: float) -> int:
    """Machines that are full at `rate`."""
    return math.floor(rate / throughput * (1 + SLACK) + SLACK)


def _batch_aware(c: Configuration, rate: float) -> float:
    return c.duration + c.collected / rate


def _throughput(c: Configuration, rate: float) -> float:
    full = whole_machines(rate, c.throughput)
    return c.duration + c.collected / (full * c.throughput if full else rate)


def _round_robin(c: Configuration, rate: float) -> float:
    # A full machine of batch 1 is counted with 2 d as well: the next request may come while it is busy.
    if rate >= c.throughput * (1 - SLACK):
        return 2 * c.duration
    return c.duration + c.collected / rate


#: The worst case of the next tuple of a configuration where `rate` is still to be served, by dispatch.
NEXT_WORST_CASE: Final[dict[str, Callable[[Configuration, float], float]]] = {
    "TC": _batch_aware,
    "POOL": _batch_aware,
    "DT": _throughput,
    "RR": _round_robin,
}


def worst_case(tuples: Sequence[Allotted], dispatch: str) -> float:
    """The worst case in seconds of a module: that of its worst tuple."""
    worst, left = 0.0, sum(t.rate for t in tuples)
    for c, machines, rate, _ in tuples:
        if dispatch in ("TC", "POOL"):
            collecting = c.collected / left
        elif dispatch == "DT":
            collecting = c.collected / rate
        else:
            collecting = c.collected * math.ceil(machines - SLACK) / rate
        worst = max(worst, c.duration + collecting)
        left -= rate
    return worst


def cost(tuples: Sequence[Allotted]) -> float:
    """The sum of price x machines."""
    return sum(t.configuration.price * t.machines for t in tuples)


def whole_cost(tuples: Sequence[Allotted]) -> float:
    """The same with each tuple's machines rounded up."""
    return sum(t.configuration.price * math.ceil(t.machines - 1e-6) for t in tuples)


def module_plan(tuples: Sequence[Allotted], dispatch: str) -> ModulePlan:
    """The tuples as a module's plan; its budget is its worst case."""
    worst = worst_case(tuples, dispatch)
    parts = (
        PipelineTuple(t.configuration.batch, t.configuration.hardware, t.machines, t.rate, t.dummy) for t in tuples
    )
    return ModulePlan(dispatch, worst, worst, tuple(parts))
