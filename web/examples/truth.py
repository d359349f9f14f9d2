"""Examples of true accuracy for OpenAPI."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

_ESTIMATE: Final[Example] = {
    "student": {"value": 0.71, "low": 0.64, "high": 0.78, "more_to_halve": 52},
    "teacher": {"value": 0.78, "low": 0.72, "high": 0.83, "more_to_halve": 47},
    "difference": {"value": -0.07, "low": -0.13, "high": -0.01, "more_to_halve": 44},
    "confidence": 0.9,
    "method": "prediction-powered inference (PPI++), sequential Poisson sampling, delta method, t",
    "frames": 24,
    "objects": 143.2,
    "answers": 30,
    "unsure": 1,
    "contradicted": 1,
    "questions": 245,
    "power": {"box": 0.94, "missed": 0.8},
    "teacher_worse": False,
}
TRUTH: Final[Example] = {
    "camera": "junction-north",
    "detection": True,
    "window": 3,
    "estimate": _ESTIMATE,
    "asking": 3,
    "answers": 30,
    "answers_needed": 0,
    "enough": 30,
    "findings": [
        {
            "kind": "people_contradict",
            "camera": "junction-north",
            "window": 3,
            "value": 1.0,
            "message": "people contradict each other on 1 question (window 3)",
        }
    ],
    "history": [{"window": 3, "estimate": _ESTIMATE}],
}
QUESTIONS: Final[Example] = {
    "camera": "junction-north",
    "window": 3,
    "classes": ["car", "bus", "person"],
    "questions": [
        {
            "window": 3,
            "frame": 1834,
            "utc_s": 1790000012.0,
            "kind": "box",
            "candidate": 2,
            "class": "car",
            "student_box": None,
            "teacher_box": [0.1, 0.4, 0.31, 0.61],
            "others": [[0.6, 0.5, 0.65, 0.7]],
            "width": 1280,
            "height": 720,
            "probability": 0.12,
            "stratum": "teacher",
        }
    ],
}
ANSWERS: Final[Example] = {
    "answers": [
        {"window": 3, "frame": 1834, "kind": "box", "candidate": 2, "verdict": "yes"},
        {
            "window": 3,
            "frame": 1840,
            "kind": "missed",
            "verdict": "counted",
            "missed": 1,
            "marked": [{"box": [0.2, 0.3, 0.25, 0.36], "class": "car"}],
        },
    ]
}
LABEL_FILE: Final[Example] = {
    "format": "yolo",
    "files": {"classes.txt": "car\nbus\nperson\n", "w00000003-f00001834.txt": "0 0.2 0.5 0.2 0.2\n"},
    "complete": True,
}
IMPORTED: Final[Example] = {"pictures": 1, "answers": 4, "incomplete": 0, "unknown": 0, "there": 0}
