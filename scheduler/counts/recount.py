"""Crossings counted again by a teacher's labels: those near the instant of a labelled frame.

An object crosses a line at one instant. A labelled frame within half a second or so of it shows the object on its path.
Either the object is followed and was counted, or its label goes so that it crosses the line in that time. The label of
a followed object goes between the places where the object was seen before and after; another label goes as most objects
of its size went near there. So in the time around labelled frames every crossing is known twice, once as it was counted
and once by labels.

A teacher misses an object in one frame and finds it in the next, and takes a class for another now and then. So the
labels of earlier frames say, too, whether a followed object is one, and which class most of them have.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

import numpy as np

from edge.core.accuracy import best_pairs, box_iou
from edge.core.counts import Counted, CountLine, Direction, Place
from edge.core.tracks import TrackedObject
from edge.core.zones import Box, Point, foot_point
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.passing import LOST_S, crossed

#: Crossings so long before and after a labelled frame are counted again, in seconds.
AROUND_S: Final = 0.75
#: The places of objects are looked up so long before and after a frame. Between two places that are further apart in
#: time, the place of an object is not known.
LOOK_S: Final = 3.0
#: A label is of the object that it overlaps by so much (intersection over union).
_SAME: Final = 0.2
#: A label need not show an object that a nearer one covers by so much.
_HIDDEN: Final = 0.5
#: So near to the picture's edge an object that was not seen may be gone.
_EDGE: Final = 0.01
#: Instants so near to each other are the same, whatever rounding made of them.
_SAME_TIME_S: Final = 1e-6
#: The foot's speed is taken over so many seconds before and after.
_SPEED_S: Final = 0.7
#: Places on paths that are remembered; how near one must be (fractions of the picture), how alike in size (logarithm),
#: how much of them is needed, and how much of it must cross a line, so that a label does.
_SAMPLES, _NEAR, _ALIKE, _LEAST, _MOST_OF_IT = 600, 0.025, 0.3, 0.3, 0.6
#: A place of a smaller part of the nearest one's weight says nothing.
_SAY: Final = 0.02
#: So many labels show that an object is one: a single one may be of another object that went by.
_SEVERAL: Final = 2
#: The labels of so many objects are remembered.
_NAMED: Final = 300

#: A place on an object's path: where it stood, the logarithm of its size, and how its foot moved a second.
PathSample = tuple[float, float, float, float, float]
#: By the number of an object: how many labels showed it, by their class.
Names = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class Passer:
    """A followed object at an instant; `velocity` of its foot, in fractions of the picture a second. `before`, `after`:
    where its foot was AROUND_S earlier and later; None: not known. `seen`: the object was seen before the instant
    and after it; else its place is extrapolated, and it is not known whether it was in the picture yet, or still."""

    number: int
    box: Box
    velocity: Point
    before: Point | None = None
    after: Point | None = None
    seen: bool = True

    @property
    def in_picture(self) -> bool:
        """Whether its middle is, so that a label may show it."""
        x, y = (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2
        return 0.0 < x < 1.0 and 0.0 < y < 1.0

    @property
    def may_be_gone(self) -> bool:
        """Whether its place is extrapolated and touches the picture's edge."""
        return not self.seen and (min(self.box) <= _EDGE or max(self.box) >= 1.0 - _EDGE)


@dataclass(frozen=True)
class Instant:
    """A frame's instant: the objects, those counted at lines within AROUND_S, and the lines at
    which objects were counted some seconds around it, by number."""

    utc_s: float
    passers: tuple[Passer, ...] = ()
    counted: tuple[Counted, ...] = ()
    lines: Mapping[int, frozenset[str]] | None = None


@dataclass(frozen=True)
class LabelledInstant:
    """An instant beside the labels of its frame. `followed`: the object that a label shows, by the label's index."""

    instant: Instant
    labels: Sequence[NamedBox]
    followed: Mapping[int, Passer]


def at_instant(
    seen: Sequence[tuple[float, Sequence[TrackedObject]]], counted: Sequence[Counted], utc_s: float
) -> Instant:
    """From the objects after each answer some seconds around `utc_s`, and what was counted in that time."""
    paths: dict[int, list[tuple[float, Box]]] = {}
    for _, objects in seen:
        for one in objects:
            path = paths.setdefault(one.id, [])
            if not path and one.began_box is not None and one.began_utc_s < one.seen_utc_s:
                path.append((one.began_utc_s, one.began_box))
            if not path or path[-1][0] < one.seen_utc_s:
                path.append((one.seen_utc_s, one.box))
    passers = (_with_ends(_passer(number, path, utc_s), path, utc_s) for number, path in sorted(paths.items()))
    at_lines = [c for c in counted if c.place.kind == "line"]
    lines: dict[int, frozenset[str]] = {}
    for c in at_lines:
        lines[c.object] = lines.get(c.object, frozenset()) | {c.place.name}
    now = tuple(c for c in at_lines if -AROUND_S <= c.utc_s - utc_s < AROUND_S)
    return Instant(utc_s, tuple(p for p in passers if p is not None), now, lines)


