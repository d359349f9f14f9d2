"""One decision of how tenants share the box: learn from what was measured, ask the policy, keep the limits.

Two clocks: among serving tenants a decision is made every interval, while cameras hold (but for floors, which count at
once); once per window, when the accuracy of the last one is known, all tenants are decided together. Everything learned
is in `LearnedTenant`, which is JSON values only. Curves are learned from the share that was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edge.core.tenants import (
    ForgottenCode,
    SharingRules,
    Tenant,
    TenantReason,
    TenantSource,
    TenantState,
)
from scheduler.tenants.budgets import BudgetLimits, budgets, cut, floors_first, reclaimed, rescaled
from scheduler.tenants.grid import by_weight, no_complaints
from scheduler.tenants.known import RECENT, LearnedTenant, SharingReport, kept_of, on_clock
from scheduler.tenants.learned import (
    LearnedPolicy,
    Standing,
    TenantView,
    unmeasured_demand,
    updated,
    viewed,
)
from scheduler.tenants.policies import sharing_policy
from scheduler.tenants.usable import at_most
from scheduler.tenants.values import (
    Claim,
    IntervalReport,
    ProblemTenant,
    SharingFeedback,
    SharingProblem,
    SharingState,
    TenantGoal,
)

#: Budgets are planned in steps of this share of the device.
STEP = 0.01
#: Bounds that are shown: so many standard deviations from the mean (about 90 %).
BAND = 1.64


@dataclass(frozen=True)
class Silence:
    """For `seconds` of an interval the front was silent; `lost` requests of the tenant, which were open, failed."""

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
class TenantNow:
    """A tenant in an interval. `floor`: the share that its plan needs at least; `need`: the share of its plan by its
    profile at the present rates (None: there is none); `report` None: nothing was measured; `dropped` values that were
    not usable. With a `silence` the report leaves out all that clients could not send, so nothing is learned of it.
    `use` is what its workers did with its share (None: not known), `usable` the shares that its plan can use, ascending
    (empty: any). `quiet_s`: nothing was measured for so long, and that is long enough to end its alarm (0: not so)."""

    tenant: Tenant
    floor: float = 0.0
    need: float | None = None
    report: SharingReport | None = None
    dropped: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    silence: Silence | None = None
    use: MeasuredUse | None = None
    usable: tuple[float, ...] = ()
    quiet_s: float = 0.0

    @property
    def proxy(self) -> float | None:
        """The share that it is taken to demand by its use: with it, its workers would use the part of their share that
        they shall. At least a step, so that there is something to use. None: the tenant has no such target, or the use
        is not known."""
        target = self.tenant.proxy_utilisation
        part = None if self.use is None else self.use.utilisation
        if self.use is None or target is None or part is None:
            return None
        return min(1.0, max(STEP, self.use.given * part / target))

    @property
    def claim(self) -> Claim | None:
        """The share that it is taken to demand before anything was measured; None: nothing says it."""
        return _problem_tenant(self, None).claim


@dataclass(frozen=True)
class SharingQuestion:
    """How shall `total` be shared from `utc_s` on? `windows`: cameras' shares may move now. `between`: there is more or
    less to share, or a tenant came or went; no interval has ended, so a report that is missing says nothing."""

    utc_s: float
    total: float
    tenants: tuple[TenantNow, ...]
    rules: SharingRules
    windows: bool = False
    between: bool = False


@dataclass(frozen=True)
class GoalDemand:
    """The share with which the goal is expected to be met, and its bounds by the band of the curve (None: unknown, or
    no share reaches it), and the performance expected with all that there is (None: no curve is known)."""

    share: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None

    @property
    def out_of_reach(self) -> bool:
        """No share reaches the goal, not even by the upper bound of the curve."""
        return self.best is not None and self.share is None and self.low is None


@dataclass(frozen=True)
class TenantShare:
    """The answer for one tenant: its budget, how much of that is a floor's, and why. `demand` is by its use alone where
    the source is "proxy"."""

    held: float
    entitlement: float
    floor: float
    raised: float
    moved: float
    state: TenantState
    source: TenantSource
    reason: TenantReason
    demand: GoalDemand = GoalDemand()


@dataclass(frozen=True)
class SharingDecision:
    """The knowledge after the decision, the answer for each tenant, and why curves were forgotten, by tenant.
    `lacking`: floors of all tenants are more than there is, by so much."""

    known: Mapping[str, LearnedTenant]
    shares: Mapping[str, TenantShare]
    forgotten: Mapping[str, ForgottenCode] = field(default_factory=dict)
    lacking: float = 0.0


def decide(known: Mapping[str, LearnedTenant], question: SharingQuestion) -> SharingDecision:
    """The next budgets. Tenants that are new get their entitlement, or what is known to suffice, at once."""
    blind = tuple(t if t.silence is None else replace(t, report=None) for t in question.tenants)
    question = replace(question, tenants=blind)
    forgotten: dict[str, ForgottenCode] = {}
    now: dict[str, LearnedTenant] = {}
    rights = entitlements([t.tenant for t in question.tenants], question.total)
    for entry in question.tenants:
        name = entry.tenant.id
        there = known.get(name)
        there = None if there is None else on_clock(there, question.utc_s)
        before, why = kept_of(there, entry.fingerprint, question.utc_s)
        if why is not None:
            forgotten[name] = why
        scale = rights[name] or question.total / len(question.tenants)
        before = begun_anew(before) if entry.quiet_s > 0 else before
        now[name] = _learned(before, entry, scale, rights[name] * (1.0 - question.rules.explore))
    fresh = [t for t in question.tenants if now[t.tenant.id].held is None]
    everybody = bool(fresh) or question.windows or not any(t.tenant.serves for t in question.tenants)
    for entry in fresh:
        name = entry.tenant.id
        now[name] = replace(now[name], held=first_share(question, rights, name))
    scope = question.tenants if everybody else tuple(t for t in question.tenants if t.tenant.serves)
    held = _held(question, now, rights)
    safe = {t.tenant.id: safe_share(t, now[t.tenant.id], rights[t.tenant.id]) for t in question.tenants}
    limits = [_limits(entry, now[entry.tenant.id], rights, held, safe, question) for entry in scope]
    rest = [_limits(t, now[t.tenant.id], rights, held, safe, question) for t in question.tenants if t not in scope]
    gives = reclaimed(limits, rest, question.rules)
    left = [limit.held - given for limit, given in zip(rest, gives, strict=True)]
    kept = dict(zip((limit.id for limit in rest), floors_first(limits, rest, left, question.total), strict=True))
    # Floors of those may take all that there is; rounding must not make it less than nothing.
    total = max(0.0, question.total - sum(kept.values()))
    wanted = _wanted(question, scope, now, held, safe, total)
    answer = budgets(limits, wanted, total, question.rules)
    shares: dict[str, TenantShare] = {}
    for entry in question.tenants:
        name = entry.tenant.id
        share = answer.shares.get(name, kept.get(name, held[name]))
        moved = share - held[name]
        if abs(moved) > 1e-6:
            now[name] = replace(now[name], moved_utc_s=question.utc_s)
        now[name] = replace(now[name], held=share)
        shares[name] = TenantShare(
            share,
            rights[name],
            max(entry.floor, entry.tenant.floor),
            # Of those that are not decided on now nothing but a floor raises a share.
            answer.raised.get(name, max(0.0, moved) if name in kept else 0.0),
            moved,
            state_of(entry),
            source := _source(entry, now[name], question.between),
            TenantReason("kept"),
            GoalDemand(entry.proxy) if source == "proxy" else demand_of_share(entry.tenant, now[name], question.total),
        )
    for entry in question.tenants:
        name = entry.tenant.id
        reason = answer.reasons.get(name) or _reason(entry, shares, entry in scope, question)
        shares[name] = replace(shares[name], reason=reason)
    lacking = max(0.0, sum(share.floor for share in shares.values()) - question.total)
    return SharingDecision(now, shares, forgotten, lacking)


def _held(
    question: SharingQuestion, known: Mapping[str, LearnedTenant], rights: Mapping[str, float]
) -> dict[str, float]:
    """The shares held until now, as parts of what there is now."""
    names = [t.tenant.id for t in question.tenants]
    shares = [known[name].held or 0.0 for name in names]
    floors = [max(t.floor, t.tenant.floor) for t in question.tenants]
    firm = [bool(t.usable) for t in question.tenants]
    there = rescaled(shares, [rights[name] for name in names], floors, firm, question.total)
    return dict(zip(names, there, strict=True))


def entitlements(tenants: Sequence[Tenant], total: float) -> dict[str, float]:
    """The share that is each tenant's by right."""
    shares = by_weight([t.entitlement for t in tenants], total)
    return {t.id: share for t, share in zip(tenants, shares, strict=True)}


