"""From which zone to which an object went, also where it was found late or lost early: by those that went as it did.

An object that moves came from somewhere and goes on somewhere. Where it was seen first, others went by whose first
zone is known, and where it was seen last, others whose last zone is known: those that were near, of its size, and went
as it did say it by majority. Only objects that were seen in two zones say anything. One that stood where it was found
or lost neither came nor went. An object that is lost and one that is found ahead of it soon after, which come to the
same movement, are one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edge.core.counts import Place
from edge.core.zones import Box, Point, foot_point

#: Places of an object's path are so many of its sizes apart, and at most so many.
_APART, _LONGEST = 0.3, 64
#: A direction is taken over so many seconds at least; a path of fewer sizes a second there has none.
_DIRECTION_S, _MOVES = 0.3, 0.2
#: Places of others count by how near they are (in sizes of the object, and of the picture), how alike in size
#: (logarithm), and how alike they go (between two directions, as vectors of length one).
_NEAR, _NEAR_LEAST, _ALIKE, _TURNED = 0.5, 0.01, 0.4, 0.45
#: Others of so much weight say it, if so much of it is for one zone. So many places are remembered.
_LEAST, _MOST_OF_IT, _KEPT = 1.0, 0.6, 4000
#: One that is found within so many seconds after another was lost, as far ahead of it as it may have gone (in sizes,
#: and times its speed), may be that one.
_SAME_S, _REACH, _FASTER = 4.0, 2.0, 3.0
#: The latest movements are remembered, to be taken together with others: at most so many, for so long. The rest of
#: one is compared when it is gone, too, and may have stood at a light until then.
_RECENT, _REMEMBERED_S = 200, 900.0

#: A path turns back at speed where it goes so many sizes there, and as many back, each within so many seconds, and so
#: much against it (the cosine between both directions).
_BACK, _BACK_S, _TURNED_BACK = 1.0, 5.0, 0.7

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Footprint:
    """Where an object stood, the root of its box's area, and the zone that it was in (empty: none)."""

    utc_s: float
    foot: Point
    size: float
    zone: str = ""


@dataclass(frozen=True)
class ObjectPath:
    """The path of an object that is gone, from where it was seen first to where it was seen last, and the zones that it
    was seen in first and last (empty: none)."""

    footprints: tuple[Footprint, ...]
    first_zone: str
    last_zone: str
    class_name: str


@dataclass(frozen=True)
class Movement:
    """A path from one zone to another. `came`: its first zone is not the one it was seen in, since it was found
    late; `went`: nor the last one, since it was lost early."""

    place: Place
    path: ObjectPath
    came: bool = False
    went: bool = False


def _none() -> Rows:
    return np.empty((0, 8))


@dataclass(frozen=True, eq=False)
class PathMemory:
    """The paths of one camera's objects that are remembered: `rows` of places on them (x, y, the logarithm of the size,
    the direction's x and y, the object, its first and its last zone), the oldest first; `zones` are numbered in the
    order in which they came; `seen`: classes that were seen in a zone; `recent` movements."""

    rows: Rows = field(default_factory=_none)
    zones: tuple[str, ...] = ()
    seen: frozenset[tuple[str, str]] = frozenset()
    recent: tuple[Movement, ...] = ()
    number: int = 0


def footprint(box: Box, utc_s: float, zone: str = "") -> Footprint:
    """Where the object of a box stands."""
    return Footprint(utc_s, foot_point(box), max(1e-3, box_size(box)), zone)


def box_size(box: Box) -> float:
    """The root of a box's area."""
    return math.sqrt(max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]))


def went_on(footprints: tuple[Footprint, ...], here: Footprint) -> tuple[Footprint, ...]:
    """A path with one place more, if it is away from the last one. Of a long one every second place is forgotten."""
    if footprints and math.dist(footprints[-1].foot, here.foot) < _APART * here.size:
        return footprints
    return (*(footprints if len(footprints) < _LONGEST else footprints[::2]), here)


def turned_back(footprints: Sequence[Footprint]) -> int | None:
    """The place on a path where it turns back at speed, and has gone back from; None: it does not. Nothing on a street
    does so: two that met there were taken for one."""
    end, found, farthest = footprints[-1], None, 0.0
    for n in range(len(footprints) - 2, 0, -1):
        turn = footprints[n]
        if end.utc_s - turn.utc_s > _BACK_S:
            break
        after = end.foot[0] - turn.foot[0], end.foot[1] - turn.foot[1]
        far = _BACK * turn.size
        begin = next((p for p in reversed(footprints[:n]) if math.dist(p.foot, turn.foot) >= far), None)
        if math.hypot(*after) < far or begin is None or turn.utc_s - begin.utc_s > _BACK_S:
            continue
        before = turn.foot[0] - begin.foot[0], turn.foot[1] - begin.foot[1]
        cosine = (before[0] * after[0] + before[1] * after[1]) / (math.hypot(*before) * math.hypot(*after))
        if cosine < -_TURNED_BACK and math.hypot(*after) > farthest:
            found, farthest = n, math.hypot(*after)
    return found


def moved(memory: PathMemory, path: ObjectPath, at_utc_s: float) -> tuple[PathMemory, Movement | None]:
    """Take the path of an object that is gone: the memory with it, and its movement; None where it made none,
    or is the rest of one that made it."""
    found = _movement(memory, path)
    recent = [m for m in memory.recent if 0.0 <= at_utc_s - m.path.footprints[-1].utc_s <= _REMEMBERED_S]
    recent = recent[-_RECENT:]
    after = replace(_learned(memory, path), recent=tuple(recent))
    if found is None:
        return after, None
    other = next((m for m in recent if _one(m, found) or _one(found, m)), None)
    if other is None:
        return replace(after, recent=(*recent, found)), found
    recent.remove(other)
    return replace(after, recent=(*recent, _together(other, found))), None