def labelled_instant(instant: Instant, labels: Sequence[NamedBox]) -> LabelledInstant:
    """Which labels show followed objects: each one at most once, the best fit first, whatever their classes."""
    passers = [p for p in instant.passers if p.in_picture]
    overlap = box_iou(np.array([p.box for p in passers]), np.array([label.box for label in labels]))
    return LabelledInstant(instant, labels, {b: passers[a] for a, b in best_pairs(overlap, _SAME)})


def recounted(
    frame: LabelledInstant, lines: Sequence[CountLine], samples: Sequence[PathSample], names: Names
) -> FrameChecks:
    """Crossings around the frame as they were counted and as its labels say, by line, direction and class. `names` are
    those of earlier frames and of this one."""
    found: dict[tuple[Place, str], list[int]] = {}
    instant, labels, followed = frame.instant, frame.labels, frame.followed
    labelled = {p.number for p in followed.values()}
    unseen = _unseen(instant.passers, labelled, labels)
    missed = _missed(instant.passers, labels, names)
    for c in instant.counted:
        if c.object in unseen:
            continue
        found.setdefault((c.place, c.class_name), [0, 0, 0])[0] += 1
        if c.object in missed:
            _same(found, c, _named(names, c.object, c.class_name))
    here = {(c.object, c.place.name): c for c in instant.counted}
    known = instant.lines or {}
    usual = np.array(samples, np.float64).reshape(-1, 5)
    for n, label in enumerate(labels):
        passer = followed.get(n)
        near = _near(label.box, usual) if passer is None else ()
        name = label.class_name if passer is None else _named(names, passer.number, label.class_name)
        for line in lines:
            if line.classes and name not in line.classes:
                continue
            if passer is not None and line.name in known.get(passer.number, frozenset()):
                mine = here.get((passer.number, line.name))
                if mine is not None:
                    _same(found, mine, name)
                continue
            direction = _usually(line, label.box, near) if passer is None else _crosses(line, label.box, passer)
            if direction is not None:
                found.setdefault((Place("line", line.name, direction), name), [0, 0, 0])[1] += 1
    return FrameChecks(instant.utc_s, {key: (row[0], row[1], row[2]) for key, row in found.items()})


def _missed(passers: Sequence[Passer], labels: Sequence[NamedBox], names: Names) -> set[int]:
    """The objects that are there though no label shows them, since several of earlier frames did. One that a label
    overlaps may be the same as another object, whose label that is."""
    known = [p for p in passers if sum(names.get(p.number, {}).values()) >= _SEVERAL]
    overlap = box_iou(np.array([p.box for p in known]), np.array([label.box for label in labels]))
    return {p.number for p, row in zip(known, overlap, strict=True) if not (row >= _SAME).any()}


def _same(found: dict[tuple[Place, str], list[int]], counted: Counted, class_name: str) -> None:
    """A counted crossing is there, of an object of that class."""
    row = found.setdefault((counted.place, class_name), [0, 0, 0])
    row[1] += 1
    row[2] += counted.class_name == class_name


def names_after(names: Names, frame: LabelledInstant) -> Names:
    """The labels that are remembered by object, with those of one more frame."""
    out = dict(names)
    for n, passer in frame.followed.items():
        votes, name = out.pop(passer.number, {}), frame.labels[n].class_name
        out[passer.number] = {**votes, name: votes.get(name, 0) + 1}
    return dict(list(out.items())[-_NAMED:])


def _named(names: Names, number: int, here: str) -> str:
    """The class that most labels of an object have; `here`, if it is one of them."""
    votes = names.get(number, {})
    best = max(sorted(votes), key=votes.__getitem__, default=here)
    return best if votes.get(best, 0) > votes.get(here, 0) else here


def samples_after(samples: Sequence[PathSample], instant: Instant) -> tuple[PathSample, ...]:
    """The places on paths that are remembered, with those of the instant's objects, where they were seen."""
    new = ((*foot_point(p.box), math.log(_size(p.box)), *p.velocity) for p in instant.passers if p.seen)
    return (*samples, *new)[-_SAMPLES:]


def _crosses(line: CountLine, box: Box, passer: Passer) -> Direction | None:
    """The direction in which a followed object that was not counted at a line crosses it within AROUND_S, by its label:
    by the places before and after where they are known, else by its speed. The speed of a foot that trembles is no
    crossing."""
    there, here = _ends(box, passer.velocity)
    return crossed(line, passer.before or there, passer.after or here)


def _usually(line: CountLine, box: Box, near: Sequence[tuple[float, Point]]) -> Direction | None:
    """The direction in which most of those that went near a label's place would cross a line from there."""
    weights: dict[Direction | None, float] = {}
    for weight, velocity in near:
        direction = crossed(line, *_ends(box, velocity))
        weights[direction] = weights.get(direction, 0.0) + weight
    most = max(weights, key=weights.__getitem__, default=None)
    return most if weights.get(most, 0.0) > _MOST_OF_IT * sum(weights.values()) else None


def _ends(box: Box, velocity: Point) -> tuple[Point, Point]:
    """Where the foot of a box was AROUND_S before and is AROUND_S after."""
    x, y = foot_point(box)
    dx, dy = (v * AROUND_S for v in velocity)
    return (x - dx, y - dy), (x + dx, y + dy)


