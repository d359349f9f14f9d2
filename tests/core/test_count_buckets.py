"""Sums of counts over coarser buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Count, Place, WatchedTime, coarser, moved, summed, totals, watched_coarser

MINUTE = 1_790_000_040 // 60 * 60

rows = st.builds(
    Count,
    st.sampled_from(["north", "south"]),
    st.integers(0, 400).map(lambda n: MINUTE + 60 * n),
    st.sampled_from([Place("line", "gate", "forward"), Place("zone", "yard"), Place("movement", "a", "b")]),
    st.sampled_from(["car", "bus"]),
    st.integers(0, 50),
    st.integers(0, 100).map(float),
)


@given(st.lists(rows, max_size=30))
def test_coarser_buckets_hold_the_same_sums(rows: list[Count]) -> None:
    hours = coarser(rows, 3600)
    assert sum(c.objects for c in hours) == sum(c.objects for c in rows)
    assert sum(c.seconds for c in hours) == sum(c.seconds for c in rows)
    assert all(c.start_s % 3600 == 0 for c in hours)
    assert coarser(coarser(rows, 60), 3600) == hours
    assert coarser(rows[::-1], 3600) == hours


@given(st.lists(rows, max_size=30))
def test_totals_are_sums_of_all_buckets(rows: list[Count]) -> None:
    own = [c for c in rows if c.camera == "north"]
    assert totals(own, MINUTE) == summed(moved(c, MINUTE) for c in own)


def test_the_watched_time_of_an_hour_is_that_of_its_minutes() -> None:
    hour = MINUTE // 3600 * 3600
    minutes = [WatchedTime("north", hour + 60 * n, 30.0, 60) for n in range(60)]
    assert watched_coarser(minutes, 3600) == (WatchedTime("north", hour, 1800.0, 3600),)
