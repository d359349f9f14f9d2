"""A week beside the one before: only buckets that were watched in both are compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Count, Place, WatchedTime
from scheduler.counts.comparison import LEAST_WATCHED, compare

GATE = Place("line", "gate", "forward")
HOUR, WEEK = 3600, 7 * 86_400
START = 1_790_000_000 // HOUR * HOUR
_numbers = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1), st.floats(0, 1)), max_size=12)


def counts(objects: list[int], first: int, class_name: str = "car") -> list[Count]:
    return [Count("north", first + HOUR * n, GATE, class_name, o) for n, o in enumerate(objects) if o]


def watched(parts: list[float], first: int) -> list[WatchedTime]:
    return [WatchedTime("north", first + HOUR * n, HOUR * p, 9) for n, p in enumerate(parts) if p]


@given(_numbers)
def test_totals_are_sums_over_the_buckets_that_were_watched_in_both(rows: list[tuple[int, int, float, float]]) -> None:
    starts = range(START, START + HOUR * len(rows), HOUR)
    made = compare(
        starts, START - WEEK,
        counts([r[0] for r in rows], START), counts([r[1] for r in rows], START - WEEK),
        watched([r[2] for r in rows], START), watched([r[3] for r in rows], START - WEEK),
    )  # fmt: skip
    assert [(p.start_s, p.before_s) for p in made.pairs] == [(s, s - WEEK) for s in starts]
    both = [r for r, pair in zip(rows, made.pairs, strict=True) if pair.compared]
    assert all(min(r[2], r[3]) >= LEAST_WATCHED - 1e-4 for r in both)
    expected = sum(r[0] for r in both), sum(r[1] for r in both)
    assert made.totals.get((GATE, "car"), (0, 0)) == expected
    assert made.compared == (len(both) / len(rows) if rows else 0.0)


def test_what_was_not_watched_is_shown_and_not_compared() -> None:
    made = compare(
        range(START, START + 2 * HOUR, HOUR), START - WEEK,
        counts([5, 7], START), counts([4, 0], START - WEEK, "truck"),
        watched([1.0, 1.0], START), watched([1.0, 0.5], START - WEEK),
    )  # fmt: skip
    assert made.totals == {(GATE, "car"): (5, 0), (GATE, "truck"): (0, 4)}
    assert made.pairs[1].objects == {(GATE, "car"): (7, 0)}
    assert not made.pairs[1].compared
    assert made.compared == 0.5
