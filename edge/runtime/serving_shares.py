"""The shares of the device that served models may take, and those that are held for them. 1.0 is the whole device."""

from __future__ import annotations

import math
from collections.abc import Callable

from edge.core.clock import Clock
from edge.runtime.serving_budgets import ServingBudgets
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.tenant_fit import ServingBudget

#: A smaller change of the share left to serving is ignored.
_CAPACITY_STEP = 0.005
#: Shares are rounded to 4 digits.
_EXACT_STEP = 5e-5


class ServingShares:
    """`budgets` are the tenants'; `planning()` says how the operator wants them planned. `reserve(share)` is called
    before more of the device is taken and after some was given back: cameras have the rest. `send(event)` is for the
    reorganiser."""

    def __init__(
        self,
        clock: Clock,
        send: Callable[[r.Event], None],
        reserve: Callable[[float], None],
        planning: Callable[[], ServingPlanning] = ServingPlanning,
    ) -> None:
        self._clock, self._send, self._reserve, self._planning = clock, send, reserve, planning
        self.budgets = ServingBudgets(planning, clock, send)
        #: The share that cameras leave to serving.
        self.capacity = Capacity(0.0, 0.0)
        #: Held by executors, by the profiler, and by the front beyond its own share.
        self.executors = self.measuring = self.front_more = 0.0

    @property
    def free_percent(self) -> int:
        """The part of the device that serving may take and its executors do not hold; whole percents, rounded down."""
        return int(100 * max(0.0, self.capacity.most - self.executors) + 1e-6)

    def hold(self, share: float) -> None:
        """Executors hold `share` together from now on."""
        self.executors = share
        self._reserve_now()

    def measure(self, share: float) -> None:
        """The profiler holds `share` from now on (0: it has ended); plans make do with the rest."""
        self.measuring = share
        self._reserve_now()
        self._capacity_changed()

    def hold_for_front(self, more: float) -> None:
        """The front takes `more` beyond its own share from now on."""
        if more != self.front_more:
            self.front_more = more
            self._reserve_now()

    def allow(self, most: float, beside: float, planning: ServingPlanning, exact: bool = False) -> None:
        """Cameras leave `most` with each at its floor, `beside` with each at its best. The operator's `max_share`
        bounds both. The reorganiser hears of it unless hardly anything has changed; where it is `exact` (the tenants'
        budgets), of every change: a partition takes a measured share whole or not at all."""
        most = min(max(0.0, most), planning.max_share)
        beside = min(max(0.0, beside), most)
        before, priority = self.capacity, planning.cameras_priority
        step = _EXACT_STEP if exact else _CAPACITY_STEP
        near = abs(most - before.most) < step and abs(beside - before.beside) < step
        if near and priority == before.cameras_priority and before.most > 0:
            return
        self.capacity = Capacity(round(most, 4), round(beside, 4), priority)
        self._capacity_changed()

    def divide(self, budgets: tuple[ServingBudget, ...], pool: float | None) -> None:
        """Plan within these budgets of tenants from now on; `pool` as of `ServingBudgets`."""
        if pool is not None and pool > self.capacity.most > 0:
            # Room that grows is told of first, and room that shrinks after it (`CameraWatch`): so budgets are not cut
            # for want of room only to be planned once more.
            self.allow(pool, pool, self._planning(), exact=True)
        self.budgets.put(budgets, pool)

    def _reserve_now(self) -> None:
        self._reserve(round(self.executors + self.measuring + self.front_more, 6))

    def _capacity_changed(self) -> None:
        self._send(r.ServingCapacityChanged(self._clock.monotonic(), self.capacity.less(self.measuring)))


def front_more(rate: float, share_per_rate: float, front_share: float) -> float:
    """The share that the front needs beyond `front_share` at `rate` requests per second, in steps of 1 %."""
    more = rate * share_per_rate - front_share
    return math.ceil(100 * more - 1e-6) / 100 if more > 0 else 0.0
