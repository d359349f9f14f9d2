"""Sums over clusters of checks are those that a plain reading gives."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import CountCheck, Place
from edge.store.check_totals import Totals, total
from edge.store.store import Store
from scheduler.counts.checks import ClusterSums, one_cluster

DAY = 1_790_000_000 // 86_400 * 86_400
QUARTER = 21_600
PLACES = (Place("line", "gate", "forward"), Place("line", "gate", "backward"), Place("zone", "gate"))
#: (instant, place, class) -> followed, there, same
Rows = dict[tuple[int, Place, str], tuple[int, int, int]]
rows = st.dictionaries(
    st.tuples(st.integers(0, 5), st.sampled_from(PLACES), st.sampled_from(("car", "bus", "a\x1fb"))),
    st.tuples(*[st.integers(0, 1_000_000)] * 3),
    max_size=40,
)


def plain(found: Rows) -> Totals:
    """One row after the other."""
    by_class: dict[tuple[Place, str], ClusterSums] = defaultdict(ClusterSums)
    at: dict[tuple[int, Place], tuple[int, int, int]] = {}
    for (instant, place, name), row in found.items():
        by_class[place, name] += one_cluster(*row)
        before = at.get((instant, place), (0, 0, 0))
        at[instant, place] = (before[0] + row[0], before[1] + row[1], before[2] + row[2])
    for (_, place), row in at.items():
        by_class[place, ""] += one_cluster(*row)
    return {
        key: (s.clusters, s.followed, s.there, s.same, s.followed_squared, s.there_squared, s.product)
        for key, s in by_class.items()
    }


@given(rows)
def test_sums_of_random_rows(found: Rows) -> None:
    instants = []
    for n in sorted({instant for instant, *_ in found}):
        here = [(p.kind, p.name, p.way, name, *row) for (instant, p, name), row in found.items() if instant == n]
        columns = list(zip(*here, strict=True))
        instants.append((tuple(columns[:4]), [np.array(c, dtype=np.int64) for c in columns[4:]]))
    assert total(instants) == plain(found)


@pytest.mark.parametrize("names", [("car", "bus"), ("car", "a\x1fb"), ("a,b", "ä 'x'")])
def test_sums_are_read_as_they_were_written(store: Store, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(7)
    found: Rows = {
        (n, place, name): (int(rng.integers(99)), int(rng.integers(99)), int(rng.integers(99)))
        for n in range(9)
        for place in PLACES
        for name in names
        if rng.random() < 0.7
    }
    checks = [CountCheck("north", DAY + QUARTER * n, place, name, 1, *row) for (n, place, name), row in found.items()]
    other = CountCheck("south", DAY, PLACES[0], names[0], 1, 5, 5, 5)
    store.counts.add_counts([], [], [*checks, other])
    assert store.counts.check_totals("north", DAY, DAY + 9 * QUARTER, QUARTER) == plain(found)
    some = {key: row for key, row in found.items() if 2 <= key[0] < 6}
    assert store.counts.check_totals("north", DAY + 2 * QUARTER, DAY + 6 * QUARTER, QUARTER) == plain(some)
    assert store.counts.check_totals("east", DAY, DAY + 9 * QUARTER, QUARTER) == {}
