"""Budgets: they sum to what there is, keep floors and steps, and protect who misses its goal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.tenants import SharingRules
from scheduler.tenants.budgets import RESTART_DWELL_S, BudgetLimits, budgets, raised_to, reclaimed, rules_for

PARTS = st.floats(0.0, 1.0, allow_nan=False)
GRID = (0.05, 0.11, 0.17, 0.23, 0.3)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[BudgetLimits], dict[str, float], float, SharingRules]:
    count = draw(st.integers(1, 6))
    total = draw(st.floats(0.05, 1.0))
    weights = [draw(st.floats(0.0, 5.0)) for _ in range(count)]
    weights[0] += 0.1
    limits = [
        BudgetLimits(
            f"t{n}", total * w / sum(weights), draw(PARTS) * draw(st.sampled_from((0.0, 0.1, 0.6))), draw(PARTS),
            draw(st.booleans()), draw(st.booleans()), draw(st.none() | st.floats(0.0, 100.0)),
            safe=total * w / sum(weights) * draw(PARTS) * draw(st.integers(0, 1)), enough=draw(st.none() | PARTS),
            usable=draw(st.sampled_from(((), GRID))),
        )
        for n, w in enumerate(weights)
    ]  # fmt: skip
    wanted = {limit.id: draw(PARTS) for limit in limits if draw(st.booleans())}
    rules = SharingRules(
        largest_step=draw(st.floats(0.01, 0.5)), explore=draw(PARTS), dwell_s=draw(st.sampled_from((0.0, 30.0))),
        hysteresis=draw(st.sampled_from((0.0, 0.02))),
    )  # fmt: skip
    return limits, wanted, total, rules


@settings(max_examples=tried(120, 300), deadline=None)
@given(questions())
def test_budgets_keep_every_limit(question: tuple[list[BudgetLimits], dict[str, float], float, SharingRules]) -> None:
    limits, wanted, total, rules = question
    found = budgets(limits, wanted, total, rules)
    assert abs(sum(found.shares.values()) - total) < 1e-6
    assert all(share >= -1e-9 for share in found.shares.values())
    floors = sum(limit.floor for limit in limits)
    for limit in limits:
        floor = limit.floor if floors <= total else limit.floor * total / floors
        assert found.shares[limit.id] >= floor - 1e-6
    if floors <= total - sum(limit.entitlement for limit in limits if limit.protected or limit.safe):
        for limit in limits:
            share = found.shares[limit.id]
            if limit.protected:
                right = (1 - rules.explore) * limit.entitlement
                assert share >= (right if limit.enough is None else min(right, limit.enough)) - 1e-6
            if limit.moved_ago_s is None and limit.safe > limit.held + rules.hysteresis:
                assert share >= limit.safe - 1e-6


@settings(max_examples=tried(80, 200), deadline=None)
@given(questions())
def test_from_a_state_that_is_allowed_no_share_moves_too_far_or_too_soon(
    question: tuple[list[BudgetLimits], dict[str, float], float, SharingRules],
) -> None:
    limits, wanted, total, rules = question
    if sum(max(x.floor, x.safe, x.entitlement if x.protected else 0.0) for x in limits) > total:
        # The safe share is cut then, and less of it counts the next time.
        limits = [replace(x, safe=0.0) for x in limits]
    first = budgets(limits, wanted, total, rules)
    again = [replace(x, held=first.shares[x.id]) for x in limits]
    second = budgets(again, wanted, total, rules)
    assert not second.raised or sum(x.floor for x in limits) > total - 1e-6
    for limit in again:
        moved = abs(second.shares[limit.id] - limit.held)
        assert moved <= rules.largest_step + 1e-6
        if limit.still or (limit.moved_ago_s is not None and limit.moved_ago_s < rules.dwell_s):
            assert moved <= 1e-6


def test_a_gift_needs_a_taker_and_a_wish_a_giver() -> None:
    limits = [BudgetLimits("a", 0.5, 0.0, 0.5), BudgetLimits("b", 0.5, 0.0, 0.5)]
    rules = SharingRules(largest_step=0.1, hysteresis=0.0)
    assert budgets(limits, {"a": 0.2, "b": 0.5}, 1.0, rules).shares == {"a": 0.5, "b": 0.5}
    found = budgets(limits, {"a": 0.2, "b": 0.9}, 1.0, rules).shares
    assert found == pytest.approx({"a": 0.4, "b": 0.6})


def test_a_floor_is_reached_at_once_and_reported() -> None:
    limits = [BudgetLimits("a", 0.5, 0.0, 0.9), BudgetLimits("b", 0.5, 0.4, 0.1)]
    found = budgets(limits, {}, 1.0, SharingRules(largest_step=0.01))
    assert found.shares["b"] == pytest.approx(0.4)
    assert found.raised["b"] == pytest.approx(0.3)


def test_all_at_their_lows_is_an_answer() -> None:
    assert raised_to([0.0, 1.0], [0.5, 0.5], 1.0) == [0.5, 0.5]


def test_where_a_move_starts_executors_anew_a_tenant_stays_longer() -> None:
    rules = SharingRules(dwell_s=5.0)
    assert rules_for(rules, live=True) == rules
    assert rules_for(rules, live=False).dwell_s == RESTART_DWELL_S
    patient = SharingRules(dwell_s=2 * RESTART_DWELL_S)
    assert rules_for(patient, live=False) == patient


def test_a_share_follows_a_load_that_moved_at_once_unless_it_dwells() -> None:
    rules = SharingRules(largest_step=0.05, hysteresis=0.02, dwell_s=60.0)
    heavy, light = BudgetLimits("a", 0.4, 0.1, 0.15, safe=0.35), BudgetLimits("b", 0.4, 0.1, 0.65)
    assert budgets([heavy, light], {"a": 0.35, "b": 0.45}, 0.8, rules).shares["a"] == pytest.approx(0.35)
    unsafe = replace(heavy, safe=0.0)
    assert budgets([unsafe, light], {"a": 0.35, "b": 0.45}, 0.8, rules).shares["a"] == pytest.approx(0.2)
    dwelling = replace(heavy, moved_ago_s=20.0)
    assert budgets([dwelling, light], {"a": 0.35, "b": 0.45}, 0.8, rules).shares["a"] == pytest.approx(0.15)
    little = replace(heavy, safe=0.16)
    assert budgets([little, light], {"a": 0.15}, 0.8, rules).shares["a"] == pytest.approx(0.15)
    both = budgets([heavy, replace(light, floor=0.6)], {}, 0.8, rules)
    assert both.shares["b"] == pytest.approx(0.6), "floors come before what is safe"


def test_a_tenant_just_below_a_usable_share_is_completed_though_that_is_a_small_move() -> None:
    """After there was a little less to share, 0.23 is 0.2289, which its plan uses as 0.17."""
    rules = SharingRules(largest_step=0.1, hysteresis=0.02, dwell_s=60.0)
    gate = BudgetLimits("gate", 0.3, 0.05, 0.2289, usable=GRID)
    streets = BudgetLimits("streets", 0.3, 0.1, 0.3711)
    wish = {"gate": 0.23, "streets": 0.37}
    assert budgets([gate, streets], wish, 0.6, rules).shares == pytest.approx({"gate": 0.23, "streets": 0.37})
    safe = replace(gate, safe=0.23)
    assert budgets([safe, streets], {}, 0.6, rules).shares["gate"] == pytest.approx(0.23)
    rests = replace(safe, moved_ago_s=10.0)
    assert budgets([rests, streets], wish, 0.6, rules).shares["gate"] == pytest.approx(0.2289)
    any_share = replace(safe, usable=())
    assert budgets([any_share, streets], wish, 0.6, rules).shares["gate"] == pytest.approx(0.2289), "a small move"
    other = BudgetLimits("other", 0.3, 0.05, 0.1705, usable=GRID)
    taken = budgets([gate, other], {"gate": 0.23, "other": 0.1}, 0.3994, rules).shares
    assert taken == pytest.approx({"gate": 0.2289, "other": 0.1705}), "the other one would lose a usable share"


def test_others_give_back_at_once_what_a_tenant_lacks_of_a_usable_share() -> None:
    rules = SharingRules(hysteresis=0.02, dwell_s=60.0)
    gate = BudgetLimits("gate", 0.3, 0.05, 0.2289, safe=0.23, usable=GRID)
    streets = BudgetLimits("streets", 0.3, 0.1, 0.3711)
    assert reclaimed([gate], [streets], rules) == pytest.approx([0.0011])
    assert reclaimed([replace(gate, usable=())], [streets], rules) == [0.0]
    assert reclaimed([replace(gate, moved_ago_s=10.0)], [streets], rules) == [0.0]
    assert reclaimed([gate], [replace(streets, entitlement=0.4)], rules) == [0.0], "theirs by right"
