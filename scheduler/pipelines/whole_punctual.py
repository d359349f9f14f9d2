"""The cheapest plan of whole machines that is in time when even arrivals are replayed through it.

Plans are tried from the cheapest up, module by module in the order of the graph: a replay of the modules so far ends
most of them early. A plan that is in time in a short replay is replayed at length.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Final

from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import CLOSE
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.replay import FedModule, PipelineReplay
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_search import least_front
from scheduler.pipelines.whole_ways import Way, ways

#: Requests of a short replay, and of the one that decides.
SHORT: Final = 400
REQUESTS: Final = 4000
#: Beginnings of plans of one cost that are tried.
_TRIES: Final = 40
#: Beginning a plan takes as long as so many requests in a replay.
_STEPS_OF_PLAN: Final = 20
#: Lateness is counted above this part of the objective.
_TOLERANCE = 1e-6


def in_time(modules: Modules, fed: Sequence[FedModule], steps: CountedSteps) -> bool:
    """Whether no request is late; `fed` in the order of the problem."""
    return lateness(modules, fed, steps) <= 1


def lateness(modules: Modules, fed: Sequence[FedModule], steps: CountedSteps) -> float:
    """The longest time of a request from end to end, of the objective; above 1, it may be that of a short replay.
    Where every module has one tuple without dummies nothing has to be replayed, and the result is 0: batches are taken
    in the order of arrival, and a request that arrives sooner ends no later, so worst cases add up along a path."""
    if all(len(f.tuples) == 1 and not f.tuples[0].dummy for f in fed):
        return 0.0
    ordered, longest = [fed[m] for m in modules.graph.order], 0.0
    for requests in (SHORT, REQUESTS):
        replay = PipelineReplay(modules.graph, modules.rates, requests, steps)
        longest = replay.worst(ordered) / (modules.objective * (1 + _TOLERANCE))
        if longest > 1:
            break
    return longest


def cheapest_in_time(modules: Modules, most: float, steps: CountedSteps, more: bool = False) -> list[FedModule] | None:
    """How each module is fed in the cheapest plan of at most `most` that is in time, in the order of the problem; None
    where none was found within `steps` (one for each set and each request replayed in a module). `more`: by more ways
    to feed a module."""
    found = _ways(modules, most, steps, more)
    if not all(found):
        return None
    order, limit = modules.graph.order, modules.objective * (1 + _TOLERANCE)
    cheapest = _sums([found[m][0].cost for m in order])
    least = [min(way.latency for way in some) for some in found]
    behind = _behind(modules.graph, [min(_duration(way) for way in some) for some in found])
    short, long = (PipelineReplay(modules.graph, modules.rates, n, steps) for n in (SHORT, REQUESTS))
    waiting: list[tuple[float, int, float, int, tuple[Way, ...]]] = [(0.0, 0, 0.0, 0, ())]
    tried: Counter[float] = Counter()
    pushed = 0
    while waiting and not steps.spent:
        cost, *_, chosen = heapq.heappop(waiting)
        tried[cost] += 1
        if tried[cost] > _TRIES:
            continue
        fed = [way.fed for way in chosen]
        done = len(chosen)
        if done and short.last(fed) + behind[order[done - 1]] > limit:
            continue
        if done == len(order):
            if long.worst(fed) <= limit:
                return [fed[order.index(m)] for m in range(done)]
            continue
        latencies = list(least)
        for m, way in zip(order, chosen, strict=False):
            latencies[m] = way.latency
        spent = sum(way.cost for way in chosen) + cheapest[done + 1]
        for way in found[order[done]]:
            if spent + way.cost > most + CLOSE:
                break
            steps.take(_STEPS_OF_PLAN)
            latencies[order[done]] = way.latency
            longest = modules.graph.longest(latencies)
            if longest <= modules.objective + CLOSE:
                pushed += 1
                # Of one cost the furthest first, then the one with most time left.
                heapq.heappush(waiting, (round(spent + way.cost, 6), -done, longest, pushed, (*chosen, way)))
    return None


def _ways(modules: Modules, most: float, steps: CountedSteps, more: bool) -> list[list[Way]]:
    """Each module's ways, where the others cost and take the least that they can."""
    tree, count = modules.graph.tree, len(modules.rates)
    fronts = [least_front(configs, rate) for configs, rate in zip(modules.configs, modules.rates, strict=True)]
    found = []
    for m in range(count):
        allowed = Allowance(caps(tree, m, fronts, modules.objective, most + CLOSE), most + CLOSE, CLOSE)
        found.append(ways(modules.configs[m], modules.rates[m], allowed, steps, more))
    return found


def _sums(costs: Sequence[float]) -> list[float]:
    """[n]: the sum from `costs[n]` on."""
    return [sum(costs[n:]) for n in range(len(costs) + 1)]


def _duration(way: Way) -> float:
    """The longest of its batches: no request of that tuple takes less."""
    return max(t.configuration.duration for t in way.fed.tuples)


def _behind(graph: PipelineGraph, durations: Sequence[float]) -> list[float]:
    """The least time that the modules behind each module take."""
    behind = [0.0] * len(durations)
    for m in reversed(graph.order):
        behind[m] = max((durations[c] + behind[c] for c in graph.children[m]), default=0.0)
    return behind
