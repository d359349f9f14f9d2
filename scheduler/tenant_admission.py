"""Admission where tenants share the box: inside the tenant's entitlement first, then with what the others leave.

A candidate is planned beside the members of its own tenant only, as the plan that is followed does. Inside the
entitlement it is admitted by right, also while another holds that share; beyond it, the others keep what they need of
their own entitlements, and may lend the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edge.core import checks
from edge.core.admission_reasons import AdmissionReason
from scheduler.admission import Admission, Box, CameraCandidate, Candidate, ServingPlanner, admit
from scheduler.policies import WindowPolicy
from scheduler.tenants.grid import by_weight

_LEAST = 1e-6

#: Where there is room for the candidate: inside its tenant's entitlement; with what others leave; nowhere.
Within = Literal["entitlement", "spare", "none"]


@dataclass(frozen=True)
class TenantRoom:
    """A tenant's shares of the device: by right, held now, the least that it keeps, and what it needs for its goal.
    `members` are its served models and applications (`serves`), or cameras. `weight` is its entitlement among others;
    one that has not `joined` has no member now, and neither a share nor a right."""

    id: str
    entitlement: float
    held: float
    floor: float
    need: float
    members: frozenset[str] = frozenset()
    serves: bool = True
    weight: float = 1.0
    joined: bool = True

    @property
    def keeps(self) -> float:
        """Its need as far as that is its by right, at least its floor."""
        return max(self.floor, min(self.need, self.entitlement))


@dataclass(frozen=True)
class TenantLoss:
    """The share that a tenant would lose of what it holds."""

    tenant: str
    held: float
    loses: float

    @property
    def reason(self) -> AdmissionReason:
        """As one of those that yield."""
        return AdmissionReason("tenant_loses", tenant=self.tenant, numbers={"loses": self.loses, "held": self.held})


@dataclass(frozen=True)
class TenantAdmission:
    """The answer, and for the candidate's tenant: where there is room, its shares, and who would lose how much."""

    found: Admission
    tenant: str
    within: Within
    entitlement: float
    held: float
    share_after: float
    room: float
    losses: tuple[TenantLoss, ...] = ()

    def after(self, found: Admission) -> TenantAdmission:
        """With the answer `found` in place of its own: one that is refused takes nothing from anybody."""
        if found.admitted or self.within == "none":
            return replace(self, found=found)
        return replace(self, found=found, within="none", share_after=self.held, losses=())

    def to_json(self) -> dict[str, Any]:
        """All but the answer itself."""
        return {
            "tenant": self.tenant,
            "within": self.within,
            "entitlement": round(self.entitlement, 4),
            "held": round(self.held, 4),
            "share_after": round(self.share_after, 4),
            "room": round(self.room, 4),
            "losses": [{"tenant": x.tenant, "held": round(x.held, 4), "loses": round(x.loses, 4)} for x in self.losses],
        }


def rooms_with(rooms: Sequence[TenantRoom], tenant: str) -> tuple[TenantRoom, ...]:
    """The tenants that share the box when `tenant` has a member: those that have one, and it. Where it is new among
    them, what is each one's by right counts it. Raises InvalidValue for an unknown tenant."""
    checks.one_of("tenant", tenant, [r.id for r in rooms])
    there = tuple(r for r in rooms if r.joined or r.id == tenant)
    if all(r.joined for r in there):
        return there
    rights = by_weight([r.weight for r in there], sum(r.held for r in there))
    return tuple(replace(r, entitlement=right) for r, right in zip(there, rights, strict=True))


def admit_in(
    rooms: Sequence[TenantRoom],
    tenant: str,
    box: Box,
    candidate: Candidate,
    serving: ServingPlanner,
    window: WindowPolicy | None = None,
    instead: ServingPlanner | None = None,
) -> TenantAdmission:
    """The effect of adding `candidate` to the tenant of this name. Raises InvalidValue for an unknown tenant, and as
    `admit`."""
    checks.one_of("tenant", tenant, [r.id for r in rooms])
    mine = next(r for r in rooms if r.id == tenant)
    others = [r for r in rooms if r.id != tenant]
    total = sum(r.held for r in rooms)
    most = max(mine.entitlement, total - sum(r.keeps for r in others))
    own = _own(box, mine, candidate)
    tries: tuple[tuple[Within, float], ...] = (("entitlement", mine.entitlement), ("spare", most))
    for within, room in tries:
        found = admit(replace(own, capacity=_part(room)), candidate, serving, window, instead)
        if found.admitted:
            # Cameras have the whole of their tenant's share; a serving plan is the smallest that holds.
            share = found.serving_share_after
            if isinstance(candidate, CameraCandidate):
                share = min(room, max(mine.held, mine.entitlement if within == "entitlement" else room))
            after = max(mine.held, share)
            losses = _losses(others, after - mine.held)
            found = replace(found, yields=(*found.yields, *(loss.reason for loss in losses)))
            return TenantAdmission(found, tenant, within, mine.entitlement, mine.held, after, room, losses)
    bound = AdmissionReason("entitlement", tenant=tenant, numbers={"most": most, "entitlement": mine.entitlement})
    found = replace(found, reasons=(*found.reasons, bound))
    return TenantAdmission(found, tenant, "none", mine.entitlement, mine.held, mine.held, most)


def _part(share: float) -> float:
    return min(1.0, max(_LEAST, share))


def _own(box: Box, mine: TenantRoom, candidate: Candidate) -> Box:
    """The box with the members of one tenant only."""
    pipelines = tuple(p for p in box.pipelines if p.application.name in mine.members)
    asked = {m for p in pipelines for m in p.application.models}
    models = tuple(m for m in box.models if m.name in mine.members or m.name in asked)
    window = box.window
    if window is not None:
        streams = tuple(s for s in window.streams if s.id in mine.members)
        window = replace(window, streams=streams) if streams and isinstance(candidate, CameraCandidate) else None
    return replace(box, models=models, pipelines=pipelines, window=window)


def _losses(others: Sequence[TenantRoom], taken: float) -> tuple[TenantLoss, ...]:
    """The tenants that give `taken`: first those that hold more than their entitlement, then those that hold more than
    they keep, each in proportion to that."""
    left, loses = max(0.0, taken), {r.id: 0.0 for r in others}
    for spare in ({r.id: r.held - r.entitlement for r in others}, {r.id: r.held - r.keeps for r in others}):
        free = {t: max(0.0, s - loses[t]) for t, s in spare.items()}
        there = sum(free.values())
        if there > 0 and left > 0:
            given = min(left, there)
            for t, part in free.items():
                loses[t] += given * part / there
            left -= given
    return tuple(TenantLoss(r.id, r.held, loses[r.id]) for r in others if loses[r.id] > _LEAST)
