"""A day's objects by bucket, and its hours, also where clocks change."""

from __future__ import annotations

import itertools
from datetime import date
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.finding import BUCKET_S, DaySpan, ObjectsCame
from scheduler.counts.report_days import day_bounds
from scheduler.finding.buckets import by_bucket, hours

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # its clocks change by half an hour


def day_in(zone: ZoneInfo, text: str) -> DaySpan:
    return DaySpan(*day_bounds(date.fromisoformat(text), zone))


DAYS = [day_in(BERLIN, "2026-03-29"), day_in(BERLIN, "2026-10-25"), day_in(LORD_HOWE, "2026-04-05")]


@given(
    day=st.sampled_from(DAYS),
    bucket_s=st.sampled_from(BUCKET_S),
    some=st.lists(st.tuples(st.integers(0, 22), st.sampled_from(["car", "bus"]), st.integers(1, 9)), max_size=30),
)
def test_each_object_of_the_day_is_in_the_one_bucket_of_its_time(
    day: DaySpan, bucket_s: int, some: list[tuple[int, str, int]]
) -> None:
    came = [ObjectsCame(*one) for one in some]
    buckets = by_bucket(day, bucket_s, came)
    assert buckets[0].from_utc_s == day.from_utc_s
    assert buckets[-1].to_utc_s == day.to_utc_s
    assert all(a.to_utc_s == b.from_utc_s for a, b in itertools.pairwise(buckets))
    assert all(0 < b.to_utc_s - b.from_utc_s <= bucket_s for b in buckets)
    for n, bucket in enumerate(buckets):
        names = {c.class_name for c in came if c.bucket == n}
        assert bucket.objects == {
            name: sum(c.objects for c in came if (c.bucket, c.class_name) == (n, name)) for name in names
        }


def test_the_last_instant_of_a_day_is_in_its_last_bucket() -> None:
    day = DAYS[0]
    number = len(by_bucket(day, 3600, ()))
    assert by_bucket(day, 3600, [ObjectsCame(number, "car", 1)])[-1].objects == {"car": 1}


@pytest.mark.parametrize(
    ("day", "labels", "ahead_h"),
    [
        (DAYS[0], ["00:00", "01:00", "03:00", "04:00"], [1, 1, 2, 2]),
        (DAYS[1], ["00:00", "01:00", "02:00", "02:00"], [2, 2, 2, 1]),
        (DAYS[2], ["00:00", "01:00", "01:30", "02:30"], [11, 11, 10.5, 10.5]),
    ],
)
def test_hours_are_named_as_clocks_show_them(day: DaySpan, labels: list[str], ahead_h: list[float]) -> None:
    zone = LORD_HOWE if day is DAYS[2] else BERLIN
    marks = hours(day, zone)
    assert [m.label for m in marks[:4]] == labels
    assert [m.ahead_s / 3600 for m in marks[:4]] == ahead_h
    assert len(marks) == {0: 23, 1: 25, 2: 25}[DAYS.index(day)]


def test_a_length_that_no_hour_is_made_of_is_refused() -> None:
    with pytest.raises(InvalidValue, match="bucket_s"):
        by_bucket(DAYS[0], 700, ())
