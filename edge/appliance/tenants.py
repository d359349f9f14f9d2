"""Tenants for transports: their settings, and how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from edge.appliance.answers.read import read
from edge.appliance.answers.tenants import (
    CurvePoint,
    CurveReport,
    LearnedAnswer,
    ShareOfTenant,
    SharingAnswer,
    SharingWhatIf,
    TenantAnswer,
    TenantCurve,
    TenantDemand,
    TenantDetail,
    TenantHistory,
    TenantReasonAnswer,
    TenantsAnswer,
    TenantWhatIf,
)
from edge.appliance.served_models import ServedModels
from edge.core.alarms import ModelOwner, ServedNow
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, InvalidValues, MagpieError, NotFound, UnreadableRecord
from edge.core.journal_kinds import JournalNote
from edge.core.tenants import (
    HISTORY_DOCUMENT,
    SHARING_SETTINGS,
    TENANTS_DOCUMENT,
    TENANTS_SETTINGS,
    Tenant,
    TenantReason,
    check_tenants,
)
from edge.runtime.tenant_members import Members, applications_of, check_asked
from edge.runtime.tenant_what_if import replayed
from edge.runtime.tenants import TenantShares
from edge.settings import SharingSettings, SiteSettings, TenantSettings, merge, parse, without_null
from edge.store.store import Store
from scheduler.tenants.known import LearnedTenant
from scheduler.tenants.sharing import TenantShare, curve_of, entitlements, missed_s

_MOST_TENANTS = 50


class Tenants:
    """Implements `TenantsService`. `served` are the models that a tenant may have, `complain(code, message)` tells the
    operator of a stored state that cannot be used, `note` journals."""

    def __init__(
        self, site: SiteSettings, store: Store, clock: Clock, shares: TenantShares, served: ServedModels,
        note: JournalNote,
    ) -> None:  # fmt: skip
        self.shares = shares
        self._settings = {t.id: t for t in site.tenants}
        self._sharing = site.sharing
        self._store, self._clock, self._served, self._note = store, clock, served, note
        self._changing = asyncio.Lock()

    async def open(self) -> list[MagpieError]:
        """Take up what an earlier run learned; returns the errors of what is damaged and is begun anew. Raises
        InvalidValue for a member that the site's file names and that is not there, StoreError and Unavailable where the
        database cannot be read: its content may be intact, and is not written over."""
        self.shares.serve(self._served.runtime)
        errors: list[MagpieError] = [*await self.shares.restore(await self._document(TENANTS_DOCUMENT))]
        damage = self.shares.history.restore(await self._document(HISTORY_DOCUMENT))
        if damage:
            self._note("tenants.forgotten", data={"tenant": "", "why": "damaged"})
        errors += damage
        self._served.rooms = self.shares.rooms
        if await asyncio.to_thread(self._store.settings.get_settings, TENANTS_SETTINGS) is None:
            self._check_file()
        return errors

    async def _document(self, name: str) -> object:
        try:
            return await asyncio.to_thread(self._store.settings.get_settings, name)
        except (UnreadableRecord, ValueError) as error:
            return str(error)  # no document: damaged

    @property
    def there(self) -> frozenset[str]:
        """The tenants that share the box now: alarms of others, of an earlier run, are over."""
        members = self.shares.members()
        return frozenset(t.id for t in members.tenants) if members.shared else frozenset()

    def within_objective(self) -> ServedNow:
        """How requests of served models fare, and whose these are. An application that a camera asks is for those who
        may see that camera, too."""
        served, asked = self.shares.members().served, self._served.answering()
        owners = {
            model.name: ModelOwner(owner, () if model.camera is None else (model.camera,))
            for model in asked if (owner := served.get(model.name)) is not None
        }  # fmt: skip
        return ServedNow({m.name: 1.0 - m.violations_recent for m in asked}, owners)

    def _check_file(self) -> None:
        """Members that the site's file names are there. Raises InvalidValue."""
        there = self.known_members()
        for n, tenant in enumerate(self._settings.values()):
            for field, known in there.items():
                for k, name in enumerate(getattr(tenant, field)):
                    if name not in known:
                        allowed = ", ".join(sorted(known)) or f"none: there are no {field}"
                        raise InvalidValue(f"tenants[{n}].{field}[{k}]", name, f"one of {allowed}")

    # -- service

    def all(self) -> TenantsAnswer:
        """Every tenant."""
        shares = self.shares
        members = shares.members()
        named = set(self._settings)
        every = [t for t in shares.every() if t.id in named or t.id in {m.id for m in members.tenants}]
        return TenantsAnswer(
            active=members.shared, capacity=shares.pool, tenants=tuple(self._answer(t, members) for t in every)
        )

    def one(self, tenant: str) -> TenantDetail:
        """Raises NotFound."""
        found, members = self._tenant(tenant), self.shares.members()
        known = self.shares.known.get(tenant, LearnedTenant())
        reports = tuple(_report(found, known, n) for n in range(len(known.recent)))
        given = self.shares.given(members).get(tenant)
        points = curve_of(found, known, self.shares.pool)
        curve = TenantCurve(
            id=tenant, goal=found.objective.goal, reports=reports,
            now=None if given is None else round(given, 4), last=reports[-1] if reports else None,
            learned=self._learned(known),
            points=tuple(CurvePoint(share=s, performance=m, low=a, high=b) for s, m, a, b in points),
        )  # fmt: skip
        return TenantDetail(tenant=self._answer(found, members), curve=curve)

    async def add(self, settings: Mapping[str, Any], by: str) -> TenantAnswer:
        """Raises InvalidValues, InvalidValue, Conflict."""
        async with self._changing:
            tenant = parse(TenantSettings, dict(settings))
            if tenant.id in self._settings:
                raise Conflict(f"tenant {tenant.id} exists already")
            if len(self._settings) >= _MOST_TENANTS:
                raise Conflict(f"there are {_MOST_TENANTS} tenants already", "remove one first")
            await self._put({**self._settings, tenant.id: tenant}, by, tenant, None)
            self._note("tenant.added", data={"tenant": tenant.id, "by": by})
        return self._answer(self._tenant(tenant.id), self.shares.members())

    async def change(self, tenant: str, patch: Mapping[str, Any], by: str) -> TenantAnswer:
        """Raises as `add`, and NotFound."""
        async with self._changing:
            before = _settings_of(self._tenant(tenant)).model_dump(mode="json")
            if patch.get("id", tenant) != tenant:
                raise InvalidValue("id", patch["id"], f"{tenant} (an id does not change)")
            merged = without_null(merge(before, dict(patch)))
            changed = parse(TenantSettings, merged)
            known = self._settings.get(tenant)
            if changed != known:
                await self._put({**self._settings, tenant: changed}, by, changed, known)
                self._note("tenant.changed", data={"tenant": tenant, "by": by, "fields": sorted(patch)})
        return self._answer(self._tenant(tenant), self.shares.members())

    async def remove(self, tenant: str, by: str) -> None:
        """Raises NotFound."""
        async with self._changing:
            if tenant not in self._settings:
                raise NotFound(f"tenant {tenant} does not exist")
            await self._put({k: v for k, v in self._settings.items() if k != tenant}, by, None, None)
            self._note("tenant.removed", data={"tenant": tenant, "by": by})

    def sharing(self) -> SharingAnswer:
        """The settings of the sharing, and how it stands."""
        shares = self.shares
        members = shares.members()
        values = [
            t.objective.utility_of(known.last.performance)
            for t in members.tenants
            if (known := shares.known.get(t.id)) is not None and known.last is not None
        ]
        decided = shares.decided_utc_s if members.shared else None
        left_s = shares.times.left_s(self._clock.monotonic(), self._sharing.interval_s)
        return SharingAnswer(
            settings=self._sharing, dwell_s=shares.rules_in_force.dwell_s, restarts=not shares.live,
            active=members.shared, capacity=shares.pool, decided_utc_s=decided,
            next_utc_s=None if decided is None else self._clock.utc() + left_s,
            lacking=round(shares.lacking, 4),
            social_welfare=sum(values) / len(values) if values else None,
            egalitarian_welfare=min(values) if values else None,
        )  # fmt: skip

    async def change_sharing(self, patch: Mapping[str, Any], by: str) -> SharingAnswer:
        """Raises InvalidValues."""
        async with self._changing:
            before = self._sharing.model_dump(mode="json")
            merged = {k: v for k, v in merge(before, dict(patch)).items() if v is not None}
            sharing = parse(SharingSettings, merged)
            document = sharing.model_dump(mode="json")
            await asyncio.to_thread(self._store.settings.put_settings, SHARING_SETTINGS, document, by)
            self._sharing = sharing
            self.shares.change(self.shares.tenants, sharing.rules())
            self._note("tenants.settings", data={"by": by, "fields": sorted(patch)})
        return self.sharing()

    def history(self, tenant: str | None = None) -> TenantHistory:
        """Raises NotFound."""
        if tenant is not None:
            self._tenant(tenant)
        rows = [vars(r) for r in self.shares.history.rows if tenant in (None, r.tenant)]
        return read(TenantHistory, {"rows": rows})

    async def what_if(self, policy: str) -> SharingWhatIf:
        """Raises InvalidValue."""
        rules = parse(SharingSettings, self._sharing.model_dump(mode="json") | {"policy": policy}).rules()
        shares = self.shares
        rows, known, tenants = tuple(shares.history.rows), dict(shares.known), shares.every()
        found = await asyncio.to_thread(replayed, rows, tenants, known, rules)
        return SharingWhatIf(
            policy=policy, rows=found.rows, seconds=found.seconds, from_utc_s=found.from_utc_s,
            social_welfare=found.social, egalitarian_welfare=found.egalitarian, other_social_welfare=found.other_social,
            other_egalitarian_welfare=found.other_egalitarian,
            tenants=tuple(
                TenantWhatIf(
                    id=t, share=share, utility=found.utility.get(t), other_share=found.other_share[t],
                    other_utility=found.other_utility.get(t),
                )
                for t, share in sorted(found.share.items())
            ),
        )  # fmt: skip

    # -- inside

    def _tenant(self, tenant: str) -> Tenant:
        there = {t.id for t in self.shares.members().tenants} | set(self._settings)
        for known in self.shares.every():
            if known.id == tenant and tenant in there:
                return known
        raise NotFound(f"tenant {tenant} does not exist")

    async def _put(
        self, settings: dict[str, TenantSettings], by: str, new: TenantSettings | None, before: TenantSettings | None
    ) -> None:
        tenants = [t.tenant() for t in settings.values()]
        check_tenants(tenants)
        check_asked(tenants, [t.tenant() for t in self._settings.values()], applications_of(self._served.runtime))
        if new is not None:
            self._check_members(new, before)
        document = {"tenants": [t.model_dump(mode="json") for t in settings.values()]}
        await asyncio.to_thread(self._store.settings.put_settings, TENANTS_SETTINGS, document, by)
        self._settings = settings
        self.shares.change(tenants, self._sharing.rules())

    def _check_members(self, tenant: TenantSettings, before: TenantSettings | None) -> None:
        """Members are there, or were named `before`: one that is gone can stay named. Raises InvalidValues."""
        there: dict[str, Sequence[str]] = dict(self.known_members())
        problems = [
            InvalidValue(f"{field}[{n}]", name, "one of " + (", ".join(sorted(known)) or f"none: there are no {field}"))
            for field, known in there.items()
            for n, name in enumerate(getattr(tenant, field))
            if name not in known and (before is None or name not in getattr(before, field))
        ]
        if problems:
            raise InvalidValues(problems)

    def known_members(self) -> dict[str, Sequence[str]]:
        """Names that a tenant may have as members, by field."""
        serving = self._served.runtime
        offers = {} if serving is None else serving.models.offers
        # One that is still being looked at may turn out to be either.
        applications = [n for n, o in offers.items() if o.version is None]
        models = [n for n, o in offers.items() if o.application is None]
        return {"models": models, "applications": applications, "cameras": self.shares.cameras}

    def _answer(self, tenant: Tenant, members: Members) -> TenantAnswer:
        shares = self.shares
        share, known = shares.shares.get(tenant.id), shares.known.get(tenant.id, LearnedTenant())
        rights = entitlements(members.tenants, shares.pool)
        right = rights.get(tenant.id, 0.0)
        share = share or TenantShare(
            right if members.shared else shares.pool, right, tenant.floor, 0.0, 0.0, "unknown", "entitlement",
            _one(members),
        )  # fmt: skip
        last = known.last if share.state != "unknown" else None
        served = members.of(tenant) if tenant.serves else ()
        serving = self._served.runtime
        offers = {} if serving is None else serving.models.offers
        applications = {n for n, o in offers.items() if o.application is not None}
        named = tenant if not members.shared else None
        return TenantAnswer(
            id=tenant.id, name=tenant.name, settings=_settings_of(tenant), implicit=tenant.id not in self._settings,
            models=named.models if named else tuple(n for n in served if n not in applications),
            applications=named.applications if named else tuple(n for n in served if n in applications),
            cameras=members.cameras_of(tenant),
            share=ShareOfTenant(
                held=round(share.held, 4), given=round(shares.given(members).get(tenant.id, 0.0), 4),
                entitlement=round(right, 4), floor=round(share.floor, 4), raised_to_floor=round(share.raised, 4),
                moves=shares.moves[tenant.id],
            ),
            state=share.state, performance=None if last is None else last.performance,
            goal=tenant.objective.goal,
            utility=None if last is None else tenant.objective.utility_of(last.performance),
            load=None if last is None or not tenant.serves else last.load, missed_s=missed_s(known),
            source=share.source,
            demand=TenantDemand(**vars(share.demand)),
            reason=read(TenantReasonAnswer, share.reason.to_json()), learned=self._learned(known),
        )  # fmt: skip

    def _learned(self, known: LearnedTenant) -> LearnedAnswer:
        last = known.last
        return LearnedAnswer(
            reports=known.memory.curve.reports, changes=known.memory.curve.changes,
            last_utc_s=None if last is None else last.utc_s,
            age_s=None if last is None else max(0.0, self._clock.utc() - last.utc_s), dropped=known.dropped,
            forgotten=known.forgotten, forgotten_utc_s=known.forgotten_utc_s,
        )  # fmt: skip


def _settings_of(tenant: Tenant) -> TenantSettings:
    goal = tenant.objective
    return TenantSettings.model_validate(
        {
            "id": tenant.id, "name": tenant.name, "entitlement": tenant.entitlement, "floor": tenant.floor,
            "declared_demand": tenant.declared_demand, "models": tenant.models, "applications": tenant.applications,
            "cameras": tenant.cameras, "proxy_utilisation": tenant.proxy_utilisation,
            "objective": {"metric": goal.metric, "goal": goal.goal, "utility": goal.utility},
        }
    )  # fmt: skip


def _report(tenant: Tenant, known: LearnedTenant, number: int) -> CurveReport:
    report = known.recent[number]
    return CurveReport(
        utc_s=report.utc_s, share=round(report.given, 4), performance=report.performance,
        load=report.load if tenant.serves else None,
    )  # fmt: skip


def _one(members: Members) -> TenantReason:
    return TenantReason("entitlement" if members.shared else "one")
