"""Examples of journal entries."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

EVENT: Final[Example] = {
    "id": 812,
    "utc_s": AT_UTC_S,
    "kind": "model.promoted",
    "camera": "junction-north",
    "window": 3,
    "data": {"version": "junction-north-w3-2-1790000000", "scores": {"held_out": 0.73, "parent_held_out": 0.55}},
}
