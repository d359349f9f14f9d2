"""Names that cameras may have, however hostile, and an overview of a site of two."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

HOSTILE = ["#", "+", "/", "a/b", "../x", "\x00", "$SYS", "%23", "", " ", "дверь", "\ud800", "a" * 300]
NAMES = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(HOSTILE)

OVERVIEW: dict[str, Any] = {
    "site": "depot",
    "policy": "relay",
    "jobs": [{}],
    "window": {"number": 7, "phase": "planned"},
    "cameras": [
        {"id": "north", "name": "North\n<b>", "state": "live", "model_version": "v2", "accuracy": 0.61239},
        {"id": "south", "name": "South", "state": "reconnecting", "model_version": "v1", "accuracy": None},
    ],
}
FACTS: dict[str, Any] = {
    "ready": True, "reasons": ["b", "a", "a"], "version": "1", "expected": {"north": 0.7, "south": None},
    "retraining": {"north": True}, "alarms": {("north", "object"), (None, "disk")},
}  # fmt: skip
