"""Examples of rules, alarms and objects."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

RULE: Final[Example] = {
    "id": "parked-in-drive",
    "name": "Parked in the drive",
    "kind": "object",
    "enabled": True,
    "cameras": ["junction-north"],
    "classes": ["car"],
    "zones": ["drive"],
    "dwell_s": 20.0,
    "below": None,
    "after_s": None,
    "severity": "warning",
    "quiet_hours": ["07:00-19:00"],
    "min_interval_s": 60.0,
}
ALARM: Final[Example] = {
    "id": 17,
    "rule": "parked-in-drive",
    "rule_name": "Parked in the drive",
    "kind": "object",
    "severity": "warning",
    "camera": "junction-north",
    "phase": "new",
    "began_utc_s": AT_UTC_S,
    "ended_utc_s": None,
    "message": "car in drive for 20 s",
    "value": 20.1,
    "object": 5311,
    "acknowledged_by": None,
    "acknowledged_utc_s": None,
    "picture": True,
    "details": {"class": "car", "zones": ["drive"], "score": 0.81},
}
OBJECT: Final[Example] = {
    "id": 5311,
    "camera": "junction-north",
    "class": "car",
    "began_utc_s": AT_UTC_S - 22,
    "ended_utc_s": None,
    "score": 0.81,
    "box": [0.412, 0.507, 0.561, 0.713],
    "zones": ["drive"],
    "zone_dwell_s": {"drive": 20.1},
    "dwell_s": 20.1,
    "attributes": {"colour": {"value": "red", "score": 0.91, "answers": 14}},
    "picture": True,
}
