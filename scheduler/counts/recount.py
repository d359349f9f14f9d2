"""Crossings counted again by a teacher's labels: those near the instant of a labelled frame.

An object crosses a line at one instant. The labelled frame that is nearest to it in time shows the object on its path.
Either the object is followed and was counted, or its label goes so that it crosses the line in that time. The label of
a followed object goes between the places where the object was seen before and after; another label goes as the objects
of its size did that went near there. So in the time around labelled frames every crossing is known twice, once as it
was counted and once by labels.

A teacher misses an object in one frame and finds it in the next, and takes a class for another now and then. So the
labels of the frames before and of those just after say, too, whether a followed object is one, and which class most of
them have.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

import numpy as np

from edge.core.accuracy import best_pairs, box_iou
from edge.core.counts import Counted, CountLine, Direction, Place
from edge.core.tracks import TrackedObject
from edge.core.zones import Box, Point, foot_point
from scheduler.counts.movements import box_size
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.passing import LOST_S, clear_of, crossed, goes_across, is_clear

#: Crossings nearer in time to a labelled frame than to another one are counted again, up to so many seconds before and
#: after it: so long an object that was lost is taken to have gone on, too.
AROUND_S: Final = LOST_S
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
#: and how much of them is needed, so that they say how a label goes.
_SAMPLES, _NEAR, _ALIKE, _LEAST = 600, 0.025, 0.3, 0.3
#: A place of a smaller part of the nearest one's weight says nothing.
_SAY: Final = 0.02
#: Labels in this part of the frames that could show an object say that it is one: a label may be of another object
#: that went by.
_SHOWN: Final = 0.5
#: So many objects are remembered, with how labels showed them.
_REMEMBERED: Final = 300

#: A place on an object's path: where it stood, the logarithm of its size, and how its foot moved a second.
PathSample = tuple[float, float, float, float, float]
#: An instant, and where an object's foot was then, clear of a line.
ClearPlace = tuple[float, Point]
#: Parts of crossings that are not counted yet, by line, direction and class.
Rest = Mapping[tuple[Place, str], float]


@dataclass(frozen=True)
class ShownObject:
    """How many frames could show an object, and how many labels did, by their class."""

    frames: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_one(self) -> bool:
        """Whether labels enough say so."""
        return bool(self.classes) and sum(self.classes.values()) >= _SHOWN * self.frames

    def class_name(self, here: str) -> str:
        """The class that most labels have; `here`, if it is one of them."""
        best = max(sorted(self.classes), key=self.classes.__getitem__, default=here)
        return best if self.classes.get(best, 0) > self.classes.get(here, 0) else here


#: Objects by their number.
Shown = Mapping[int, ShownObject]


@dataclass(frozen=True)
class LabelledPath:
    """Where a followed object was clear of each line last, in adjacent frames whose labels show it: by a label, or, if
    none was clear yet, where the object was seen when a frame's own time began. `utc_s`, `ends_utc_s`: the instant of
    the last of these frames, and the end of its own time."""

    utc_s: float
    ends_utc_s: float
    clear: Mapping[str, ClearPlace] = field(default_factory=dict)


@dataclass(frozen=True)
class AdjacentFrames:
    """Objects in the labelled frames adjacent to one, by their numbers: the paths of those in the frames before it, and
    those that the next frame shows."""

    paths: Mapping[int, LabelledPath] = field(default_factory=dict)
    later: frozenset[int] = frozenset()


_NONE_ADJACENT: Final = AdjacentFrames()


@dataclass(frozen=True)
class Passer:
    """A followed object at an instant; `velocity` of its foot, in fractions of the picture a second. `before`, `after`:
    where its foot was when the frame's own time began and when it ended; None: not known. `seen`: the object was seen
    before the instant and after it; else its place is extrapolated, and it is not known whether it was in the picture
    yet, or still."""

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
    """A frame's instant: the objects, those counted at lines in its own time, and the lines at which objects were
    counted some seconds around it, by number. `own_s`: its own time, in seconds before and after it."""

    utc_s: float
    passers: tuple[Passer, ...] = ()
    counted: tuple[Counted, ...] = ()
    lines: Mapping[int, frozenset[str]] | None = None
    own_s: tuple[float, float] = (AROUND_S, AROUND_S)

    @property
    def begins_utc_s(self) -> float:
        """The begin of its own time."""
        return self.utc_s - self.own_s[0]

    @property
    def ends_utc_s(self) -> float:
        """The end of its own time."""
        return self.utc_s + self.own_s[1]


@dataclass(frozen=True)
class LabelledInstant:
    """An instant beside the labels of its frame. `followed`: the object that a label shows, by the label's index;
    `unseen`: the objects that no label could show."""

    instant: Instant
    labels: Sequence[NamedBox]
    followed: Mapping[int, Passer]
    unseen: frozenset[int]


def own_time(utc_s: float, before_utc_s: float | None, after_utc_s: float | None) -> tuple[float, float]:
    """The seconds before and after a labelled frame in which crossings are counted again: half the way to the frames
    before and after it, where there are any so near. So each crossing belongs to one frame."""
    before = AROUND_S if before_utc_s is None else min(AROUND_S, max(0.0, utc_s - before_utc_s) / 2)
    after = AROUND_S if after_utc_s is None else min(AROUND_S, max(0.0, after_utc_s - utc_s) / 2)
    return before, after


def at_instant(
    seen: Sequence[tuple[float, Sequence[TrackedObject]]],
    counted: Sequence[Counted],
    utc_s: float,
    own_s: tuple[float, float] = (AROUND_S, AROUND_S),
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
    passers = (_with_ends(_passer(number, path, utc_s), path, utc_s, own_s) for number, path in sorted(paths.items()))
    at_lines = [c for c in counted if c.place.kind == "line"]
    lines: dict[int, frozenset[str]] = {}
    for c in at_lines:
        lines[c.object] = lines.get(c.object, frozenset()) | {c.place.name}
    now = tuple(c for c in at_lines if -own_s[0] <= c.utc_s - utc_s + _SAME_TIME_S < own_s[1])
    return Instant(utc_s, tuple(p for p in passers if p is not None), now, lines, own_s)


def labelled_instant(instant: Instant, labels: Sequence[NamedBox]) -> LabelledInstant:
    """Which labels show followed objects: each one at most once, the best fit first, whatever their classes."""
    passers = [p for p in instant.passers if p.in_picture]
    overlap = box_iou(np.array([p.box for p in passers]), np.array([label.box for label in labels]))
    followed = {b: passers[a] for a, b in best_pairs(overlap, _SAME)}
    unseen = _unseen(instant.passers, {p.number for p in followed.values()}, labels)
    return LabelledInstant(instant, labels, followed, frozenset(unseen))


def recounted(
    frame: LabelledInstant,
    lines: Sequence[CountLine],
    samples: Sequence[PathSample],
    shown: Shown,
    rest: Rest,
    around: AdjacentFrames = _NONE_ADJACENT,
) -> tuple[FrameChecks, Rest]:
    """Crossings in the frame's own time as they were counted and as its labels say, by line, direction and class, and
    the parts of crossings that are left. `shown` has the labels of this frame, too. Where a label of the adjacent frame
    before shows the same object, the crossing may be anywhere between both frames."""
    found: dict[tuple[Place, str], list[int]] = {}
    instant = frame.instant
    missed = _missed(instant.passers, frame.labels, shown)
    for c in instant.counted:
        if c.object in frame.unseen:
            continue
        found.setdefault((c.place, c.class_name), [0, 0, 0])[0] += 1
        if c.object in missed:
            _same(found, c, shown[c.object].class_name(c.class_name))
    for n, passer in frame.followed.items():
        name = frame.labels[n].class_name
        name = shown.get(passer.number, ShownObject()).class_name(name)
        _followed_crosses(found, frame, n, lines, name, around)
    left = dict(rest)
    usual = np.array(samples, np.float64).reshape(-1, 5)
    for n, label in enumerate(frame.labels):
        near = () if n in frame.followed else _near(label.box, usual)
        for line in lines if near else ():
            if line.classes and label.class_name not in line.classes:
                continue
            for place, part in _usually(line, label.box, near, instant.own_s).items():
                key = place, label.class_name
                left[key] = left.get(key, 0.0) + part
                if left[key] >= 0.5:
                    left[key] -= 1.0
                    found.setdefault(key, [0, 0, 0])[1] += 1
    return FrameChecks(instant.utc_s, {key: (row[0], row[1], row[2]) for key, row in found.items()}), left


def _followed_crosses(
    found: dict[tuple[Place, str], list[int]],
    frame: LabelledInstant,
    n: int,
    lines: Sequence[CountLine],
    name: str,
    around: AdjacentFrames,
) -> None:
    """Add the crossings of a followed object that a label shows: as they were counted, where they were, else as it
    goes."""
    instant, passer = frame.instant, frame.followed[n]
    counted_at = (instant.lines or {}).get(passer.number, frozenset())
    here = [c for c in instant.counted if c.object == passer.number]
    for line in lines:
        if line.classes and name not in line.classes:
            continue
        if line.name in counted_at:
            for counted in here:
                if counted.place.name == line.name:
                    _same(found, counted, name)
            continue
        direction = _crosses(line, frame.labels[n].box, *_with_adjacent(frame, n, line, around))
        if direction is not None:
            found.setdefault((Place("line", line.name, direction), name), [0, 0, 0])[1] += 1


def _with_adjacent(
    frame: LabelledInstant, n: int, line: CountLine, around: AdjacentFrames
) -> tuple[Passer, tuple[float, float]]:
    """The followed object that a label shows, with its places before and after as adjacent frames say, and the seconds
    from the one to its label and on to the other."""
    passer, instant = frame.followed[n], frame.instant
    foot, clear = foot_point(frame.labels[n].box), clear_of(frame.labels[n].box)
    path, (before_s, after_s), beyond = around.paths.get(passer.number), instant.own_s, False
    known = None if path is None else path.clear.get(line.name)
    if known is not None:
        before_s, passer = instant.utc_s - known[0], replace(passer, before=known[1])
        # Clear places on either side of the line say enough, however slow it is.
        beyond = passer.after is None and crossed(line, known[1], foot, clear) is not None
    if beyond or passer.number in around.later:  # the next frame goes on from this one's label
        after_s, passer = 0.0, replace(passer, after=foot)
    return passer, (before_s, after_s)


def _missed(passers: Sequence[Passer], labels: Sequence[NamedBox], shown: Shown) -> set[int]:
    """The objects that are there though no label shows them, since those of other frames did. One that a label
    overlaps may be the same as another object, whose label that is."""
    known = [p for p in passers if shown.get(p.number, ShownObject()).is_one]
    overlap = box_iou(np.array([p.box for p in known]), np.array([label.box for label in labels]))
    return {p.number for p, row in zip(known, overlap, strict=True) if not (row >= _SAME).any()}


def _same(found: dict[tuple[Place, str], list[int]], counted: Counted, class_name: str) -> None:
    """A counted crossing is there, of an object of that class."""
    row = found.setdefault((counted.place, class_name), [0, 0, 0])
    row[1] += 1
    row[2] += counted.class_name == class_name


def shown_after(shown: Shown, frame: LabelledInstant) -> Shown:
    """The objects that labels showed, or could have, with one more frame."""
    out = dict(shown)
    name_of = {passer.number: frame.labels[n].class_name for n, passer in frame.followed.items()}
    for p in frame.instant.passers:
        if p.number not in name_of and (p.number in frame.unseen or not p.seen):
            continue
        known, name = out.pop(p.number, ShownObject()), name_of.get(p.number)
        classes = known.classes if name is None else {**known.classes, name: known.classes.get(name, 0) + 1}
        out[p.number] = ShownObject(known.frames + 1, classes)
    return dict(list(out.items())[-_REMEMBERED:])


def paths_after(
    paths: Mapping[int, LabelledPath], frame: LabelledInstant, lines: Sequence[CountLine]
) -> dict[int, LabelledPath]:
    """The paths of the objects that a frame's labels show, with these labels. `paths`: those of adjacent frames before
    it."""
    out, instant = {}, frame.instant
    for n, passer in frame.followed.items():
        box, known = frame.labels[n].box, paths.get(passer.number)
        clear = {} if known is None else dict(known.clear)
        counted_at = (instant.lines or {}).get(passer.number, frozenset())
        for line in lines:
            if is_clear(line, foot_point(box), clear_of(box)):
                clear[line.name] = instant.utc_s, foot_point(box)
            elif line.name in counted_at:  # labels of later frames must not show the same crossing again
                clear.pop(line.name, None)
            elif line.name not in clear and passer.before is not None and is_clear(line, passer.before, clear_of(box)):
                # On the line in this frame: the next one says whether it crossed it.
                clear[line.name] = instant.begins_utc_s, passer.before
        out[passer.number] = LabelledPath(instant.utc_s, instant.ends_utc_s, clear)
    return out


def adjacent(before: Instant | LabelledPath, after: Instant) -> bool:
    """Whether the own times of two labelled frames touch. Otherwise a time between both is that of a sampled frame
    without labels, or of no frame: its crossings are not counted again."""
    return before.utc_s <= after.utc_s and after.begins_utc_s <= before.ends_utc_s + _SAME_TIME_S


def samples_after(samples: Sequence[PathSample], instant: Instant) -> tuple[PathSample, ...]:
    """The places on paths that are remembered, with those of the instant's objects, where they were seen."""
    new = ((*foot_point(p.box), _log_size(p.box), *p.velocity) for p in instant.passers if p.seen)
    return (*samples, *new)[-_SAMPLES:]


