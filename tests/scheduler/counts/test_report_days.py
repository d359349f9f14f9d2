"""Days of the daily report: each once and in order, none before its hour, none left out within a week."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.counts.report_days import LATEST_DAYS, day_bounds, due_days

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from([UTC, BERLIN, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/St_Johns")])


def at(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@given(st.lists(st.floats(1.0, 2 * 86_400.0), min_size=1, max_size=20), st.integers(0, 1439), ZONES)
def test_each_day_is_reported_once_and_in_order(steps: list[float], minute: int, zone: ZoneInfo) -> None:
    now, reported = 1_774_000_000.0, None
    found: list[date] = []
    for step in steps:
        now += step
        due = due_days(reported, now, minute, zone)
        for day in due:
            end = day_bounds(day, zone)[1]
            assert end < now
            local = datetime.fromtimestamp(now, zone)
            assert day < local.date() - timedelta(days=1) or 60 * local.hour + local.minute >= minute
        found += due
        reported = found[-1] if found else None
    if found:
        assert found == [found[0] + timedelta(days=n) for n in range(len(found))], "none twice, none left out"


def test_a_report_waits_for_its_hour_and_for_the_last_minute_of_the_day() -> None:
    before = date(2026, 3, 27)
    assert due_days(before, at("2026-03-29T05:59"), 360, BERLIN) == ()
    assert due_days(before, at("2026-03-29T06:00"), 360, BERLIN) == (date(2026, 3, 28),)
    assert due_days(before, at("2026-03-29T00:01"), 0, BERLIN) == ()
    assert due_days(before, at("2026-03-29T00:02"), 0, BERLIN) == (date(2026, 3, 28),)
    assert due_days(None, at("2026-03-29T05:00"), 360, BERLIN) == ()
    assert due_days(None, at("2026-03-29T07:00"), 360, BERLIN) == (date(2026, 3, 28),)


def test_a_box_that_was_off_for_long_reports_the_last_week() -> None:
    due = due_days(date(2026, 1, 1), at("2026-03-29T07:00"), 360, BERLIN)
    assert (len(due), due[-1]) == (LATEST_DAYS, date(2026, 3, 28))


def test_a_clock_that_was_set_back_stops_no_reports_for_long() -> None:
    now = at("2026-03-29T07:00")
    assert due_days(date(2026, 3, 29), now, 360, BERLIN) == (), "over one midnight: that day was reported"
    assert due_days(date(2027, 3, 28), now, 360, BERLIN) == (date(2026, 3, 28),), "a year, as after a first wrong time"


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 6, 1), 24)])
def test_a_day_in_which_clocks_are_changed_is_shorter_or_longer(day: date, hours: int) -> None:
    first, end = day_bounds(day, BERLIN)
    assert (end - first) / 3600 == hours
