"""From a policy's allocation to budgets: floors, protection of tenants that miss their goal, largest step, dwell,
hysteresis. Budgets always sum to what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edge.core import checks
from edge.core.tenants import SharingRules, TenantReason
from scheduler.tenants.grid import by_weight
from scheduler.tenants.usable import at_most, settled

_EPS = 1e-9
#: Where a share cannot be resized live, a move starts executors anew: for some 12 s (a start, the load of the models
#: and their warming) two of them share the device, and it does less. A tenant that stays for ten times as long loses a
#: tenth of that at most.
RESTART_DWELL_S = 120.0
#: The share to divide changes by a little all the time: so much is a little.
SMALL_CHANGE = 0.02


@dataclass(frozen=True)
class BudgetLimits:
    """The limits of one tenant, in shares: `entitlement`, `floor`, and the share `held` until now. `protected`: it
    misses its goal, or nothing is known of it, so it is not taken below (1 - explore) of its entitlement, or below
    `enough`, a smaller share that was seen to meet its goal under such a load (None: none was). `still`: it holds.
    `moved_ago_s`: since its last move (None: never moved). `safe`: it is raised to so much at once unless it dwells, as
    far as floors leave it, where it lacks `hysteresis` or a usable share: its load moved, and steps would let its
    queues grow. `usable`: the shares that its plan can use, ascending (empty: any)."""

    id: str
    entitlement: float
    floor: float
    held: float
    protected: bool = False
    still: bool = False
    moved_ago_s: float | None = None
    safe: float = 0.0
    enough: float | None = None
    usable: tuple[float, ...] = ()


@dataclass(frozen=True)
class Budgets:
    """Shares by tenant, how much each was raised to its floor, and reasons where a limit decided. Floors
    that are more than there is are kept in part, each by as much."""

    shares: Mapping[str, float]
    raised: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, TenantReason] = field(default_factory=dict)


def rules_for(rules: SharingRules, live: bool) -> SharingRules:
    """The rules as they are in force. Decisions are made, and curves learned, as often as ever; without `live` resizes
    a tenant that moved stays for RESTART_DWELL_S at least."""
    return rules if live else replace(rules, dwell_s=max(rules.dwell_s, RESTART_DWELL_S))


def budgets(limits: Sequence[BudgetLimits], wanted: Mapping[str, float], total: float, rules: SharingRules) -> Budgets:
    """The budgets of an interval. Floors and safe shares come first, at once; then no share moves by more than
    `largest_step`, those that hold, or moved less than `dwell_s` ago, do not move, and moves below `hysteresis` are
    not made unless a tenant reaches a usable share by them and none loses one.

    Gifts and takings are equal: gifts are cut to the wishes of others, and wishes to the gifts. Raises
    InvalidValue for a total below 0."""
    checks.in_range("total", total, 0.0, 1e6)
    if not limits:
        return Budgets({})
    floors = [max(0.0, limit.floor) for limit in limits]
    if sum(floors) > total + _EPS:
        part = total / sum(floors)
        floors = [f * part for f in floors]
    lows = _lows(limits, floors, total, rules)
    held = [max(0.0, limit.held) for limit in limits]
    before = scaled(held, [limit.entitlement for limit in limits], total)
    base = raised_to(before, lows, total)
    raised = {
        limit.id: round(floor - share, 6)
        for limit, floor, share in zip(limits, floors, before, strict=True)
        if floor > share + 1e-6
    }
    reasons: dict[str, TenantReason] = {}
    targets = []
    for limit, low, now in zip(limits, lows, base, strict=True):
        dwells = _dwells(limit, rules)
        target = max(low, wanted.get(limit.id, now))
        target = min(now + rules.largest_step, max(now - rules.largest_step, target))
        if limit.still or dwells:
            target = now
        if dwells and abs(wanted.get(limit.id, now) - now) > rules.hysteresis:
            numbers = {"since_s": limit.moved_ago_s or 0.0, "dwell_s": rules.dwell_s}
            reasons[limit.id] = TenantReason("dwell", numbers)
        targets.append(target)
    shares = _usable(limits, _balanced(base, targets), lows, base, rules)
    small = max(abs(a - b) for a, b in zip(shares, base, strict=True)) < rules.hysteresis
    if small and not _completes(limits, base, shares):
        shares = base
    return Budgets({limit.id: share for limit, share in zip(limits, shares, strict=True)}, raised, reasons)


def raised_to(shares: Sequence[float], lows: Sequence[float], total: float) -> list[float]:
    """`shares`, each at least its low, with the sum `total`; the lack is taken from all others by equal parts.
    The lows must not sum to more than `total`."""
    if all(s >= low - _EPS for s, low in zip(shares, lows, strict=True)) and abs(sum(shares) - total) < _EPS:
        return list(shares)
    fixed: set[int] = set()
    while True:
        free = [j for j in range(len(shares)) if j not in fixed]
        rest = max(0.0, total - sum(lows[j] for j in fixed))
        mine = sum(shares[j] for j in free)
        if mine <= _EPS:
            # The others have nothing: the rest goes to all by equal parts above their lows.
            spare = max(0.0, total - sum(lows)) / len(shares)
            return [low + spare for low in lows]
        out = {j: shares[j] * rest / mine for j in free}
        below = {j for j in free if out[j] < lows[j] - _EPS}
        if not below:
            return [lows[j] if j in fixed else out[j] for j in range(len(shares))]
        fixed |= below
        if len(fixed) == len(shares):
            return list(lows)


def _dwells(limit: BudgetLimits, rules: SharingRules) -> bool:
    return limit.moved_ago_s is not None and limit.moved_ago_s < rules.dwell_s


def _safe(limit: BudgetLimits, rules: SharingRules) -> float:
    """The share below which it is not put for the others' sake: its safe share, or as much of that as it holds where it
    is not to be raised to it."""
    lacks = limit.safe > limit.held + rules.hysteresis or _just_below(limit)
    return limit.safe if lacks and not _dwells(limit, rules) else min(limit.safe, limit.held)


def _just_below(limit: BudgetLimits) -> bool:
    """Whether its plan does with a smaller usable share than its safe one, be it for want of a little."""
    return bool(limit.usable) and at_most(limit.usable, limit.held) < at_most(limit.usable, limit.safe)


def _completes(limits: Sequence[BudgetLimits], before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether a tenant can use more `after` than `before` a move, and none less."""
    rows = [
        (at_most(limit.usable, b), at_most(limit.usable, a))
        for limit, b, a in zip(limits, before, after, strict=True)
        if limit.usable
    ]
    return any(a > b for b, a in rows) and all(a >= b for b, a in rows)


