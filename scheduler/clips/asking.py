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


def joined(
    open_clips: Iterable[ClipAsked], camera: str, at_utc_s: float, before_s: float, after_s: float
) -> ClipAsked | None:
    """The clip in the making that shows a camera's alarm of `at_utc_s` too, with at least half of the seconds wanted
    before and after it; None: it needs one of its own."""
    first, last = at_utc_s - before_s / 2, at_utc_s + after_s / 2
    for clip in open_clips:
        if clip.camera == camera and clip.from_utc_s <= first and last <= clip.to_utc_s:
            return clip
    return None
