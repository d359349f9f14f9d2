"""The serving plan that is followed: the operator's settings as the reorganiser takes them."""

from __future__ import annotations

from typing import Protocol

from scheduler.gpulets.fitting import PlanFunction
from scheduler.gpulets.policies import serving_policy, smallest_plan
from scheduler.gpulets.rates import RateSettings
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings


class PlanningRules(Protocol):
    """The operator's settings that decide when to plan anew and for which rates. Times are in seconds."""

    @property
    def half_life_s(self) -> float:
        """Half-life of the moving average of rates that fall."""

    @property
    def rise_half_life_s(self) -> float:
        """Half-life of the moving average of rates that rise."""

    @property
    def headroom(self) -> float:
        """Factor by which rates are planned higher."""

    @property
    def grow_dwell_s(self) -> float:
        """Least time before a plan for more requests."""

    @property
    def shrink_dwell_s(self) -> float:
        """Least time before a plan for fewer requests."""


def plan_function(policy: str) -> PlanFunction:
    """The smallest plan that the policy of this name finds. Raises InvalidValue for an unknown name."""
    chosen = serving_policy(policy)
    return lambda problem, table: smallest_plan(problem, table, chosen)


def reorganiser_settings(rules: PlanningRules) -> ReorganiserSettings:
    """The operator's settings as the reorganiser takes them."""
    return ReorganiserSettings(
        rates=RateSettings(
            half_life_s=rules.half_life_s,
            rise_half_life_s=rules.rise_half_life_s,
            headroom=rules.headroom,
        ),
        grow_dwell_s=rules.grow_dwell_s,
        shrink_dwell_s=rules.shrink_dwell_s,
    )