def first_share(question: SharingQuestion, rights: Mapping[str, float], tenant: str) -> float:
    """The first budget of a tenant: by a profile, by its use, or by the declaration (believed half), as far as all that
    are known to need less leave it; else its entitlement."""
    demands = [unmeasured_demand(_problem_tenant(t, None), rights[t.tenant.id]) for t in question.tenants]
    weights = [max(t.tenant.entitlement, 1e-9) for t in question.tenants]
    got = no_complaints(demands, weights, question.total)
    # Shares that no tenant needs go to all by right.
    spare = max(0.0, question.total - float(got.sum()))
    n = next(k for k, t in enumerate(question.tenants) if t.tenant.id == tenant)
    return float(got[n]) + spare * rights[tenant] / max(question.total, 1e-9)


def _learned(known: LearnedTenant, entry: TenantNow, scale: float, by_right: float) -> LearnedTenant:
    """With the report of an interval, in which `known.held` was its budget; `by_right` is its share by right."""
    known = replace(known, dropped=known.dropped + entry.dropped)
    report, last = entry.report, known.last
    if report is None:
        return known
    if not report.usable or (last is not None and report.utc_s <= last.utc_s):
        # Late, doubled, the first after the clock went back, or no number: counted, not learned.
        return replace(known, dropped=known.dropped + 1)
    scale = known.scale or scale
    seen = IntervalReport(report.load, report.performance, report.given, report.seconds)
    memory = updated(known.memory, _problem_tenant(entry, None), scale, (seen,))
    missed = report.performance < entry.tenant.objective.goal - 1e-9
    at_right = known.held is not None and known.held >= by_right - 1e-6
    began = report.utc_s - report.seconds
    # Marks of missed time go on by the time in which nothing was measured, so that it does not count.
    idle = 0.0 if last is None else began - last.utc_s

    def since(mark: float | None) -> float:
        return began if mark is None else mark + idle

    return replace(
        known, memory=memory, scale=scale, recent=(*known.recent, report)[-RECENT:],
        missed_utc_s=since(known.missed_utc_s) if missed else None,
        right_missed_utc_s=since(known.right_missed_utc_s) if missed and at_right else None,
    )  # fmt: skip


