"""Before a new object is reported: is it one that vanished in mid-picture, or a part of one that is there?

A detector that is not sure loses a walking person for seconds. A single box does not tell him from the next one;
a new track does, since it has a velocity of its own, too: the place where it began must lie where the mean of both
velocities leads from where the other was seen last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from edge.core.tracks import TrackerLimits
from edge.tracking import boxes as bx
from edge.tracking.matching import unlike
from edge.tracking.track import Track, joined

#: A box is a part of an object seen within so many seconds that it overlaps by so much, or of which so much is common.
_PART_S, _PART_OVERLAP, _PART_WITHIN = 1.0, 0.2, 0.7
#: One that was seen beside another is that other one if it began as a part of it, has moved by less than so many sizes
#: since (the half that becomes the whole moves by a quarter), and overlaps its place by so much once that one is gone.
_REST_MOVED, _SAME_PLACE = 0.3, 0.5
#: Its place may be off by so many sizes, more a second, and part of the way.
_PLACE, _PLACE_PER_S, _PLACE_OF_WAY = 0.8, 0.3, 0.5
#: Logarithm of sizes, more a second; velocity in sizes a second, and of itself.
_GROWS, _GROWS_PER_S, _TURNS, _TURNS_OF_SPEED = 0.7, 0.1, 0.8, 0.7
#: The cost that another class and another look add.
_OTHER_CLASS, _OTHER_LOOK = 0.3, 0.26
#: Up to here it is what vanished; up to here it may be, and so many times the evidence is asked for a new object.
_IS, _PERHAPS, _MORE_EVIDENCE = 1.0, 2.0, 4.0


def reidentify(
    tracks: Sequence[Track], at_s: float, limits: TrackerLimits, numbers: Iterator[int]
) -> tuple[list[Track], list[Track]]:
    """Those that may be reported now: each goes on with an object that vanished, or is a new one, or waits. Returns all
    tracks as they are then, and the new objects."""
    ready = [n for n, t in enumerate(tracks) if t.object is None and t.seen_s == at_s and confirmed(t, limits)]
    if not ready:
        return list(tracks), []
    known = [n for n, t in enumerate(tracks) if t.object is not None]
    parts, inside = _parts(tracks, ready, known, at_s)
    apart = [r for r in ready if r not in parts]
    lost = [(r, k) for r in apart for k in known if tracks[k].seen_s < tracks[r].began_s]
    pairs = [(_goes_on(tracks[k], tracks[r]), r, k) for r, k in lost]
    pairs = sorted([*pairs, *_rests(tracks, apart, known, at_s)])
    waits = parts | inside
    heirs: dict[int, int] = {}
    for cost, r, k in pairs:
        if cost < _IS and r not in heirs and k not in heirs.values():
            heirs[r] = k
        elif cost < _PERHAPS and tracks[r].evidence < _MORE_EVIDENCE * limits.confirm_score:
            waits.add(r)  # more answers will show
    out, new = list(tracks), []
    for r in ready:
        if r in heirs:
            out[r] = joined(tracks[heirs[r]], tracks[r])
        elif r not in waits:
            out[r] = replace(tracks[r], object=next(numbers))
            new.append(out[r])
    gone = set(heirs.values())
    return [t for n, t in enumerate(out) if n not in gone], new


def confirmed(track: Track, limits: TrackerLimits) -> bool:
    """Whether answers enough speak for an object."""
    if limits.confirm_answers == 1:
        return True
    lasted = track.seen_s - track.began_s >= limits.confirm_after_s
    return track.answers >= limits.confirm_answers and lasted and track.evidence >= limits.confirm_score


def _parts(
    tracks: Sequence[Track], ready: Sequence[int], known: Sequence[int], at_s: float
) -> tuple[set[int], set[int]]:
    """Of `ready`, those that lie on an object that is there, and those inside the place that one filled lately: these
    may still be one that vanished."""
    there = [k for k in known if at_s - tracks[k].seen_s <= _PART_S]
    if not there:
        return set(), set()
    boxes, others = np.array([tracks[r].box for r in ready]), np.array([tracks[k].predicted(at_s) for k in there])
    on = (bx.iou(boxes, others) > _PART_OVERLAP) | (bx.within(boxes, others) > _PART_WITHIN)
    inside = bx.within(boxes, np.array([tracks[k].extent(at_s) for k in there])) > _PART_WITHIN
    return {r for n, r in enumerate(ready) if on[n].any()}, {r for n, r in enumerate(ready) if inside[n].any()}


def _rests(
    tracks: Sequence[Track], ready: Sequence[int], known: Sequence[int], at_s: float
) -> Iterator[tuple[float, int, int]]:
    """Those of `ready` that may be the rest of one of `known` that is hidden: (how unlike it is, ready, known)."""
    hidden = [k for k in known if at_s - tracks[k].seen_s > _PART_S]
    if not ready or not hidden:
        return
    boxes, others = np.array([tracks[r].box for r in ready]), np.array([tracks[k].predicted(at_s) for k in hidden])
    overlap = bx.iou(boxes, others)
    for n, m in np.argwhere(overlap > _SAME_PLACE).tolist():
        if _rest(tracks[hidden[m]], tracks[ready[n]], at_s):
            yield 1.0 - float(overlap[n, m]), ready[n], hidden[m]


def _rest(known: Track, found: Track, at_s: float) -> bool:
    """Whether `found` may be what is left of `known`: both were seen at once, as two parts of an object are, and
    `found` did not come from elsewhere. Parts look otherwise than the whole: looks say nothing, the class does."""
    if known.seen_s < found.began_s or known.class_name != found.class_name:
        return False
    dx, dy = known.motion.sure_velocity
    way_s, back_s = at_s - found.began_s, found.began_s - known.seen_s
    x, y = (now - then for now, then in zip(found.motion.centre, found.began_at, strict=True))
    if math.hypot(x - way_s * dx, y - way_s * dy) >= _REST_MOVED * found.size:
        return False
    began = np.array([found.began_box])
    if bx.within(began, np.array([known.extent(found.began_s)]))[0, 0] > _PART_WITHIN:
        return True
    # The extent of one that stands is known well: a box that begins half beside it is of one that comes.
    there = np.array([known.box]) + back_s * np.array([dx, dy, dx, dy])
    return not known.still and bool(bx.iou(began, there)[0, 0] > _PART_OVERLAP)


def _goes_on(lost: Track, found: Track) -> float:
    """How unlike it is that `found` is what `lost` was."""
    gap_s = found.began_s - lost.seen_s
    size = math.sqrt(lost.size * found.size)
    velocity = [(a + b) / 2 for a, b in zip(lost.motion.velocity, found.motion.velocity, strict=True)]
    speed = math.hypot(*velocity)
    off = [found.began_at[k] - lost.motion.centre[k] - velocity[k] * gap_s for k in range(2)]
    place = math.hypot(*off) / (size * (_PLACE + _PLACE_PER_S * gap_s) + _PLACE_OF_WAY * speed * gap_s)
    grown = abs(math.log(found.size / lost.size)) / (_GROWS + _GROWS_PER_S * gap_s)
    turn = math.hypot(*(a - b for a, b in zip(lost.motion.velocity, found.motion.velocity, strict=True)))
    turned = turn / (_TURNS * size + _TURNS_OF_SPEED * speed)
    other = 0.0 if lost.class_name == found.class_name else _OTHER_CLASS
    return math.hypot(place, grown, turned) + other + _OTHER_LOOK * float(unlike([lost.look], [found.look])[0, 0])
