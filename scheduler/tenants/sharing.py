"""One decision of how tenants share the box: learn from what was measured, ask the policy, keep the limits.

Two clocks: among serving tenants a decision is made every interval, while cameras hold; once per window, when the
accuracy of the last one is known, all tenants are decided together. Everything learned is in `LearnedTenant`, which is
JSON values only. Curves are learned from the share that was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, sequence
from edge.core.tenants import (
    ForgottenCode,
    SharingRules,
    Tenant,
    TenantReason,
    TenantSource,
    TenantState,
)
from scheduler.tenants.budgets import BudgetLimits, budgets
from scheduler.tenants.grid import no_complaints
from scheduler.tenants.learned import (
    LearnedPolicy,
    Standing,
    TenantMemory,
    TenantView,
    unmeasured_demand,
    updated,
    viewed,
)
from scheduler.tenants.policies import sharing_policy
from scheduler.tenants.remembered import memory_from, memory_json
from scheduler.tenants.values import (
    IntervalReport,
    Party,
    SharingFeedback,
    SharingProblem,
    SharingState,
    TenantGoal,
)

#: Budgets are planned in steps of this share of the device.
STEP = 0.01
#: Reports that are shown; learning needs none of them.
RECENT = 60
#: Bounds that are shown: so many standard deviations from the mean (about 90 %).
BAND = 1.64
_FORGET: Mapping[str, ForgottenCode] = {
    "members": "members", "versions": "versions", "table": "table", "device": "device", "objective": "objective",
}  # fmt: skip


@dataclass(frozen=True)
class SharingReport:
    """A tenant's interval: `performance` (0-1) of `requests` under `load` per second (cameras: 1), with the share
    `given`, in `seconds` that ended at `utc_s`."""

    utc_s: float
    seconds: float
    load: float
    performance: float
    given: float
    requests: int = 0

    @property
    def usable(self) -> bool:
        """All of it is finite, and fits its range."""
        numbers = (self.utc_s, self.seconds, self.load, self.performance, self.given)
        return (
            all(math.isfinite(n) for n in numbers)
            and self.seconds > 0
            and self.load > 0
            and 0 <= self.performance <= 1
            and 0 < self.given <= 1
        )


@dataclass(frozen=True)
class Silence:
    """The front told nothing for `seconds` of an interval; `lost` requests of the tenant, which were open, failed."""

    seconds: float
    lost: int = 0


@dataclass(frozen=True)
class MeasuredUse:
    """Means of an interval: the share of the device that a tenant's workers `used`, of the share that was `given`.

    It says nothing of performance: workers that are busy may do well or badly."""

    used: float
    given: float

    @property
    def utilisation(self) -> float | None:
        """The part of the share given that was used (above 1 where nothing holds it back); None: no numbers, or nothing
        was given."""
        if not (self.used >= 0 and self.given > 0):
            return None
        part = self.used / self.given
        return part if math.isfinite(part) else None


@dataclass(frozen=True)
class LearnedTenant:
    """All that is known of one tenant. `scale` is the share that the curve's places refer to; `fingerprint` names what
    it was learned of, by part; `held` is its budget (None: none yet); `missed_utc_s`: since then it misses its goal."""

    memory: TenantMemory = field(default_factory=TenantMemory)
    scale: float | None = None
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    held: float | None = None
    moved_utc_s: float | None = None
    dropped: int = 0
    forgotten: ForgottenCode | None = None
    forgotten_utc_s: float | None = None
    missed_utc_s: float | None = None
    recent: tuple[SharingReport, ...] = ()

    @property
    def measured(self) -> bool:
        """A report of it was learned."""
        return self.memory.load.last is not None

    @property
    def last(self) -> SharingReport | None:
        """The last report."""
        return self.recent[-1] if self.recent else None

    def to_json(self) -> dict[str, Any]:
        """Write it."""
        return {
            "memory": memory_json(self.memory),
            "scale": self.scale,
            "fingerprint": dict(self.fingerprint),
            "held": self.held,
            "moved_utc_s": self.moved_utc_s,
            "dropped": self.dropped,
            "forgotten": self.forgotten,
            "forgotten_utc_s": self.forgotten_utc_s,
            "missed_utc_s": self.missed_utc_s,
            "recent": [[r.utc_s, r.seconds, r.load, r.performance, r.given, r.requests] for r in self.recent],
        }

    @staticmethod
    def from_json(value: Any, path: str = "tenant") -> LearnedTenant:
        """Read it. Raises InvalidValue with the field's path."""
        value = mapping(value, path)

        def maybe(key: str) -> float | None:
            return None if value.get(key) is None else float(number(value, key, path))

        recent = []
        for n, row in enumerate(sequence(value.get("recent") or [], f"{path}.recent")):
            if not isinstance(row, list) or len(row) != 6 or not all(isinstance(x, (int, float)) for x in row):
                raise InvalidValue(f"{path}.recent[{n}]", row, "six numbers")
            recent.append(SharingReport(row[0], row[1], row[2], row[3], row[4], int(row[5])))
        forgotten = value.get("forgotten")
        return LearnedTenant(
            memory_from(value.get("memory"), TenantMemory, f"{path}.memory"),
            maybe("scale"),
            {str(k): str(v) for k, v in mapping(value.get("fingerprint") or {}, f"{path}.fingerprint").items()},
            maybe("held"),
            maybe("moved_utc_s"),
            int(number(value, "dropped", path, 0)),
            forgotten if forgotten in (*_FORGET, "damaged") else None,
            maybe("forgotten_utc_s"),
            maybe("missed_utc_s"),
            tuple(recent),
        )