def _crosses(line: CountLine, box: Box, passer: Passer, own_s: tuple[float, float]) -> Direction | None:
    """The direction in which a followed object that was not counted at a line crosses it from `own_s` before its label
    to `own_s` after it: by the places then where they are known, clear of the line, else by its label and its speed,
    if it does not go along the line. A foot that trembles is no crossing."""
    if passer.before is not None and passer.after is not None:
        return crossed(line, passer.before, passer.after, clear_of(box))
    there, here = _ends(box, passer.velocity, own_s)
    there, here = passer.before or there, passer.after or here
    return crossed(line, there, here) if goes_across(line, there, here, box_size(box), sum(own_s)) else None


def _usually(
    line: CountLine, box: Box, near: Sequence[tuple[float, Point]], own_s: tuple[float, float]
) -> dict[Place, float]:
    """Which part of those that went near a label's place would cross a line from there, by direction. A majority would
    say too little: where four of ten cross, it says none."""
    parts: dict[Place, float] = {}
    whole = sum(weight for weight, _ in near)
    for weight, velocity in near:
        direction = crossed(line, *_ends(box, velocity, own_s))
        if direction is not None:
            place = Place("line", line.name, direction)
            parts[place] = parts.get(place, 0.0) + weight / whole
    return parts


def _ends(box: Box, velocity: Point, own_s: tuple[float, float]) -> tuple[Point, Point]:
    """Where the foot of a box was when the frame's own time began, and where it is when that ends."""
    (x, y), (vx, vy), (before, after) = foot_point(box), velocity, own_s
    return (x - before * vx, y - before * vy), (x + after * vx, y + after * vy)


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


def _with_ends(
    passer: Passer | None, path: Sequence[tuple[float, Box]], utc_s: float, own_s: tuple[float, float]
) -> Passer | None:
    if passer is None:
        return None
    return replace(passer, before=_foot_at(path, utc_s - own_s[0]), after=_foot_at(path, utc_s + own_s[1]))


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
    off += (samples[:, 2] - _log_size(box)) ** 2 / _ALIKE**2
    weight = np.exp(-0.5 * np.minimum(off, 60.0))
    if float(weight.sum()) < _LEAST:
        return ()
    say = np.flatnonzero(weight > _SAY * weight.max())
    return [(float(weight[n]), (float(samples[n, 3]), float(samples[n, 4]))) for n in say]


def _log_size(box: Box) -> float:
    return math.log(max(1e-4, box_size(box)))
