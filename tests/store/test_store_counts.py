"""Counts in the database: added to a minute, an hour and a day at once, read by time, deleted by age."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge.core.counts import Corrected, Count, CountCheck, Place, WatchedTime
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
    store.counts.add_counts([count(0, 2), count(1, 3), count(0, 1, YARD, seconds=30.0, most=2)], [], [])
    store.counts.add_counts([count(1, 4), count(61, 5), count(0, 0, YARD, seconds=10.0, most=1)], [], [])
    minutes = store.counts.counted("north", "minute", HOUR, HOUR + 120)
    assert [(c.start_s - HOUR, c.place, c.objects) for c in minutes] == [(0, GATE, 2), (0, YARD, 1), (60, GATE, 7)]
    hours = store.counts.counted("north", "hour", HOUR, HOUR + 7200)
    assert [(c.start_s - HOUR, c.place, c.objects) for c in hours] == [(0, GATE, 9), (0, YARD, 1), (3600, GATE, 5)]
    (_, yard) = store.counts.counted("north", "day", HOUR - 7200, HOUR)
    assert (yard.objects, yard.seconds, yard.most) == (1, 40.0, 2)
    assert store.counts.counted("south", "day", 0, 2e9) == ()
    with pytest.raises(InvalidValue, match="step"):
        store.counts.counted("north", "week", 0, 1)  # type: ignore[arg-type]


def test_the_time_watched_and_the_checks_are_added_up_too(store: Store) -> None:
    check = CountCheck("north", HOUR, GATE, "car", 2, 3, 4, 2)
    for _ in range(2):
        store.counts.add_counts([], [WatchedTime("north", HOUR, 20.0, 100)], [check])
    assert store.counts.watched("north", "minute", HOUR, HOUR + 60) == (WatchedTime("north", HOUR, 40.0, 200),)
    assert store.counts.watched("north", "day", HOUR - 7200, HOUR) == (WatchedTime("north", HOUR - 7200, 40.0, 200),)
    (found,) = store.counts.count_checks("north", HOUR, HOUR + 1)
    assert (found.frames, found.followed, found.there, found.same) == (4, 6, 8, 4)
    assert store.counts.has_counted("north")
    assert not store.counts.has_counted("south")


def test_all_or_nothing_is_added(store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"count\.class"):
        store.counts.add_counts([count(0, 2), Count("north", HOUR, GATE, "", 1)], [], [])
    assert store.counts.counted("north", "day", 0, 2e9) == ()


def test_minutes_and_checks_go_before_hours_and_days(store: Store) -> None:
    now = int(store._clock.utc()) // 60 * 60
    for days in (1, 40, 400):
        at = now - days * 86_400
        check = CountCheck("north", at, GATE, "car", 1, 1, 1, 1)
        store.counts.add_counts([Count("north", at, GATE, "car", 1)], [WatchedTime("north", at, 9.0, 9)], [check])
    gone = store.counts.retain_counts(30.0, 365.0)
    # Checks of both old minutes, their quarters of an hour, and of the oldest its quarter of a day.
    assert gone.to_json() == {"minutes": 4, "hours_and_days": 4, "checks": 5}
    assert gone.anything
    assert len(store.counts.counted("north", "minute", 0, now)) == 1
    assert len(store.counts.counted("north", "hour", 0, now)) == len(store.counts.counted("north", "day", 0, now)) == 2
    assert len(store.counts.count_checks("north", 0, now)) == 1
    assert not store.counts.retain_counts(30.0, 365.0).anything


def test_sums_over_clusters_of_checks(store: Store) -> None:
    found = [
        CountCheck("north", HOUR + at, GATE, name, 1, followed, followed + 1, followed)
        for at in (0, 60, 900, 1800)
        for name, followed in (("car", 3), ("bus", 2))
    ]
    store.counts.add_counts([], [], found)
    first, *_ = clusters = store.counts.count_checks("north", HOUR + 60, HOUR + 1800, 900)
    assert [(c.start_s - HOUR, c.class_name, c.followed) for c in clusters] == [
        (0, "bus", 4), (0, "car", 6), (900, "bus", 2), (900, "car", 3),
    ]  # fmt: skip
    assert (first.frames, first.there, first.same) == (2, 6, 4)
    totals = store.counts.check_totals("north", HOUR, HOUR + 1800, 900)
    assert totals[GATE, "car"] == (2, 9, 12, 9, 36 + 9, 64 + 16, 48 + 12)
    assert totals[GATE, ""] == (2, 15, 21, 15, 100 + 25, 196 + 49, 140 + 35)
    assert len(totals) == 3


def test_what_labels_make_of_a_count_is_kept_until_more_is_counted(store: Store) -> None:
    store.counts.add_counts([count(0, 2), count(0, 3, YARD)], [], [])
    (gate, yard) = store.counts.counted("north", "hour", HOUR, HOUR + 3600)
    assert (gate.settled, gate.corrected) == (False, None)
    assert store.counts.next_bucket("hour", 0, HOUR) is None
    assert store.counts.next_bucket("hour", 0, HOUR + 1) == HOUR
    assert store.counts.counting_cameras("hour", HOUR) == ("north",)
    store.counts.add_counts([count(5, 1, YARD)], [], [])
    true = Corrected(2.5, 1.5, 3.5)
    store.counts.settle_counts("hour", [replace(gate, corrected=true), replace(yard, corrected=true)])
    settled, changed = store.counts.counted("north", "hour", HOUR, HOUR + 3600)
    assert (settled.settled, settled.corrected) == (True, true)
    assert (changed.settled, changed.corrected) == (False, None), "more was counted meanwhile"
    store.counts.settle_counts("hour", [replace(changed, corrected=None)])
    assert store.counts.counted("north", "hour", HOUR, HOUR + 3600)[1].settled, "too few labels is settled, too"
    store.counts.add_counts([count(6, 1)], [], [])
    assert not store.counts.counted("north", "hour", HOUR, HOUR + 3600)[0].settled
