"""The tenants' budgets in serving: the plan is made within them, and traffic is reported to who decides on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edge.core.clock import Clock
from edge.core.front_messages import TrafficReport
from edge.core.serving_reasons import ServingReason
from edge.runtime.serving_demand import Offer
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.follow import plan_function, reorganiser_settings
from scheduler.gpulets.pipelines import FitFunction
from scheduler.gpulets.tenant_fit import FitTenants, ServingBudget, owners
from scheduler.joint.split_policies import split_policy

Reported = Callable[[float, TrafficReport], None]


class ServingBudgets:
    """`planning()` are the operator's settings, `send(event)` is for the reorganiser. Without budgets everything is
    planned as without tenants."""

    def __init__(self, planning: Callable[[], ServingPlanning], clock: Clock, send: Callable[[r.Event], None]) -> None:
        self._planning, self._clock, self._send = planning, clock, send
        #: One for each tenant that serves; empty: tenants share nothing.
        self.budgets: tuple[ServingBudget, ...] = ()
        #: The share that serving may take, room to warm partitions included; None: tenants share nothing.
        self.pool: float | None = None
        #: Gets each report of the front.
        self.on_report: Reported = lambda now, report: None

    def fit(self, split: str) -> FitFunction:
        """The way to plan with the split policy of this name, within the budgets. Raises InvalidValue for an unknown
        name."""
        inner = split_policy(split)
        return FitTenants(inner, self.budgets) if self.budgets else inner

    def put(self, budgets: tuple[ServingBudget, ...], pool: float | None) -> None:
        """Plan within these from now on."""
        self.pool = pool
        if budgets == self.budgets:
            return
        self.budgets = budgets
        planning = self._planning()
        self._send(
            r.ServingRulesChanged(
                self._clock.monotonic(), reorganiser_settings(planning), plan_function(planning.policy),
                self.fit(planning.split), ServingReason("budgets"),
            )
        )  # fmt: skip

    def after(self, first: Reported) -> Reported:
        """`first`, then the one that decides on budgets."""

        def reported(now: float, report: TrafficReport) -> None:
            first(now, report)
            self.on_report(now, report)

        return reported


def owners_of(budgets: tuple[ServingBudget, ...], offers: Mapping[str, Offer]) -> dict[str, str]:
    """The tenant of each model and application that is offered."""
    if not budgets:
        return {}
    applications = [o.application for o in offers.values() if o.application is not None]
    models = [o.name for o in offers.values() if o.application is None]
    return owners(budgets, models, applications)
