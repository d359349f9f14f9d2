"""Spans of the day ("22:00-06:00") in the box's time zone: quiet hours of retraining and of rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from edge.core.errors import InvalidValue

#: "HH:MM-HH:MM"; a span may go over midnight.
SPAN_PATTERN: Final = r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"


def span_minutes(span: str) -> tuple[int, int]:
    """Start (included) and end (not included) in minutes of the day, 0-1439. Raises InvalidValue."""
    if not re.match(SPAN_PATTERN, span):
        raise InvalidValue("quiet_hours", span, "HH:MM-HH:MM")
    start, end = (int(part[:2]) * 60 + int(part[3:]) for part in span.split("-"))
    return start, end


def inside(spans: Iterable[str], minute_of_day: int) -> bool:
    """Whether a minute (0-1439) lies in one of the spans; one that ends when it starts has no minute."""
    for span in spans:
        start, end = span_minutes(span)
        if start <= minute_of_day < end if start <= end else minute_of_day >= start or minute_of_day < end:
            return True
    return False
