"""Examples of labelled pictures."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

DISAGREEMENT: Final[Example] = {
    "window": 3,
    "frame": 1834,
    "utc_s": AT_UTC_S + 12,
    "model_version": "junction-north-w3-2-1790000000",
    "answer_age_s": 0.1,
    "width": 1280,
    "height": 720,
    "student": [{"box": [0.1, 0.4, 0.3, 0.6], "class": "car", "score": 0.71, "verdict": "class"}],
    "teacher": [
        {"box": [0.1, 0.4, 0.31, 0.61], "class": "bus", "score": 0.93, "verdict": "class"},
        {"box": [0.6, 0.5, 0.65, 0.7], "class": "person", "score": 0.88, "verdict": "missed"},
    ],
    "kinds": ["missed", "class"],
}
CLASSES: Final[Example] = {
    "window": 3,
    "start_utc_s": AT_UTC_S,
    "frames": 44,
    "teacher": {"car": 120, "bus": 9, "person": 61},
    "student": {"car": 117, "bus": 4, "person": 48},
}
