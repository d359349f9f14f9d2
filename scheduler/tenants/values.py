"""Values of the tenants' decision: the problem, what was measured, the state and the answer.

Allocations are in the units of the resource that is shared. Performance is a part (at most 1) for the metrics
`within_slo` and `accuracy`, a rate for `throughput`. For a pipeline, the tenants are its services, and the one goal is
the 99th percentile of its latency in ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from edge.core.tenants import TENANT_METRICS, TENANT_UTILITIES, UTILITY_POWERS, TenantUtility
from scheduler.tenants.grid import by_weight
from scheduler.tenants.shapes import Ending, Floats

SHARING_PROTOCOL = "tenant-arena/1"
METRICS = (*TENANT_METRICS, "throughput")
_ENDINGS: Mapping[str, Ending] = {"within_slo": "part", "accuracy": "accuracy", "throughput": "multiple"}
KINDS = ("tenants", "pipeline")
MOST_TENANTS = 200
MOST_STEPS = 5_000

#: Where a tenant's share comes from: its learned curve; its declared demand; its entitlement, as nothing is known; held
#: as it was, as nothing was measured in the last interval.
Source = Literal["learned", "declared", "entitlement", "held"]
#: Where the demand of a tenant that was not measured comes from: a profile, the use of its share, its declaration.
ClaimSource = Literal["profiled", "proxy", "declared"]


@dataclass(frozen=True)
class TenantGoal:
    """The performance wanted, and how utility falls below it: min(1, performance / slo), its root or its square."""

    metric: str
    slo: float
    utility: TenantUtility = "linear"

    def __post_init__(self) -> None:
        checks.one_of("goal.metric", self.metric, METRICS)
        checks.one_of("goal.utility", self.utility, TENANT_UTILITIES)
        checks.in_range("goal.slo", self.slo, 0.0, 1e12, low_open=True)

    @property
    def capped(self) -> bool:
        """Whether performance is a part, at most 1."""
        return self.ending != "multiple"

    @property
    def ending(self) -> Ending:
        """The performance that its curve may end at."""
        return _ENDINGS[self.metric]

    def utility_of(self, performance: Floats) -> Floats:
        """Utility, 0 to 1, of performance in the metric's unit."""
        part = np.clip(np.asarray(performance, dtype=float) / self.slo, 0.0, 1.0)
        return np.asarray(part ** UTILITY_POWERS[self.utility], dtype=np.float64)


@dataclass(frozen=True)
class Claim:
    """A demand in units that was not learned, and where it comes from."""

    source: ClaimSource
    demand: float


@dataclass(frozen=True)
class ProblemTenant:
    """A tenant of a problem: `weight` is its part of the entitlements; `feedback` False: nothing is measured, and
    `declared_demand` (units) stands in where it is given; `load_matters` False: its load means nothing.
    It never has less than `floor` units. `profiled_demand` and `proxy_demand` (units): a profile says so, or the use of
    what it has, which count before anything was measured. `usable`: units that it can use, ascending; between two of
    them it does no better than with the lower one (empty: it can use any)."""

    id: str
    goal: TenantGoal
    weight: float = 1.0
    load_matters: bool = True
    feedback: bool = True
    declared_demand: float | None = None
    floor: float = 0.0
    profiled_demand: float | None = None
    proxy_demand: float | None = None
    usable: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.in_range(f"tenants.{self.id}.weight", self.weight, 0.0, 1e12)
        checks.in_range(f"tenants.{self.id}.floor", self.floor, 0.0, 1e12)
        if self.declared_demand is not None:
            checks.in_range(f"tenants.{self.id}.declared_demand", self.declared_demand, 0.0, 1e12)

    @property
    def claim(self) -> Claim | None:
        """The demand that stands in while nothing was measured: by a profile, else by the use, else as declared."""
        claims: tuple[tuple[ClaimSource, float | None], ...] = (
            ("profiled", self.profiled_demand),
            ("proxy", self.proxy_demand),
            ("declared", self.declared_demand),
        )
        return next((Claim(source, demand) for source, demand in claims if demand is not None), None)


