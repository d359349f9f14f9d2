"""The labelled frames of one camera: each is counted again once those just after it have come.

A teacher may miss an object in the frame in which it crosses a line, and show it in the next ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from edge.core.counts import CountLine
from scheduler.counts.near import FrameChecks
from scheduler.counts.recount import (
    AdjacentFrames,
    LabelledInstant,
    LabelledPath,
    PathSample,
    Rest,
    Shown,
    adjacent,
    paths_after,
    recounted,
    shown_after,
)

#: A frame waits for so many labelled ones after it.
_LATER: Final = 2


@dataclass(frozen=True)
class Recounting:
    """Frames that wait, how labels showed the objects of a camera, their paths by the labels of the frames counted so
    far, and parts of crossings that are not counted yet."""

    waiting: tuple[LabelledInstant, ...] = ()
    shown: Shown = field(default_factory=dict)
    paths: Mapping[int, LabelledPath] = field(default_factory=dict)
    rest: Rest = field(default_factory=dict)


def taken_frame(
    state: Recounting, frame: LabelledInstant, lines: Sequence[CountLine], samples: Sequence[PathSample]
) -> tuple[Recounting, tuple[FrameChecks, ...]]:
    """Take a frame's labels: the crossings around the frames that need not wait any more."""
    # Labels that another box made come late.
    waiting = sorted((*state.waiting, frame), key=lambda f: f.instant.utc_s)
    state = replace(state, waiting=tuple(waiting), shown=shown_after(state.shown, frame))
    return _counted(state, lines, samples, _LATER)


def no_more_frames(
    state: Recounting, lines: Sequence[CountLine], samples: Sequence[PathSample]
) -> tuple[Recounting, tuple[FrameChecks, ...]]:
    """No frames come for now: the crossings around those that wait."""
    state, found = _counted(state, lines, samples, 0)
    # The last frame was counted to the end of its own time: one that comes all the same does not go on from its label.
    return replace(state, paths={}), found


def _counted(
    state: Recounting, lines: Sequence[CountLine], samples: Sequence[PathSample], wait: int
) -> tuple[Recounting, tuple[FrameChecks, ...]]:
    due, rest, paths = max(0, len(state.waiting) - wait), state.rest, state.paths
    found: list[FrameChecks] = []
    for n, frame in enumerate(state.waiting[:due]):
        at, after = frame.instant, state.waiting[n + 1 : n + 2]
        there = {number: path for number, path in paths.items() if adjacent(path, at)}
        later = {p.number for one in after if adjacent(at, one.instant) for p in one.followed.values()}
        around = AdjacentFrames(there, frozenset(later))
        checks, rest = recounted(frame, lines, samples, state.shown, rest, around)
        paths = paths_after(there, frame, lines)
        found.append(checks)
    return replace(state, waiting=state.waiting[due:], paths=paths, rest=rest), tuple(found)
