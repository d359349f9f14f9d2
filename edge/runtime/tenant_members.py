"""The members of each tenant now: served models, applications and cameras that are there, by the tenant that names
them; the rest is of the two default tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edge.core.applications import Application
from edge.core.errors import InvalidValue
from edge.core.tenants import DEFAULT_CAMERAS, DEFAULT_OBJECTIVE, DEFAULT_TENANT, Tenant
from edge.runtime.camera import CameraRuntime
from edge.runtime.serving_budgets import owners_of
from scheduler.gpulets.tenant_fit import DisputedMember, ServingBudget, disputed

if TYPE_CHECKING:
    from edge.runtime.serving import ServingRuntime


@dataclass(frozen=True)
class Members:
    """The tenants that have members now, and who owns what: served models and applications, cameras, by name."""

    tenants: tuple[Tenant, ...]
    served: Mapping[str, str]
    cameras: Mapping[str, str]

    @property
    def shared(self) -> bool:
        """There are several tenants."""
        return len(self.tenants) > 1

    def of(self, tenant: Tenant) -> tuple[str, ...]:
        """The names that a tenant owns."""
        owner = self.served if tenant.serves else self.cameras
        return tuple(sorted(n for n, t in owner.items() if t == tenant.id))

    def cameras_of(self, tenant: Tenant) -> tuple[str, ...]:
        """Its cameras, also those that its settings name and that are off: a user sees it who may see all of them."""
        return tuple(dict.fromkeys((*(() if tenant.serves else self.of(tenant)), *tenant.cameras)))


def every_tenant(tenants: Sequence[Tenant]) -> tuple[Tenant, ...]:
    """`tenants`, and the two that have the members of none."""
    named = {t.id for t in tenants}
    implicit = (
        Tenant(DEFAULT_TENANT, DEFAULT_OBJECTIVE["within_slo"]),
        Tenant(DEFAULT_CAMERAS, DEFAULT_OBJECTIVE["accuracy"]),
    )
    return (*tenants, *(t for t in implicit if t.id not in named))


def members_of(
    tenants: Sequence[Tenant], cameras: Mapping[str, CameraRuntime], serving: ServingRuntime | None
) -> Members:
    """The owners of everything that is there now. No tenant in the settings: nothing has an owner."""
    if not tenants:
        return Members((), {}, {})
    every = every_tenant(tenants)
    served: dict[str, str] = {}
    if serving is not None:
        budgets = tuple(serving_budget(t, 0.0) for t in every if t.serves)
        served = owners_of(budgets, serving.models.offers)
    named = {c: t.id for t in every for c in t.cameras}
    owned = {c: named.get(c, DEFAULT_CAMERAS) for c, known in cameras.items() if known.settings.enabled}
    there = {*served.values(), *owned.values()}
    return Members(tuple(t for t in every if t.id in there), served, owned)


def serving_budget(tenant: Tenant, share: float) -> ServingBudget:
    """The budget within which the models of a serving tenant are planned."""
    members = frozenset((*tenant.models, *tenant.applications))
    return ServingBudget(tenant.id, share, members, rest=tenant.id == DEFAULT_TENANT)


def disputed_members(tenants: Sequence[Tenant], applications: Sequence[Application]) -> tuple[DisputedMember, ...]:
    """Models and applications that a tenant names and that count for another one, as its application asks them."""
    return disputed([serving_budget(t, 0.0) for t in tenants if t.serves], applications)


def applications_of(serving: ServingRuntime | None) -> tuple[Application, ...]:
    """The applications that are offered now."""
    offers = {} if serving is None else serving.models.offers
    return tuple(o.application for o in offers.values() if o.application is not None)


def check_asked(tenants: Sequence[Tenant], before: Sequence[Tenant], applications: Sequence[Application]) -> None:
    """Raises InvalidValue for a member that counts for another tenant than the one that names it, because an
    application asks it, and that did not with the tenants `before`."""
    known = disputed_members(before, applications)
    for found in disputed_members(tenants, applications):
        if found in known:
            continue
        number, tenant = next((n, t) for n, t in enumerate(tenants) if t.id == found.named_by)
        field = "models" if found.member in tenant.models else "applications"
        names = tenant.models if field == "models" else tenant.applications
        path = f"tenants[{number}].{field}[{names.index(found.member)}]"
        raise InvalidValue(path, found.member, f"a member that no other tenant has ({found.words()})")
