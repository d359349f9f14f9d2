"""Tenants in dictionaries, with the real settings models, for the web tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edge.appliance.answers.read import read
from edge.appliance.answers.tenants import (
    SharingAnswer,
    SharingWhatIf,
    TenantAnswer,
    TenantDetail,
    TenantHistory,
    TenantsAnswer,
)
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.tenants import check_tenants
from edge.settings import SharingSettings, TenantSettings, merge, parse, without_null
from web.examples.tenants import CURVE, LEARNED, SHARING, SHARING_SETTINGS, SHARING_WHAT_IF, TENANT, TENANT_SETTINGS

if TYPE_CHECKING:
    from appliance_double import DictAppliance

Json = dict[str, Any]
ACCURACY = {"metric": "accuracy", "goal": 0.7, "utility": "linear"}
#: How each stands, where it is not as the example.
STATES: Mapping[str, Json] = {
    "parking": {
        "share": {"held": 0.1, "given": 0.1, "entitlement": 0.18, "floor": 0.04, "raised_to_floor": 0.0, "moves": 9},
        "state": "meets", "performance": 0.99, "utility": 1.0, "load": 4.0, "missed_s": 0.0,
        "demand": {"share": 0.07, "low": 0.05, "high": 0.1, "best": 1.0},
        "reason": {"code": "less", "numbers": {"moved": 0.02, "performance": 0.99, "goal": 0.98, "spare": 0.01},
                   "others": ["gate"]},
    },
    "north-side": {
        "share": {"held": 0.28, "given": 0.28, "entitlement": 0.18, "floor": 0.12, "raised_to_floor": 0.0, "moves": 2},
        "state": "meets", "performance": 0.745, "utility": 1.0, "load": None, "missed_s": 0.0, "source": "held",
        "demand": {"share": 0.2, "low": 0.14, "high": 0.3, "best": 0.81},
        "reason": {"code": "window", "numbers": {}, "others": []},
    },
    "default-cameras": {
        "share": {"held": 0.1, "given": 0.1, "entitlement": 0.18, "floor": 0.1, "raised_to_floor": 0.01, "moves": 1},
        "state": "unknown", "performance": None, "utility": None, "load": None, "missed_s": 0.0,
        "source": "entitlement",
        "demand": {"share": None, "low": None, "high": None, "best": None},
        "reason": {"code": "floor", "numbers": {"raised": 0.01, "floor": 0.1}, "others": []},
        "learned": LEARNED | {"reports": 0, "changes": 0, "last_utc_s": None, "age_s": None, "forgotten": None,
                              "forgotten_utc_s": None},
    },
}  # fmt: skip


class DictTenants:
    """Implements `TenantsService`: two serving tenants, one of the camera north, and the rest of the cameras."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box
        self.sharing_settings = parse(SharingSettings, SHARING_SETTINGS)
        settings: tuple[Json, ...] = (
            TENANT_SETTINGS,
            TENANT_SETTINGS | {"id": "parking", "name": "", "entitlement": 1.0, "models": ["parked"], "floor": 0.04},
            {"id": "north-side", "name": "North side", "objective": ACCURACY, "cameras": ["north"]},
        )
        self.kept = {s["id"]: parse(TenantSettings, s) for s in settings}
        self.states: dict[str, Json] = {}

    @property
    def _every(self) -> dict[str, TenantSettings]:
        rest = parse(TenantSettings, {"id": "default-cameras", "objective": ACCURACY})
        return {"default-cameras": rest, **self.kept} if self.kept else {}

    def _answer(self, tenant: str) -> TenantAnswer:
        settings = self._every[tenant]
        named = {c for s in self.kept.values() for c in s.cameras}
        rest = tuple(c for c in self.box.cameras.kept if c not in named)
        state = TENANT | STATES.get(tenant, {}) | self.states.get(tenant, {})
        last = None if state["learned"]["last_utc_s"] is None else self.box.state.utc_s - 6.0
        about = {
            "id": tenant, "name": settings.name, "settings": settings, "implicit": tenant not in self.kept,
            "models": settings.models, "applications": settings.applications,
            "cameras": rest if tenant == "default-cameras" else settings.cameras, "goal": settings.objective.goal,
            "learned": state["learned"] | {"last_utc_s": last},
        }  # fmt: skip
        return read(TenantAnswer, state | about)

    def _known(self, tenant: str) -> None:
        if tenant not in self._every:
            raise NotFound(f"tenant {tenant} does not exist")

    def all(self) -> TenantsAnswer:
        self.box.state.look("tenants")
        every = [t for t in (*self.kept, "default-cameras") if t in self._every]
        return TenantsAnswer(active=len(every) > 1, capacity=0.9, tenants=tuple(map(self._answer, every)))

    def one(self, tenant: str) -> TenantDetail:
        self._known(tenant)
        found = self._answer(tenant)
        curve: Json = CURVE | {"id": tenant, "goal": found.goal, "learned": found.learned, "points": (), "reports": ()}
        if found.performance is None:
            return read(TenantDetail, {"tenant": found, "curve": curve | {"now": found.share.given, "last": None}})
        shares = [0.9 * n / 60 for n in range(1, 61)]
        means = [
            1.0 - math.exp(-s / (found.share.given / -math.log(max(0.005, 1.0 - found.performance)))) for s in shares
        ]
        points = [
            {"share": s, "performance": m, "low": max(0.0, m - 0.3 * abs(s - found.share.given) - 0.01),
             "high": min(1.0, m + 0.2 * abs(s - found.share.given) + 0.01)}
            for s, m in zip(shares, means, strict=True)
        ]  # fmt: skip
        reports = [
            {"utc_s": self.box.state.utc_s - 10.0 * (24 - n), "share": max(0.0, found.share.given - 0.003 * (24 - n)),
             "performance": max(0.0, found.performance - 0.002 * (24 - n) + 0.01 * math.sin(n)), "load": found.load}
            for n in range(24)
        ]  # fmt: skip
        last = {
            "utc_s": self.box.state.utc_s - 6.0, "share": found.share.given, "performance": found.performance,
            "load": found.load,
        }  # fmt: skip
        return read(
            TenantDetail,
            {
                "tenant": found,
                "curve": curve | {"points": points, "reports": reports, "now": found.share.given, "last": last},
            },
        )

    def _together(self, settings: dict[str, TenantSettings]) -> None:
        check_tenants([t.tenant() for t in settings.values()])
        for tenant in settings.values():
            for n, camera in enumerate(tenant.cameras):
                if camera not in self.box.cameras.kept and tenant.id not in self.kept:
                    raise InvalidValue(f"cameras[{n}]", camera, "one of " + ", ".join(self.box.cameras.kept))
        self.kept = settings

    async def add(self, settings: Mapping[str, Any], by: str) -> TenantAnswer:
        self.box.state.look("add_tenant")
        tenant = parse(TenantSettings, dict(settings))
        if tenant.id in self.kept:
            raise Conflict(f"tenant {tenant.id} exists already")
        self._together(self.kept | {tenant.id: tenant})
        self.box.events.note("tenant.added", tenant=tenant.id, by=by)
        return self._answer(tenant.id)

    async def change(self, tenant: str, patch: Mapping[str, Any], by: str) -> TenantAnswer:
        self._known(tenant)
        if patch.get("id", tenant) != tenant:
            raise InvalidValue("id", patch["id"], f"{tenant} (an id does not change)")
        merged = merge(self._every[tenant].model_dump(mode="json"), dict(patch))
        changed = parse(TenantSettings, without_null(merged))
        self._together(self.kept | {tenant: changed})
        self.box.events.note("tenant.changed", tenant=tenant, by=by, fields=sorted(patch))
        return self._answer(tenant)

    async def remove(self, tenant: str, by: str) -> None:
        if tenant not in self.kept:
            raise NotFound(f"tenant {tenant} does not exist")
        del self.kept[tenant]
        self.box.events.note("tenant.removed", tenant=tenant, by=by)

    def sharing(self) -> SharingAnswer:
        # It was decided between two intervals, too: when it is decided again does not follow from that.
        decided = self.box.state.utc_s - 2.0 if self.kept else None
        more = {
            "settings": self.sharing_settings, "active": self.all().active, "decided_utc_s": decided,
            "next_utc_s": None if decided is None else self.box.state.utc_s + self.sharing_settings.interval_s - 6.0,
        }  # fmt: skip
        return read(SharingAnswer, SHARING | more)

    async def change_sharing(self, patch: Mapping[str, Any], by: str) -> SharingAnswer:
        merged = merge(self.sharing_settings.model_dump(mode="json"), dict(patch))
        self.sharing_settings = parse(SharingSettings, {k: v for k, v in merged.items() if v is not None})
        self.box.events.note("tenants.settings", by=by, fields=sorted(patch))
        return self.sharing()

    def history(self, tenant: str | None = None) -> TenantHistory:
        if tenant is not None:
            self._known(tenant)
        rows = []
        for n in range(288):
            for found in self.all().tenants:
                if tenant not in (None, found.id) or found.performance is None:
                    continue
                busy = math.sin(n / 288 * 2 * math.pi)
                performance = min(1.0, found.performance - 0.03 * busy)
                rows.append(
                    {
                        "tenant": found.id, "utc_s": self.box.state.utc_s - 300.0 * (288 - n), "seconds": 300.0,
                        "held": found.share.held + 0.05 * busy, "given": found.share.given + 0.05 * busy,
                        "performance": performance, "goal": found.goal, "utility": min(1.0, performance / found.goal),
                        "load": found.load, "requests": 0 if found.load is None else round(300 * found.load),
                        "floor": found.share.floor,
                        # In the first half of the day there was another tenant.
                        "entitlement": found.share.entitlement * (0.5 if n < 144 else 1.0),
                    }
                )  # fmt: skip
        return read(TenantHistory, {"rows": rows})

    async def what_if(self, policy: str) -> SharingWhatIf:
        self.box.state.look("sharing_what_if")
        parse(SharingSettings, {"policy": policy})
        return read(SharingWhatIf, SHARING_WHAT_IF | {"policy": policy, "from_utc_s": self.box.state.utc_s - 86_400.0})
