"""Counts in the database: added to a minute, an hour and a day at once, read by time, deleted by age."""

from __future__ import annotations

import pytest

from edge.core.counts import Count, CountCheck, Place, WatchedTime
from edge.core.errors import InvalidValue
from edge.store.store import Store

GATE = Place("line", "gate", "forward")
YARD = Place("zone", "yard")
HOUR = 1_790_000_000 // 86_400 * 86_400 + 7200


def count(minute: int, objects: int, place: Place = GATE, **more: float) -> Count:
    return Count(
        "north", HOUR + 60 * minute, place, "car", objects, more.get("seconds", 0.0), 0.0, int(more.get("most", 0))
    )


def test_counts_are_added_up_in_every_bucket(store: Store) -> None:
    store.add_counts([count(0, 2), count(1, 3), count(0, 1, YARD, seconds=30.0, most=2)], [], [])
    store.add_counts([count(1, 4), count(61, 5), count(0, 0, YARD, seconds=10.0, most=1)], [], [])
    minutes = store.counts("north", "minute", HOUR, HOUR + 120)
    assert [(c.start_s - HOUR, c.place, c.objects) for c in minutes] == [(0, GATE, 2), (0, YARD, 1), (60, GATE, 7)]
    hours = store.counts("north", "hour", HOUR, HOUR + 7200)
    assert [(c.start_s - HOUR, c.place, c.objects) for c in hours] == [(0, GATE, 9), (0, YARD, 1), (3600, GATE, 5)]
    (_, yard) = store.counts("north", "day", HOUR - 7200, HOUR)
    assert (yard.objects, yard.seconds, yard.most) == (1, 40.0, 2)
    assert store.counts("south", "day", 0, 2e9) == ()
    with pytest.raises(InvalidValue, match="step"):
        store.counts("north", "week", 0, 1)  # type: ignore[arg-type]


def test_the_time_watched_and_the_checks_are_added_up_too(store: Store) -> None:
    check = CountCheck("north", HOUR, GATE, "car", 2, 3, 4, 2)
    for _ in range(2):
        store.add_counts([], [WatchedTime("north", HOUR, 20.0, 100)], [check])
    assert store.watched("north", "minute", HOUR, HOUR + 60) == (WatchedTime("north", HOUR, 40.0, 200),)
    assert store.watched("north", "day", HOUR - 7200, HOUR) == (WatchedTime("north", HOUR - 7200, 40.0, 200),)
    (found,) = store.count_checks("north", HOUR, HOUR + 1)
    assert (found.frames, found.followed, found.there, found.same) == (4, 6, 8, 4)
    assert store.has_counted("north")
    assert not store.has_counted("south")


def test_all_or_nothing_is_added(store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"count\.class"):
        store.add_counts([count(0, 2), Count("north", HOUR, GATE, "", 1)], [], [])
    assert store.counts("north", "day", 0, 2e9) == ()


def test_minutes_and_checks_go_before_hours_and_days(store: Store) -> None:
    now = int(store._clock.utc()) // 60 * 60
    for days in (1, 40, 400):
        at = now - days * 86_400
        check = CountCheck("north", at, GATE, "car", 1, 1, 1, 1)
        store.add_counts([Count("north", at, GATE, "car", 1)], [WatchedTime("north", at, 9.0, 9)], [check])
    gone = store.retain_counts(30.0, 365.0)
    assert gone.to_json() == {"minutes": 4, "hours_and_days": 4, "checks": 2}
    assert gone.anything
    assert len(store.counts("north", "minute", 0, now)) == 1
    assert len(store.counts("north", "hour", 0, now)) == len(store.counts("north", "day", 0, now)) == 2
    assert len(store.count_checks("north", 0, now)) == 1
    assert not store.retain_counts(30.0, 365.0).anything
