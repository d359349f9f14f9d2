"""Examples of counts."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

_HOUR: Final = int(AT_UTC_S) // 3600 * 3600
_ROW: Final[Example] = {
    "kind": "line", "name": "gate", "way": "forward", "class": "car", "objects": 41,
    "corrected": {"value": 44.1, "low": 40.2, "high": 48.0}, "seconds": 0.0, "standing_s": 0.0, "most": 0,
}  # fmt: skip

COUNTS: Final[Example] = {
    "camera": "junction-north",
    "step": "hour",
    "from_utc_s": _HOUR,
    "to_utc_s": _HOUR + 7200,
    "watched": 0.49,
    "totals": [_ROW],
    "buckets": [
        {"start_utc_s": _HOUR, "watched": 0.98, "answers_per_s": 4.9, "counts": [_ROW]},
        {"start_utc_s": _HOUR + 3600, "watched": 0.0, "answers_per_s": 0.0, "counts": []},
    ],
    "formats": ["csv", "parquet"],
}

_COMPARED: Final[Example] = {
    "kind": "line", "name": "gate", "way": "forward", "class": "car", "objects": 41, "before": 36,
}  # fmt: skip
_WEEK: Final = 7 * 86_400

COMPARED: Final[Example] = {
    "camera": "junction-north",
    "step": "hour",
    "from_utc_s": _HOUR,
    "to_utc_s": _HOUR + 7200,
    "before_from_utc_s": _HOUR - _WEEK,
    "compared": 0.5,
    "totals": [_COMPARED],
    "buckets": [
        {
            "start_utc_s": _HOUR, "before_utc_s": _HOUR - _WEEK, "watched": 0.98, "watched_before": 1.0,
            "compared": True, "counts": [_COMPARED],
        },
        {
            "start_utc_s": _HOUR + 3600, "before_utc_s": _HOUR + 3600 - _WEEK, "watched": 0.0, "watched_before": 1.0,
            "compared": False, "counts": [],
        },
    ],
}  # fmt: skip
