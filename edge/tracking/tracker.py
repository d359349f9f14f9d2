"""A small tracker for a few answers a second: a pure step from one answer to the next.

Between two answers an object may have moved by more than its own size, so overlap alone does not find it again. Each
track goes on at constant velocity; it takes an answer's box that overlaps its prediction, or whose centre is within a
reach that grows with the time passed and, while its velocity is not known, with its size. Boxes are given to tracks
all at once (Hungarian method), confirmed ones first. Classes are voted on, so that one wrong name changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from edge.core.tracks import ObjectChange, ObjectPhase, Seen, TrackedObject, TrackerLimits
from edge.core.zones import Box, Zone, zones_at

#: Two boxes of one answer that overlap by more show one object, whatever their names; so do two of one name if so much
#: of the smaller one lies within the other.
_SAME_OBJECT, _WITHIN = 0.4, 0.8
#: Overlap at which a box is a track's whatever its distance, and at which its class may be another.
_OVERLAP, _OTHER_CLASS_OVERLAP = 0.25, 0.35
#: Reach: sizes (root of the area) around the prediction; sizes a second while the velocity is not known; part of the
#: way since the last answer when it is; and the most, in sizes.
_REACH, _REACH_NEW, _REACH_MOVING, _REACH_MOST = 0.7, 3.0, 0.6, 4.0
#: A box's area may be so many times a track's or the reverse (and more after seconds), unless one of them is cut off by
#: the picture's edge.
_SIZE_CHANGE, _SIZE_CHANGE_PER_S = 3.0, 1.0
_EDGE = 0.01
#: A box that overlaps the one it began with by so much has not moved.
_STILL_OVERLAP = 0.65
#: What is known of the velocity fades with this time constant (boxes tremble: many answers a second say little each);
#: how much of earlier votes is kept.
_VELOCITY_S, _KEEP_VOTES = 0.6, 0.9
#: What an answer without it takes from what speaks for an object not told of yet; less where answers are further apart.
_MISSED, _MISSED_S = 0.3, 0.4
#: Another class must lead by so much.
_CLASS_LEAD = 1.3
#: What it costs to leave a track and a box alone: the most that a pair may cost.
_NO_PAIR = 1.3
_NEVER = 1e6


@dataclass(frozen=True)
class _Stay:
    """In a zone: since when, until when it was seen inside, and since when outside (None: it is inside)."""

    entered_s: float
    inside_s: float
    outside_s: float | None = None
    left: bool = False


@dataclass(frozen=True)
class _Track:
    began_s: float
    began_utc_s: float
    seen_s: float
    seen_utc_s: float
    box: Box
    votes: tuple[tuple[str, float], ...]
    class_name: str
    score: float
    answers: int = 1
    missed: int = 0
    velocity: tuple[float, float] | None = None
    anchor: Box = (0.0, 0.0, 0.0, 0.0)
    anchor_s: float = 0.0
    stays: tuple[tuple[str, _Stay], ...] = ()
    object: int | None = None
    still: bool = False
    evidence: float = 0.0

    def predicted(self, at_s: float) -> Box:
        if self.velocity is None or self.still:
            return self.box
        passed = at_s - self.seen_s
        dx, dy = self.velocity[0] * passed, self.velocity[1] * passed
        return self.box[0] + dx, self.box[1] + dy, self.box[2] + dx, self.box[3] + dy


@dataclass(frozen=True)
class TrackerState:
    """What is known of one camera; `refused` counts objects that were too many at once to be followed."""

    camera: str
    tracks: tuple[_Track, ...] = ()
    at_s: float = -math.inf
    refused: int = 0


@dataclass(frozen=True)
class Step:
    """The next state, what changed, and the next free number for an object."""

    state: TrackerState
    changes: tuple[ObjectChange, ...]
    next_id: int


def live(state: TrackerState) -> tuple[TrackedObject, ...]:
    """The confirmed objects that are there."""
    return tuple(_told(state.camera, track) for track in state.tracks if track.object is not None)


def step(
    state: TrackerState,
    seen: Seen,
    zones: Sequence[Zone] = (),
    limits: TrackerLimits | None = None,
    next_id: int = 1,
) -> Step:
    """Take one answer. An answer that is not newer than the last one changes nothing. The order of its objects does
    not matter; every object is of at most one track, and numbers from `next_id` on are given once."""
    limits = limits or TrackerLimits()
    if not seen.at_s > state.at_s:
        return Step(state, (), next_id)
    boxes, votes = _one_per_object(seen)
    numbers = count(next_id)
    tracks = list(state.tracks)
    found = _match(tracks, boxes, votes, seen.at_s)
    changes: list[ObjectChange] = []
    following: list[_Track] = []
    refused = state.refused
    missed = _MISSED * min(1.0, _MISSED_S / (seen.at_s - state.at_s))
    for n, track in enumerate(tracks):
        if n not in found:
            following.append(replace(track, missed=track.missed + 1, evidence=track.evidence - missed))
            continue
        after = _seen_again(track, boxes[found[n]], votes[found[n]], seen, zones, limits)
        phase: ObjectPhase | None = None
        if after.object is None and _confirmed(after, limits):
            after, phase = replace(after, object=next(numbers)), "new"
        elif after.object is not None and (after.class_name != track.class_name or _zones(after) != _zones(track)):
            phase = "update"
        following.append(after)
        if phase is not None:
            changes.append(ObjectChange(phase, _told(state.camera, after)))
    taken = set(found.values())
    for n in range(len(boxes)):
        if n in taken:
            continue
        if len(following) >= limits.max_objects:
            refused += 1
            continue
        first = _first_seen(boxes[n], votes[n], seen, zones)
        if _confirmed(first, limits):
            first = replace(first, object=next(numbers))
            changes.append(ObjectChange("new", _told(state.camera, first)))
        following.append(first)
    kept, ended = _ended(state.camera, following, seen.at_s, limits)
    return Step(TrackerState(state.camera, kept, seen.at_s, refused), (*changes, *ended), next(numbers))


def expire(state: TrackerState, now_s: float, limits: TrackerLimits | None = None) -> Step:
    """No answer came: end what has not been seen for too long at `now_s`."""
    kept, ended = _ended(state.camera, list(state.tracks), now_s, limits or TrackerLimits())
    return Step(replace(state, tracks=kept), ended, 0)


def finish(state: TrackerState) -> Step:
    """The camera is not watched any more: every object ends where it was seen last."""
    ended = tuple(
        ObjectChange("end", replace(thing, ended_utc_s=max(thing.began_utc_s, thing.seen_utc_s)))
        for thing in live(state)
    )
    return Step(replace(state, tracks=()), ended, 0)


def _one_per_object(seen: Seen) -> tuple[NDArray[np.float64], list[dict[str, float]]]:
    """Boxes (M, 4) of distinct objects, in an order of their own, with the scores of the names given to each."""
    given = np.asarray(seen.boxes, np.float64)
    usable = [n for n in range(len(given)) if given[n, 2] > given[n, 0] and given[n, 3] > given[n, 1]]
    order = sorted(usable, key=lambda n: (-float(seen.scores[n]), *given[n].tolist(), seen.classes[n]))
    kept: list[int] = []
    votes: list[dict[str, float]] = []
    if order:
        overlap, within = _iou(given, given), _within(given)
        for n in order:
            same = next(
                (
                    k
                    for k, other in enumerate(kept)
                    if overlap[n, other] > _SAME_OBJECT
                    or (within[n, other] > _WITHIN and seen.classes[n] == seen.classes[other])
                ),
                None,
            )
            score = float(seen.scores[n])
            if same is None:
                kept.append(n)
                votes.append({seen.classes[n]: score})
            else:
                votes[same][seen.classes[n]] = max(score, votes[same].get(seen.classes[n], 0.0))
    return given[kept], votes


def _match(
    tracks: Sequence[_Track], boxes: NDArray[np.float64], votes: Sequence[dict[str, float]], at_s: float
) -> dict[int, int]:
    """Which box each track takes: confirmed tracks choose first."""
    found: dict[int, int] = {}
    free = list(range(len(boxes)))
    for confirmed in (True, False):
        rows = [n for n, track in enumerate(tracks) if (track.object is not None) == confirmed]
        if not rows or not free:
            continue
        cost = _costs([tracks[n] for n in rows], boxes[free], [votes[n] for n in free], at_s)
        # A pair is worth what it costs less than none: as many pairs as possible would shift a whole queue by one.
        for row, column in zip(*linear_sum_assignment(np.minimum(cost - _NO_PAIR, 0.0)), strict=True):
            if cost[row, column] < _NO_PAIR:
                found[rows[row]] = free[column]
        taken = set(found.values())
        free = [n for n in free if n not in taken]
    return found


def _costs(
    tracks: Sequence[_Track], boxes: NDArray[np.float64], votes: Sequence[dict[str, float]], at_s: float
) -> NDArray[np.float64]:
    """(tracks, boxes); _NEVER where a box cannot be the track's."""
    predicted = np.array([t.predicted(at_s) for t in tracks])
    passed = np.array([at_s - t.seen_s for t in tracks])
    speed = np.array([0.0 if t.velocity is None or t.still else math.hypot(*t.velocity) for t in tracks])
    known = np.array([t.velocity is not None for t in tracks])
    still = np.array([t.still for t in tracks])
    overlap = _iou(predicted, boxes)
    size_t, size_b = _size(predicted)[:, None], _size(boxes)[None, :]
    size = np.sqrt(size_t * size_b)
    distance = np.linalg.norm(_centre(predicted)[:, None] - _centre(boxes)[None], axis=2)
    further = np.where(known[:, None], _REACH_MOVING * (speed * passed)[:, None], size * _REACH_NEW * passed[:, None])
    reach = np.minimum(_REACH * size + np.where(still[:, None], 0.0, further), _REACH_MOST * size)
    near = (distance <= reach) & ~still[:, None]
    ratio = np.maximum(size_t, size_b) / np.minimum(size_t, size_b)
    cut = _cut_off(predicted)[:, None] | _cut_off(boxes)[None]
    fits = (ratio**2 <= _SIZE_CHANGE * (1.0 + _SIZE_CHANGE_PER_S * passed[:, None])) | cut
    same = np.array([[t.class_name in v for v in votes] for t in tracks])
    allowed = np.where(same, ((overlap >= _OVERLAP) | near) & fits, overlap >= _OTHER_CLASS_OVERLAP)
    cost = (1.0 - overlap) + 0.5 * np.minimum(1.0, distance / np.maximum(reach, 1e-9)) + np.where(same, 0.0, 0.4)
    return np.where(allowed, cost, _NEVER)


