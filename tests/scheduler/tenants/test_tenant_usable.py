"""Shares that a plan can use: budgets lie on them, and what is between two of them goes to others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge.core.tenants import SharingRules, Tenant, TenantObjective
from scheduler.tenants.budgets import BudgetLimits, budgets, rescaled
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.sharing import SharingQuestion, TenantNow, decide, safe_share
from scheduler.tenants.usable import at_least, at_most, in_steps, settled

GRID = (0.05, 0.11, 0.17, 0.23, 0.3)
PARTS = st.floats(0.0, 1.0, allow_nan=False)


def test_a_share_between_two_is_worth_the_lower_one() -> None:
    assert at_most(GRID, 0.2) == 0.17
    assert at_least(GRID, 0.2) == 0.23
    assert (at_most(GRID, 0.23), at_least(GRID, 0.23)) == (0.23, 0.23)
    assert (at_most(GRID, 0.04), at_least(GRID, 0.4)) == (0.0, 0.4)
    assert (at_most((), 0.2), at_least((), 0.2)) == (0.2, 0.2), "any share"
    utility = np.arange(6) / 5
    assert in_steps(utility, (0.02, 0.04, 0.9), 0.01).tolist() == pytest.approx([0.0, 0.0, 0.4, 0.4, 0.8, 0.8])
    assert in_steps(utility, (), 0.01) is utility
    assert in_steps(utility, (0.5,), 0.01).tolist() == [0.0] * 6, "all usable shares are more than there is"


def test_what_is_held_in_vain_completes_another_share_or_goes_to_who_can_use_any() -> None:
    none, all_ = [0.0] * 3, [1.0] * 3
    assert settled([0.22, 0.12, 0.3], none, all_, [GRID, GRID, ()]) == pytest.approx([0.23, 0.11, 0.3]), "both in part"
    assert settled([0.2, 0.13, 0.3], none, all_, [GRID, GRID, ()]) == pytest.approx([0.17, 0.11, 0.35])
    assert settled([0.2, 0.13, 0.3], none, [1.0, 1.0, 0.3], [GRID, GRID, ()]) == pytest.approx([0.2, 0.13, 0.3])
    assert settled([0.2, 0.11], none[:2], all_[:2], [GRID, GRID]) == pytest.approx([0.2, 0.11]), "no tenant can use it"
    assert settled([0.2, 0.3], [0.19, 0.0], all_[:2], [GRID, ()]) == pytest.approx([0.19, 0.31]), "its low is kept"


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(PARTS, PARTS, PARTS, st.booleans()), min_size=1, max_size=5))
@example([(1.192092896e-07, 0.0, 0.0, True)])
def test_settled_shares_keep_the_sum_and_every_limit(rows: list[tuple[float, float, float, bool]]) -> None:
    shares = [share for share, _, _, _ in rows]
    lows = [share * low for share, low, _, _ in rows]
    highs = [share + high for share, _, high, _ in rows]
    usable = [GRID if grid else () for _, _, _, grid in rows]
    out = settled(shares, lows, highs, usable)
    assert sum(out) == pytest.approx(sum(shares))
    for share, low, high in zip(out, lows, highs, strict=True):
        assert max(0.0, low - 1e-6) <= share <= high + 1e-6
    for before, after, grid in zip(shares, out, usable, strict=True):
        assert at_most(grid, after + 1e-5) >= at_most(grid, before) - 1e-6 if grid else after >= before - 1e-6


def test_budgets_lie_on_usable_shares_and_resting_tenants_stay() -> None:
    rules = SharingRules(largest_step=0.1, dwell_s=60.0)
    gate = BudgetLimits("gate", 0.3, 0.05, 0.2, usable=GRID)
    streets = BudgetLimits("streets", 0.3, 0.1, 0.4)
    found = budgets([gate, streets], {"gate": 0.21, "streets": 0.39}, 0.6, rules).shares
    assert found == pytest.approx({"gate": 0.17, "streets": 0.43})
    resting = BudgetLimits("gate", 0.3, 0.05, 0.2, moved_ago_s=10.0, usable=GRID)
    found = budgets([resting, streets], {"gate": 0.21, "streets": 0.39}, 0.6, rules).shares
    assert found == pytest.approx({"gate": 0.2, "streets": 0.4})


def test_a_tenant_that_misses_its_goal_is_raised_to_what_was_seen_to_be_enough() -> None:
    rules = SharingRules(explore=0.1)
    other = BudgetLimits("other", 0.3, 0.05, 0.5)
    for enough, share in ((None, 0.27), (0.15, 0.15), (0.4, 0.27)):
        mine = BudgetLimits("gate", 0.3, 0.05, 0.1, protected=True, enough=enough)
        assert budgets([mine, other], {}, 0.6, rules).shares["gate"] == pytest.approx(share)


def test_a_little_more_or_less_to_share_moves_no_tenant_off_a_usable_share() -> None:
    held, rights, floors, firm = [0.23, 0.11, 0.26], [0.2, 0.2, 0.2], [0.05, 0.05, 0.1], [True, True, False]
    assert rescaled(held, rights, floors, firm, 0.59) == pytest.approx([0.23, 0.11, 0.25])
    assert rescaled(held, rights, floors, firm, 0.61) == pytest.approx([0.23, 0.11, 0.27])
    assert rescaled(held, rights, floors, firm, 0.5) == pytest.approx([h * 0.5 / 0.6 for h in held]), "not a little"
    scarce = [0.23, 0.11, 0.2]
    assert rescaled(scarce, rights, floors, firm, 0.53) == pytest.approx([h * 0.53 / 0.54 for h in scarce])
    assert rescaled(held, rights, floors, [False] * 3, 0.59) == pytest.approx([h * 0.59 / 0.6 for h in held])


def test_decisions_give_serving_tenants_shares_that_they_can_use() -> None:
    goal = TenantObjective("within_slo", 0.95)
    gate = Tenant("gate", goal, models=("a",), floor=0.05)
    stats = Tenant("stats", goal, models=("b",), floor=0.05)
    streets = Tenant("streets", TenantObjective("accuracy", 0.6, "sqrt"), cameras=("north",), floor=0.1)
    known: dict[str, LearnedTenant] = {}
    seen = []
    for n in range(25):
        held = {t: k.held or 0.0 for t, k in known.items()}
        reports: dict[str, SharingReport] = {}
        for name, load in (("gate", 15.0), ("stats", 10.0)):
            if share := at_most(GRID, held.get(name, 0.0)):
                performance = min(1.0, 100.0 * share / load)
                reports[name] = SharingReport(10.0 * n, 10.0, load, performance, share, 100)
        if n % 10 == 9:
            share = held["streets"]
            reports["streets"] = SharingReport(10.0 * n, 100.0, 1.0, 0.5 * min(1.0, share / 0.5), share, 2)
        entries = tuple(
            TenantNow(t, need=need, report=reports.get(t.id), usable=GRID if t.serves else ())
            for t, need in ((gate, 0.2), (stats, 0.12), (streets, None))
        )
        rules = SharingRules(largest_step=0.1)
        found = decide(known, SharingQuestion(10.0 * n, 0.6, entries, rules, windows="streets" in reports))
        known = dict(found.known)
        seen.append({t: s.held for t, s in found.shares.items()})
        assert sum(seen[-1].values()) == pytest.approx(0.6)
    assert seen[-1] == pytest.approx({"gate": 0.17, "stats": 0.11, "streets": 0.32}), "needs, as usable"


def test_the_safe_share_is_one_that_its_plan_can_use() -> None:
    gate = TenantNow(Tenant("gate", TenantObjective("within_slo", 0.95), models=("a",)), need=0.4)
    known = LearnedTenant(recent=(SharingReport(0.0, 10.0, 50.0, 0.5, 0.1, 100),))
    assert safe_share(gate, known, right=0.2) == 0.2
    on_grid = TenantNow(gate.tenant, need=0.4, usable=GRID)
    assert safe_share(on_grid, known, right=0.2) == 0.17
