"""Examples of model versions."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

RETRAINING: Final[Example] = {
    "epochs": 10,
    "batch_size": 8,
    "layers": "all",
    "data_fraction": 1.0,
    "learning_rate": 0.002,
    "last_layer_width": 0,
}
MODEL: Final[Example] = {
    "id": "junction-north-w3-2-1790000000",
    "camera": "junction-north",
    "blob": "9f2c4e8d",
    "spec": {
        "task": "detection",
        "architecture": "mini",
        "classes": ["car", "bus", "person"],
        "input_size": [192, 320],
        "width": 1.0,
        "last_layer_width": 0,
        "detector": None,
    },
    "parent": "junction-north-first-1789999000",
    "origin": "retrained",
    "window": 3,
    "config": "all-e10-b8-d1-lr0.002",
    "retraining": RETRAINING,
    "scores": {"held_out": 0.73, "parent_held_out": 0.55, "frames": 13},
    "state": "promoted",
    "decided_by": "gate",
    "reason": "held-out 0.73 against 0.55",
    "pinned": False,
    "created_utc_s": AT_UTC_S,
    "frames": 31,
    "device_seconds": 24.2,
    "blob_kept": True,
}
FIRST_MODEL: Final[Example] = MODEL | {
    "id": "junction-north-first-1789999000",
    "parent": None,
    "origin": "first",
    "window": None,
    "config": None,
    "retraining": None,
    "scores": {},
    "state": "retired",
    "decided_by": "first model",
    "reason": "the student's own weights",
}
