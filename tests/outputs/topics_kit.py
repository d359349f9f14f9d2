"""Names that cameras may have, however hostile, and a snapshot of a site of two."""

from __future__ import annotations

from hypothesis import strategies as st

from edge.outputs.topics import CameraSnapshot, Snapshot

HOSTILE = ["#", "+", "/", "a/b", "../x", "\x00", "$SYS", "%23", "", " ", "дверь", "\ud800", "a" * 300]
NAMES = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(HOSTILE)

SNAPSHOT = Snapshot(
    "depot", "1", True, ("b", "a", "a"), "relay", 7, "planned", 1,
    (
        CameraSnapshot("north", "North\n<b>", "live", "v2", 0.61239, 0.7, True),
        CameraSnapshot("south", "South", "reconnecting", "v1", None, None, False),
    ),
)  # fmt: skip
ALARMS = {("north", "object"), (None, "disk")}