def _passer(number: int, path: Sequence[tuple[float, Box]], utc_s: float) -> Passer | None:
    """The object at the instant; None where its place is not known. The place of an object that was found soon after
    the instant, or lost soon before it, is extrapolated."""
    if path[-1][0] < utc_s - _SAME_TIME_S:
        return _extrapolated(number, path[-3:], -1, utc_s)
    if path[0][0] > utc_s + _SAME_TIME_S:
        return _extrapolated(number, path[:3], 0, utc_s)
    at = _box_at(path, utc_s)
    if at is None:
        return None
    after, box = at
    around = path[max(0, after - 2) : after + 3]
    near = [(at_s, foot_point(b)) for at_s, b in around if abs(at_s - utc_s) <= _SPEED_S]
    if len(near) < 2:
        near = [(at_s, foot_point(b)) for at_s, b in path[max(0, after - 1) : after + 1]]
    passed = near[-1][0] - near[0][0]
    if passed <= 0:
        return Passer(number, box, (0.0, 0.0))
    vx, vy = ((b - a) / passed for a, b in zip(near[0][1], near[-1][1], strict=True))
    return Passer(number, box, (vx, vy))


def _with_ends(passer: Passer | None, path: Sequence[tuple[float, Box]], utc_s: float) -> Passer | None:
    if passer is None:
        return None
    return replace(passer, before=_foot_at(path, utc_s - AROUND_S), after=_foot_at(path, utc_s + AROUND_S))


def _foot_at(path: Sequence[tuple[float, Box]], utc_s: float) -> Point | None:
    at = _box_at(path, utc_s)
    return None if at is None else foot_point(at[1])


def _box_at(path: Sequence[tuple[float, Box]], utc_s: float) -> tuple[int, Box] | None:
    """The box at an instant, between two places of the path, and the index of the second of them. None: before the
    first place, after the last one, or between two that are more than LOOK_S apart."""
    after = bisect_left(path, utc_s - _SAME_TIME_S, key=itemgetter(0))
    if after == len(path) or path[0][0] > utc_s + _SAME_TIME_S:
        return None
    (t1, end), (t0, begin) = path[after], path[max(0, after - 1)]
    if t1 - t0 > LOOK_S:
        return None
    part = 1.0 if t1 <= t0 else min(1.0, max(0.0, (utc_s - t0) / (t1 - t0)))
    x0, y0, x1, y1 = ((1 - part) * a + part * b for a, b in zip(begin, end, strict=True))
    return after, (x0, y0, x1, y1)


def _unseen(passers: Sequence[Passer], labelled: Collection[int], labels: Sequence[NamedBox]) -> set[int]:
    """The objects that no label could show: those that came into the picture after the frame or went out before it,
    or may have and have no label, and those that a nearer one hid."""
    out = {p.number for p in passers if not p.in_picture or (p.may_be_gone and p.number not in labelled)}
    for p in passers:
        x0, y0, x1, y1 = p.box
        area = (x1 - x0) * (y1 - y0)
        for label in labels if p.number not in labelled else ():
            a0, b0, a1, b1 = label.box
            common = max(0.0, min(x1, a1) - max(x0, a0)) * max(0.0, min(y1, b1) - max(y0, b0))
            if b1 > y1 and common > _HIDDEN * area:
                out.add(p.number)
    return out


def _extrapolated(number: int, path: Sequence[tuple[float, Box]], end: int, utc_s: float) -> Passer | None:
    """The object before the first place of its path (`end` 0), or after the last one (-1); None where that is too long
    before or after, or it is not known how it went."""
    at_s, box = path[end]
    (t0, begin), (t1, last) = path[0], path[-1]
    if abs(at_s - utc_s) > AROUND_S + LOST_S or not 0.0 < t1 - t0 <= LOOK_S:
        return None
    (x0, y0), (x1, y1) = foot_point(begin), foot_point(last)
    vx, vy = (x1 - x0) / (t1 - t0), (y1 - y0) / (t1 - t0)
    dx, dy = (utc_s - at_s) * vx, (utc_s - at_s) * vy
    return Passer(number, (box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy), (vx, vy), seen=False)


def _near(box: Box, samples: np.ndarray) -> Sequence[tuple[float, Point]]:
    """How objects of a box's size went near it, each with its weight; none where too few did."""
    if not len(samples):
        return ()
    x, y = foot_point(box)
    off = ((samples[:, 0] - x) ** 2 + (samples[:, 1] - y) ** 2) / _NEAR**2
    off += (samples[:, 2] - math.log(_size(box))) ** 2 / _ALIKE**2
    weight = np.exp(-0.5 * np.minimum(off, 60.0))
    if float(weight.sum()) < _LEAST:
        return ()
    say = np.flatnonzero(weight > _SAY * weight.max())
    return [(float(weight[n]), (float(samples[n, 3]), float(samples[n, 4]))) for n in say]


def _size(box: Box) -> float:
    return math.sqrt(max(1e-4, box[2] - box[0]) * max(1e-4, box[3] - box[1]))
