"""Examples of found objects, and of a camera's day."""

from __future__ import annotations

from typing import Final

from web.examples.alarms import ALARM, OBJECT
from web.examples.clips import CLIP
from web.examples.example import AT_UTC_S, Example

FOUND: Final[Example] = {
    "found": [
        {
            "camera": OBJECT["camera"],
            "object": OBJECT,
            "lines": [{"line": "gate", "way": "forward", "at_utc_s": AT_UTC_S + 1.5}],
        }
    ],
    "next": f"{AT_UTC_S!r}-17",
    "looked_back_to_utc_s": AT_UTC_S,
}
_DAY_UTC_S: Final = AT_UTC_S - AT_UTC_S % 86_400
TIMELINE: Final[Example] = {
    "camera": "junction-north",
    "camera_state": "on",
    "day": "2026-09-21",
    "today": "2026-09-21",
    "now_utc_s": AT_UTC_S + 60.0,
    "from_utc_s": _DAY_UTC_S,
    "to_utc_s": _DAY_UTC_S + 86_400.0,
    "hours": [{"at_utc_s": _DAY_UTC_S, "label": "00:00", "ahead_s": 0}],
    "bucket_s": 600,
    "buckets": [{"from_utc_s": _DAY_UTC_S, "to_utc_s": _DAY_UTC_S + 600.0, "objects": {"car": 12, "person": 3}}],
    "alarms": [ALARM],
    "retrainings": [
        {
            "window": 3,
            "state": "completed",
            "started_utc_s": AT_UTC_S - 3000.0,
            "ended_utc_s": AT_UTC_S - 2880.0,
            "promoted": True,
            "accuracy_before": 0.61,
            "accuracy_after": 0.72,
            "model_version": "junction-north-w3-2-1790000000",
        }
    ],
    "outages": [
        {"from_utc_s": AT_UTC_S - 7200.0, "to_utc_s": AT_UTC_S - 7080.0, "cause": "stalled", "fault": "silent"}
    ],
    "known_from_utc_s": _DAY_UTC_S,
    "clips": [CLIP],
    "cut": [],
}
