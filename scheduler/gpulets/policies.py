"""Serving policies behind one protocol, by name; and the smallest plan that a policy finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from scheduler.gpulets.curves import planned
from scheduler.gpulets.elastic import ElasticNoInterferencePolicy, ElasticPolicy
from scheduler.gpulets.ideal import IdealPolicy
from scheduler.gpulets.mosaic import Mosaic
from scheduler.gpulets.self_tuning import GuidedSelfTuningPolicy
from scheduler.gpulets.squishy import SquishyPolicy


class ServingPolicy(Protocol):
    """Plans gpu-lets: a pure function of the problem and the device table, the same answer every time."""

    @property
    def name(self) -> str:
        """The name that the plan carries."""

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """The plan, schedulable only if `scheduler.gpulets.verdict` finds no fault with interference; else the
        closest one that was found, with the reasons. Models of rate 0 get nothing. `decision_seconds` is left None.

        Raises InvalidValue for a model that the table does not have."""


class FirstThatHolds:
    """The plan of `first`; where it finds none, that of the first of `others` that does, under the name of `first`."""

    def __init__(self, first: ServingPolicy, *others: ServingPolicy) -> None:
        self._first, self._others = first, others

    @property
    def name(self) -> str:
        """That of `first`."""
        return self._first.name

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """See ServingPolicy."""
        problem = planned(problem)
        plan = self._first.plan(problem, table)
        for other in self._others if not plan.schedulable else ():
            found = other.plan(problem, table)
            if found.schedulable:
                words = f"{self.name} found no plan, {other.name} did"
                return replace(found, policy=self.name, reasons=(words, *found.reasons))
        return plan


class NoDearerThan:
    """The plan of `first`; where that of `other` takes less share on no more devices, that one under the name of
    `first`."""

    def __init__(self, first: ServingPolicy, other: ServingPolicy) -> None:
        self._first, self._other = first, other

    @property
    def name(self) -> str:
        """That of `first`."""
        return self._first.name

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """See ServingPolicy."""
        plan = self._first.plan(problem, table)
        found = self._other.plan(problem, table) if plan.schedulable else plan
        less = round(found.total_share, 6) < round(plan.total_share, 6)
        if found.schedulable and less and len(_used(found)) <= len(_used(plan)):
            words = f"{self._other.name} takes less share than {self.name} found"
            return replace(found, policy=self.name, reasons=(words, *found.reasons))
        return plan


#: Steps of `ideal` when it is asked because `mosaic` found nothing.
_SECOND_LOOK = 10_000

DEFAULT_SERVING_POLICY = "mosaic"

SERVING_POLICIES: Mapping[str, Callable[[], ServingPolicy]] = MappingProxyType(
    {
        # Its search does not prove that there is no plan, or no smaller one; it can schedule all that the others can.
        "mosaic": lambda: FirstThatHolds(
            NoDearerThan(Mosaic(), ElasticPolicy()),
            ElasticPolicy(),
            SquishyPolicy(),
            GuidedSelfTuningPolicy(),
            IdealPolicy(_SECOND_LOOK),
        ),
        "elastic": ElasticPolicy,
        "elastic-no-interference": ElasticNoInterferencePolicy,
        "squishy": SquishyPolicy,
        "guided-self-tuning": GuidedSelfTuningPolicy,
        "ideal": IdealPolicy,
    }
)


def serving_policy(name: str) -> ServingPolicy:
    """The policy called `name`. Raises InvalidValue for an unknown name."""
    if name not in SERVING_POLICIES:
        raise InvalidValue("policy", name, "one of " + ", ".join(SERVING_POLICIES))
    return SERVING_POLICIES[name]()


def smallest_plan(problem: ServingProblem, table: DeviceTable, policy: ServingPolicy) -> ServingPlan:
    """The plan with the least total share that `policy` finds on at most the problem's capacity of each device.

    Plans on ever smaller capacities: first on the least that could do at all, then between that and the least that
    did, halving (a policy may hold on less where it failed on more, so this is a search, not a proof). On one device
    at most about seven plans; a problem that is not schedulable on the whole capacity is answered by that plan.

    Raises InvalidValue for a model that the table does not have."""
    best = policy.plan(problem, table)
    if not best.schedulable or not best.gpulets:
        return best
    if problem.devices == 1 and policy.name == Mosaic.name:
        return best  # it takes the least share by itself
    step = share_step(problem, table)
    low = max(step, least_percent(problem, table))
    first = True
    while True:
        # Devices are alike: the fullest one tells what capacity the best plan needed.
        high = max(_used(best)) - step
        if high < low:
            return best
        capacity = low if first else low + (high - low) // (2 * step) * step
        first = False
        found = policy.plan(replace(problem, capacity=capacity / 100), table)
        if found.schedulable and round(found.total_share, 6) < round(best.total_share, 6):
            best = found
        else:
            low = capacity + step


def share_step(problem: ServingProblem, table: DeviceTable) -> int:
    """The largest step in percent of which all measured shares of the problem's models are multiples."""
    step = 0
    for model in problem.models:
        for share in table.latency_ms.get(model.name, {}):
            step = _common(step, share)
    return max(1, step)


def least_percent(problem: ServingProblem, table: DeviceTable) -> int:
    """No plan holds on less than this of each device (percent, rounded up to a measured share's step).

    Each request of a model costs at least the smallest share x time / batch that its SLO allows, and each model needs
    at least the smallest share at which it holds at all; interference only adds to it.
    """
    work, largest = 0.0, 0
    for model in problem.models:
        if model.rate <= 0:
            continue
        costs, shares = [], []
        for share, row in table.latency_ms[model.name].items():
            held = [t / (n + 1) for n, t in enumerate(row) if 2 * t <= model.slo_ms]
            if held:
                costs.append(share * min(held))
                shares.append(share)
        work += model.rate / 1000 * min(costs, default=0.0)
        largest = max(largest, min(shares, default=0))
    step = share_step(problem, table)
    least = max(work / problem.devices, float(largest))
    return int(-(-(least - 1e-6) // step) * step)


def _common(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _used(plan: ServingPlan) -> list[int]:
    """Percent used of each device that is used."""
    used: dict[int, int] = {}
    for gpulet in plan.gpulets:
        used[gpulet.device] = used.get(gpulet.device, 0) + gpulet.percent
    return list(used.values())
