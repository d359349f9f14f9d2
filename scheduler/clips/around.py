"""The clip that shows a moment: one that is kept, one that can still be made, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable

from edge.core.clips import ClipAround, ClipSpan, VideoNow


def clip_around(clips: Iterable[ClipSpan], at_utc_s: float, now_utc_s: float, video: VideoNow) -> ClipAround:
    """`clips`: those of the camera that are kept or in the making. A kept one goes before one in the making; of several
    the one that shows most around the moment, then the newest."""
    shows = [c for c in clips if c.from_utc_s <= at_utc_s <= c.to_utc_s]
    if shows:
        best = max(shows, key=lambda c: (not c.making, min(at_utc_s - c.from_utc_s, c.to_utc_s - at_utc_s), c.number))
        return ClipAround("making" if best.making else "kept", best.number)
    if at_utc_s > now_utc_s + 1.0:
        return ClipAround("none", reason="in_future")
    if video.missing is not None:
        return ClipAround("none", reason=video.missing)
    if at_utc_s < now_utc_s - video.held_s:
        return ClipAround("none", reason="too_old", held_s=video.held_s)
    return ClipAround("can_be_made", held_s=video.held_s)
