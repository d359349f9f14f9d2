"""Settings of tenants and of how they share the box."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from edge.core.errors import InvalidValue
from edge.core.tenants import SharingRules, Tenant, TenantMetric, TenantObjective, TenantUtility, check_tenants
from edge.settings.base import FieldProblem, Identifier, Settings
from edge.settings.serving import ModelName

#: /tenants/history answers for all tenants.
_RESERVED: Final = "history"


class TenantObjectiveSettings(Settings):
    """The goal of a tenant."""

    metric: TenantMetric = Field(
        "within_slo", description="within_slo (part of requests, for served models) or accuracy (for cameras)"
    )
    goal: float = Field(0.99, gt=0, le=1, description="the performance wanted, as a part")
    utility: TenantUtility = Field("linear", description="how utility falls below the goal")


class TenantSettings(Settings):
    """A tenant: a named group of served models and applications, or of cameras. One with the id default or
    default-cameras has the members that no other names."""

    id: Identifier
    name: str = Field("", max_length=100)
    entitlement: float = Field(1.0, ge=0, le=1e6, description="a weight: its part of the sum is its by right")
    objective: TenantObjectiveSettings = TenantObjectiveSettings()
    models: tuple[ModelName, ...] = Field((), max_length=512)
    applications: tuple[ModelName, ...] = Field((), max_length=512)
    cameras: tuple[Identifier, ...] = Field((), max_length=512)
    floor: float = Field(0.0, ge=0, le=1, description="share of the device that it never has less of")
    declared_demand: float | None = Field(
        None, ge=0, le=1, description="share that it says to need; counts while nothing was measured"
    )
    proxy_utilisation: float | None = Field(
        None, ge=0.1, le=1,
        description="part of its share that its workers shall use: while nothing was measured, and there is no "
        "profile, it is taken to need what they use, over this (empty: their use does not count)",
    )  # fmt: skip

    @model_validator(mode="after")
    def _fits(self) -> TenantSettings:
        if self.id == _RESERVED:
            raise FieldProblem("id", f"any other name: {_RESERVED} is an address of its own")
        serves = self.objective.metric == "within_slo"
        if serves and self.cameras:
            raise FieldProblem("objective.metric", "accuracy, as its members are cameras")
        if not serves and (self.models or self.applications):
            raise FieldProblem("objective.metric", "within_slo, as its members are models and applications")
        return self

    def tenant(self) -> Tenant:
        """The tenant that these settings describe."""
        goal = self.objective
        return Tenant(
            self.id, TenantObjective(goal.metric, goal.goal, goal.utility), self.name, self.entitlement, self.floor,
            self.declared_demand, self.models, self.applications, self.cameras, self.proxy_utilisation,
        )  # fmt: skip


SharingPolicyName = Literal["ew", "sw", "njc", "fair", "minerva", "greedy-ew"]


class SharingSettings(Settings):
    """How tenants share the box."""

    policy: SharingPolicyName = Field("ew", description="ew: greatest least utility; sw: greatest mean; njc: fair")
    interval_s: float = Field(10.0, ge=10, le=3600, description="shares of serving tenants are decided so often")
    largest_step: float = Field(
        0.05, gt=0, le=1,
        description="most that a tenant gets or gives in a decision, but for raises to a floor, need or entitlement",
    )  # fmt: skip
    explore: float = Field(
        0.1, ge=0, le=1,
        description="a tenant that misses its goal, or of which nothing is known, has (1 - explore) of its entitlement",
    )  # fmt: skip
    dwell_s: float = Field(0.0, ge=0, le=86400, description="least time between two moves of a tenant")
    hysteresis: float = Field(0.01, ge=0, le=0.5, description="smaller moves are not made")
    missed_minutes: float = Field(
        5.0, ge=0, le=1440, description="alarm where a goal is missed for so long at the entitlement"
    )

    def rules(self) -> SharingRules:
        """As decisions take them."""
        return SharingRules(
            self.policy, self.interval_s, self.largest_step, self.explore, self.dwell_s, self.hysteresis,
            self.missed_minutes,
        )  # fmt: skip


def check_together(tenants: tuple[TenantSettings, ...]) -> None:
    """Raises FieldProblem for tenants that cannot be together."""
    try:
        check_tenants([t.tenant() for t in tenants])
    except InvalidValue as error:
        raise FieldProblem(error.path, error.allowed) from None
