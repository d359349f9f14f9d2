"""A small tracker for a few answers a second: a pure step from one answer to the next.

Between two answers an object may have moved by more than its own size, and a detector loses it for seconds, so overlap
alone does not find it again. Each track expects its object by a Kalman filter (motion.py); boxes are given to tracks
all at once by how likely they are (matching.py); before a new object is reported it is asked whether it is one that
vanished (rejoin.py). Classes are voted on, so that one wrong name changes nothing (track.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from edge.core.tracks import ObjectChange, Seen, TrackedObject, TrackerLimits
from edge.core.zones import Box, Zone
from edge.tracking.flow import Flow
from edge.tracking.going import expected, learned
from edge.tracking.matching import match, one_per_object
from edge.tracking.rejoin import reidentify
from edge.tracking.track import Track, first_seen, seen_again

#: The evidence that an object not reported yet loses by an answer without it; less where answers are further apart.
_MISSED, _MISSED_S = 0.3, 0.4
#: One that stood is waited for so many times as long as it stood.
_STOOD = 4.0
#: One that vanished in mid-picture, so far from its edge, is waited for until it has gone so many sizes, ...
_MIDDLE, _WAY, _LEAST_S = 0.02, 6.0, 1.5
#: ... and no longer than it has been followed, or this part more than one that vanished elsewhere.
_YOUNG = 1.5


@dataclass(frozen=True)
class TrackerState:
    """The tracker's state of one camera; `refused` counts objects that were too many at once to be followed."""

    camera: str
    tracks: tuple[Track, ...] = ()
    at_s: float = -math.inf
    refused: int = 0
    flow: Flow = field(default_factory=Flow, compare=False)


@dataclass(frozen=True)
class TrackerStep:
    """The next state, the changes, and the next free number for an object."""

    state: TrackerState
    changes: tuple[ObjectChange, ...]
    next_id: int


def live(state: TrackerState) -> tuple[TrackedObject, ...]:
    """The confirmed objects that are there."""
    return tuple(track.to_object(state.camera) for track in state.tracks if track.object is not None)


def step(
    state: TrackerState,
    seen: Seen,
    zones: Sequence[Zone] = (),
    limits: TrackerLimits | None = None,
    next_id: int = 1,
) -> TrackerStep:
    """Take one answer. An answer that is not newer than the last one changes nothing. The order of its objects does
    not matter; every object is of at most one track, and numbers from `next_id` on are given once."""
    limits = limits or TrackerLimits()
    if not seen.at_s > state.at_s:
        return TrackerStep(state, (), next_id)
    answers = one_per_object(seen)
    numbers = count(next_id)
    tracks = expected(state.tracks, state.flow, seen.at_s)
    found = match(tracks, answers, seen.at_s, seen.at_s - state.at_s if state.tracks else 0.0)
    missed = _MISSED * min(1.0, _MISSED_S / (seen.at_s - state.at_s))
    pairs = [(track, answers[found[n]]) for n, track in enumerate(tracks) if n in found]
    again = iter(seen_again(pairs, seen, zones, limits))
    following = [
        next(again) if n in found else replace(t, missed=t.missed + 1, evidence=t.evidence - missed)
        for n, t in enumerate(tracks)
    ]
    before = {t.object: t for t in tracks if t.object is not None}
    taken, refused = set(found.values()), state.refused
    for n, answer in enumerate(answers):
        if n in taken or not answer.sure:
            continue
        if len(following) >= limits.max_objects:
            refused += 1
            continue
        following.append(first_seen(answer, seen, zones))
    following, new = reidentify(following, seen.at_s, limits, numbers)
    begun = [ObjectChange("new", track.to_object(state.camera)) for track in new]
    updates = [ObjectChange("update", t.to_object(state.camera)) for t in following if _differs(before, t)]
    kept, ended = _ended(state.camera, following, following, seen.at_s, limits)
    after = TrackerState(state.camera, kept, seen.at_s, refused, learned(state.flow, kept, seen.at_s))
    return TrackerStep(after, (*updates, *begun, *ended), next(numbers))


def expire(state: TrackerState, now_s: float, limits: TrackerLimits | None = None) -> TrackerStep:
    """No answer came: end what has not been seen for too long at `now_s`."""
    # The next answer may be of an earlier instant: where they are expected now is looked at, and not kept.
    there = expected(state.tracks, state.flow, now_s)
    kept, ended = _ended(state.camera, state.tracks, there, now_s, limits or TrackerLimits())
    return TrackerStep(replace(state, tracks=kept), ended, 0)


def finish(state: TrackerState) -> TrackerStep:
    """The camera is not watched any more: every object ends where it was seen last."""
    ended = tuple(_end(state.camera, track) for track in state.tracks if track.object is not None)
    return TrackerStep(replace(state, tracks=()), ended, 0)


def _differs(before: dict[int, Track], track: Track) -> bool:
    """Whether its class or its zones are others than at the answer before."""
    old = before.get(track.object) if track.object is not None else None
    return old is not None and (old.class_name != track.class_name or set(old.zones()) != set(track.zones()))


def _ended(
    camera: str, tracks: Sequence[Track], there: Sequence[Track], now_s: float, limits: TrackerLimits
) -> tuple[tuple[Track, ...], tuple[ObjectChange, ...]]:
    """Those that are waited for, and the ends of the others; `there` are the tracks as they are expected at `now_s`."""
    kept, ended = [], []
    for track, then in zip(tracks, there, strict=True):
        if track.seen_s >= now_s or now_s - track.seen_s <= _patience_s(then, now_s, limits):
            kept.append(track)
        elif track.object is not None:
            ended.append(_end(camera, track))
    return tuple(kept), tuple(ended)


def _patience_s(track: Track, now_s: float, limits: TrackerLimits) -> float:
    """How long it is waited for."""
    if track.object is None:
        return limits.confirm_within_s
    if track.still:
        return min(limits.still_patience_s, max(limits.end_after_s, _STOOD * track.stood_s))
    if track.missed and _outside(track.predicted(now_s)):
        return 0.0  # it went out of the picture
    if not _in_the_middle(track.predicted(track.seen_s)):
        return limits.end_after_s
    speed = math.hypot(*track.motion.velocity) / track.size
    known_s = max(_YOUNG * limits.end_after_s, track.seen_s - track.began_s)
    return min(limits.lost_patience_s, known_s, max(_LEAST_S, _WAY / max(speed, 1e-3)))


def _end(camera: str, track: Track) -> ObjectChange:
    tracked = track.to_object(camera)
    return ObjectChange("end", replace(tracked, ended_utc_s=max(tracked.began_utc_s, tracked.seen_utc_s)))


def _outside(box: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0)


def _in_the_middle(box: Box) -> bool:
    return min(box[0], box[1], 1.0 - box[2], 1.0 - box[3]) > _MIDDLE