def reclaimed(limits: Sequence[BudgetLimits], others: Sequence[BudgetLimits], rules: SharingRules) -> list[float]:
    """The share that each of `others`, who are not decided on now, gives back at once: they hold more than is theirs by
    right, and without it tenants of `limits` could not have their floors and safe shares (which are at most their
    entitlements). Each gives in proportion to what it holds beyond its entitlement and its floor."""
    lack = sum(max(limit.floor, _safe(limit, rules)) - limit.held for limit in limits)
    beyond = [max(0.0, o.held - max(o.entitlement, o.floor)) for o in others]
    least = _EPS if any(_just_below(limit) and not _dwells(limit, rules) for limit in limits) else rules.hysteresis
    if lack < least or sum(beyond) <= _EPS:
        return [0.0] * len(others)
    part = min(1.0, lack / sum(beyond))
    return [b * part for b in beyond]


def floors_first(
    limits: Sequence[BudgetLimits], others: Sequence[BudgetLimits], kept: Sequence[float], total: float
) -> list[float]:
    """The shares of `others`, who are not decided on now and would keep `kept`, as floors leave them: those below their
    floors have them at once, and what the floors of `limits` lack comes from those above theirs; of floors that are
    more than `total` each has its part."""
    floors = [sum(limit.floor for limit in limits), *(o.floor for o in others)]
    part = min(1.0, total / max(sum(floors), _EPS))
    return raised_to([total - sum(kept), *kept], [f * part for f in floors], total)[1:]


