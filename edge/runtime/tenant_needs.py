"""The shares that a tenant's plan needs, and digests of all that its curve depends on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edge.core.clock import Clock
from edge.core.serving import DeviceTable, ServedModel
from edge.core.tenants import Tenant
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.recent_rates import RecentRates
from edge.runtime.tenant_members import Members
from scheduler.controller import WindowController
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import PlanFunction
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.rates import RateSettings, planned_rate
from scheduler.gpulets.tenant_fit import need_of
from scheduler.serving_floor import floors_share
from scheduler.tenants.known import LearnedTenant, SharingReport

if TYPE_CHECKING:
    from edge.runtime.serving import ServingRuntime

#: The models, the version of the table and the planning policy that a need was found for.
_NeedKey = tuple[tuple[ServedModel, ...], str, str]


class TenantNeeds:
    """Needs of serving tenants are planned once for the same models, table and policy. `recent` are the rates that the
    front reported of late."""

    def __init__(self, controller: WindowController, clock: Clock) -> None:
        self._controller, self._clock = controller, clock
        self.recent = RecentRates()
        self._known: dict[str, tuple[_NeedKey, float]] = {}

    async def of(
        self, tenant: Tenant, members: Members, serving: ServingRuntime | None, follow: bool = False
    ) -> tuple[float, float | None]:
        """The share that a tenant's plan needs at least, and by its profile at the rates that are planned for; where
        it shall `follow` a load that has gone, at the rates that are left of it."""
        if not tenant.serves:
            return self._of_cameras(tenant, members), None
        assert serving is not None
        demands = [d for d in serving.models.demands()[0] if members.served.get(d.version.model) == tenant.id]
        table, view = serving.tables.table, serving.planner.view
        if table is None or not all(serving.tables.knows(d.version.model) for d in demands):
            return 0.0, None
        planner = serving.planning.policy
        plan = plan_function(planner)
        least = tuple(d.planned(d.min_rate) for d in demands)
        recent, headroom = self.recent if follow else None, serving.planning.headroom
        now = tuple(d.planned(_rate(d, view.held.get(d.version.model, d.rate), recent, headroom)) for d in demands)
        version = serving.tables.version
        floor = await self._need(f"{tenant.id} floor", (least, version, planner), plan, table)
        return floor, await self._need(f"{tenant.id} need", (now, version, planner), plan, table)

    def usable(self, tenant: Tenant, members: Members, serving: ServingRuntime | None) -> tuple[float, ...]:
        """The shares that its plan can use, ascending: of one model in one partition those that were measured. Empty:
        any; several partitions together can have nearly every share."""
        if not tenant.serves or serving is None or serving.tables.table is None:
            return ()
        names = [n for n, owner in members.served.items() if owner == tenant.id]
        rows = serving.tables.table.latency_ms
        plan = serving.planner.view.plan
        parts = sum(any(b.model in names for b in g.models) for g in (() if plan is None else plan.gpulets))
        if len(names) != 1 or names[0] not in rows or parts > 1:
            return ()
        return tuple(percent / 100 for percent in sorted(rows[names[0]]))

    def _of_cameras(self, tenant: Tenant, members: Members) -> float:
        state, mine = self._controller.state, set(members.of(tenant))
        if not mine & set(state.cameras):
            return 0.0
        problem = state.problem(self._clock.monotonic())
        return floors_share(replace(problem, streams=tuple(s for s in problem.streams if s.id in mine)))

    async def _need(self, key: str, asked: _NeedKey, plan: PlanFunction, table: DeviceTable) -> float:
        known = self._known.get(key)
        if known is None or known[0] != asked:
            known = (asked, await asyncio.to_thread(need_of, asked[0], table, plan))
            self._known[key] = known
        return known[1]


def met_twice(tenant: Tenant, known: LearnedTenant | None, report: SharingReport | None) -> bool:
    """Its goal was met in the last two intervals; `report` is of the one that is not learned yet (None: none is)."""
    seen = (*(() if known is None else known.recent), *(() if report is None else (report,)))[-2:]
    return len(seen) == 2 and all(r.performance >= tenant.objective.goal - 1e-9 for r in seen)


def _rate(demand: Demand, planned: float, recent: RecentRates | None, headroom: float) -> float:
    """Rows per second to count on, head-room included."""
    rate = None if recent is None else recent.fallen(demand.version.model)
    if rate is None:
        return planned
    return min(planned, max(demand.min_rate, round(planned_rate(rate, RateSettings(headroom=headroom)), 3)))


def fingerprint(
    tenant: Tenant, members: Members, parts: LeafParts, serving: ServingRuntime | None
) -> Mapping[str, str]:
    """Digests of all that the curve depends on, by part. Versions of cameras' students change with every window,
    which is learned, too; those of served models, and their measured latencies, do not. "met": the conditions of
    performance: objectives of served models and applications; classes of cameras, and the teacher that judges them.
    Empty while models are taken in after a start: until then it is not known which models are served, and for whom."""
    offers = {} if serving is None or not tenant.serves else serving.models.offers
    if any(o.state == "waiting" for o in offers.values()):
        return {}
    names = members.of(tenant)
    versions: list[Any] = []
    tables: list[Any] = []
    met: list[Any] = []
    if tenant.serves and serving is not None:
        versions = [(n, v.digest or v.version) for n in names if (v := offers[n].version) is not None]
        tables = [(n, serving.tables.digests.get(n, "")) for n in names]
        demands, applications = serving.models.demands()
        objectives = [
            *((d.version.model, d.version.slo_ms) for d in demands),
            *((a.name, a.slo_ms) for a in applications),
        ]
        met = sorted(o for o in objectives if o[0] in names)
    elif not tenant.serves:
        cameras = [parts.cameras[n].settings for n in names]
        versions = [(c.id, c.student.model_dump(mode="json")) for c in cameras]
        met = [parts.golden.teacher.digest, [(c.id, c.task, c.classes, c.class_map) for c in cameras]]
    caps = parts.shares.partitioner.caps
    goal = tenant.objective
    return {
        "members": _digest(names),
        "versions": _digest(versions),
        "table": _digest(tables),
        "device": _digest([caps.device, caps.units]),
        "objective": _digest([goal.metric, goal.goal, goal.utility]),
        "met": _digest(met),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
