"""Times and days of command lines."""

from __future__ import annotations

from datetime import date, datetime

from edge.core.errors import InvalidValue


def utc_s(option: str, text: str) -> float:
    """A time of ISO 8601; without a zone it is one of this machine's. Raises InvalidValue, naming the option."""
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidValue(option, text, "a time as 2026-11-26, 2026-11-26T07:00 or 2026-11-26T07:00+01:00") from None


def local(utc_s: float | None) -> str:
    """A time of this machine's zone; "" for none."""
    return "" if utc_s is None else datetime.fromtimestamp(utc_s).astimezone().isoformat(timespec="seconds")


def checked_day(option: str, text: str) -> str:
    """A day of ISO 8601. Raises InvalidValue, naming the option."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidValue(option, text, "a day as 2026-11-26") from None