@dataclass(frozen=True)
class TenantNow:
    """A tenant in an interval. `floor`: the share that its plan needs at least; `need`: the share of its plan by its
    profile at the present rates (None: there is none); `report` None: nothing was measured; `dropped` values that were
    not usable. With a `silence` the report leaves out all that clients could not send, so nothing is learned of it.
    `use` is what its workers did with its share (None: not known)."""

    tenant: Tenant
    floor: float = 0.0
    need: float | None = None
    report: SharingReport | None = None
    dropped: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    silence: Silence | None = None
    use: MeasuredUse | None = None

    @property
    def proxy(self) -> float | None:
        """The share that it is taken to demand by its use: with it, its workers would use the part of their share that
        they shall. At least a step, so that there is something to use. None: the tenant has no such target, there is a
        profile, or the use is not known."""
        target = self.tenant.proxy_utilisation
        part = None if self.use is None else self.use.utilisation
        if self.use is None or target is None or part is None or self.need is not None:
            return None
        return min(1.0, max(STEP, self.use.given * part / target))

    @property
    def blank(self) -> bool:
        """There is nothing that says what it demands, before anything was measured."""
        return self.need is None and self.proxy is None and self.tenant.declared_demand is None


@dataclass(frozen=True)
class SharingQuestion:
    """How shall `total` be shared from `utc_s` on? `windows`: cameras' shares may move now."""

    utc_s: float
    total: float
    tenants: tuple[TenantNow, ...]
    rules: SharingRules
    windows: bool = False


@dataclass(frozen=True)
class TenantShare:
    """The answer for one tenant: its budget, how much of that is a floor's, and why. `demand`: share, low and high
    bound (None: unknown, or no share reaches the goal); by its use alone where the source is "proxy"."""

    held: float
    entitlement: float
    floor: float
    raised: float
    moved: float
    state: TenantState
    source: TenantSource
    reason: TenantReason
    demand: tuple[float | None, float | None, float | None] = (None, None, None)


@dataclass(frozen=True)
class SharingDecision:
    """The knowledge after the decision, the answer for each tenant, and why curves were forgotten, by tenant."""

    known: Mapping[str, LearnedTenant]
    shares: Mapping[str, TenantShare]
    forgotten: Mapping[str, ForgottenCode] = field(default_factory=dict)