@dataclass(frozen=True)
class SharingProblem:
    """`units` of a resource, given in multiples of `granularity`, shared anew every `interval_s`.

    Raises InvalidValue for entitlements that sum to nothing, an id given twice, more steps than can be planned."""

    name: str
    units: float
    granularity: float
    tenants: tuple[ProblemTenant, ...]
    kind: str = "tenants"
    interval_s: float = 10.0
    reports_per_interval: int = 1
    p99_goal_ms: float | None = None

    def __post_init__(self) -> None:
        checks.in_range("units", self.units, 0.0, 1e12, low_open=True)
        checks.in_range("granularity", self.granularity, 0.0, self.units, low_open=True)
        if self.units / self.granularity > MOST_STEPS:
            raise InvalidValue("granularity", self.granularity, f"at least 1/{MOST_STEPS} of the units")
        checks.one_of("kind", self.kind, KINDS)
        checks.positive("interval_s", self.interval_s)
        checks.in_range("reports_per_interval", self.reports_per_interval, 1, 10_000)
        checks.not_empty("tenants", self.tenants)
        if len(self.tenants) > MOST_TENANTS:
            raise InvalidValue("tenants", f"{len(self.tenants)} tenants", f"at most {MOST_TENANTS}")
        checks.unique("tenants", [tenant.id for tenant in self.tenants])
        if not sum(tenant.weight for tenant in self.tenants) > 0:
            raise InvalidValue("tenants", "entitlements that sum to 0", "at least one weight above 0")
        if sum(self.floors) > self.steps:
            raise InvalidValue("tenants", f"floors of {sum(self.floors)} steps", f"at most {self.steps} steps in all")

    @property
    def steps(self) -> int:
        """How many multiples of the granularity there are."""
        return math.floor(self.units / self.granularity + 1e-9)

    @property
    def entitlements(self) -> Floats:
        """Units that each tenant is entitled to."""
        return np.array(by_weight([tenant.weight for tenant in self.tenants], self.units), dtype=np.float64)

    @property
    def floors(self) -> tuple[int, ...]:
        """Steps that each tenant has at least."""
        return tuple(math.ceil(tenant.floor / self.granularity - 1e-9) for tenant in self.tenants)

    @property
    def ids(self) -> tuple[str, ...]:
        """The tenants' ids, in order."""
        return tuple(tenant.id for tenant in self.tenants)

    @staticmethod
    def from_json(value: Any) -> SharingProblem:
        """Read a "tenant-arena/1" problem. Raises InvalidValue with the field's path."""
        value = mapping(value, "problem")
        protocol = value.get("protocol", value.get("format", SHARING_PROTOCOL))
        checks.one_of("protocol", protocol, (SHARING_PROTOCOL, "tenant-problem/1"))
        kind = value.get("kind", "tenants")
        checks.one_of("kind", kind, KINDS)
        goal_ms = None
        if kind == "pipeline":
            goal = mapping(required(value, "goal", ""), "goal")
            goal_ms = float(number(goal, "slo", "goal"))
            checks.positive("goal.slo", goal_ms)
            services = sequence(_services(value), "services")
            tenants = tuple(
                ProblemTenant(_id(s, f"services[{n}]"), TenantGoal("throughput", 1.0)) for n, s in enumerate(services)
            )
        else:
            given = sequence(required(value, "tenants", ""), "tenants")
            tenants = tuple(_tenant(entry, f"tenants[{n}]") for n, entry in enumerate(given))
        return SharingProblem(
            str(value.get("name", "")),
            float(number(value, "units", "")),
            float(number(value, "granularity", "")) if value.get("granularity") is not None else _finest(value),
            tenants,
            kind,
            float(number(value, "interval_s", "")) if "interval_s" in value else 10.0,
            int(number(value, "reports_per_interval", "")) if "reports_per_interval" in value else 1,
            goal_ms,
        )


