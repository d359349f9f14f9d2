"""Tenants: named groups of served models or of cameras that share the box, each with a goal and an entitlement.

Shares are parts of one device (0-1), performance and accuracy parts (0-1), times UTC epoch seconds or seconds.
Decisions are those of `scheduler.tenants`; `edge.runtime.tenants` acts on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.errors import InvalidValue

#: Members of no tenant belong to these two: served models and applications, and cameras.
DEFAULT_TENANT: Final = "default"
DEFAULT_CAMERAS: Final = "default-cameras"
#: Name of the settings document that keeps what was learned of tenants over restarts, and of that of the last day.
TENANTS_DOCUMENT: Final = "tenants-learned"
HISTORY_DOCUMENT: Final = "tenants-history"
#: Names of the settings documents with what people changed.
TENANTS_SETTINGS: Final = "tenants"
SHARING_SETTINGS: Final = "sharing"

#: within_slo: part of the requests answered within their objective; accuracy: realised accuracy, mean over cameras.
TenantMetric = Literal["within_slo", "accuracy"]
TENANT_METRICS: Final[tuple[TenantMetric, ...]] = ("within_slo", "accuracy")
#: Utility below the goal: performance / goal, its root (small misses matter much less), its square (they matter more).
TenantUtility = Literal["linear", "sqrt", "quadratic"]
TENANT_UTILITIES: Final[tuple[TenantUtility, ...]] = ("linear", "sqrt", "quadratic")
#: Utility is this power of the part of the goal that is reached.
UTILITY_POWERS: Final[Mapping[TenantUtility, float]] = {"linear": 1.0, "sqrt": 0.5, "quadratic": 2.0}

#: Grounds of a tenant's share. learned: its curve; profiled: the serving plan's own need; proxy: what its workers
#: use of their share; declared: its declared demand; entitlement: nothing else is known; held: nothing was measured in
#: the last interval, or it holds by a rule.
TenantSource = Literal["learned", "profiled", "proxy", "declared", "entitlement", "held"]

#: How a tenant stands: its goal is met, missed, or not known (nothing was measured lately).
TenantState = Literal["meets", "misses", "unknown"]

#: Why a tenant has the share that it has. `TenantReason.numbers` by code:
#: "entitlement": nothing is known yet. "profiled": the serving plan needs `need`. "proxy": its workers used the part
#: `utilisation` of the share `given`, and `target` is wanted, so it is taken to demand `demand`. "declared": it demands
#: `demand`.
#: "no_traffic": nothing was measured, it holds. "front_down": the front that takes its requests reported nothing for
#: `down_s` of the interval, and `lost` open requests failed: how it fared is not known, it holds. "kept": no other
#: share is better by enough. "more": it got `moved`; its `performance` and its `goal`. "less": it gave `moved`;
#: `performance`, `goal`, and `spare` between them (may be below 0: others gain more). "floor": raised by `raised` to
#: `floor`, the least that its plan needs, or its part of that. "dwell": it moved `since_s` ago, and moves again after
#: `dwell_s`. "window": cameras move at boundaries only. "one": it is alone.
TenantReasonCode = Literal[
    "entitlement",
    "profiled",
    "proxy",
    "declared",
    "no_traffic",
    "front_down",
    "kept",
    "more",
    "less",
    "floor",
    "dwell",
    "window",
    "one",
]
#: Why what was learned of a tenant was forgotten: its members or their versions, the latencies of its models, the
#: device, or its objective (what counts as reached included) are others; "damaged": the stored state could not be read.
ForgottenCode = Literal["members", "versions", "table", "device", "objective", "damaged"]


@dataclass(frozen=True)
class TenantObjective:
    """The performance wanted (0-1), and how utility falls below it."""

    metric: TenantMetric
    goal: float
    utility: TenantUtility = "linear"

    def __post_init__(self) -> None:
        checks.one_of("objective.metric", self.metric, TENANT_METRICS)
        checks.one_of("objective.utility", self.utility, TENANT_UTILITIES)
        checks.in_range("objective.goal", self.goal, 0.0, 1.0, low_open=True)

    def utility_of(self, performance: float) -> float:
        """Utility (0-1) of a performance (0-1)."""
        return float(min(1.0, max(0.0, performance / self.goal)) ** UTILITY_POWERS[self.utility])


#: Of the two default tenants, where the settings say nothing.
DEFAULT_OBJECTIVE: Final[Mapping[TenantMetric, TenantObjective]] = {
    "within_slo": TenantObjective("within_slo", 0.99),
    "accuracy": TenantObjective("accuracy", 0.8),
}


@dataclass(frozen=True)
class Tenant:
    """`entitlement` is a weight: its part of the sum of weights is the part of the device that is its by right. It
    never has less than `floor`. While nothing was measured, `proxy_utilisation` says which part of its share its
    workers shall use (None: their use tells nothing), and `declared_demand` (share) stands in. Its members are served
    models and applications (metric within_slo) or cameras (accuracy); those of the default tenants are not named."""

    id: str
    objective: TenantObjective
    name: str = ""
    entitlement: float = 1.0
    floor: float = 0.0
    declared_demand: float | None = None
    models: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    cameras: tuple[str, ...] = ()
    proxy_utilisation: float | None = None

    def __post_init__(self) -> None:
        checks.in_range(f"tenants.{self.id}.entitlement", self.entitlement, 0.0, 1e6)
        checks.in_range(f"tenants.{self.id}.floor", self.floor, 0.0, 1.0)
        if self.declared_demand is not None:
            checks.in_range(f"tenants.{self.id}.declared_demand", self.declared_demand, 0.0, 1.0)
        if self.proxy_utilisation is not None:
            checks.in_range(f"tenants.{self.id}.proxy_utilisation", self.proxy_utilisation, 0.1, 1.0)
        if self.objective.metric == "accuracy" and (self.models or self.applications):
            raise InvalidValue(
                f"tenants.{self.id}.objective.metric", "accuracy", "within_slo: its members are models and applications"
            )
        if self.objective.metric == "within_slo" and self.cameras:
            raise InvalidValue(f"tenants.{self.id}.objective.metric", "within_slo", "accuracy: its members are cameras")

    @property
    def words(self) -> str:
        """The name for people."""
        return self.name or self.id

    @property
    def serves(self) -> bool:
        """Whether its members are served models; else they are cameras."""
        return self.objective.metric == "within_slo"


@dataclass(frozen=True)
class SharingRules:
    """How shares are moved: every `interval_s` among serving tenants, at boundaries between serving and cameras; by at
    most `largest_step` of the device in a decision, but for raises to a floor, the need of a plan or an entitlement; a
    tenant is not put below (1 - `explore`) of its entitlement while it misses its goal or nothing is known of it. A
    tenant that moved stays for `dwell_s`; a move below `hysteresis` is not made. `missed_minutes`: an alarm is raised
    where a goal is missed for so long at the entitlement."""

    policy: str = "ew"
    interval_s: float = 10.0
    largest_step: float = 0.05
    explore: float = 0.1
    dwell_s: float = 0.0
    hysteresis: float = 0.01
    missed_minutes: float = 5.0

    def __post_init__(self) -> None:
        checks.in_range("sharing.interval_s", self.interval_s, 10.0, 3600.0)
        checks.in_range("sharing.largest_step", self.largest_step, 0.0, 1.0, low_open=True)
        checks.in_range("sharing.explore", self.explore, 0.0, 1.0)
        checks.in_range("sharing.dwell_s", self.dwell_s, 0.0, 86_400.0)
        checks.in_range("sharing.hysteresis", self.hysteresis, 0.0, 0.5)
        checks.in_range("sharing.missed_minutes", self.missed_minutes, 0.0, 1440.0)


@dataclass(frozen=True)
class TenantReason:
    """One reason (`TenantReasonCode`); `others` are the tenants that gave for it, or got what it gave."""

    code: TenantReasonCode
    numbers: Mapping[str, float] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For answers and the journal."""
        numbers = {k: round(v, 4) for k, v in self.numbers.items()}
        return {"code": self.code, "numbers": numbers, "others": list(self.others)}


