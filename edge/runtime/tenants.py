"""How tenants share the box: the result of each share is measured, budgets follow, and the planners plan in them.

Two clocks. Every `interval_s` the shares of serving tenants are decided from the front's reports; once per window,
when the realised accuracies of the last one are known, those of all tenants together. Decisions are those of
`scheduler.tenants`; budgets go to the serving plan (`ServingBudgets`) and to the window controller as values. With one
tenant nothing of this happens, and everything is planned as without tenants.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edge.core.alarms import AccuracyMeasured, TenantGoalNow, TenantQuiet, TenantsNow
from edge.core.errors import InvalidValue
from edge.core.events import CameraBudgetsMoved, Event
from edge.core.facts import RuntimeFact
from edge.core.front_messages import TrafficReport
from edge.core.journal_kinds import JournalNote
from edge.core.plan_basis import CameraBudget
from edge.core.tenants import SharingRules, Tenant
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.recent_rates import RecentRates
from edge.runtime.tenant_counts import CountedInterval, TenantCounts
from edge.runtime.tenant_day import SET_S, TenantDay
from edge.runtime.tenant_learning import LearningWriter, restored
from edge.runtime.tenant_members import Members, every_tenant, members_of, serving_budget
from edge.runtime.tenant_needs import TenantNeeds, fingerprint, met_twice
from edge.runtime.tenant_times import TenantTimes
from edge.runtime.tenant_use import LEAST_S, TenantUse, owners_of_workers
from edge.runtime.tenant_windows import TenantWindows
from scheduler.gpulets.tenant_fit import shares_of
from scheduler.tenant_admission import TenantRoom
from scheduler.tenants.budgets import rules_for
from scheduler.tenants.known import LearnedTenant, put_forward
from scheduler.tenants.sharing import (
    SharingDecision,
    SharingQuestion,
    TenantNow,
    TenantShare,
    begun_anew,
    decide,
    entitlements,
    right_missed_s,
)

if TYPE_CHECKING:
    from edge.runtime.serving import ServingRuntime

log = logging.getLogger(__name__)

#: Below this share there is nothing to divide.
_LEAST_POOL = 0.02
#: A smaller change of what there is to share waits for the end of the interval.
_POOL_STEP = 0.02
#: Tenants that are remembered, those that are gone included.
_MOST_KNOWN = 100
#: Smaller moves are not journalled: the share to divide changes a little all the time.
_LEAST_MOVE = 0.005
#: Seconds between two looks at whether there is something to decide without requests.
_LOOK_S = 2.0


class TenantShares:
    """`tenants` and `rules` are the settings in force; `shares` the last answer by tenant, `known` what was learned.
    `dispatch` hands an event to the controller, `keep(document)` and `history` write behind, `note` journals, `fact` is
    for alarms."""

    def __init__(
        self,
        tenants: Sequence[Tenant],
        rules: SharingRules,
        parts: LeafParts,
        dispatch: Callable[[Event], None],
        note: JournalNote,
        fact: Callable[[TenantGoalNow | TenantQuiet | TenantsNow], None],
        keep: Callable[[dict[str, Any]], None],
        history: TenantDay,
    ) -> None:
        self.tenants, self.rules, self.history = tuple(tenants), rules, history
        self.known: dict[str, LearnedTenant] = {}
        self.shares: dict[str, TenantShare] = {}
        self.decided_utc_s: float | None = None
        #: Floors of tenants are more than there is, by so much.
        self.lacking = 0.0
        #: Since the start, by tenant.
        self.moves: Counter[str] = Counter()
        self._parts, self._dispatch, self._note, self._fact = parts, dispatch, note, fact
        self._serving: ServingRuntime | None = None
        self._counts = TenantCounts()
        self._windows = TenantWindows()
        self._use = TenantUse()
        self._kept = LearningWriter(keep, self.document, parts.clock)
        self.times = TenantTimes(parts.clock.monotonic())
        self._needs = TenantNeeds(parts.controller, parts.clock)
        self._deciding = asyncio.Lock()

    # -- life

    async def restore(self, document: Any) -> list[InvalidValue]:
        """Take up what an earlier run learned. Damaged parts are forgotten, journalled, shown with their tenants, and
        returned; the rest is kept."""
        there = {t.id for t in (*self.tenants, *self.members().tenants)}
        tenants = [t for t in self.every() if t.id in there]
        self.known, errors = await asyncio.to_thread(restored, document, tenants, self._parts.clock.utc())
        for name in errors:
            self._note("tenants.forgotten", data={"tenant": name, "why": "damaged"})
        return list(dict.fromkeys(errors.values()))

    def serve(self, serving: ServingRuntime | None) -> None:
        """Serving tenants are those of this runtime."""
        self._serving = serving
        if serving is not None:
            serving.shares.budgets.on_report = self._reported

    async def run(self) -> None:
        """Decide when it is time, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # one bad decision must not end all
                log.exception("tenants: no decision")
                self._parts.complaints.add("tenants", "shares of tenants could not be decided; the log tells more")
            await asyncio.sleep(_LOOK_S)

    def change(self, tenants: Sequence[Tenant], rules: SharingRules) -> None:
        """Other settings, in force with the next decision, which is due at once."""
        self.tenants, self.rules = tuple(tenants), rules
        there = {t.id for t in self.every()}
        # A tenant that comes back with the same members is known; the oldest that are gone are forgotten.
        gone = [name for name in self.known if name not in there]
        for name in gone[: max(0, len(self.known) - _MOST_KNOWN)]:
            del self.known[name]
        self.times.begin(self._parts.clock.monotonic() - rules.interval_s)

    # -- who there is

    def every(self) -> tuple[Tenant, ...]:
        """The tenants of the settings, and the two that have the members of none."""
        return every_tenant(self.tenants)

    def members(self) -> Members:
        """The tenants that have members now."""
        return members_of(self.tenants, self._parts.cameras, self._serving)

    @property
    def rules_in_force(self) -> SharingRules:
        """The rules of the settings, as the share kind allows them."""
        return rules_for(self.rules, self.live)

    @property
    def live(self) -> bool:
        """A budget that moves starts no process anew."""
        return self._parts.shares.partitioner.caps.resize == "live"

    @property
    def cameras(self) -> tuple[str, ...]:
        """Every camera, by id."""
        return tuple(self._parts.cameras)

    @property
    def pool(self) -> float:
        """The share that all tenants have together: cameras and their retraining, and served models."""
        shares, serving = self._parts.shares, self._serving
        total = shares.shared_capacity()
        if any(c.settings.enabled for c in self._parts.cameras.values()):
            total = shares.camera_capacity() + shares.serving
        if serving is not None:
            total -= serving.shares.measuring + serving.shares.front_more + serving.warm_share
        return round(max(0.0, min(1.0, total)), 4)

    def given(self, members: Members) -> dict[str, float]:
        """The share that each tenant has now: of its executors, or of the cameras' part of the device."""
        out: dict[str, float] = {}
        if self._serving is not None:
            out |= shares_of(self._serving.planner.view.plan, members.served)
        budgets = {t.id: self.shares[t.id].held for t in members.tenants if not t.serves and t.id in self.shares}
        total = sum(budgets.values())
        if total > 0:
            cameras = self._parts.controller.state.num_gpus
            out |= {t: cameras * b / total for t, b in budgets.items()}
        return out

    def rooms(self) -> tuple[TenantRoom, ...]:
        """The tenants for the admission answer, also those without a member; none where the settings have none. One
        that waits for its first decision, or has all, holds what is its by right."""
        if not self.tenants:
            return ()
        members = self.members()
        given, rights = self.given(members), entitlements(members.tenants, self.pool)
        rooms = []
        for tenant in self.every():
            names = frozenset((*members.of(tenant), *tenant.models, *tenant.applications, *tenant.cameras))
            right, weight, joined = rights.get(tenant.id, 0.0), tenant.entitlement, tenant.id in rights
            room = TenantRoom(tenant.id, right, right, tenant.floor, right, names, tenant.serves, weight, joined)
            share = self.shares.get(tenant.id) if joined else None
            if share is not None:
                need = share.demand.share
                if need is None:
                    need = share.entitlement if share.source == "learned" else given.get(tenant.id, share.held)
                room = replace(room, entitlement=share.entitlement, held=share.held, floor=share.floor, need=need)
            rooms.append(room)
        return tuple(rooms)

    # -- what was measured

    def _reported(self, now: float, report: TrafficReport) -> None:
        members = self.members()
        if members.shared:
            counted = self._counts.add(report, members.served, self.given(members))
            if counted:
                self._needs.recent.add(report)

    def fact(self, fact: RuntimeFact) -> None:
        """Realised accuracies of windows are what cameras did."""
        if isinstance(fact, AccuracyMeasured):
            members = self.members()
            cameras = tuple(t for t in members.tenants if not t.serves)
            window_s = self._parts.window.settings.window_s
            self._windows.measured(fact, cameras, members.cameras, self._parts.clock.utc(), window_s)

    def _by_use(self, tenant: Tenant) -> bool:
        """Its use counts: it has a target for it, and its performance was not measured yet."""
        return tenant.proxy_utilisation is not None and self._unmeasured(tenant.id)

    def _unmeasured(self, tenant: str) -> bool:
        known = self.known.get(tenant)
        return known is None or not known.measured

    def _least_use_s(self, tenant: Tenant) -> float:
        """Half a window of cameras says more about them than its beginning, which is without retraining."""
        return LEAST_S if tenant.serves else self._parts.window.settings.window_s / 2

    def _look_at_use(self, members: Members) -> None:
        mine = [t for t in members.tenants if self._by_use(t)]
        if not mine:
            return
        executors = () if self._serving is None else self._serving.planner.view.executors
        rows = owners_of_workers(self._parts.usage(), executors, members.served, members.cameras)
        self._use.in_window(self._parts.controller.state.window, [t.id for t in mine if not t.serves])
        self._use.look(rows, [t.id for t in mine])

    # -- deciding

    async def look(self) -> None:
        """Decide if an interval is over, or a window was measured, or tenants came or went."""
        async with self._deciding:
            now, members = self._parts.clock.monotonic(), self.members()
            # A box may begin with a clock that is not set: learned curves have their age again once it is.
            if (by_s := self.times.set_by(now, self._parts.clock.utc())) > SET_S:
                self.known = {t: put_forward(known, by_s) for t, known in self.known.items()}
            self._kept.look()
            if not members.shared:
                self._not_shared(now)
                return
            if self._serving is not None and not self._serving.front.up:
                self._counts.front_down()
            self._windows.gave(self.given(members), _LOOK_S)
            self._look_at_use(members)
            others = {t.id for t in members.tenants} != set(self.shares)
            pool = self.pool
            if pool < _LEAST_POOL:
                # There is nothing to divide: shares stay as they were.
                self._pause(now, members)
                self._lacks(sum(s.floor for s in self.shares.values()) - pool)
                return
            moved = abs(sum(s.held for s in self.shares.values()) - pool) > _POOL_STEP
            over = self.times.passed(now) >= self.rules_in_force.interval_s
            if not over and not others and not moved:
                return
            use_due = self._use.due
            try:
                question = await self._question(members, pool, now)
                if over:
                    self.times.begin(now)
                decision = await asyncio.to_thread(decide, dict(self.known), question)
            except Exception:
                # These measurements count with the next decision.
                self._windows.put_back()
                self._use.due = self._use.due or use_due
                if over:
                    self._counts.put_back()
                raise
            self._take(decision, question, members, now)

    def _not_shared(self, at_s: float) -> None:
        """One tenant, or none: as without tenants."""
        self._pause(at_s)
        known = self.times.quiet.only((), at_s)
        if not self.shares and not known:
            return
        self.shares, self.lacking, self.decided_utc_s = {}, 0.0, None
        self._fact(TenantsNow(frozenset()))
        self._use = TenantUse()
        self._dispatch(CameraBudgetsMoved(at_s, ()))
        if self._serving is not None:
            self._serving.shares.divide((), None)

    def _pause(self, at_s: float, members: Members | None = None) -> None:
        """Time in which nothing is shared belongs to no interval and to no row, and nothing is learned of it. With
        `members` there is nothing to divide for the moment: quiet goes on, and rows do unless it lasts."""
        rules, tenants = self.rules_in_force, () if members is None else members.tenants
        if members is not None:
            self.times.quiet.only([t.id for t in tenants], at_s)
        for tenant in tenants:
            silent = tenant.serves and self._serving is not None and not self._serving.front.up
            quiet_s = self.times.quiet_s(tenant, at_s, rules, self._parts.window.settings.window_s, silent)
            if quiet_s > 0:
                self._fact(TenantQuiet(tenant.id, tenant.words, quiet_s))
                if tenant.id in self.known:
                    self.known[tenant.id] = begun_anew(self.known[tenant.id])
        paused_s = self.times.pause(at_s, 0.0 if members is None else rules.interval_s)
        if paused_s is not None:
            self.history.end(self._parts.clock.utc() - paused_s)
        self._counts, self._needs.recent = TenantCounts(), RecentRates()

    async def _question(self, members: Members, pool: float, at_s: float) -> SharingQuestion:
        utc_s, windows = self._parts.clock.utc(), self._windows.due or self._use.due
        self._use.due = False
        elapsed_s, rules = self.times.passed(at_s), self.rules_in_force
        over = elapsed_s >= rules.interval_s
        counted = self._counts.take(utc_s, elapsed_s) if over else CountedInterval()
        if over:
            self._needs.recent.end(counted.silent_s is not None)
            self._use.ended(t.id for t in members.tenants if t.serves)
        reports = {**counted.reports, **self._windows.take()}
        self.times.quiet.only([t.id for t in members.tenants], at_s)
        entries = []
        for tenant in members.tenants:
            report, silence = reports.get(tenant.id), counted.silence(tenant.id) if tenant.serves else None
            if report is not None and report.usable and silence is None:
                self.times.quiet.measured(tenant.id, at_s)
            window_s = self._parts.window.settings.window_s
            quiet_s = self.times.quiet_s(tenant, at_s, rules, window_s, silence is not None)
            follow = met_twice(tenant, self.known.get(tenant.id), report)
            floor, need = await self._needs.of(tenant, members, self._serving, follow)
            usable = self._needs.usable(tenant, members, self._serving)
            entries.append(
                TenantNow(
                    tenant, floor, need, report, counted.dropped.get(tenant.id, 0),
                    fingerprint(tenant, members, self._parts, self._serving), silence,
                    self._use.of(tenant.id, self._least_use_s(tenant)) if self._by_use(tenant) else None, usable,
                    # Between two intervals it is not known whether the front is silent.
                    quiet_s if over else 0.0,
                )
            )  # fmt: skip
        return SharingQuestion(utc_s, pool, tuple(entries), rules, windows, between=not over)

    # -- acting

    def _take(self, decision: SharingDecision, question: SharingQuestion, members: Members, at_s: float) -> None:
        """Put a decision in force, and journal it."""
        before = self.shares
        # A first report is worth more than the next ones.
        fresh = any(k.last is not None and self._unmeasured(t) for t, k in decision.known.items())
        self.known = {**self.known, **decision.known}
        self.shares = dict(decision.shares)
        self._lacks(decision.lacking)
        self.decided_utc_s = question.utc_s
        self._apply(members)
        self._kept.changed(at_once=fresh or bool(decision.forgotten))
        # Each time: alarms of an earlier run may have been taken up since.
        self._fact(TenantsNow(frozenset(self.shares)))
        for name, why in decision.forgotten.items():
            self._note("tenants.forgotten", data={"tenant": name, "why": why})
        moved = {t: s for t, s in self.shares.items() if t not in before or abs(s.held - before[t].held) > _LEAST_MOVE}
        self.moves.update(moved.keys())
        if moved:
            self._note(
                "tenants.moved",
                data={
                    "shares": {t: round(s.held, 4) for t, s in self.shares.items()},
                    "before": {t: round(s.held, 4) for t, s in before.items()},
                    "reasons": {t: s.reason.to_json() for t, s in moved.items()},
                },
            )
        self.times.held(before, at_s)
        self.history.only(self.shares, question.utc_s)
        for entry in question.tenants:
            self._record(entry, question)
            self._report_goal(entry, members)
        self.history.keep()

    def _record(self, entry: TenantNow, question: SharingQuestion) -> None:
        """Cameras count once per window, serving tenants each interval, with the shares that were held in it."""
        serves = entry.tenant.serves
        if question.between if serves else entry.report is None:
            return
        had = self.times.take(entry.tenant.id)
        if had is not None:
            seconds = had.seconds if entry.report is None or serves else entry.report.seconds
            self.history.add(entry, question.utc_s, max(0.0, min(seconds, 86_400.0)), had)

    def _lacks(self, lacking: float) -> None:
        if lacking > _LEAST_MOVE >= self.lacking:
            words = "the floors of tenants are more than there is to share: each has its part of them"
            self._parts.complaints.add("tenants", words)
        self.lacking = max(0.0, lacking)

    def _report_goal(self, entry: TenantNow, members: Members) -> None:
        """A goal that is missed with less than the entitlement is the policy's doing; with all of it, it is news."""
        if entry.quiet_s > 0:
            self._fact(TenantQuiet(entry.tenant.id, entry.tenant.words, entry.quiet_s))
        if entry.report is None or entry.silence is not None or not entry.report.usable:
            return
        missed = right_missed_s(self.known[entry.tenant.id])
        long = missed >= 60.0 * self.rules.missed_minutes
        tenant = entry.tenant
        performance, missed_s = entry.report.performance, missed if long else 0.0
        cameras, demand = members.cameras_of(tenant), self.shares[tenant.id].demand
        best = demand.best if demand.out_of_reach else None
        self._fact(TenantGoalNow(tenant.id, tenant.words, performance, tenant.objective.goal, missed_s, cameras, best))

    def _apply(self, members: Members) -> None:
        budgets = tuple(
            CameraBudget(t.id, round(self.shares[t.id].held, 4), members.of(t)) for t in members.tenants if not t.serves
        )
        self._dispatch(CameraBudgetsMoved(self._parts.clock.monotonic(), budgets if len(budgets) > 1 else ()))
        serving = self._serving
        if serving is None:
            return
        mine = tuple(serving_budget(t, round(self.shares[t.id].held, 4)) for t in members.tenants if t.serves)
        total = sum(b.share for b in mine)
        cameras = any(not t.serves for t in members.tenants)
        pool = min(1.0, round(total + serving.warm_share + serving.shares.measuring, 4)) if cameras else None
        serving.shares.divide(mine, pool)

    def document(self) -> dict[str, Any]:
        """All that was learned, to be kept."""
        return {"tenants": {t: k.to_json() for t, k in self.known.items()}}

    def keep_now(self) -> None:
        """Write what was learned and is not written yet; also as the appliance ends."""
        self._kept.now()
