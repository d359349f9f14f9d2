"""Examples of clips."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

CLIP: Final[Example] = {
    "id": 7,
    "camera": "junction-north",
    "state": "kept",
    "asked_by": "",
    "at_utc_s": AT_UTC_S,
    "from_utc_s": AT_UTC_S - 5.0,
    "to_utc_s": AT_UTC_S + 10.0,
    "alarms": [17],
    "video": {
        "begins_utc_s": AT_UTC_S - 6.2,
        "seconds": 16.1,
        "codec": "h264",
        "width": 1280,
        "height": 720,
        "bytes": 3_912_044,
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "missing_before_s": 0.0,
        "missing_after_s": 0.0,
        "end": "whole",
        "masked": False,
    },
    "failure": None,
}
CLIP_BOXES: Final[Example] = {
    "clip": 7,
    "camera": "junction-north",
    "begins_utc_s": AT_UTC_S - 6.2,
    "answers": [
        {
            "at_s": 0.2,
            "model_version": "junction-north-w3-2-1790000000",
            "boxes": [{"class": "car", "score": 0.91, "box": [0.12, 0.4, 0.31, 0.62]}],
        }
    ],
}
CLIP_AROUND: Final[Example] = {
    "camera": "junction-north",
    "at_utc_s": AT_UTC_S,
    "state": "kept",
    "clip": 7,
    "reason": None,
    "held_s": None,
}
