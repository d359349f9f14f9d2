"""The cheapest plan in time among those whose modules keep bounds of their own.

A bound of one module does not know that requests reach it in bursts, so a plan that keeps all bounds may be late. Then
it is narrowed, in each of these ways: one of its modules gets only what keeps a stricter bound, up to one tuple without
dummies; or the objective is shortened by what the latest request was late. Plans are replayed from the least cost up.
Modules of one tuple without dummies are in time, so the last plan of all is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import count
from typing import Final

from scheduler.pipelines.dispatch import CLOSE
from scheduler.pipelines.pareto import ParetoFront
from scheduler.pipelines.replay import FedModule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole_machines import Found, cheapest_of, fed, one_tuple_fronts, whole_fronts
from scheduler.pipelines.whole_punctual import lateness

#: To join the fronts takes as long as so many requests in a replay of a module, for each module.
_STEPS_OF_JOIN: Final = 150
#: The part of the objective that is taken off it besides the lateness.
_MORE: Final = 0.002
#: Times that the objective is shortened.
_MOST_SHORTER: Final = 4
#: The fronts of a module: by the rules, with strict bounds, of one tuple without dummies.
_STRICT, _ALONE = 1, 2


class _Narrowing:
    """The plans that wait to be replayed, the least cost first."""

    def __init__(self, modules: Modules, fronts: Sequence[Sequence[ParetoFront]], steps: CountedSteps) -> None:
        """`fronts[kind][m]`: see `_STRICT` and `_ALONE`."""
        self._modules, self._fronts, self._steps = modules, fronts, steps
        self._number = count()
        self._waiting: list[tuple[float, int, tuple[int, ...], float, int, Found]] = []
        self._seen: set[tuple[int, ...]] = set()

    def cheapest(self, most: float) -> list[FedModule] | None:
        """How each module is fed in the cheapest plan in time below `most` that was found."""
        modules = self._modules
        self._wide((0,) * len(modules.rates))
        while self._waiting and not self._steps.spent:
            cost, _, kinds, objective, shorter, found = heapq.heappop(self._waiting)
            if cost >= most - CLOSE:
                break
            how = fed(modules, found, objective)[0]
            late = lateness(modules, how, self._steps)
            if late <= 1:
                return how
            for m, (one, (_, choice)) in enumerate(zip(how, found, strict=True)):
                if len(one.tuples) > 1 or one.tuples[0].dummy:
                    kind = _ALONE if choice.strict else _STRICT
                    self._wide((*kinds[:m], kind, *kinds[m + 1 :]))
            if shorter < _MOST_SHORTER:
                self._add(kinds, objective * (1 / late - _MORE), shorter + 1)
        return None

    def _wide(self, kinds: tuple[int, ...]) -> None:
        if kinds not in self._seen:
            self._seen.add(kinds)
            self._add(kinds, self._modules.objective, 0)

    def _add(self, kinds: tuple[int, ...], objective: float, shorter: int) -> None:
        self._steps.take(_STEPS_OF_JOIN * len(kinds))
        found = cheapest_of(self._modules, [self._fronts[kind][m] for m, kind in enumerate(kinds)], objective)
        if found is not None:
            heapq.heappush(self._waiting, (_cost(found), next(self._number), kinds, objective, shorter, found))


def cheapest_narrowed(modules: Modules, fronts: Sequence[ParetoFront], steps: CountedSteps) -> list[FedModule] | None:
    """How each module is fed in the cheapest plan in time that was found within `steps`, or None; `fronts` are the
    modules' by the rules."""
    alone = one_tuple_fronts(modules)
    sure = cheapest_of(modules, alone, modules.objective)
    most = math.inf if sure is None else _cost(sure)
    strict = whole_fronts(modules, steps, strict=True)
    found = _Narrowing(modules, (fronts, strict, alone), steps).cheapest(most)
    return found if found is not None or sure is None else fed(modules, sure, modules.objective)[0]


def _cost(found: Found) -> float:
    return sum(m.number * m.configuration.price for _, choice in found for m in choice.machines)
