"""Numbers for rules: what is usual, the hours that are looked at, and how many are in a zone."""

from __future__ import annotations

import random
from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from edge.core.alarms import CountedHour
from edge.core.counts import Place
from edge.core.tracks import TrackedObject
from scheduler.counts.rules import (
    HOUR_S,
    LEAST_WEEKS,
    MOST_WEEKS,
    due_hour,
    in_zones,
    objects_at,
    same_hours,
    usual_count,
)

GATE = Place("line", "gate", "forward")
_counts = st.lists(st.integers(0, 500), min_size=LEAST_WEEKS, max_size=MOST_WEEKS)


@given(_counts, st.integers(0, 10_000))
def test_one_odd_week_moves_what_is_usual_no_further_than_the_others_lie_apart(counts: list[int], odd: int) -> None:
    usual = usual_count([*counts, odd])
    assert usual is not None
    assert min(counts) <= usual.middle <= max(counts)
    assert usual.spread >= max(1.0, usual.middle) ** 0.5
    assert not usual.far(round(usual.middle), 1.0)


@given(st.lists(st.none() | st.integers(0, 500), max_size=MOST_WEEKS))
def test_nothing_is_usual_before_enough_weeks_were_watched(past: list[int | None]) -> None:
    known = sum(p is not None for p in past)
    assert (usual_count(past) is None) == (known < LEAST_WEEKS)


def test_counts_that_differ_by_chance_alone_are_seldom_far() -> None:
    rng, far, hours = random.Random(3), 0, 4000

    def hour(mean: float) -> int:
        return sum(rng.random() < mean / 400 for _ in range(400))

    for _ in range(hours // 10):
        mean = rng.choice([1.0, 10.0, 60.0])
        usual = usual_count([hour(mean) for _ in range(MOST_WEEKS)])
        assert usual is not None
        far += sum(usual.far(hour(mean), 4.0) for _ in range(10))
        assert usual.far(round(4 * mean) + 40, 4.0) or usual.spread > mean
    assert far < 0.01 * hours


def test_an_hour_of_which_little_was_watched_says_nothing() -> None:
    there = {(GATE, "car"): 5, (GATE, "truck"): 2, (Place("line", "gate", "backward"), "car"): 9}
    assert objects_at(CountedHour(0.95, there), GATE, ()) == 7
    assert objects_at(CountedHour(0.95, there), GATE, ("truck",)) == 2
    assert objects_at(CountedHour(0.95, {}), GATE, ()) == 0
    assert objects_at(CountedHour(0.5, there), GATE, ()) is None
    assert objects_at(CountedHour(0.95, {}, frozenset({"gate"})), GATE, ()) is None, "it was not drawn yet"
    assert objects_at(CountedHour(0.95, there, frozenset({"door"})), GATE, ()) == 7


def test_the_same_hour_is_the_same_by_the_clock_on_the_wall() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start = int(datetime(2026, 4, 1, 8, tzinfo=berlin).timestamp())
    found = [datetime.fromtimestamp(s, berlin) for s in same_hours(start, berlin)]
    assert len(found) == MOST_WEEKS
    assert {(d.weekday(), d.hour) for d in found} == {(2, 8)}, "over the change of clocks in March"


@given(st.lists(st.floats(1.0, 7200.0), max_size=30))
def test_each_hour_is_looked_at_once_after_it_is_over(steps: list[float]) -> None:
    now, until = 1_790_000_000.0, None
    seen = []
    for step in steps:
        now += step
        start = due_hour(until, now)
        if start is not None:
            assert start + HOUR_S < now
            seen.append(start)
            until = start + HOUR_S
        assert due_hour(until, now) is None
    assert seen == sorted(set(seen))


def test_objects_in_zones() -> None:
    def tracked(number: int, name: str, *zones: str) -> TrackedObject:
        return TrackedObject(number, "gate", name, 0.8, (0.1, 0.1, 0.2, 0.2), 0.0, 0.0, 0.0, 3, zones)

    there = [tracked(1, "car", "yard"), tracked(2, "truck", "yard", "gate"), tracked(3, "car")]
    assert in_zones(there, ("yard", "gate", "door"), ()) == {"yard": 2, "gate": 1, "door": 0}
    assert in_zones(there, ("yard",), ("car",)) == {"yard": 1}
    assert in_zones(there, (), ("car",)) == {"": 2}
