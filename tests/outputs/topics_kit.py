"""Names that cameras may have, however hostile, and a snapshot of a site of two."""

from __future__ import annotations

from hypothesis import strategies as st

from edge.core.counts import Corrected, CountedMinute, Place, PlaceCount
from edge.outputs.topics import CameraSnapshot, Snapshot

HOSTILE = ["#", "+", "/", "a/b", "../x", "\x00", "$SYS", "%23", "", " ", "дверь", "\ud800", "a" * 300]
NAMES = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(HOSTILE)

GATE, YARD = Place("line", "gate", "forward"), Place("zone", "yard/1")
MINUTE = CountedMinute(
    "north", 1_790_000_040, 0.98, 4.9, (),
    (
        PlaceCount(GATE, 4, Corrected(4.4, 3.1, 5.7)), PlaceCount(YARD, 2, None, 1),
        PlaceCount(Place("zone", "gone"), 1, None),
    ),
)  # fmt: skip
SNAPSHOT = Snapshot(
    "depot", "1", True, ("b", "a", "a"), "relay", 7, "planned", 1,
    (
        CameraSnapshot("north", "North\n<b>", "live", "v2", 0.61239, 0.7, True, (GATE, YARD), MINUTE),
        CameraSnapshot("south", "South", "reconnecting", "v1", None, None, False),
    ),
)  # fmt: skip
ALARMS = {("north", "object"), (None, "disk")}
