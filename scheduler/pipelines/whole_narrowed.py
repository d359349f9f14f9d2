"""The cheapest plan in time among those whose modules keep strict bounds.

A bound of one module does not know that requests reach it in bursts, so a plan that keeps all bounds may be late. Then
it is narrowed, in each of these ways: one of its modules that has dummies or several tuples gets one tuple without
dummies, or the objective is shortened by what the latest request was late. Plans are replayed from the least cost up.
Modules of one tuple without dummies are in time, so the last plan of all is.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final

from scheduler.pipelines.dispatch import CLOSE
from scheduler.pipelines.replay import FedModule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_machines import Found, cheapest_of, fed, one_tuple_fronts, whole_fronts
from scheduler.pipelines.whole_punctual import lateness

#: To join the fronts takes as long as so many requests in a replay of a module.
_STEPS_OF_JOIN: Final = 150
#: What is taken off the objective besides the lateness, as a part of it.
_MORE: Final = 0.002
#: Times that the objective is shortened.
_MOST_SHORTER: Final = 4

_Narrowed = tuple[float, int, frozenset[int], float, int, Found]


def cheapest_strict(modules: Modules, steps: CountedSteps) -> list[FedModule] | None:
    """How each module is fed in the cheapest plan in time that was found within `steps`, or None."""
    alone = one_tuple_fronts(modules)
    sure = cheapest_of(modules, alone, modules.objective)
    if sure is None:
        return None
    several = whole_fronts(modules, steps, strict=True)
    number = count()
    waiting: list[_Narrowed] = []

    def add(single: frozenset[int], objective: float, shorter: int) -> None:
        steps.take(_STEPS_OF_JOIN * len(alone))
        fronts = [alone[m] if m in single else several[m] for m in range(len(alone))]
        found = cheapest_of(modules, fronts, objective)
        if found is not None:
            heapq.heappush(waiting, (_cost(found), next(number), single, objective, shorter, found))

    seen: set[frozenset[int]] = {frozenset()}
    add(frozenset(), modules.objective, 0)
    while waiting and not steps.spent:
        cost, _, single, objective, shorter, found = heapq.heappop(waiting)
        if cost >= _cost(sure) - CLOSE:
            break
        how = fed(modules, found, objective)[0]
        late = lateness(modules, how, steps)
        if late <= 1:
            return how
        for m, one in enumerate(how):
            wider = single | {m}
            if (len(one.tuples) > 1 or one.tuples[0].dummy) and wider not in seen:
                seen.add(wider)
                add(wider, modules.objective, 0)
        if shorter < _MOST_SHORTER:
            add(single, objective * (1 / late - _MORE), shorter + 1)
    return fed(modules, sure, modules.objective)[0]


def _cost(found: Found) -> float:
    return sum(m.number * m.configuration.price for _, choice in found for m in choice.machines)