def _seen_again(
    track: _Track, box: NDArray[np.float64], votes: dict[str, float], seen: Seen, zones: Sequence[Zone],
    limits: TrackerLimits,
) -> _Track:  # fmt: skip
    here: Box = (float(box[0]), float(box[1]), float(box[2]), float(box[3]))
    passed = seen.at_s - track.seen_s
    moved = tuple(
        ((here[k] + here[k + 2]) - (track.box[k] + track.box[k + 2])) / 2 / max(passed, 1e-6) for k in range(2)
    )
    if track.velocity is not None:
        keep = math.exp(-passed / _VELOCITY_S)
        moved = tuple(keep * old + (1 - keep) * new for old, new in zip(track.velocity, moved, strict=True))
    counted = {name: _KEEP_VOTES * weight for name, weight in track.votes}
    for name, score in votes.items():
        counted[name] = counted.get(name, 0.0) + score
    # The order of names says nothing; the first of equals is always the same one.
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    best = ranked[0][0]
    name = best if counted[best] > _CLASS_LEAD * counted.get(track.class_name, 0.0) else track.class_name
    stands = float(_iou(np.array([track.anchor]), box[None])[0, 0]) >= _STILL_OVERLAP
    anchor, anchor_s = (track.anchor, track.anchor_s) if stands else (here, seen.at_s)
    return replace(
        track,
        seen_s=seen.at_s,
        seen_utc_s=seen.utc_s,
        box=here,
        votes=tuple(ranked[:8]),
        class_name=name,
        score=max(track.score, *votes.values()),
        answers=track.answers + 1,
        missed=0,
        evidence=track.evidence + max(votes.values()),
        velocity=(moved[0], moved[1]),
        anchor=anchor,
        anchor_s=anchor_s,
        still=seen.at_s - anchor_s >= limits.still_after_s,
        stays=_stays(track.stays, zones_at(zones, here, name), seen.at_s, limits.leave_zone_after_s),
    )