def begun_anew(known: LearnedTenant) -> LearnedTenant:
    """After a quiet that is long enough to end its alarm: the time that counts for the next alarm begins anew, whether
    there was an alarm or not. Else the first misses after the quiet would raise it."""
    return replace(known, right_missed_utc_s=None)


def missed_s(known: LearnedTenant) -> float:
    """The time for which it was measured and missed its goal, each time, until its last report."""
    return _until_last(known, known.missed_utc_s)


def right_missed_s(known: LearnedTenant) -> float:
    """As `missed_s`, with the share that is its by right."""
    return _until_last(known, known.right_missed_utc_s)


def _until_last(known: LearnedTenant, mark: float | None) -> float:
    return 0.0 if mark is None or known.last is None else max(0.0, known.last.utc_s - mark)


def _problem_tenant(entry: TenantNow, known: LearnedTenant | None) -> ProblemTenant:
    """The tenant as policies know it. One that was measured needs neither profile nor proxy nor declaration."""
    t = entry.tenant
    measured = known is not None and known.measured
    declared = None if measured else t.declared_demand
    asked = ProblemTenant(
        t.id,
        TenantGoal(t.objective.metric, t.objective.goal, t.objective.utility),
        t.entitlement,
        t.serves,
        True,
        declared,
        max(t.floor, entry.floor),
        None if measured else entry.need,
        None if measured else entry.proxy,
        entry.usable,
    )
    # One that nothing says anything of keeps its share until it is measured.
    return replace(asked, feedback=measured or asked.claim is None)


