"""The plan that is followed: a policy's own, within limits, in shares that can be granted, with every camera answering.

The appliance, its what-if plans, the simulator and `magpie plan replay` all call this. `magpie plan window` shows what
a policy makes alone, and with `--followed` this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.shares import ShareCaps
from edge.core.window import WindowPlan, WindowProblem
from scheduler.bounded import BoundedPolicy, Limits
from scheduler.granted import grant
from scheduler.policies import WindowPolicy, window_policy
from scheduler.serving_floor import keep_serving
from scheduler.tenant_windows import by_tenant
from scheduler.window_planning import PlanFunction

#: Retrainings that gain less than half a point are not worth their noise; a plan in force stays for a second.
LIMITS = Limits(min_gain=0.005, improve_by=0.002, dwell_s=1.0)


class GrantedPolicy:
    """A policy whose plans are in shares that can be granted, with every camera answering; itself a window policy."""

    def __init__(self, policy: WindowPolicy, caps: ShareCaps) -> None:
        self._policy, self._caps = policy, caps

    @property
    def name(self) -> str:
        """The wrapped policy's name."""
        return self._policy.name

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The policy's plan as it can be granted."""
        plan = grant(problem, self._policy.plan(problem), self._caps)
        return keep_serving(replace(problem, share_step=self._caps.step or problem.share_step), plan)


def followed_policy(
    name: str, caps: ShareCaps, policies: Callable[[str], WindowPolicy] = window_policy
) -> BoundedPolicy:
    """The policy `name` within `LIMITS`, as a device with `caps` can grant it. Raises InvalidValue for an unknown
    policy."""
    return BoundedPolicy(GrantedPolicy(policies(name), caps), LIMITS)


def planner(
    caps: ShareCaps,
    seconds: Callable[[], float] = lambda: 0.0,
    policies: Callable[[str], WindowPolicy] = window_policy,
) -> PlanFunction:
    """The planning function of a device with `caps`: a policy by its name, within `LIMITS`, as it can be granted.
    `seconds()` is a running time, for how long the decision took. Raises InvalidValue for an unknown policy."""

    def plan(request: PlanRequest) -> WindowPlan:
        if request.budgets:
            return by_tenant(request, plan)
        began = seconds()
        policy = followed_policy(request.policy, caps, policies)
        followed = policy.replan(request.problem, request.current, request.age_s).plan
        return replace(followed, decision_seconds=seconds() - began)

    return plan


def made_again(recorded: WindowProblem, basis: PlanBasis) -> WindowPlan:
    """A recorded plan, from its problem and its basis; all but `decision_seconds` is as it was then."""
    return planner(basis.caps)(basis.request(recorded))
