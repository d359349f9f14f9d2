"""Examples of forecasts."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

_CHANGE: Final[Example] = {"kind": "device", "factor": 0.5, "camera": None, "words": "half the device"}
_NOTE: Final = "More or less of the same device is meant: one retraining gets no faster than on the whole device today"
_PAST: Final = (
    "Such answers were compared with their outcomes: this one is moved by what they were off, and wider where that was "
    "not enough"
)
_PAST_OF_ALL: Final = (
    "2 changes were compared: 1.2 points of error on average, 83 % of the values inside their interval; intervals are "
    "0.0 points wider to each side; as 2 of these changes were off, answers are moved by -0.8 points, which are unsure "
    "by 0.5"
)
FORECAST: Final[Example] = {
    "id": 7,
    "at_utc_s": AT_UTC_S,
    "asked_by": "anna",
    "change": _CHANGE,
    "windows": 48,
    "last_window": 212,
    "share_now": 0.62,
    "share_then": 0.24,
    "cameras": [
        {
            "camera": "junction-north",
            "now": 0.712,
            "then": {"value": 0.664, "low": 0.631, "high": 0.69},
            "box": 1,
            "unchanged": 0.731,
        }
    ],
    "models": [
        {
            "model": "plates",
            "slo_ms": 60.0,
            "now_ms": 21.0,
            "then_ms": {"value": 24.5, "low": 8.2, "high": 55.0},
            "now_part": 1.0,
            "then_part": 1.0,
        }
    ],
    "notes": [
        {"code": "device", "camera": None, "model": None, "message": _NOTE, "of_all": None},
        {"code": "past", "camera": None, "model": None, "message": _PAST, "of_all": _PAST_OF_ALL},
    ],
    "outcome": {
        "window": 215,
        "windows": 6,
        "error": 0.012,
        "cameras": [{"camera": "junction-north", "forecast": 0.664, "came": 0.652, "held": True}],
        "models": [{"model": "plates", "forecast_ms": 24.5, "came_ms": 26.1, "held": True}],
    },
}
CAPACITY: Final[Example] = {
    "needed": 3,
    "windows": 48,
    "working": {"change": _CHANGE | {"factor": 2.0, "words": "twice the device"}, "since_utc_s": AT_UTC_S},
    "failed": None,
    "forecasts": [FORECAST],
}