def _wanted(
    question: SharingQuestion,
    scope: Sequence[TenantNow],
    known: Mapping[str, LearnedTenant],
    held: Mapping[str, float],
    safe: Mapping[str, float],
    total: float,
) -> dict[str, float]:
    """The policy's allocation."""
    if len(scope) < 2 or total < 2 * STEP:
        return {}
    floors = [max(t.tenant.floor, t.floor) for t in scope]
    whole = [max(floor, safe[t.tenant.id]) for floor, t in zip(floors, scope, strict=True)]
    # Each share is rounded up to a step.
    part = cut(whole, floors, total - STEP * len(scope))
    steps = math.floor(total / STEP + 1e-9)
    # Where floors cannot be kept, the limits keep as much of them as they can.
    tried = (whole, part, floors)
    least = next((f for f in tried if sum(_steps_of(share) for share in f) <= steps), [0.0] * len(scope))
    every = [replace(_problem_tenant(t, known[t.tenant.id]), floor=f) for t, f in zip(scope, least, strict=True)]
    reports = {t.tenant.id: _interval(t) for t in scope}
    holding = _fitting([min(steps, round(held[t.tenant.id] / STEP)) for t in scope], steps)
    if not sum(p.weight for p in every) > 0:
        every = [replace(p, weight=1.0) for p in every]
    problem = SharingProblem("box", total, STEP, tuple(every))
    policy = sharing_policy(question.rules.policy)
    if isinstance(policy, LearnedPolicy):
        views = tuple(
            _below_its_need(view_of(p, known[p.id], problem), t, known[p.id], problem)
            for p, t in zip(every, scope, strict=True)
        )
        standing = Standing(problem, views, holding, tuple(bool(reports[p.id]) for p in every))
        return {p.id: k * STEP for p, k in zip(every, policy.choose(standing), strict=True)}
    targets = [held[p.id] for p in every]
    state = SharingState(policy.name, 0, 0.0, holding, 0, {"targets": targets})
    if question.rules.policy == "fair":
        return {p.id: e for p, e in zip(every, problem.entitlements.tolist(), strict=True)}
    return dict(policy.step(problem, state, SharingFeedback(0, 0.0, reports)).allocation)


def safe_share(entry: TenantNow, known: LearnedTenant, right: float) -> float:
    """The share below which a serving tenant is not put for the others' sake: its need by the profile, or a smaller one
    with which it was seen to meet its goal under the present load and never seen to miss it; at most its `right`, its
    entitlement among all tenants, and as much of that as its plan can use. None in a silence of the front: it holds.

    Requests wait in a queue: a little below the need nearly all of them are late, which a smooth curve tells too late.
    """
    if entry.need is None or not entry.tenant.serves or entry.silence is not None:
        return 0.0
    enough = _enough(entry, known)
    safe = min(entry.need, right) if enough is None else min(entry.need, right, enough)
    return at_most(entry.usable, safe)


def _enough(entry: TenantNow, known: LearnedTenant) -> float | None:
    """The least share with which a serving tenant was seen to meet its goal under the present load, and never to miss
    it; None: none was."""
    last = entry.report if entry.report is not None else known.last
    if last is None or not entry.tenant.serves:
        return None
    goal = entry.tenant.objective.goal - 1e-9
    missed = max((r.given for r in known.recent if r.performance < goal and r.load <= last.load), default=0.0)
    met = [r.given for r in known.recent if r.performance >= goal and r.load >= last.load and r.given > missed]
    return min(met, default=None)


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


def view_of(asked: ProblemTenant, known: LearnedTenant, problem: SharingProblem) -> TenantView | None:
    """The tenant as policies see it; None: nothing is known yet."""
    if not known.measured or known.scale is None:
        return None
    return viewed(problem, asked, known.memory, known.scale)


