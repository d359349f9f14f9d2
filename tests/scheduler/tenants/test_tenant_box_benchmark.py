"""The oracle of the tenants' benchmark of a whole box has no share that the boxes beside it cannot have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import bench_tenant_box as bench

UTILITIES = st.lists(st.floats(0.0, 1.0), min_size=13, max_size=13)


@settings(max_examples=60, deadline=None)
@given(st.tuples(UTILITIES, UTILITIES, UTILITIES), st.tuples(*[st.integers(0, 2)] * 3), st.integers(6, 14))
def test_it_has_the_greatest_least_utility_that_the_bound_on_serving_tenants_allows(
    drawn: tuple[list[float], ...], floors: tuple[int, ...], most: int
) -> None:
    rows = np.array([sorted(row) for row in drawn])
    for row, floor in zip(rows, floors, strict=True):
        row[:floor] = -1.0
    held = bench.held_by_oracle(rows, most)
    assert sum(held) <= 12
    assert sum(held[:2]) <= most
    best = max(
        min(rows[0][a], rows[1][b], rows[2][12 - a - b])
        for a, b in product(range(13), repeat=2)
        if a + b <= min(most, 12)
    )
    assert min(row[k] for row, k in zip(rows, held, strict=True)) == pytest.approx(best, abs=1e-6)


def test_serving_tenants_have_no_more_than_the_operator_lets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()

    def served(tenant: str, part: float, percent: int, seed: int) -> tuple[float, float]:
        asked.add(percent)
        return percent / 100, percent / 200

    monkeypatch.setattr(bench, "served_alone", served)
    monkeypatch.setattr(bench, "cameras_alone", lambda work, percent, seed: (1.0, 1.0))
    found = bench.oracle(1.0, 1.0, 1)
    assert bench.most_served() == 55
    assert max(asked) == 50, "a share above would be cut to 55, and 50 is the next that was measured"
    for shares in found["shares"]:
        assert sum(shares[t] for t in bench.MODELS) <= 0.55
    assert found["halves"][0] == {"entrance": 0.26, "office": 0.26, "streets": 1.0}


def test_a_share_that_would_be_cut_is_not_played_as_if_it_were_not() -> None:
    with pytest.raises(ValueError, match="60 %: at most 55 % serve"):
        bench.served_alone("entrance", 1.0, 60, 1)
