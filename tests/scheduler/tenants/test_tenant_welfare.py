"""Exact welfare: against every allocation of small problems, and by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.tenants.grid import no_complaints, to_steps, with_floors
from scheduler.tenants.shapes import Floats
from scheduler.tenants.welfare import best_insured_least, best_least, best_sum, with_spare


@st.composite
def utilities(draw: st.DrawFn) -> Floats:
    """(tenants, steps): utilities that do not fall, in hundredths."""
    count, levels = draw(st.integers(1, 3)), draw(st.integers(2, 7))
    row = st.lists(st.integers(0, 100), min_size=levels, max_size=levels)
    return np.array([np.sort(draw(row)) / 100 for _ in range(count)])


def of_all(tables: Floats) -> list[tuple[int, ...]]:
    count, levels = tables.shape
    return [steps for steps in product(range(levels), repeat=count) if sum(steps) <= levels - 1]


def values(tables: Floats, steps: tuple[int, ...] | list[int]) -> Floats:
    return tables[np.arange(len(steps)), list(steps)]


@given(utilities())
def test_the_sum_is_that_of_the_best_of_all_allocations(tables: Floats) -> None:
    steps = best_sum(tables)
    assert sum(steps) <= tables.shape[1] - 1
    best = max(values(tables, every).sum() for every in of_all(tables))
    assert abs(values(tables, steps).sum() - best) < 1e-9


@given(utilities())
def test_the_least_is_that_of_the_best_of_all_allocations(tables: Floats) -> None:
    # A tenant that cannot reach the others' utility counts with its own greatest.
    steps, top = best_least(tables), tables[:, -1]
    assert sum(steps) <= tables.shape[1] - 1

    def lack(every: tuple[int, ...] | list[int]) -> float:
        reached = values(tables, every)
        open_ = reached < top - 1e-9
        return float(reached[open_].min()) if open_.any() else 1.0

    assert lack(steps) >= max(lack(every) for every in of_all(tables)) - 1e-6


@given(utilities())
def test_insurance_uses_no_more_than_there_is(tables: Floats) -> None:
    assert sum(best_insured_least(tables, 0.02)) <= tables.shape[1] - 1


def test_insurance_gives_the_cheap_one_more_than_the_least_needs() -> None:
    dear, cheap = np.linspace(0.0, 1.0, 101), np.minimum(1.0, np.linspace(0.0, 10.0, 101))
    tables = np.array([dear, cheap])
    exact, insured = best_least(tables), best_insured_least(tables, 0.02)
    assert exact[0] in (90, 91)
    assert insured[1] > 100 - exact[0] - 1
    assert min(values(tables, insured)) > 0.88


def test_spare_steps_go_where_they_add_most() -> None:
    tables = np.array([[0.0, 0.2, 0.3, 0.3], [0.0, 0.5, 0.9, 1.0]])
    assert with_spare(tables, [0, 1]) == [1, 2] or with_spare(tables, [0, 1]) == [0, 3]
    assert with_spare(tables, [0, 1])[1] >= 2


def test_the_procedure_by_hand() -> None:
    # The first wants less than its third; the other two share what it leaves.
    assert no_complaints([10.0, 40.0, 90.0], [1.0, 1.0, 1.0], 90.0).tolist() == [10.0, 40.0, 40.0]
    assert no_complaints([10.0, 90.0], [1.0, 0.0], 90.0).tolist() == [10.0, 0.0]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 5)), min_size=1, max_size=6))
def test_no_tenant_complains(asked: list[tuple[float, float]]) -> None:
    demands, weights = [d for d, _ in asked], [w for _, w in asked]
    units = no_complaints(demands, weights, 60.0)
    entitled = 60.0 * np.array(weights) / sum(weights)
    assert units.sum() <= 60.0 + 1e-6
    for given_, demand, share in zip(units, demands, entitled, strict=True):
        assert given_ >= min(demand, share) - 1e-6


@given(st.lists(st.floats(0, 50), min_size=1, max_size=6), st.sampled_from([0.25, 0.5, 1.0]), st.integers(1, 100))
def test_steps_are_near_the_units_and_no_more_than_there_are(
    units: list[float], granularity: float, total: int
) -> None:
    steps = to_steps(np.array(units), granularity, total)
    assert sum(steps) <= total
    if sum(units) <= total * granularity:
        assert all(abs(s * granularity - u) <= granularity + 1e-6 for s, u in zip(steps, units, strict=True))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=6))
def test_floors_are_kept_and_taken_from_those_above_theirs(given_: list[tuple[int, int]]) -> None:
    steps, floors = [s for s, _ in given_], [f for _, f in given_]
    out = with_floors(steps, floors)
    assert all(o >= f for o, f in zip(out, floors, strict=True))
    assert sum(out) <= max(sum(steps), sum(floors))
