"""The times of a day without watching: the box was off, the stream was lost, minutes are missing."""

from __future__ import annotations

import pytest

from edge.core.counts import WatchedTime
from edge.core.finding import BoxStart, DaySpan, Outage, StateChange
from scheduler.finding.outages import WatchedMinutes, known_from, outages

DAY = DaySpan(86_400.0, 172_800.0)
NOON = DAY.from_utc_s + 43_200.0
LATER = DAY.to_utc_s + 1e6
LIVE = StateChange(DAY.from_utc_s - 500.0, "live")


def found(*changes: StateChange, starts: tuple[BoxStart, ...] = (), now: float = LATER) -> list[Outage]:
    return list(outages(DAY, changes, starts, WatchedMinutes(), now))


def test_a_camera_that_was_live_all_day_has_none() -> None:
    assert found(LIVE) == []
    assert known_from([LIVE], DAY) == LIVE.at_utc_s
    assert found() == [], "nothing is known"
    assert known_from([], DAY) is None


def test_states_in_a_row_are_one_outage_with_the_gravest_cause_and_the_last_fault() -> None:
    lost = [
        StateChange(NOON, "stalled", "silent"),
        StateChange(NOON + 20, "reconnecting", "unreachable"),
        StateChange(NOON + 30, "connecting"),
        StateChange(NOON + 60, "live"),
        StateChange(NOON + 100, "connecting"),
        StateChange(NOON + 100.5, "live"),
    ]
    assert found(LIVE, *lost) == [Outage(NOON, NOON + 60, "stalled", "unreachable")]


def test_one_that_goes_on_ends_with_the_day_that_is_over_and_is_open_on_the_running_one() -> None:
    lost = StateChange(NOON, "reconnecting", "unreachable")
    assert found(LIVE, lost) == [Outage(NOON, DAY.to_utc_s, "reconnecting", "unreachable")]
    assert found(LIVE, lost, now=NOON + 50) == [Outage(NOON, None, "reconnecting", "unreachable")]
    before = StateChange(DAY.from_utc_s - 50, "refused", "refused")
    assert found(before) == [Outage(DAY.from_utc_s, DAY.to_utc_s, "refused", "refused")]


def test_a_box_that_was_off_is_distinguished_from_its_camera() -> None:
    start = BoxStart(NOON + 600, NOON)
    back = [StateChange(NOON + 605, "connecting"), StateChange(NOON + 610, "live")]
    assert found(LIVE, *back, starts=(start,)) == [Outage(NOON, NOON + 610, "box_off")]
    lost = StateChange(NOON - 100, "stalled", "silent")
    assert found(LIVE, lost, *back, starts=(start,)) == [
        Outage(NOON - 100, NOON, "stalled", "silent"),
        Outage(NOON, NOON + 610, "box_off"),
    ]
    refused = StateChange(NOON + 605, "refused", "refused")
    assert [o.cause for o in found(LIVE, refused, starts=(start,))] == ["box_off", "refused"]
    over_night = BoxStart(DAY.to_utc_s + 500, NOON)
    assert found(LIVE, starts=(over_night,)) == [Outage(NOON, DAY.to_utc_s, "box_off")]


def test_a_camera_that_was_off_stays_off_when_the_box_starts() -> None:
    off = StateChange(NOON - 100, "stopped")
    assert [o.cause for o in found(LIVE, off, starts=(BoxStart(NOON + 60, NOON),))] == ["stopped", "box_off", "stopped"]


def test_missing_minutes_are_reported_where_nothing_else_is() -> None:
    minutes = [WatchedTime("gate", int(NOON) + 60 * n, 59.0, 100) for n in range(60) if n not in range(10, 40)]
    minutes.append(WatchedTime("gate", int(NOON) + 60 * 12, 3.0, 2))
    lost = [StateChange(NOON + 1200, "stalled", "silent"), StateChange(NOON + 1800, "live")]
    assert outages(DAY, [LIVE, *lost], (), WatchedMinutes(tuple(minutes)), LATER) == (
        Outage(NOON + 600, NOON + 1200, "not_watched"),
        Outage(NOON + 1200, NOON + 1800, "stalled", "silent"),
        Outage(NOON + 1800, NOON + 2400, "not_watched"),
    )