def _lows(limits: Sequence[BudgetLimits], floors: Sequence[float], total: float, rules: SharingRules) -> list[float]:
    """The least of each: its floor; its safe share; where it is protected, (1 - explore) of its entitlement; all as far
    as floors leave it."""
    lows = []
    for limit, floor in zip(limits, floors, strict=True):
        protected = (1.0 - rules.explore) * limit.entitlement if limit.protected else 0.0
        if limit.enough is not None:
            protected = min(protected, limit.enough)
        lows.append(max(floor, _safe(limit, rules), protected))
    return cut(lows, floors, total)


def cut(lows: Sequence[float], floors: Sequence[float], total: float) -> list[float]:
    """`lows`, each at least its floor; where they sum to more than `total`, as much of each as the floors leave."""
    spare, over = max(0.0, total - sum(floors)), sum(lows) - sum(floors)
    if over <= spare + _EPS:
        return list(lows)
    return [f + (low - f) * spare / over for f, low in zip(floors, lows, strict=True)]


def scaled(held: Sequence[float], entitlements: Sequence[float], total: float) -> list[float]:
    """The shares held, as parts of what there is now; entitlements where no share is held."""
    there = sum(held)
    if there <= _EPS:
        return by_weight(entitlements, total)
    if abs(there - total) < _EPS:
        return list(held)
    return [h * total / there for h in held]


def rescaled(
    held: Sequence[float], entitlements: Sequence[float], floors: Sequence[float], firm: Sequence[bool], total: float
) -> list[float]:
    """The shares held, where there is a little more or less than that now: those that are `firm` keep theirs, the
    others get what is more, and give what is less as far as they hold more than their entitlements and floors. Where
    the change is not small, or no tenant can bear it, `scaled`."""
    change = total - sum(held)
    rows = list(zip(held, entitlements, floors, firm, strict=True))
    room = [0.0 if f else (h if change > 0 else max(0.0, h - max(e, low))) for h, e, low, f in rows]
    there = sum(room)
    if not any(firm) or abs(change) > SMALL_CHANGE or there <= _EPS or there < -change:
        return scaled(held, entitlements, total)
    return [h + change * r / there for h, r in zip(held, room, strict=True)]


def _usable(
    limits: Sequence[BudgetLimits],
    shares: list[float],
    lows: Sequence[float],
    base: Sequence[float],
    rules: SharingRules,
) -> list[float]:
    """`shares` as the tenants' plans can use them; those that hold, and those that rest, stay."""
    if not any(limit.usable for limit in limits):
        return shares
    rests = [limit.still or _dwells(limit, rules) for limit in limits]
    rows = list(zip(shares, lows, base, rests, strict=True))
    least = [share if rest else max(low, now - rules.largest_step) for share, low, now, rest in rows]
    most = [share if rest else max(share, now + rules.largest_step) for share, _, now, rest in rows]
    usable = [() if rest else limit.usable for limit, rest in zip(limits, rests, strict=True)]
    return settled(shares, least, most, usable)


def _balanced(base: Sequence[float], targets: Sequence[float]) -> list[float]:
    """Moves from `base` towards `targets` that sum to 0."""
    ups = [max(0.0, t - b) for b, t in zip(base, targets, strict=True)]
    downs = [max(0.0, b - t) for b, t in zip(base, targets, strict=True)]
    up, down = sum(ups), sum(downs)
    moved = min(up, down)
    if moved <= _EPS:
        return list(base)
    return [b + u * moved / up - d * moved / down for b, u, d in zip(base, ups, downs, strict=True)]