@dataclass(frozen=True)
class IntervalReport:
    """`performance` measured for `seconds` under `load` with `allocation` units."""

    load: float
    performance: float
    allocation: float
    seconds: float = 0.0


@dataclass(frozen=True)
class SharingFeedback:
    """The reports of the interval `round` by tenant (for a pipeline under the id ""), `elapsed_s` after the start.

    `dropped` says which reports were not usable, by tenant."""

    round: int
    elapsed_s: float
    reports: Mapping[str, tuple[IntervalReport, ...]]
    services: tuple[Mapping[str, float], ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShareReason:
    """Why a tenant has its share: where it comes from, the utility expected with it (None: unknown), its demand in
    units (None: unknown, or no share reaches the goal), the reports that it was learned from, how often a change was
    noticed, and the greatest utility that any share can have (below 1: the goal is out of reach)."""

    source: Source
    utility: float | None = None
    demand: float | None = None
    reports: int = 0
    changes: int = 0
    best_utility: float | None = None


@dataclass(frozen=True)
class SharingState:
    """Everything that a policy knows: JSON values only, so that it survives a restart. `held` are steps of the
    granularity."""

    policy: str
    round: int
    elapsed_s: float
    held: tuple[int, ...]
    seed: int
    memory: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Write the state."""
        return {
            "format": "sharing-state/1",
            "policy": self.policy,
            "round": self.round,
            "elapsed_s": self.elapsed_s,
            "held": list(self.held),
            "seed": self.seed,
            "memory": dict(self.memory),
        }

    @staticmethod
    def from_json(value: Any) -> SharingState:
        """Read the state. Raises InvalidValue with the field's path."""
        value = mapping(value, "state")
        checks.one_of("format", value.get("format"), ("sharing-state/1",))
        held = sequence(required(value, "held", ""), "held")
        return SharingState(
            str(required(value, "policy", "")),
            int(number(value, "round", "")),
            float(number(value, "elapsed_s", "")),
            tuple(int(number({"held": h}, "held", "")) for h in held),
            int(number(value, "seed", "")),
            mapping(required(value, "memory", ""), "memory"),
        )


@dataclass(frozen=True)
class SharingStep:
    """The next state, the units of each tenant (their sum is at most what there is) and why."""

    state: SharingState
    allocation: Mapping[str, float]
    reasons: Mapping[str, ShareReason]


def _finest(value: Mapping[str, Any]) -> float:
    """Without a granularity: thousandths of the resource."""
    return float(number(value, "units", "")) / 1000


def _services(value: Mapping[str, Any]) -> Any:
    """The services; a problem file has them under `truth`, where nothing else is read."""
    if "services" in value:
        return value["services"]
    return required(mapping(required(value, "truth", ""), "truth"), "services", "truth")


def _id(value: Any, path: str) -> str:
    value = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(value, str) or not value:
        raise InvalidValue(path, value, "an id")
    checks.plain_text(path, value)
    return value


def _tenant(value: Any, at: str) -> ProblemTenant:
    value = mapping(value, at)
    goal = mapping(required(value, "goal", at), f"{at}.goal")
    declared = value.get("declared_demand")
    feedback = value.get("feedback", True)
    if not isinstance(feedback, bool):
        raise InvalidValue(f"{at}.feedback", feedback, "true or false")
    return ProblemTenant(
        _id(value, f"{at}.id"),
        TenantGoal(
            str(required(goal, "metric", f"{at}.goal")),
            float(number(goal, "slo", f"{at}.goal")),
            goal.get("utility", "linear"),
        ),
        float(number(value, "weight", at)) if value.get("weight") is not None else 1.0,
        value.get("load_unit") != "none",
        feedback,
        None if declared is None else float(number(value, "declared_demand", at)),
        float(number(value, "floor", at, 0.0)),
    )
