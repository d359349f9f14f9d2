"""The clip that shows a moment: one that is kept, one that can still be made, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from edge.core.clips import ClipAround, ClipSpan, VideoNow

#: A clip that shows less on either side of a moment gives way to one that can still be made.
MARGIN_S: Final = 1.5


def clip_around(clips: Iterable[ClipSpan], at_utc_s: float, now_utc_s: float, video: VideoNow) -> ClipAround:
    """`clips`: those of the camera that are kept or in the making. A kept one goes before one in the making; of several
    the one that shows most around the moment, then the newest. Where none shows it, and none can be made, one that
    was asked for this moment: the video may begin later, or end earlier, than it was asked to."""
    every = tuple(clips)
    shows = [c for c in every if c.from_utc_s <= at_utc_s <= c.to_utc_s]
    ample = [c for c in shows if _margin(c, at_utc_s) >= MARGIN_S]
    if ample:
        return _best(ample, at_utc_s)
    made = _to_be_made(at_utc_s, now_utc_s, video)
    if made.state == "can_be_made":
        return made
    near = shows or [c for c in every if c.asked is not None and c.asked[0] <= at_utc_s <= c.asked[1]]
    return _best(near, at_utc_s) if near else made


def _margin(clip: ClipSpan, at_utc_s: float) -> float:
    return min(at_utc_s - clip.from_utc_s, clip.to_utc_s - at_utc_s)


def _best(clips: Iterable[ClipSpan], at_utc_s: float) -> ClipAround:
    best = max(clips, key=lambda c: (not c.making, _margin(c, at_utc_s), c.number))
    return ClipAround("making" if best.making else "kept", best.number)


def _to_be_made(at_utc_s: float, now_utc_s: float, video: VideoNow) -> ClipAround:
    if at_utc_s > now_utc_s + 1.0:
        return ClipAround("none", reason="in_future")
    if video.missing is not None:
        return ClipAround("none", reason=video.missing)
    if at_utc_s < now_utc_s - video.held_s:
        return ClipAround("none", reason="too_old", held_s=video.held_s)
    return ClipAround("can_be_made", held_s=video.held_s)