def decide(known: Mapping[str, LearnedTenant], question: SharingQuestion) -> SharingDecision:
    """The next budgets. Tenants that are new get their entitlement, or what is known to suffice, at once."""
    blind = tuple(t if t.silence is None else replace(t, report=None) for t in question.tenants)
    question = replace(question, tenants=blind)
    forgotten: dict[str, ForgottenCode] = {}
    now: dict[str, LearnedTenant] = {}
    rights = entitlements([t.tenant for t in question.tenants], question.total)
    for entry in question.tenants:
        name = entry.tenant.id
        before, why = kept_of(known.get(name), entry.fingerprint, question.utc_s)
        if why is not None:
            forgotten[name] = why
        now[name] = _learned(before, entry, rights[name] or question.total / len(question.tenants))
    fresh = [t for t in question.tenants if now[t.tenant.id].held is None]
    everybody = bool(fresh) or question.windows or not any(t.tenant.serves for t in question.tenants)
    for entry in fresh:
        name = entry.tenant.id
        now[name] = replace(now[name], held=first_share(question, rights, name))
    scope = question.tenants if everybody else tuple(t for t in question.tenants if t.tenant.serves)
    held = {t.tenant.id: now[t.tenant.id].held or 0.0 for t in question.tenants}
    there = sum(held.values())
    if there > 0:
        held = {k: v * question.total / there for k, v in held.items()}
    total = question.total if everybody else sum(held[t.tenant.id] for t in scope)
    wanted = _wanted(question, scope, now, held, total)
    limits = [_limits(entry, now[entry.tenant.id], rights, held, question) for entry in scope]
    answer = budgets(limits, wanted, total, question.rules)
    shares: dict[str, TenantShare] = {}
    for entry in question.tenants:
        name = entry.tenant.id
        share = answer.shares.get(name, held[name])
        moved = share - held[name]
        if abs(moved) > 1e-6:
            now[name] = replace(now[name], moved_utc_s=question.utc_s)
        now[name] = replace(now[name], held=share)
        shares[name] = TenantShare(
            share,
            rights[name],
            max(entry.floor, entry.tenant.floor),
            answer.raised.get(name, 0.0),
            moved,
            state_of(entry),
            source := _source(entry, now[name]),
            TenantReason("kept"),
            (entry.proxy, None, None)
            if source == "proxy"
            else demand_of_share(entry.tenant, now[name], question.total),
        )
    for entry in question.tenants:
        name = entry.tenant.id
        reason = answer.reasons.get(name) or _reason(entry, shares, entry in scope, question)
        shares[name] = replace(shares[name], reason=reason)
    return SharingDecision(now, shares, forgotten)


def entitlements(tenants: Sequence[Tenant], total: float) -> dict[str, float]:
    """The share that is each tenant's by right."""
    weights = sum(t.entitlement for t in tenants)
    return {t.id: total * t.entitlement / weights if weights > 0 else total / len(tenants) for t in tenants}


def kept_of(
    known: LearnedTenant | None, fingerprint: Mapping[str, str], utc_s: float
) -> tuple[LearnedTenant, ForgottenCode | None]:
    """The knowledge that may be kept: nothing that was learned of something else. The budget stays. Parts that are not
    in `fingerprint` are not known now, and compared when they are."""
    if known is None:
        return LearnedTenant(fingerprint=dict(fingerprint)), None
    other = next((k for k, v in fingerprint.items() if known.fingerprint.get(k, v) != v), None)
    if other is None:
        return replace(known, fingerprint={**known.fingerprint, **fingerprint}), None
    code = _FORGET.get(other, "members")
    if known.memory == TenantMemory():
        return replace(known, fingerprint=dict(fingerprint), recent=()), None
    return (
        LearnedTenant(
            fingerprint=dict(fingerprint), held=known.held, moved_utc_s=known.moved_utc_s, dropped=known.dropped,
            forgotten=code, forgotten_utc_s=utc_s,
        ),
        code,
    )  # fmt: skip


def first_share(question: SharingQuestion, rights: Mapping[str, float], tenant: str) -> float:
    """The first budget of a tenant: by a profile, by its use, or by the declaration (believed half), as far as all that
    are known to need less leave it; else its entitlement."""
    demands = [unmeasured_demand(_party(t, None), rights[t.tenant.id]) for t in question.tenants]
    weights = [max(t.tenant.entitlement, 1e-9) for t in question.tenants]
    got = no_complaints(demands, weights, question.total)
    # Shares that nobody needs go to all by right.
    spare = max(0.0, question.total - float(got.sum()))
    n = next(k for k, t in enumerate(question.tenants) if t.tenant.id == tenant)
    return float(got[n]) + spare * rights[tenant] / max(question.total, 1e-9)


def _learned(known: LearnedTenant, entry: TenantNow, scale: float) -> LearnedTenant:
    known = replace(known, dropped=known.dropped + entry.dropped)
    report, last = entry.report, known.last
    if report is None:
        return known
    if not report.usable or (last is not None and report.utc_s <= last.utc_s):
        # Late, doubled, from a clock that went back, or no number: counted, not learned.
        return replace(known, dropped=known.dropped + 1)
    scale = known.scale or scale
    seen = IntervalReport(report.load, report.performance, report.given, report.seconds)
    memory = updated(known.memory, _party(entry, None), scale, (seen,))
    missed = report.performance < entry.tenant.objective.goal - 1e-9
    began = report.utc_s - report.seconds if known.missed_utc_s is None else known.missed_utc_s
    since = began if missed else None
    return replace(
        known, memory=memory, scale=scale, recent=(*known.recent, report)[-RECENT:], missed_utc_s=since
    )  # fmt: skip


