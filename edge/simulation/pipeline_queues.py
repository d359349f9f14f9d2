"""Random arrivals through a pipeline plan, event by event: how many requests are late?

A module's machines pull from one queue. A batch leaves when a machine is free and the batch is full, or its oldest
request has waited for the module's worst case less the duration. A batch takes as long as a full one. Fan-out is that
of the rates: a source's request makes as many of a module's as the module's rate is times the source's, spread evenly;
they all have to be answered. Plans of one configuration a module only.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Sequence

from edge.core.pipelines import ModulePlan, PipelineModule, PipelinePlan, PipelineProblem


def late_share(problem: PipelineProblem, plan: PipelinePlan, requests: int, seed: int) -> float:
    """The part of `requests` that ends after the objective where they come at random at the rate of `problem`;
    `plan` may be for a higher rate."""
    source = next(m for m in problem.modules if not problem.parents[m.name])
    rng, now = random.Random(seed), 0.0
    arrivals = []
    for _ in range(requests):
        now += rng.expovariate(source.rate)
        arrivals.append(now)
    modules = {m.name: m for m in problem.modules}
    ended: dict[str, list[float]] = {}
    for name in problem.order:
        parents = problem.parents[name]
        begin = [max(times) for times in zip(*(ended[p] for p in parents), strict=True)] if parents else arrivals
        ended[name] = _through(modules[name], plan.modules[name], begin, modules[name].rate / source.rate)
    ends = [max(times) for times in zip(*ended.values(), strict=True)]
    late = sum(1 for begin, end in zip(arrivals, ends, strict=True) if end - begin > problem.slo_s)
    return late / requests


def _through(module: PipelineModule, plan: ModulePlan, begin: Sequence[float], fan_out: float) -> list[float]:
    """When each request of the source leaves the module; one that makes none of the module's passes by."""
    (part,) = plan.tuples
    duration = next(r.duration_s for r in module.profile if (r.batch, r.hardware) == (part.batch, part.hardware))
    owners = sorted((int(n / fan_out + 1e-9) for n in range(int(len(begin) * fan_out))), key=lambda k: begin[k])
    times = [begin[k] for k in owners]
    free = [0.0] * math.ceil(part.machines - 1e-6)
    wait = max(0.0, plan.worst_case_s - duration)
    ends = list(begin)
    first = 0
    while first < len(times):
        full = times[first + part.batch - 1] if first + part.batch <= len(times) else math.inf
        start = max(free[0], min(full, times[first] + wait))
        last = min(bisect_right(times, start), first + part.batch)
        heapq.heapreplace(free, start + duration)
        for owner in owners[first:last]:
            ends[owner] = max(ends[owner], start + duration)
        first = last
    return ends
