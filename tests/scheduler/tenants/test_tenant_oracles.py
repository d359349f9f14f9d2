"""Oracles: the best of all allocations by the true curves, and nothing less."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from scheduler.tenants.oracles import ORACLES, best_by_moves, oracle_steps, true_tables
from scheduler.tenants.policies import SHARING_POLICIES
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import TenantGoal

GOALS = (TenantGoal("within_slo", 0.9), TenantGoal("throughput", 100.0, "sqrt"), TenantGoal("accuracy", 0.5))


def rising(top: float, knee: float) -> object:
    def curve(units: Floats, load: float) -> Floats:
        return np.asarray(-top * np.expm1(-units / load / knee))

    return curve


def test_tables_are_true_utilities_in_the_mean_over_the_loads() -> None:
    curve = rising(1.0, 2.0)
    found = true_tables(GOALS[:1], [curve], [(1.0, 3.0)], np.arange(4.0))  # type: ignore[list-item]
    by_hand = [np.mean([min(1.0, (1 - np.exp(-k / load / 2)) / 0.9) for load in (1.0, 3.0)]) for k in range(4)]
    assert found.shape == (1, 4)
    assert found[0] == pytest.approx(by_hand)


@given(st.tuples(*[st.floats(0.3, 6.0)] * 3), st.tuples(*[st.floats(0.5, 2.0)] * 3))
def test_each_oracle_has_the_most_of_its_own_measure(knees: tuple[float, ...], loads: tuple[float, ...]) -> None:
    steps = 9
    curves = [rising(top, knee) for top, knee in zip((1.0, 150.0, 1.0), knees, strict=True)]
    tables = true_tables(GOALS, curves, [(x,) for x in loads], np.arange(steps + 1.0))  # type: ignore[arg-type]
    rows = np.arange(3)
    equal = tables[rows, [steps // 3] * 3]

    def measures(held: tuple[int, ...]) -> tuple[float, float, float]:
        mine = tables[rows, list(held)]
        return float(mine.mean()), float(mine.min()), min(1.0, float((mine / equal).min()))

    every = [measures(h) for h in product(range(steps + 1), repeat=3) if sum(h) <= steps]
    for n, objective in enumerate(ORACLES):
        held = oracle_steps(objective, tables)
        assert sum(held) <= steps
        assert measures(held)[n] >= max(m[n] for m in every) - 1e-6


def test_the_oracle_of_fairness_goes_by_entitlements() -> None:
    tables = np.array([np.minimum(1.0, np.arange(13) / 12), np.minimum(1.0, np.arange(13) / 3)])
    assert oracle_steps("njc", tables) == (9, 3), "the second demands 3; the first has what is left"
    assert oracle_steps("njc", tables, weights=(1.0, 3.0)) == (9, 3)
    both = np.array([np.minimum(1.0, np.arange(13) / 12)] * 2)
    assert oracle_steps("njc", both, weights=(1.0, 3.0)) == (3, 9)


def test_an_oracle_is_no_policy() -> None:
    with pytest.raises(InvalidValue, match="objective"):
        oracle_steps("oracle", np.zeros((1, 2)))
    assert not any("oracle" in name for name in SHARING_POLICIES)


def test_units_of_services_move_while_that_lowers_the_latency() -> None:
    def latency_ms(units: object) -> float:
        a, b, c = units  # type: ignore[misc]
        return float(max(40 / a, 10 / b) + 10 / c)

    low, held = best_by_moves(latency_ms, [4.0, 4.0, 4.0])
    assert sum(held) == 12
    assert low == latency_ms(held)
    best = min(latency_ms(u) for u in product(range(1, 11), repeat=3) if sum(u) == 12)
    assert low == pytest.approx(best)
    assert best_by_moves(latency_ms, [1.0, 1.0, 1.0]) == (50.0, [1.0, 1.0, 1.0]), "nothing can be given"
