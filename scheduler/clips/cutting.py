"""Where a clip is cut out of a camera's ring, and when that can be done."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.clips import ClipAsked, ClipEnd, Cut, VideoStretch

#: With nothing new so long after its end a clip is cut as things are, in seconds: longer than a picture may be on its
#: way (edge.ingest.timing.CaptureClock: 5 s behind our clock).
PATIENCE_S = 6.0


def cut_by(asked: ClipAsked, now_utc_s: float, now_s: float) -> float:
    """The monotonic time from which a clip is cut as things are. The UTC clock may be set while a clip is in
    the making."""
    to_come_s = min(max(0.0, asked.to_utc_s - now_utc_s), asked.to_utc_s - asked.at_utc_s)
    return now_s + to_come_s + PATIENCE_S


def due(asked: ClipAsked, stretches: Sequence[VideoStretch]) -> bool:
    """Whether nothing more can come of a clip: its end is in the ring, or the stretch that it is of has ended."""
    found = _stretch_of(asked, stretches)
    return found is not None and (found.end_utc_s >= asked.to_utc_s or found.ended is not None)


def cut(asked: ClipAsked, stretches: Sequence[VideoStretch], cut_short: bool = False) -> Cut | None:
    """A clip is of one stretch and begins at a key frame: the last one before the wanted time, or else the first. None:
    the ring has nothing of the wanted time. `cut_short`: nothing more can be waited for."""
    found = _stretch_of(asked, stretches)
    if found is None:
        return None
    first = max((n for n, key in enumerate(found.keys_utc_s) if key <= asked.from_utc_s), default=0)
    before = max(0.0, found.keys_utc_s[first] - asked.from_utc_s)
    after = max(0.0, asked.to_utc_s - found.end_utc_s)
    end: ClipEnd = "whole"
    if after > 0.0:
        # A stream that goes on and gave nothing for so long is gone, too.
        end = found.ended or ("cut_short" if cut_short else "camera_gone")
    return Cut(found.number, first, asked.to_utc_s, round(before, 3), round(after, 3), end)


def _stretch_of(asked: ClipAsked, stretches: Sequence[VideoStretch]) -> VideoStretch | None:
    """The stretch with the clip's moment; else the one with most of the clip."""

    def overlap(one: VideoStretch) -> float:
        return min(one.end_utc_s, asked.to_utc_s) - max(one.keys_utc_s[0], asked.from_utc_s)

    with_moment = [s for s in stretches if s.keys_utc_s[0] <= asked.at_utc_s <= s.end_utc_s]
    some = with_moment or [s for s in stretches if overlap(s) > 0.0]
    return max(some, key=overlap, default=None)
