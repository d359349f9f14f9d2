"""Which days a daily report is due for: each once, also over restarts and where the box was off at its hour."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from scheduler.counts.minutes import MINUTE_S, SETTLED_S

#: After a longer time without a box only the last days are reported.
LATEST_DAYS: Final = 7


def day_bounds(day: date, zone: tzinfo | None) -> tuple[float, float]:
    """When a day begins and ends, in UTC seconds. `zone` None: the box's own time zone."""
    return _midnight(day, zone), _midnight(day + timedelta(days=1), zone)


def _midnight(day: date, zone: tzinfo | None) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


def due_days(reported: date | None, now_utc_s: float, at_minute: int, zone: tzinfo | None) -> tuple[date, ...]:
    """The days to be reported at `now_utc_s`, of which those up to `reported` were (None: none ever; then yesterday).
    A day is due at the minute `at_minute` (0-1439) of the next one, and not before its last minute is settled. If the
    clock was set back by more than a day since, days begin anew."""
    now = datetime.fromtimestamp(now_utc_s, zone)
    last = now.date() - timedelta(days=1)
    settled = now_utc_s >= day_bounds(last, zone)[1] + MINUTE_S + SETTLED_S
    if 60 * now.hour + now.minute < at_minute or not settled:
        last -= timedelta(days=1)
        if reported is None:
            return ()
    if reported is not None and reported > now.date() + timedelta(days=1):
        reported = last - timedelta(days=1)
    first = last if reported is None else max(reported + timedelta(days=1), last - timedelta(days=LATEST_DAYS - 1))
    return tuple(first + timedelta(days=n) for n in range((last - first).days + 1))