def _party(entry: TenantNow, known: LearnedTenant | None) -> Party:
    """The tenant as policies know it. One that was measured needs neither profile nor proxy nor declaration."""
    t = entry.tenant
    measured = known is not None and known.measured
    declared = None if measured else t.declared_demand
    return Party(
        t.id,
        TenantGoal(t.objective.metric, t.objective.goal, t.objective.utility),
        t.entitlement,
        t.serves,
        measured or entry.blank,
        declared,
        max(t.floor, entry.floor),
        None if measured else entry.need,
        None if measured else entry.proxy,
    )


def _wanted(
    question: SharingQuestion,
    scope: Sequence[TenantNow],
    known: Mapping[str, LearnedTenant],
    held: Mapping[str, float],
    total: float,
) -> dict[str, float]:
    """The policy's allocation."""
    if len(scope) < 2 or total < 2 * STEP:
        return {}
    floors = [max(t.tenant.floor, t.floor) for t in scope]
    rights = entitlements([t.tenant for t in scope], total)
    safe = [max(f, safe_share(t, known[t.tenant.id], rights[t.tenant.id])) for f, t in zip(floors, scope, strict=True)]
    steps = math.floor(total / STEP + 1e-9)
    # What cannot be kept of the floors the limits keep.
    least = next((f for f in (safe, floors) if sum(_steps_of(share) for share in f) <= steps), [0.0] * len(scope))
    parties = [replace(_party(t, known[t.tenant.id]), floor=f) for t, f in zip(scope, least, strict=True)]
    reports = {t.tenant.id: _interval(t) for t in scope}
    holding = _fitting([min(steps, round(held[t.tenant.id] / STEP)) for t in scope], steps)
    if not sum(p.weight for p in parties) > 0:
        parties = [replace(p, weight=1.0) for p in parties]
    problem = SharingProblem("box", total, STEP, tuple(parties))
    policy = sharing_policy(question.rules.policy)
    if isinstance(policy, LearnedPolicy):
        views = tuple(view_of(p, known[p.id], problem) for p in parties)
        standing = Standing(problem, views, holding, tuple(bool(reports[p.id]) for p in parties))
        return {p.id: k * STEP for p, k in zip(parties, policy.choose(standing), strict=True)}
    targets = [held[p.id] for p in parties]
    state = SharingState(policy.name, 0, 0.0, holding, 0, {"targets": targets})
    if question.rules.policy == "fair":
        return {p.id: e for p, e in zip(parties, problem.entitlements.tolist(), strict=True)}
    return dict(policy.step(problem, state, SharingFeedback(0, 0.0, reports)).allocation)


def safe_share(entry: TenantNow, known: LearnedTenant, right: float) -> float:
    """The share below which a serving tenant is not put for the others' sake: its need by the profile, or a smaller one
    with which it was seen to meet its goal under the present load and never seen to miss it; at most its `right`.

    Requests wait in a queue: a little below the need nearly all of them are late, which a smooth curve tells too late.
    """
    if entry.need is None or not entry.tenant.serves:
        return 0.0
    last = entry.report if entry.report is not None else known.last
    if last is None:
        return 0.0  # its first share is by the profile
    goal = entry.tenant.objective.goal - 1e-9
    missed = max((r.given for r in known.recent if r.performance < goal and r.load <= last.load), default=0.0)
    met = [r.given for r in known.recent if r.performance >= goal and r.load >= last.load and r.given > missed]
    return min(entry.need, right, *met)


def _steps_of(share: float) -> int:
    return math.ceil(share / STEP - 1e-9)


def _fitting(held: list[int], steps: int) -> tuple[int, ...]:
    """Steps that are held, of which there are no more than `steps`."""
    while sum(held) > steps:
        held[held.index(max(held))] -= 1
    return tuple(held)


def _interval(entry: TenantNow) -> tuple[IntervalReport, ...]:
    report = entry.report
    if report is None or not report.usable:
        return ()
    return (IntervalReport(report.load, report.performance, report.given, report.seconds),)


def view_of(party: Party, known: LearnedTenant, problem: SharingProblem) -> TenantView | None:
    """The tenant as policies see it; None: nothing is known yet."""
    if not known.measured or known.scale is None:
        return None
    return viewed(problem, party, known.memory, known.scale)