@pytest.mark.parametrize("now", [NOON, LATER])
def test_outages_lie_in_the_day_in_order_and_apart(now: float) -> None:
    changes = [StateChange(DAY.from_utc_s - 900 + 3000 * n, "live" if n % 2 else "stalled") for n in range(40)]
    starts = tuple(BoxStart(DAY.from_utc_s + 7000 * n + 900, DAY.from_utc_s + 7000 * n) for n in range(14))
    found = outages(DAY, changes, starts, WatchedMinutes(), now)
    assert len(found) > 10
    edges = [
        edge for o in found for edge in (o.from_utc_s, min(now, DAY.to_utc_s) if o.to_utc_s is None else o.to_utc_s)
    ]
    assert edges == sorted(edges)
    assert edges[0] >= DAY.from_utc_s
    assert edges[-1] <= min(now, DAY.to_utc_s)


def test_before_a_camera_was_there_no_outage_of_it_is_reported() -> None:
    """The box was started on one day, the camera taken in on the next."""
    start = BoxStart(DAY.from_utc_s + 100, None)
    later = BoxStart(DAY.from_utc_s + 7200, DAY.from_utc_s + 7000)
    added = DAY.to_utc_s + 3600
    changes = [StateChange(added, "connecting"), StateChange(added + 20, "live")]
    next_day = DaySpan(DAY.to_utc_s, DAY.to_utc_s + 86_400.0)
    for known in ([], changes):
        assert outages(DAY, known, (start, later), WatchedMinutes(), LATER) == ()
        assert known_from(known, DAY) is None
    assert outages(next_day, changes, (later,), WatchedMinutes(), LATER) == (Outage(added, added + 20, "connecting"),)
    assert known_from(changes, next_day) == added
    # A restart after it is reported.
    again = BoxStart(added + 600, added + 500)
    back = StateChange(added + 610, "live")
    found = outages(next_day, [*changes, back], (later, again), WatchedMinutes(), LATER)
    assert found[1:] == (Outage(added + 500, added + 610, "box_off"),)


def test_what_is_known_begins_where_the_journal_does() -> None:
    kept = StateChange(DAY.from_utc_s - 1e6, "live")
    assert known_from([kept], DAY, DAY.from_utc_s - 10.0) == DAY.from_utc_s - 10.0
    assert known_from([kept], DAY, NOON) == NOON
    assert known_from([kept], DAY, LATER) is None


def test_a_worker_that_failed_is_reported_until_the_camera_is_live() -> None:
    lost = [
        StateChange(NOON, "worker_lost"), StateChange(NOON + 5, "connecting"),
        StateChange(NOON + 7, "reconnecting", "unreachable"), StateChange(NOON + 30, "live"),
    ]  # fmt: skip
    assert found(LIVE, *lost) == [Outage(NOON, NOON + 30, "worker_lost", "unreachable")]


def test_a_camera_that_does_not_count_for_a_while_is_watched_all_the_same() -> None:
    minutes = tuple(WatchedTime("gate", int(NOON) + 60 * n, 60.0, 100) for n in range(60) if not 10 <= n < 40)
    gap = [Outage(NOON + 600, NOON + 2400, "not_watched")]
    for changed, expected in ((NOON + 590, []), (NOON + 2450, []), (NOON + 300, gap), (NOON + 3000, gap)):
        assert list(outages(DAY, [LIVE], (), WatchedMinutes(minutes, (changed,)), LATER)) == expected


def test_after_the_last_change_that_was_read_nothing_is_reported() -> None:
    changes = [LIVE, StateChange(NOON, "stalled", "silent")]
    for now in (NOON + 3600, LATER):
        assert outages(DAY, changes, (), WatchedMinutes(), now, NOON + 60) == (
            Outage(NOON, NOON + 60, "stalled", "silent"),
        )