def _first_seen(box: NDArray[np.float64], votes: dict[str, float], seen: Seen, zones: Sequence[Zone]) -> _Track:
    here: Box = (float(box[0]), float(box[1]), float(box[2]), float(box[3]))
    ranked = tuple(sorted(votes.items(), key=lambda item: (-item[1], item[0])))
    name = ranked[0][0]
    return _Track(
        seen.at_s, seen.utc_s, seen.at_s, seen.utc_s, here, ranked, name, ranked[0][1], anchor=here,
        anchor_s=seen.at_s, stays=_stays((), zones_at(zones, here, name), seen.at_s, 0.0), evidence=ranked[0][1],
    )  # fmt: skip


def _confirmed(track: _Track, limits: TrackerLimits) -> bool:
    if limits.confirm_answers == 1:
        return True
    lasted = track.seen_s - track.began_s >= limits.confirm_after_s
    return track.answers >= limits.confirm_answers and lasted and track.evidence >= limits.confirm_score


def _stays(
    before: tuple[tuple[str, _Stay], ...], inside: Sequence[str], at_s: float, leave_after_s: float
) -> tuple[tuple[str, _Stay], ...]:
    """A zone is left when the object was seen outside for a while; one that is not seen at all has not left."""
    stays = dict(before)
    for zone, stay in before:
        if zone in inside:
            stays[zone] = _Stay(at_s, at_s) if stay.left else _Stay(stay.entered_s, at_s)
        elif not stay.left:
            outside = at_s if stay.outside_s is None else stay.outside_s
            stays[zone] = replace(stay, outside_s=outside, left=at_s - outside >= leave_after_s)
    for zone in inside:
        if zone not in stays:
            stays[zone] = _Stay(at_s, at_s)
    return tuple(stays.items())


