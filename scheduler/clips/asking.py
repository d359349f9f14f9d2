"""Wishes that a ring can grant, and alarms that need no clip of their own."""

from __future__ import annotations

from collections.abc import Iterable

from edge.core import checks
from edge.core.clips import ClipAsked

#: Clips of one camera that may be in the making.
MOST_AT_ONCE = 4


def check_moment(at_utc_s: float, now_utc_s: float, ring_s: float) -> None:
    """Raises InvalidValue for a moment that the ring cannot hold any more, or that is yet to come."""
    checks.in_range("at_utc_s", at_utc_s, now_utc_s - ring_s, now_utc_s + 1.0)


def joined(open_clips: Iterable[ClipAsked], camera: str, at_utc_s: float) -> ClipAsked | None:
    """The clip in the making that shows a camera's alarm of `at_utc_s` too; None: it needs one of its own."""
    for clip in open_clips:
        if clip.camera == camera and clip.from_utc_s <= at_utc_s <= clip.to_utc_s:
            return clip
    return None
