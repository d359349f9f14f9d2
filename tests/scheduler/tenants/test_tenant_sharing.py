"""One decision of sharing: budgets from what was measured, two clocks, what is kept and what is forgotten."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.tenants import SharingRules, Tenant, TenantObjective
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.learned import TenantMemory
from scheduler.tenants.sharing import (
    GoalDemand,
    MeasuredUse,
    SharingDecision,
    SharingQuestion,
    TenantNow,
    decide,
    entitlements,
    missed_s,
    right_missed_s,
    safe_share,
)

GATE = Tenant("gate", TenantObjective("within_slo", 0.95), models=("a",))
STATS = Tenant("stats", TenantObjective("within_slo", 0.95), models=("b",))
STREETS = Tenant("streets", TenantObjective("accuracy", 0.8, "sqrt"), cameras=("north",), floor=0.1)


def report(utc_s: float, performance: float, share: float = 0.3, load: float = 10.0) -> SharingReport:
    return SharingReport(utc_s, 10.0, load, performance, share, 100)


def asked(utc_s: float, *entries: TenantNow, total: float = 0.9, windows: bool = False) -> SharingQuestion:
    return SharingQuestion(utc_s, total, entries, SharingRules(largest_step=0.1), windows)


def test_new_tenants_have_their_entitlement_and_a_profile_where_there_is_one() -> None:
    found = decide({}, asked(0.0, TenantNow(GATE), TenantNow(STATS), TenantNow(STREETS)))
    assert [s.held for s in found.shares.values()] == pytest.approx([0.3, 0.3, 0.3])
    assert [s.reason.code for s in found.shares.values()] == ["entitlement"] * 3
    profiled = decide({}, asked(0.0, TenantNow(GATE, need=0.1), TenantNow(STATS)))
    assert profiled.shares["gate"].source == "profiled"
    assert profiled.shares["gate"].held < profiled.shares["stats"].held


def test_before_anything_was_measured_a_profile_counts_then_the_use_then_the_declaration() -> None:
    tenant = replace(STREETS, proxy_utilisation=0.6, declared_demand=0.8)
    use = MeasuredUse(0.12, 0.3)
    for entry, source in (
        (TenantNow(tenant, need=0.1, use=use), "profiled"),
        (TenantNow(tenant, use=use), "proxy"),
        (TenantNow(tenant), "declared"),
        (TenantNow(tenant, use=MeasuredUse(0.1, 0.0)), "declared"),
        (TenantNow(tenant, use=MeasuredUse(float("nan"), 0.3)), "declared"),
        (TenantNow(replace(tenant, declared_demand=None)), "entitlement"),
        (TenantNow(STREETS, use=use), "entitlement"),
    ):
        found = decide({}, asked(0.0, entry, TenantNow(STATS)))
        share = found.shares["streets"]
        assert (share.source, share.state) == (source, "unknown")
        assert found.known["streets"].memory == TenantMemory()
        if source == "proxy":
            assert share.held < 0.4, "it uses less than its entitlement, which is 0.45"
            assert share.demand == GoalDemand(pytest.approx(0.2)), "0.12 of 0.3 is used, 0.6 shall be"


def test_what_an_unmeasured_tenant_uses_moves_its_share_until_something_is_measured() -> None:
    tenant = replace(STREETS, proxy_utilisation=0.6)
    rules = SharingRules(policy="njc", largest_step=0.1)
    known: dict[str, LearnedTenant] = {}

    def after(rounds: int, begin: int, used: float | None, seen: float | None = None) -> SharingDecision:
        """`used` None: all of its share."""
        for n in range(begin, begin + rounds):
            mine = known["streets"].held if known else 0.45
            other = known["stats"].held if known else 0.45
            assert mine is not None
            assert other is not None
            measured = None if seen is None else SharingReport(10.0 * n, 10.0, 1.0, seen, mine, 1)
            entries = (
                TenantNow(tenant, use=MeasuredUse(mine if used is None else used, mine), report=measured),
                TenantNow(STATS, report=report(10.0 * n, 0.5, other)),
            )
            found = decide(known, SharingQuestion(10.0 * n, 0.9, entries, rules, windows=True))
            known.update(found.known)
        return found

    idle = after(12, 0, 0.12).shares["streets"]
    assert (idle.source, idle.held) == ("proxy", pytest.approx(0.2, abs=0.02))
    assert idle.reason.code == "proxy"
    numbers = idle.reason.numbers
    assert (numbers["target"], numbers["demand"]) == (0.6, pytest.approx(0.2))
    assert numbers["utilisation"] * numbers["given"] == pytest.approx(0.12)
    busy = after(12, 12, None)
    assert busy.shares["streets"].held == pytest.approx(0.45, abs=0.02), "all that the other has no better right to"
    assert busy.shares["streets"].state == "unknown"
    assert (busy.known["streets"].memory, busy.known["streets"].missed_utc_s) == (TenantMemory(), None)
    measured = after(1, 24, 0.12, seen=0.9)
    assert (measured.shares["streets"].source, measured.shares["streets"].state) == ("learned", "meets")


def test_cameras_hold_between_windows_and_move_at_one() -> None:
    known = decide({}, asked(0.0, TenantNow(GATE), TenantNow(STREETS), TenantNow(STATS))).known
    for n in range(1, 6):
        entries = (
            TenantNow(GATE, report=report(10.0 * n, 0.4)),
            TenantNow(STREETS),
            TenantNow(STATS, report=report(10.0 * n, 1.0)),
        )
        found = decide(known, asked(10.0 * n, *entries))
        known = found.known
        assert found.shares["streets"].held == pytest.approx(0.3)
        assert found.shares["streets"].reason.code == "window"
    assert found.shares["gate"].held > 0.31
    assert found.shares["gate"].reason.others in ((), ("stats",))
    entries = (
        TenantNow(GATE, report=report(60.0, 0.4, found.shares["gate"].held)),
        TenantNow(STREETS, report=SharingReport(60.0, 100.0, 1.0, 0.9, 0.3, 1)),
        TenantNow(STATS, report=report(60.0, 1.0)),
    )
    moved = decide(known, asked(60.0, *entries, windows=True))
    assert moved.shares["streets"].held != pytest.approx(0.3)
    assert moved.known["streets"].memory.curve.reports == 1


@pytest.mark.parametrize(
    "bad",
    [
        report(10.0, float("nan")),
        report(10.0, -0.1),
        report(10.0, 1.1),
        report(10.0, 0.5, float("inf")),
        report(10.0, 0.5, 0.0),
        report(10.0, 0.5, load=-1.0),
        report(float("nan"), 0.5),
        report(5.0, 0.5),
        report(2.0, 0.5),
    ],
)
def test_values_that_are_not_usable_or_late_or_doubled_are_counted_and_not_learned(bad: SharingReport) -> None:
    first = decide({}, asked(5.0, TenantNow(GATE, report=report(5.0, 0.5)), TenantNow(STATS)))
    found = decide(first.known, asked(10.0, TenantNow(GATE, report=bad), TenantNow(STATS)))
    assert found.known["gate"].dropped == 1
    assert found.known["gate"].memory == first.known["gate"].memory
    assert found.known["gate"].recent == first.known["gate"].recent


def test_after_the_clock_went_back_one_interval_is_dropped_and_learning_goes_on() -> None:
    rules = SharingRules(largest_step=0.1, dwell_s=120.0)
    known: dict[str, LearnedTenant] = {}

    def ask(utc_s: float) -> SharingDecision:
        entries = (TenantNow(GATE, report=report(utc_s, 0.4)), TenantNow(STATS, report=report(utc_s, 1.0)))
        return decide(known, SharingQuestion(utc_s, 0.9, entries, rules))

    for n in range(3):
        known.update(ask(4000.0 + 10.0 * n).known)
    moved, missed = known["gate"].moved_utc_s, known["gate"].missed_utc_s
    assert (moved, missed) == (pytest.approx(4010.0, abs=10.0), 3990.0)
    for n in range(3):
        known.update(ask(420.0 + 10.0 * n).known)
        assert known["gate"].dropped == 1, n
        assert known["gate"].memory.curve.reports == 3 + n, n
    assert known["gate"].missed_utc_s == 390.0, "by the new clock it is missed for as long"
    times = [r.utc_s for r in known["gate"].recent]
    assert times == sorted(times)
    held = known["gate"].held or 0.0
    assert ask(440.0).shares["gate"].held == pytest.approx(held), "it rests as long as it would have"
    assert ask(560.0).shares["gate"].held > held


@pytest.mark.parametrize("step_s", [0.0, 36_000.0, -36_000.0])
def test_only_time_that_was_measured_counts_as_missed(step_s: float) -> None:
    """Intervals without requests, and time in which nothing was decided, count neither as missed nor as met."""
    known: dict[str, LearnedTenant] = {}

    def ask(utc_s: float, performance: float | None) -> LearnedTenant:
        seen = None if performance is None else report(utc_s, performance)
        known.update(decide(known, asked(utc_s, TenantNow(GATE, report=seen), TenantNow(STATS))).known)
        return known["gate"]

    ask(0.0, None)
    for n in range(1, 4):
        assert missed_s(ask(10.0 * n, 0.5)) == right_missed_s(known["gate"]) == pytest.approx(10.0 * n)
    for n in range(4, 7):
        assert missed_s(ask(10.0 * n, None)) == pytest.approx(30.0)
    utc_s = 5000.0 + step_s
    if step_s < 0:
        ask(utc_s - 10.0, 0.5)  # the first after the clock went back may be dropped
    known["gate"] = LearnedTenant.from_json(json.loads(json.dumps(known["gate"].to_json())))
    before = missed_s(known["gate"])
    assert 30.0 - 1e-6 <= before <= 40.0 + 1e-6
    assert missed_s(ask(utc_s, 0.5)) == pytest.approx(before + 10.0)
    assert right_missed_s(known["gate"]) == pytest.approx(before + 10.0)
    assert missed_s(ask(utc_s + 10.0, 1.0)) == 0.0
    assert missed_s(ask(utc_s + 20.0, 0.5)) == pytest.approx(10.0)


@pytest.mark.parametrize("part", ["members", "versions", "table", "device", "objective"])
def test_another_fingerprint_forgets_the_curve_and_keeps_the_budget(part: str) -> None:
    prints = {"members": "1", "versions": "1", "table": "1", "device": "1", "objective": "1"}
    known = decide({}, asked(5.0, TenantNow(GATE, report=report(5.0, 0.5), fingerprint=prints), TenantNow(STATS))).known
    same = decide(known, asked(10.0, TenantNow(GATE, fingerprint=prints), TenantNow(STATS)))
    assert same.forgotten == {}
    found = decide(known, asked(10.0, TenantNow(GATE, fingerprint={**prints, part: "2"}), TenantNow(STATS)))
    assert found.forgotten == {"gate": part}
    assert found.known["gate"].memory.curve.reports == 0
    assert found.shares["gate"].held == pytest.approx(known["gate"].held or 0.0)


def history(*reports: SharingReport) -> LearnedTenant:
    return LearnedTenant(recent=reports)


def test_the_safe_share_is_the_need_or_less_where_less_was_seen_to_suffice() -> None:
    now = TenantNow(GATE, need=0.2, report=report(40.0, 1.0, share=0.25, load=50.0))
    assert safe_share(now, history(), right=0.3) == 0.2
    assert safe_share(now, history(), right=0.15) == 0.15, "not beyond its entitlement"
    less = report(10.0, 0.99, share=0.12, load=60.0)
    assert safe_share(now, history(less), right=0.3) == 0.12
    assert safe_share(now, history(report(10.0, 0.99, share=0.12, load=40.0)), right=0.3) == 0.2, "under less load"
    assert safe_share(now, history(less, report(20.0, 0.5, share=0.14, load=50.0)), right=0.3) == 0.2, "it missed, too"
    assert safe_share(replace(now, need=None), history(less), right=0.3) == 0.0
    assert safe_share(replace(now, tenant=STREETS), history(less), right=0.3) == 0.0, "cameras have no queue"


def test_a_tenant_that_was_never_measured_has_the_need_of_its_first_load_at_once() -> None:
    def share(known: dict[str, LearnedTenant], utc_s: float, need: float) -> SharingDecision:
        served = TenantNow(GATE, need=need), TenantNow(STATS, need=0.05)
        question = SharingQuestion(utc_s, 0.9, (*served, TenantNow(STREETS)), SharingRules(largest_step=0.02))
        return decide(known, question)

    idle = share({}, 0.0, 0.05)
    assert idle.shares["gate"].held < 0.25
    assert share(dict(idle.known), 10.0, 0.28).shares["gate"].held >= 0.28 - 1e-6, "steps would let its queue grow"


def test_after_its_load_moved_a_tenant_is_not_believed_to_do_better_than_its_profile_says() -> None:
    """Three times the load: by its curve, scaled to that, a little more would do; its queue says otherwise."""
    known: dict[str, LearnedTenant] = {}

    def after(utc_s: float, need: float | None, stats: SharingReport) -> SharingDecision:
        streets = SharingReport(utc_s, 10.0, 1.0, 0.52, 0.3, 1)
        entries = (
            TenantNow(GATE, need=0.12, report=report(utc_s, 1.0, share=0.2)),
            TenantNow(STATS, need=need, report=stats),
            TenantNow(STREETS, report=streets),
        )
        return decide(known, asked(utc_s, *entries, total=0.67, windows=True))

    for n in range(12):
        utc_s = 10.0 * (n + 1)
        share = 0.15 if n % 2 else 0.17
        known.update(after(utc_s, 0.14, report(utc_s, 1.0, share=share)).known)
    moved = report(130.0, 0.38, share=0.17, load=30.0)
    alone, profiled = (after(130.0, need, moved).shares for need in (None, 0.42))
    assert profiled["stats"].held > alone["stats"].held + 0.02
    assert profiled["streets"].held < alone["streets"].held


@pytest.mark.parametrize("policy", ["ew", "sw", "njc", "minerva"])
def test_no_tenant_is_put_below_its_need_for_the_good_of_cameras(policy: str) -> None:
    known: dict[str, LearnedTenant] = {}
    for n in range(12):
        utc_s = 10.0 * (n + 1)
        served = [
            TenantNow(tenant, 0.0, 0.2, report(utc_s, 1.0, share=(known[tenant.id].held if known else 0.25) or 0.25))
            for tenant in (GATE, STATS)
        ]
        streets = TenantNow(STREETS, report=SharingReport(utc_s, 10.0, 1.0, 0.3, 0.3, 1))
        question = SharingQuestion(utc_s, 0.9, (*served, streets), SharingRules(policy=policy), windows=True)
        found = decide(known, question)
        known = dict(found.known)
        assert all(found.shares[t].held >= 0.2 - 0.011 for t in ("gate", "stats"))


@pytest.mark.parametrize("policy", ["ew", "sw", "njc"])
def test_where_a_floor_rises_above_a_share_and_no_tenant_may_lose_the_floors_are_kept(policy: str) -> None:
    rules = SharingRules(policy=policy)

    def ask(utc_s: float, floor: float, *reports: SharingReport | None) -> SharingQuestion:
        rows = zip((GATE, STATS, STREETS), (floor, 0.0, 0.0), reports, strict=True)
        entries = tuple(TenantNow(tenant, least, None, seen) for tenant, least, seen in rows)
        return SharingQuestion(utc_s, 0.9, entries, rules, windows=True)

    known = decide({}, ask(5.0, 0.0, report(5.0, 1.0), report(5.0, 0.5), report(5.0, 0.5))).known
    held = {name: tenant.held or 0.0 for name, tenant in known.items()}
    floor = held["gate"] + 0.1
    found = decide(known, ask(10.0, floor, report(10.0, 0.2), None, None)).shares
    assert found["gate"].held >= floor - 1e-6
    assert sum(s.held for s in found.values()) == pytest.approx(0.9)


@pytest.mark.parametrize("policy", ["ew", "sw", "njc"])
def test_floors_above_what_others_leave_that_hold_are_kept_by_the_limits(policy: str) -> None:
    known = {
        "gate": replace(decide({}, asked(5.0, TenantNow(GATE, report=report(5.0, 0.5)))).known["gate"], held=0.85),
        "stats": LearnedTenant(held=0.05),
    }
    entries = (TenantNow(GATE), TenantNow(STATS, 0.2, need=0.1))
    found = decide(known, SharingQuestion(10.0, 0.9, entries, SharingRules(policy=policy)))
    assert found.shares["stats"].held == pytest.approx(0.2)
    assert found.shares["gate"].held == pytest.approx(0.7)


def test_a_floor_that_is_kept_in_part_is_reported_as_far_as_it_is_kept() -> None:
    known = {"gate": LearnedTenant(held=0.6), "stats": LearnedTenant(held=0.3)}
    found = decide(known, asked(10.0, TenantNow(GATE, 0.4, need=0.4), TenantNow(STATS, 0.8, need=0.8)))
    assert found.lacking == pytest.approx(0.3)
    assert found.shares["stats"].held == pytest.approx(0.6)
    assert found.shares["stats"].reason.code == "floor"
    assert found.shares["stats"].reason.numbers == {"raised": pytest.approx(0.3), "floor": pytest.approx(0.6)}


def test_floors_lack_where_all_together_are_more_than_there_is() -> None:
    known = decide({}, asked(0.0, TenantNow(GATE), TenantNow(STATS), TenantNow(STREETS))).known

    def with_floors(gate: float, stats: float, *, windows: bool) -> SharingDecision:
        entries = (TenantNow(GATE, gate), TenantNow(STATS, stats), TenantNow(STREETS))
        return decide(known, asked(10.0, *entries, windows=windows))

    for windows in (False, True):
        there = with_floors(0.45, 0.3, windows=windows)
        assert there.lacking == 0
        assert there.shares["gate"].held == pytest.approx(0.45)
        short = with_floors(0.5, 0.4, windows=windows)
        assert short.lacking == pytest.approx(0.5 + 0.4 + 0.1 - 0.9)
        assert [s.held for s in short.shares.values()] == pytest.approx([0.45, 0.36, 0.09])


def test_where_there_is_much_less_inside_a_window_floors_of_cameras_count_at_once() -> None:
    yard = Tenant("yard", TenantObjective("accuracy", 0.8), cameras=("east",))
    entries = (TenantNow(GATE, 0.05), TenantNow(STATS), TenantNow(STREETS), TenantNow(yard))
    known = {
        "gate": LearnedTenant(held=0.3), "stats": LearnedTenant(held=0.3), "streets": LearnedTenant(held=0.15),
        "yard": LearnedTenant(held=0.15),
    }  # fmt: skip
    found = decide(known, asked(10.0, *entries, total=0.45))
    streets, yard_s = found.shares["streets"], found.shares["yard"]
    assert streets.held == pytest.approx(0.1), "0.075 would be its part"
    assert (streets.reason.code, streets.raised) == ("floor", pytest.approx(0.025))
    assert yard_s.held == pytest.approx(0.075 * 0.35 / 0.375), "those above their floors give in proportion"
    assert sum(s.held for s in found.shares.values()) == pytest.approx(0.45)
    assert found.lacking == 0
    short = decide(known, asked(10.0, *entries, total=0.12))
    assert short.lacking == pytest.approx(0.03)
    assert [short.shares[t].held for t in ("gate", "streets")] == pytest.approx([0.04, 0.08])
    assert decide(known, asked(10.0, *entries)).shares["yard"].held == pytest.approx(0.15), "else cameras hold"


@pytest.mark.parametrize("windows", [False, True])
def test_floors_of_cameras_above_all_that_there_is_leave_serving_tenants_nothing_and_not_less(windows: bool) -> None:
    streets = replace(STREETS, floor=0.7227)
    known = {"gate": LearnedTenant(held=0.5), "streets": LearnedTenant(held=0.4)}
    found = decide(known, asked(10.0, TenantNow(GATE), TenantNow(streets), total=0.4963, windows=windows))
    assert [s.held for s in found.shares.values()] == pytest.approx([0.0, 0.4963])
    assert all(s.held >= 0 for s in found.shares.values())


parts = st.floats(0.0, 1.0)


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from(("ew", "sw", "njc", "fair", "minerva", "greedy-ew")))
def test_whatever_is_measured_budgets_sum_and_keep_floors_and_survive_json(data: st.DataObject, policy: str) -> None:
    known: dict[str, LearnedTenant] = {}
    # A serving floor of 0 beside camera floors above the total leaves the serving tenants nothing.
    gate, streets = data.draw(st.sampled_from((0.0, 0.15))), data.draw(st.sampled_from((0.1, 0.7227)))
    tenants = (replace(GATE, floor=gate), STATS, replace(STREETS, proxy_utilisation=0.7, floor=streets))
    uses = st.none() | st.builds(MeasuredUse, st.floats(0.0, 2.0) | st.just(float("nan")), parts)
    for n in range(4):
        total = data.draw(st.floats(0.4, 1.0))
        entries = []
        for tenant in tenants:
            there = data.draw(st.booleans())
            seen = report(10.0 * n, data.draw(parts), data.draw(st.floats(0.01, 1.0))) if there else None
            entries.append(TenantNow(tenant, data.draw(st.sampled_from((0.0, 0.1))), None, seen, use=data.draw(uses)))
        rules = SharingRules(policy=policy, explore=data.draw(parts))
        question = SharingQuestion(10.0 * n, total, tuple(entries), rules, data.draw(st.booleans()))
        found = decide(known, question)
        assert sum(s.held for s in found.shares.values()) == pytest.approx(total, abs=1e-6)
        lows = {e.tenant.id: max(e.floor, e.tenant.floor) for e in entries}
        kept = min(1.0, total / max(sum(lows.values()), 1e-9))
        for name, low in lows.items():
            assert found.shares[name].held >= max(0.0, low * kept - 1e-6)
        rights = entitlements(tenants, total)
        for entry in entries:
            if question.windows and found.shares[entry.tenant.id].state == "misses":
                floors = sum(max(e.floor, e.tenant.floor) for e in entries)
                if floors <= 1e-9:
                    assert found.shares[entry.tenant.id].held >= (1 - rules.explore) * rights[entry.tenant.id] - 1e-6
        written = json.loads(json.dumps({k: v.to_json() for k, v in found.known.items()}))
        known = {k: LearnedTenant.from_json(v) for k, v in written.items()}
        assert known == dict(found.known)


def test_while_cameras_hold_more_than_is_theirs_the_need_within_the_entitlement_stays_whole() -> None:
    """The entitlement is that among all: of what cameras leave, 0.4, half would be less than the need."""
    rules = SharingRules(explore=1.0)
    known = {
        "gate": LearnedTenant(held=0.25), "stats": LearnedTenant(held=0.15), "streets": LearnedTenant(held=0.5),
    }  # fmt: skip
    for n in range(6):
        utc_s, share = 10.0 * (n + 1), known["gate"].held or 0.0
        gate = TenantNow(GATE, need=0.25, report=report(utc_s, 1.0 if share >= 0.249 else 0.5, share))
        stats = TenantNow(STATS, need=0.05, report=report(utc_s, 0.3, known["stats"].held or 0.0))
        found = decide(known, SharingQuestion(utc_s, 0.9, (gate, stats, TenantNow(STREETS)), rules))
        known = dict(found.known)
        assert found.shares["gate"].held == pytest.approx(0.25), n


def test_what_cameras_hold_beyond_their_entitlement_goes_back_at_once_for_a_need_within_the_entitlement() -> None:
    known = {"gate": LearnedTenant(held=0.1), "stats": LearnedTenant(held=0.1), "streets": LearnedTenant(held=0.7)}
    gate = TenantNow(GATE, need=0.28, report=report(10.0, 0.4, 0.1))
    stats = TenantNow(STATS, need=0.1, report=report(10.0, 1.0, 0.1))
    found = decide(known, asked(10.0, gate, stats, TenantNow(STREETS, floor=0.1)))
    assert found.shares["gate"].held == pytest.approx(0.28)
    assert found.shares["stats"].held == pytest.approx(0.1), "it is not put below its need for another's sake"
    assert found.shares["streets"].held == pytest.approx(0.52)
    assert found.shares["streets"].reason.code == "less"
    assert found.shares["streets"].reason.others == ("gate",)

    both = (replace(gate, need=0.9), replace(stats, need=0.9, report=report(10.0, 0.4, 0.1)))
    found = decide(known, asked(10.0, *both, TenantNow(STREETS, floor=0.1)))
    assert {t: round(s.held, 6) for t, s in found.shares.items()} == {"gate": 0.3, "stats": 0.3, "streets": 0.3}
    found = decide(known, asked(10.0, *both, TenantNow(STREETS, floor=0.5)))
    assert found.shares["streets"].held == pytest.approx(0.5), "not below its floor"


def test_a_decision_between_two_intervals_does_not_say_that_there_is_no_traffic() -> None:
    known = dict(decide({}, asked(0.0, TenantNow(GATE), TenantNow(STATS))).known)
    reports = [TenantNow(t, report=report(10.0, 1.0, 0.4)) for t in (GATE, STATS)]
    known = dict(decide(known, asked(10.0, *reports)).known)
    silent = asked(15.0, TenantNow(GATE), TenantNow(STATS), total=0.9)
    assert decide(known, silent).shares["gate"].reason.code == "no_traffic"
    assert decide(known, replace(silent, between=True)).shares["gate"].reason.code == "kept"