def _zones(track: _Track) -> tuple[str, ...]:
    return tuple(sorted(zone for zone, stay in track.stays if not stay.left))


def _ended(
    camera: str, tracks: Sequence[_Track], now_s: float, limits: TrackerLimits
) -> tuple[tuple[_Track, ...], tuple[ObjectChange, ...]]:
    kept, ended = [], []
    for track in tracks:
        unseen = now_s - track.seen_s
        if track.object is None:
            patience = limits.confirm_within_s
        elif track.still:
            patience = limits.still_patience_s
        elif track.missed and _outside(track.predicted(now_s)):
            patience = 0.0  # it went out of the picture
        else:
            patience = limits.end_after_s
        if unseen <= patience:
            kept.append(track)
        elif track.object is not None:
            thing = _told(camera, track)
            ended.append(ObjectChange("end", replace(thing, ended_utc_s=max(thing.began_utc_s, thing.seen_utc_s))))
    return tuple(kept), tuple(ended)


def _told(camera: str, track: _Track) -> TrackedObject:
    return TrackedObject(
        id=track.object or 0,
        camera=camera,
        class_name=track.class_name,
        score=track.score,
        box=track.box,
        began_utc_s=track.began_utc_s,
        seen_utc_s=track.seen_utc_s,
        age_s=track.seen_s - track.began_s,
        answers=track.answers,
        zones=_zones(track),
        zone_s={zone: stay.inside_s - stay.entered_s for zone, stay in track.stays},
        still=track.still,
    )


def _outside(box: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0)


def _size(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root of the area."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-6)
    return np.asarray(np.sqrt(sides[:, 0] * sides[:, 1]))


def _centre(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((boxes[:, :2] + boxes[:, 2:]) / 2)


def _cut_off(boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((boxes[:, :2] <= _EDGE).any(1) | (boxes[:, 2:] >= 1 - _EDGE).any(1))


def _within(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N): how much of the smaller of two boxes lies in the other."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = np.prod(np.clip(high - low, 0.0, None), axis=2)
    own = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return np.asarray(both / np.maximum(np.minimum(own[:, None], own[None]), 1e-12))


def _iou(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """(len(a), len(b)) overlaps."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0.0, None), axis=2)
    own_a, own_b = np.prod(a[:, 2:] - a[:, :2], axis=1), np.prod(b[:, 2:] - b[:, :2], axis=1)
    return np.asarray(both / np.maximum(own_a[:, None] + own_b[None] - both, 1e-12))