def curve_of(tenant: Tenant, known: LearnedTenant, total: float) -> tuple[tuple[float, float, float, float], ...]:
    """(share, performance, low, high) over the shares from 0 to `total`, at the load that is expected now. Empty:
    nothing was measured yet."""
    if not known.measured or known.scale is None or total < STEP:
        return ()
    party = _party(TenantNow(tenant), known)
    problem = SharingProblem("box", total, STEP, (replace(party, weight=1.0, floor=0.0),))
    view = viewed(problem, party, known.memory, known.scale)
    mean, low, high = (
        np.clip(view.performance(w)[0], 0.0, 1.0) for w in (0.0, -BAND, BAND)
    )  # fmt: skip
    shares = STEP * np.arange(problem.steps + 1)
    return tuple(
        (round(float(s), 4), round(float(m), 4), round(float(a), 4), round(float(b), 4))
        for s, m, a, b in zip(shares, mean, low, high, strict=True)
    )


def demand_of_share(
    tenant: Tenant, known: LearnedTenant, total: float
) -> tuple[float | None, float | None, float | None]:
    """The share that reaches the goal by the mean curve, by the upper and by the lower bound."""
    points = curve_of(tenant, known, total)
    goal = tenant.objective.goal - 1e-6
    share, low, high = (next((p[0] for p in points if p[k] >= goal), None) for k in (1, 3, 2))
    return share, low, high


def _limits(
    entry: TenantNow,
    known: LearnedTenant,
    rights: Mapping[str, float],
    held: Mapping[str, float],
    question: SharingQuestion,
) -> BudgetLimits:
    tenant = entry.tenant
    nothing = entry.report is None and (known.measured or entry.blank)
    still = nothing or entry.silence is not None
    unknown = not known.measured and entry.blank
    ago = None if known.moved_utc_s is None else max(0.0, question.utc_s - known.moved_utc_s)
    return BudgetLimits(
        tenant.id, rights[tenant.id], max(tenant.floor, entry.floor), held[tenant.id],
        unknown or state_of(entry) == "misses", still, ago,
    )  # fmt: skip


def state_of(entry: TenantNow) -> TenantState:
    """How a tenant stood in the interval."""
    report = entry.report
    if report is None or not report.usable:
        return "unknown"
    return "meets" if report.performance >= entry.tenant.objective.goal - 1e-9 else "misses"


def _source(entry: TenantNow, known: LearnedTenant) -> TenantSource:
    if entry.silence is not None:
        return "held"
    if known.measured:
        return "held" if entry.report is None else "learned"
    if entry.need is not None:
        return "profiled"
    if entry.proxy is not None:
        return "proxy"
    return "declared" if entry.tenant.declared_demand is not None else "entitlement"


def _reason(
    entry: TenantNow, shares: Mapping[str, TenantShare], in_scope: bool, question: SharingQuestion
) -> TenantReason:
    tenant, mine = entry.tenant, shares[entry.tenant.id]
    if len(shares) < 2:
        return TenantReason("one")
    if entry.silence is not None:
        return TenantReason("front_down", {"down_s": entry.silence.seconds, "lost": float(entry.silence.lost)})
    if mine.raised > 1e-6:
        return TenantReason("floor", {"raised": mine.raised, "floor": mine.floor})
    if abs(mine.moved) > 1e-6:
        sign = 1.0 if mine.moved > 0 else -1.0
        others = tuple(t for t, s in shares.items() if s.moved * sign < -1e-6)
        numbers = {"moved": abs(mine.moved), "goal": tenant.objective.goal}
        if entry.report is not None:
            numbers["performance"] = entry.report.performance
            numbers["spare"] = entry.report.performance - tenant.objective.goal
        return TenantReason("more" if sign > 0 else "less", numbers, others)
    if not in_scope and not tenant.serves:
        return TenantReason("window")
    if mine.source == "held":
        return TenantReason("no_traffic")
    if mine.source == "profiled":
        return TenantReason("profiled", {"need": entry.need or 0.0})
    if mine.source == "proxy":
        return _used(entry)
    if mine.source == "declared":
        return TenantReason("declared", {"demand": tenant.declared_demand or 0.0})
    return TenantReason("entitlement") if mine.source == "entitlement" else TenantReason("kept")


def _used(entry: TenantNow) -> TenantReason:
    use, target = entry.use, entry.tenant.proxy_utilisation
    assert use is not None
    numbers = {"utilisation": use.utilisation or 0.0, "given": use.given}
    return TenantReason("proxy", numbers | {"target": target or 0.0, "demand": entry.proxy or 0.0})
