"""Hierarchical fair share: weighted max-min by the tree of tenants, held over time by credits.

Tasks are not preempted, so shares are right on average: a tenant that had less than its share gets the next free
resources first. The shared resource is the scarcest one: that of which most is asked for against what there is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from edge.core.errors import InvalidValue
from edge.core.fleet import FleetTenant

#: Credit that is this old counts for 1/e: who could not use its share does not block others for ever.
_FORGETS_S = 120.0
#: How fast the mean duration of tasks follows the last ones.
_FOLLOWS = 0.05


class TenantTree:
    """The tenants and their parents. Raises InvalidValue for an unknown parent, a name given twice, a circle."""

    def __init__(self, tenants: Sequence[FleetTenant]) -> None:
        self._by_name = {tenant.name: tenant for tenant in tenants}
        self._children: dict[str | None, list[FleetTenant]] = defaultdict(list)
        for n, tenant in enumerate(tenants):
            if any(tenant.name == earlier.name for earlier in tenants[:n]):
                raise InvalidValue(f"tenants[{n}].name", tenant.name, "each name once")
            if tenant.parent is not None and tenant.parent not in self._by_name:
                raise InvalidValue(f"tenants[{n}].parent", tenant.parent, "the name of another tenant")
            self._children[tenant.parent].append(tenant)
        for n, tenant in enumerate(tenants):
            seen, above = {tenant.name}, tenant.parent
            while above is not None:
                if above in seen:
                    raise InvalidValue(f"tenants[{n}].parent", tenant.parent, "a tenant that is not below this one")
                seen.add(above)
                above = self._by_name[above].parent

    @property
    def leaves(self) -> Collection[str]:
        """Tenants without children: jobs belong to these."""
        return [name for name in self._by_name if name not in self._children]

    def shares(self, want: Mapping[str, float], total: float) -> dict[str, float]:
        """The part of `total` of each leaf: weighted max-min at each level, from the top. No tenant gets more than
        it wants, and its siblings get the rest."""
        asked: dict[str, float] = {}

        def ask(name: str) -> float:
            below = self._children.get(name)
            asked[name] = sum(ask(child.name) for child in below) if below else want.get(name, 0.0)
            return asked[name]

        for tenant in self._children[None]:
            ask(tenant.name)
        out: dict[str, float] = {}
        level = [(self._children[None], total)]
        while level:
            siblings, amount = level.pop()
            # In the order of want by weight each sibling is either filled or gets its part of what is left.
            weights = sum(s.weight for s in siblings if asked[s.name] > 0.0)
            for tenant in sorted(siblings, key=lambda s: asked[s.name] / s.weight):
                part = 0.0
                if asked[tenant.name] > 0.0:
                    part = min(asked[tenant.name], amount * tenant.weight / weights)
                    amount, weights = amount - part, weights - tenant.weight
                below = self._children.get(tenant.name)
                if below:
                    level.append((below, part))
                else:
                    out[tenant.name] = part
        return out


@dataclass(frozen=True)
class JobTenantNow:
    """A tenant: of `resource`, the scarcest one, it wants `wanted`, has `used`, and its fair share is `share`."""

    tenant: str
    resource: str
    wanted: float
    share: float
    used: float


class FairShares:
    """Amounts that tenants use, and that they are owed. The caller reports each change and lets time pass before it."""

    def __init__(self, tenants: Sequence[FleetTenant]) -> None:
        self.tree = TenantTree(tenants)
        self._used: dict[str, dict[str, float]] = {leaf: defaultdict(float) for leaf in self.tree.leaves}
        self._want: dict[str, dict[str, float]] = {leaf: defaultdict(float) for leaf in self.tree.leaves}
        self._credit: dict[str, float] = dict.fromkeys(self._used, 0.0)
        self._share: dict[str, float] = {}
        self._resource = ""
        self._mean_s = 1.0
        self._at_s = 0.0

    def knows(self, tenant: str) -> bool:
        """Whether jobs may belong to the tenant."""
        return tenant in self._used

    def wants(self, tenant: str | None, demand: Mapping[str, float], tasks: int) -> None:
        """The tenant's open tasks became more, or fewer (`tasks` below 0)."""
        self._add(self._want, tenant, demand, tasks)

    def uses(self, tenant: str | None, demand: Mapping[str, float], tasks: int) -> None:
        """The tenant's placed tasks became more, or fewer."""
        self._add(self._used, tenant, demand, tasks)

    def task_took(self, duration_s: float) -> None:
        """A task ended after so long."""
        self._mean_s += _FOLLOWS * (max(duration_s, 0.01) - self._mean_s)

    def pass_time(self, at_s: float) -> None:
        """Credit what each tenant had less than its share since the last change."""
        past_s, self._at_s = at_s - self._at_s, max(at_s, self._at_s)
        if past_s > 0.0 and self._share:
            kept = math.exp(-past_s / _FORGETS_S)
            for leaf, share in self._share.items():
                owed = share - self._used[leaf][self._resource]
                self._credit[leaf] = self._credit[leaf] * kept + owed * past_s

    def settle(self, capacity: Mapping[str, float]) -> None:
        """Compute the shares anew: the fleet's amounts of physical resources are `capacity`."""
        if not self._used:
            return
        scarcest, most = "", -1.0
        for name in sorted(capacity):
            asked = sum(want[name] for want in self._want.values())
            if capacity[name] > 0.0 and asked / capacity[name] > most:
                scarcest, most = name, asked / capacity[name]
        self._resource = scarcest
        want = {leaf: w[scarcest] for leaf, w in self._want.items()}
        self._share = self.tree.shares(want, capacity.get(scarcest, 0.0))

    def share(self, tenant: str) -> tuple[str, float, float]:
        """(resource, fair share, used) of a tenant now."""
        return self._resource, self._share.get(tenant, 0.0), self._used[tenant][self._resource]

    def now(self) -> list[JobTenantNow]:
        """Every tenant, by name."""
        resource = self._resource
        return [
            JobTenantNow(name, resource, self._want[name][resource], self._share.get(name, 0.0), used[resource])
            for name, used in sorted(self._used.items())
        ]

    def is_owed(self, tenant: str | None) -> bool:
        """Whether a tenant had less than its share; work of no tenant is always owed."""
        return tenant is None or self._owed(tenant) > 0.0

    def order(self, tenants: Iterable[str | None]) -> list[str | None]:
        """Tenants, the one that is owed most first; work of no tenant before all others."""
        return sorted(tenants, key=lambda t: (t is not None, -self._owed(t), t or ""))

    def _owed(self, tenant: str | None) -> float:
        """Owed amount x s: the credit, and what the present gap will add in the time of one task."""
        if tenant is None:
            return 0.0
        gap = self._share.get(tenant, 0.0) - self._used[tenant][self._resource]
        return self._credit[tenant] + gap * self._mean_s

    @staticmethod
    def _add(book: Mapping[str, dict[str, float]], tenant: str | None, demand: Mapping[str, float], tasks: int) -> None:
        if tenant is not None:
            row = book[tenant]
            for name, amount in demand.items():
                row[name] += amount * tasks