def check_tenants(tenants: Sequence[Tenant]) -> None:
    """Raises InvalidValue for tenants that cannot be together: an id or a member given twice, entitlements that sum to
    nothing, floors above the device, members of a default tenant that are named."""
    seen: set[str] = set()
    owner: dict[tuple[str, str], str] = {}
    for n, tenant in enumerate(tenants):
        if tenant.id in seen:
            raise InvalidValue(f"tenants[{n}].id", tenant.id, "each id once")
        seen.add(tenant.id)
        members = {"models": tenant.models, "applications": tenant.applications, "cameras": tenant.cameras}
        for field_, names in members.items():
            for k, name in enumerate(names):
                path = f"tenants[{n}].{field_}[{k}]"
                if tenant.id in (DEFAULT_TENANT, DEFAULT_CAMERAS):
                    raise InvalidValue(path, name, f"no member: {tenant.id} has those that no other tenant names")
                before = owner.setdefault(("cameras" if field_ == "cameras" else "served", name), tenant.id)
                if before != tenant.id:
                    raise InvalidValue(path, name, f"a member of one tenant only: {before} has it")
                if names.index(name) != k:
                    raise InvalidValue(path, name, "each member once")
    metrics: Mapping[str, TenantMetric] = {DEFAULT_TENANT: "within_slo", DEFAULT_CAMERAS: "accuracy"}
    for n, tenant in enumerate(tenants):
        metric = metrics.get(tenant.id, tenant.objective.metric)
        if tenant.objective.metric != metric:
            raise InvalidValue(f"tenants[{n}].objective.metric", tenant.objective.metric, metric)
    if tenants and not sum(t.entitlement for t in tenants) > 0:
        raise InvalidValue("tenants[0].entitlement", "entitlements that sum to 0", "at least one above 0")
    floors = sum(t.floor for t in tenants)
    if floors > 1.0 + 1e-9:
        raise InvalidValue("tenants[0].floor", f"floors of {floors:.3g} together", "at most 1, the device")