def _movement(memory: PathMemory, path: ObjectPath) -> Movement | None:
    """From where to where it went, by itself and by others."""
    first, last = path.first_zone, path.last_zone
    came = _said(memory, path, 0, 6) or first
    went = _said(memory, path, len(path.footprints) - 1, 7) or last
    if came == went and first and last:
        came, went = first, last  # others know less than what was seen
    if not came or not went or came == went:
        return None
    return Movement(Place("movement", came, went), path, came != first, went != last)


def _said(memory: PathMemory, path: ObjectPath, at: int, column: int) -> str:
    """The zone that most of those say that went as it did at a place of its path; empty: they do not say."""
    here, (dx, dy) = path.footprints[at], _direction(path.footprints, at)
    rows = memory.rows
    if (dx, dy) == (0.0, 0.0) or not len(rows):
        return ""
    off = ((rows[:, 0] - here.foot[0]) ** 2 + (rows[:, 1] - here.foot[1]) ** 2) / (_NEAR * here.size + _NEAR_LEAST) ** 2
    off += (rows[:, 2] - math.log(here.size)) ** 2 / _ALIKE**2
    off += ((rows[:, 3] - dx) ** 2 + (rows[:, 4] - dy) ** 2) / _TURNED**2
    weight = np.exp(-0.5 * np.minimum(off, 60.0))
    # Each of the others says it once, however many of its places are near.
    of_object: dict[tuple[float, float], float] = {}
    for n in np.flatnonzero(weight > 0.02).tolist():
        key = float(rows[n, 5]), float(rows[n, column])
        of_object[key] = max(of_object.get(key, 0.0), float(weight[n]))
    of_zone = [0.0] * len(memory.zones)
    for (_, zone), value in of_object.items():
        of_zone[int(zone)] += value
    best = max(range(len(of_zone)), key=of_zone.__getitem__)
    name = memory.zones[best]
    sure = sum(of_zone) >= _LEAST and of_zone[best] >= _MOST_OF_IT * sum(of_zone)
    return name if sure and (name, path.class_name) in memory.seen else ""


def _learned(memory: PathMemory, path: ObjectPath) -> PathMemory:
    """With the path of an object that was seen in two zones."""
    first, last = path.first_zone, path.last_zone
    seen = memory.seen | {(zone, path.class_name) for zone in (first, last) if zone}
    if first == last or not (first and last):
        return memory if seen == memory.seen else replace(memory, seen=seen)
    names = (*memory.zones, *(zone for zone in (first, last) if zone not in memory.zones))
    of = float(memory.number), float(names.index(first)), float(names.index(last))
    new = [
        (*one.foot, math.log(one.size), dx, dy, *of)
        for n, one in enumerate(path.footprints)
        for dx, dy in (_direction(path.footprints, n),)
        if (dx, dy) != (0.0, 0.0)
    ]
    rows = np.concatenate([memory.rows, np.array(new).reshape(-1, 8)])[-_KEPT:]
    return replace(memory, rows=rows, zones=names, seen=seen, number=memory.number + 1)


def _velocity(footprints: Sequence[Footprint], at: int) -> Point:
    """How its foot moved a second at a place of its path."""
    a, b = max(0, at - 1), min(len(footprints) - 1, at + 1)
    while footprints[b].utc_s - footprints[a].utc_s < _DIRECTION_S and (a > 0 or b < len(footprints) - 1):
        a, b = max(0, a - 1), min(len(footprints) - 1, b + 1)
    passed_s = footprints[b].utc_s - footprints[a].utc_s
    if passed_s <= 0:
        return 0.0, 0.0
    (x0, y0), (x1, y1) = footprints[a].foot, footprints[b].foot
    return (x1 - x0) / passed_s, (y1 - y0) / passed_s


def _direction(footprints: Sequence[Footprint], at: int) -> Point:
    """Where it went at a place of its path, as a vector of length one; (0, 0): nowhere."""
    dx, dy = _velocity(footprints, at)
    speed = math.hypot(dx, dy)
    return (dx / speed, dy / speed) if speed >= _MOVES * footprints[at].size else (0.0, 0.0)


def _one(lost: Movement, found: Movement) -> bool:
    """Whether `found` may be the rest of `lost`: of the same movement, soon after it, and ahead of where it was."""
    if not (lost.went and found.came and lost.place == found.place):
        return False
    end, begin = lost.path.footprints[-1], found.path.footprints[0]
    gap_s = begin.utc_s - end.utc_s
    dx, dy = _velocity(lost.path.footprints, len(lost.path.footprints) - 1)
    x, y = begin.foot[0] - end.foot[0], begin.foot[1] - end.foot[1]
    reach = _REACH * max(end.size, begin.size) + _FASTER * math.hypot(dx, dy) * max(0.0, gap_s)
    ahead = x * dx + y * dy >= 0.0 or math.hypot(x, y) <= 0.5 * end.size
    return -0.5 <= gap_s <= _SAME_S and ahead and math.hypot(x, y) <= reach


def _together(a: Movement, b: Movement) -> Movement:
    """Two that are one, from where the earlier one began to where the later one was lost."""
    lost, found = (a, b) if a.path.footprints[-1].utc_s <= b.path.footprints[-1].utc_s else (b, a)
    footprints = (*lost.path.footprints, *found.path.footprints)
    return Movement(found.place, replace(found.path, footprints=footprints), lost.came, found.went)