def _below_its_need(
    view: TenantView | None, entry: TenantNow, known: LearnedTenant, problem: SharingProblem
) -> TenantView | None:
    """Where a serving tenant misses its goal with less than its profile needs, no share between is believed to do
    better than on the line from there to the goal.

    After its load moved, its curve knows that load by this report only, and elsewhere by other loads: a queue breaks
    down where the curve, scaled to the load, still says that nearly all is well."""
    report, need, goal = entry.report, entry.need, entry.tenant.objective.goal
    if view is None or need is None or report is None or not report.usable or not entry.tenant.serves:
        return view
    enough = _enough(entry, known)
    need = need if enough is None else min(need, enough)
    if report.performance >= goal or need <= report.given + STEP:
        return view
    shares = problem.granularity * np.arange(problem.steps + 1)
    part = np.clip((shares - report.given) / (need - report.given), 0.0, 1.0)
    ceiling = np.where(part < 1.0, report.performance + part * (goal - report.performance), 1.0)
    return replace(view, ceiling=ceiling)


def curve_of(
    tenant: Tenant, known: LearnedTenant, total: float, load: float | None = None
) -> tuple[tuple[float, float, float, float], ...]:
    """(share, performance, low, high) over the shares from 0 to `total`, at the load that is expected now, or at `load`
    (above 0). Empty: nothing was measured yet."""
    if not known.measured or known.scale is None or total < STEP:
        return ()
    asked = _problem_tenant(TenantNow(tenant), known)
    problem = SharingProblem("box", total, STEP, (replace(asked, weight=1.0, floor=0.0),))
    view = viewed(problem, asked, known.memory, known.scale, load)
    mean, low, high = (
        np.clip(view.performance(w)[0], 0.0, 1.0) for w in (0.0, -BAND, BAND)
    )  # fmt: skip
    shares = STEP * np.arange(problem.steps + 1)
    return tuple(
        (round(float(s), 4), round(float(m), 4), round(float(a), 4), round(float(b), 4))
        for s, m, a, b in zip(shares, mean, low, high, strict=True)
    )


def demand_of_share(tenant: Tenant, known: LearnedTenant, total: float) -> GoalDemand:
    """By the learned curve: its mean, its upper and its lower bound."""
    points = curve_of(tenant, known, total)
    goal = tenant.objective.goal - 1e-6
    share, low, high = (next((p[0] for p in points if p[k] >= goal), None) for k in (1, 3, 2))
    return GoalDemand(share, low, high, points[-1][1] if points else None)


def _limits(
    entry: TenantNow,
    known: LearnedTenant,
    rights: Mapping[str, float],
    held: Mapping[str, float],
    safe: Mapping[str, float],
    question: SharingQuestion,
) -> BudgetLimits:
    tenant = entry.tenant
    nothing = entry.report is None and (known.measured or entry.claim is None)
    still = nothing or entry.silence is not None
    unknown = not known.measured and entry.claim is None
    ago = None if known.moved_utc_s is None else max(0.0, question.utc_s - known.moved_utc_s)
    return BudgetLimits(
        tenant.id, rights[tenant.id], max(tenant.floor, entry.floor), held[tenant.id],
        unknown or state_of(entry) == "misses", still, ago, safe[tenant.id], _enough(entry, known), entry.usable,
    )  # fmt: skip


def state_of(entry: TenantNow) -> TenantState:
    """How a tenant stood in the interval."""
    report = entry.report
    if report is None or not report.usable:
        return "unknown"
    return "meets" if report.performance >= entry.tenant.objective.goal - 1e-9 else "misses"


def _source(entry: TenantNow, known: LearnedTenant, between: bool) -> TenantSource:
    if entry.silence is not None:
        return "held"
    if known.measured:
        return "held" if entry.report is None and not between else "learned"
    return "entitlement" if entry.claim is None else entry.claim.source


def _reason(
    entry: TenantNow, shares: Mapping[str, TenantShare], in_scope: bool, question: SharingQuestion
) -> TenantReason:
    tenant, mine = entry.tenant, shares[entry.tenant.id]
    if len(shares) < 2:
        return TenantReason("one")
    if entry.silence is not None:
        return TenantReason("front_down", {"down_s": entry.silence.seconds, "lost": float(entry.silence.lost)})
    if mine.raised > 1e-6:
        # Floors that are more than there is are kept in part.
        return TenantReason("floor", {"raised": mine.raised, "floor": min(mine.floor, mine.held)})
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
