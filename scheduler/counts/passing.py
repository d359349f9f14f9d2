"""Which objects cross a line, are in a zone, or go from one zone to another: a pure step from answer to answer.

An object stands at the middle of its box's lower edge. That point trembles, so an object is on a side of a line only
when it is clear of it by a part of its own size; it has crossed when it is clear on the other side, and the segment
between both places cuts the line itself, not only its extension. An object counts at a place once, however often it
comes.

Close to a camera objects are fast and often lost. One that was lost before a line has crossed when it would have, had
it gone on as it went; one that is found beyond a line has crossed when it would have, had it come as it goes. One that
is lost and found as another does both: that is one crossing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from edge.core.counts import Counted, CountLine, Direction, Place
from edge.core.tracks import TrackedObject
from edge.core.zones import Box, Point, foot_point
from scheduler.counts.movements import (
    Footprint,
    ObjectPath,
    PathMemory,
    box_size,
    footprint,
    moved,
    turned_back,
    went_on,
)

#: An object is clear of a line when its foot is so many of its sizes away from it, at least so much of the picture.
_CLEAR, _CLEAR_LEAST = 0.1, 0.004
#: One that is beyond a line by fewer of its sizes may be a box that trembles: another answer must show it there.
_SURELY: Final = 0.5
#: One that was lost or found beside a line, and goes across it by fewer of its sizes a second, is not taken to cross.
_ACROSS: Final = 0.4
#: A box that reaches so far down is cut off by the picture's lower edge: its foot is not seen.
_CUT_OFF: Final = 0.96
#: One that was not seen for so long is lost, and is taken to have gone on for so long.
LOST_S: Final = 1.0
#: An object that is lost and one that is found within so many seconds, both beside a line, may be the same.
SAME_S: Final = 3.0
#: An object that was not there for so long is forgotten: its number is never given again.
FORGET_S: Final = 120.0


@dataclass(frozen=True)
class Passing:
    """An object that may count yet: where it was clear of each line last, at which places it has counted, the zones
    that it was in first and last, when it was seen last, where, how it moved (fractions of the picture a second), and
    the places on its path. `perhaps`: lines that one answer showed it beyond, not surely; `turned`: it is the second of
    two that met."""

    clear: Mapping[str, Point]
    counted: frozenset[Place]
    first_zone: str
    last_zone: str
    class_name: str
    seen_utc_s: float
    box: Box
    velocity: Point
    footprints: tuple[Footprint, ...] = ()
    perhaps: frozenset[Place] = frozenset()
    turned: bool = False


@dataclass(frozen=True)
class Guess:
    """A crossing that was not seen: of an object that was `lost` before the line, or found beyond it."""

    place: Place
    lost: bool
    utc_s: float


@dataclass(frozen=True)
class CountingState:
    """The objects of one camera that may be counted yet, by their number, late guesses, each of which one of the
    other kind may be the same as, and their paths from zone to zone."""

    objects: Mapping[int, Passing] = field(default_factory=lambda: MappingProxyType({}))
    guesses: tuple[Guess, ...] = ()
    paths: PathMemory = field(default_factory=PathMemory, compare=False)


def step(
    state: CountingState, objects: Sequence[TrackedObject], lines: Sequence[CountLine], at_utc_s: float
) -> tuple[CountingState, tuple[Counted, ...]]:
    """Take the objects that are there after an answer. The order of objects does not matter."""
    now, paths = dict(state.objects), state.paths
    found: list[Counted] = []
    guesses = [g for g in state.guesses if at_utc_s - g.utc_s <= SAME_S]

    def guess(number: int, passing: Passing, places: Iterable[Place], lost: bool) -> None:
        for place in places:
            other = next((g for g in guesses if g.place == place and g.lost != lost), None)
            if other is not None:
                guesses.remove(other)
                continue
            guesses.append(Guess(place, lost, at_utc_s))
            found.append(Counted(place, passing.class_name, number, at_utc_s))

    for tracked in sorted(objects, key=lambda o: o.id):
        before = now.get(tracked.id)
        if before is None:
            before = _began(tracked, lines)
            came = _crossed_from(before, tracked.velocity, -LOST_S, lines)
            before = replace(before, counted=before.counted | set(came))
            guess(tracked.id, before, came, lost=False)
        now[tracked.id], counted = _passed(before, tracked, lines, at_utc_s)
        found += counted
        if now[tracked.id].footprints is not before.footprints:
            paths, now[tracked.id], movement = _turned(paths, now[tracked.id], at_utc_s)
            found += [] if movement is None else [Counted(movement, tracked.class_name, tracked.id, at_utc_s)]
    here = {tracked.id for tracked in objects}
    for number, passing in now.items():
        moves = passing.velocity != (0.0, 0.0) or passing.perhaps
        if moves and at_utc_s - passing.seen_utc_s >= LOST_S:
            # One that stands, and whose box trembled last, may be seen again where it stood.
            over = {p for p in passing.perhaps if number not in here or _goes(p, passing, lines)}
            went = {*over, *_crossed_from(passing, passing.velocity, LOST_S, lines)} - passing.counted
            now[number] = replace(
                passing, counted=passing.counted | went, velocity=(0.0, 0.0), perhaps=passing.perhaps - went
            )
            guess(number, passing, sorted(went), lost=True)
    for number, passing in sorted(state.objects.items()):
        if number in here or not passing.footprints:
            continue
        paths, movement = _gone(paths, passing, at_utc_s)
        counted_at = now[number].counted
        if movement is not None:
            found.append(Counted(movement, passing.class_name, number, at_utc_s))
            counted_at |= {movement}
        now[number] = replace(now[number], counted=counted_at, footprints=())
    kept = {n: p for n, p in now.items() if n in here or at_utc_s - p.seen_utc_s <= FORGET_S}
    return CountingState(MappingProxyType(kept), tuple(guesses), paths), tuple(found)


def crossed(line: CountLine, there: Point, here: Point, clear: float = 0.0) -> Direction | None:
    """The direction in which the segment from `there` to `here` crosses a line; None: it does not, or is not so far
    away from it at both ends."""
    before, after = (_turn(line.start, line.end, p) / line.length for p in (there, here))
    if before * after >= 0 or min(abs(before), abs(after)) < clear or not _cuts(line, there, here):
        return None
    return "forward" if after > 0 else "backward"


def goes_across(line: CountLine, there: Point, here: Point, size: float, for_s: float) -> bool:
    """Whether an object of a size that goes from `there` to `here` in so many seconds goes across a line, and not along
    it."""
    before, after = (_turn(line.start, line.end, p) / line.length for p in (there, here))
    return abs(after - before) >= _ACROSS * abs(for_s) * size


def clear_of(box: Box) -> float:
    """How far an object's foot must be away from a line to be on a side of it."""
    return max(_CLEAR_LEAST, _CLEAR * box_size(box))


def is_clear(line: CountLine, foot: Point, clear: float) -> bool:
    """Whether an object's foot is farther than `clear` away from a line, so that it is on a side of it."""
    return abs(_turn(line.start, line.end, foot)) / line.length > clear


def _began(tracked: TrackedObject, lines: Sequence[CountLine]) -> Passing:
    """A new object: it may have crossed a line before it was sure to be one."""
    began = tracked.began_box or tracked.box
    clear = {line.name: foot_point(began) for line in lines if _side(line, began) != 0}
    footprints = (footprint(began, tracked.began_utc_s),)
    return Passing(clear, frozenset(), "", "", tracked.class_name, tracked.began_utc_s, began, (0.0, 0.0), footprints)


def _passed(
    before: Passing, tracked: TrackedObject, lines: Iterable[CountLine], at_utc_s: float
) -> tuple[Passing, list[Counted]]:
    clear, counted, perhaps, found = dict(before.clear), set(before.counted), set(before.perhaps), []
    # One that was taken further already, and was not seen since, is not taken further again.
    again = tracked.seen_utc_s > before.seen_utc_s

    def count(place: Place) -> None:
        if place not in counted:
            counted.add(place)
            found.append(Counted(place, tracked.class_name, tracked.id, at_utc_s))

    for line in lines:
        if line.classes and tracked.class_name not in line.classes:
            continue
        side = _side(line, tracked.box)
        if side == 0:
            continue
        here, there = foot_point(tracked.box), clear.get(line.name)
        place = Place("line", line.name, "forward" if side > 0 else "backward")
        crosses = there is not None and _turn(line.start, line.end, there) * side < 0
        if crosses and (place in perhaps or (there is not None and _cuts(line, there, here))):
            if _away(line, tracked.box) * side < _SURELY * box_size(tracked.box) and not (again and place in perhaps):
                perhaps.add(place)
                continue
            count(place)
        clear[line.name] = here
        perhaps -= {p for p in perhaps if p.name == line.name}
    first, last = before.first_zone, before.last_zone
    for zone in tracked.zones:
        count(Place("zone", zone))
    zone = tracked.zones[-1] if tracked.zones and tracked.box[3] < _CUT_OFF else ""
    if zone:
        first, last = first or next(iter(tracked.zone_s), zone), zone
    velocity = tracked.velocity if again else before.velocity
    standing = footprint(tracked.box, tracked.seen_utc_s, zone)
    footprints = went_on(before.footprints, standing) if again else before.footprints
    if tracked.seen_utc_s < before.seen_utc_s:  # the clock was set back
        footprints = (standing,)
    passing = Passing(
        clear,
        frozenset(counted),
        first,
        last,
        tracked.class_name,
        tracked.seen_utc_s,
        tracked.box,
        velocity,
        footprints,
        frozenset(perhaps),
        before.turned,
    )
    return passing, found


def _crossed_from(passing: Passing, velocity: Point, for_s: float, lines: Iterable[CountLine]) -> tuple[Place, ...]:
    """The lines between where an object was seen and where it was, or would be, `for_s` later (earlier, below 0)."""
    dx, dy = (v * for_s for v in velocity)
    x0, y0, x1, y1 = passing.box
    box = (x0 + dx, y0 + dy, x1 + dx, y1 + dy)
    found = []
    for line in lines:
        there, side = passing.clear.get(line.name), _side(line, box)
        if there is None or side == 0 or (line.classes and passing.class_name not in line.classes):
            continue
        if not goes_across(line, foot_point(passing.box), foot_point(box), box_size(box), for_s):
            continue
        if _turn(line.start, line.end, there) * side < 0 and _cuts(line, there, foot_point(box)):
            forward = (side > 0) == (for_s > 0)
            found.append(Place("line", line.name, "forward" if forward else "backward"))
    return tuple(place for place in found if place not in passing.counted)


def _goes(place: Place, passing: Passing, lines: Iterable[CountLine]) -> bool:
    """Whether an object goes across a line in a direction, fast enough to be taken on."""
    line = next((one for one in lines if one.name == place.name), None)
    if line is None:
        return False
    x, y = passing.velocity
    dx, dy = line.end[0] - line.start[0], line.end[1] - line.start[1]
    across = (dx * y - dy * x) / line.length
    return (across if place.way == "forward" else -across) >= _ACROSS * box_size(passing.box)


def _turned(paths: PathMemory, passing: Passing, at_utc_s: float) -> tuple[PathMemory, Passing, Place | None]:
    """One that was seen in two zones, and whose path turned back, is another object from there on, once: the memory
    with the path of the one before, its movement, and the other one. One that paces, or shunts, is in one zone."""
    at = None if passing.turned else turned_back(passing.footprints)
    if at is None:
        return paths, passing, None
    before, after = passing.footprints[: at + 1], passing.footprints[at:]
    seen, later = ([p.zone for p in part if p.zone] for part in (before, after))
    if len(set(seen)) < 2:
        return paths, passing, None
    paths, movement = _ended(paths, replace(passing, last_zone=seen[-1]), before, at_utc_s)
    first, last = (later[0], later[-1]) if later else ("", "")
    return paths, replace(passing, footprints=after, first_zone=first, last_zone=last, turned=True), movement


def _gone(paths: PathMemory, passing: Passing, at_utc_s: float) -> tuple[PathMemory, Place | None]:
    """The memory with the path of an object that is gone, and its movement, once."""
    end = footprint(passing.box, passing.seen_utc_s)
    seen = passing.footprints
    return _ended(paths, passing, seen if seen[-1].utc_s == end.utc_s else (*seen, end), at_utc_s)


def _ended(
    paths: PathMemory, passing: Passing, footprints: tuple[Footprint, ...], at_utc_s: float
) -> tuple[PathMemory, Place | None]:
    """The memory with the path of an object that ended, and its movement, once."""
    if any(place.kind == "movement" for place in passing.counted):
        return paths, None
    if passing.turned and passing.first_zone == passing.last_zone:
        return paths, None
    path = ObjectPath(footprints, passing.first_zone, passing.last_zone, passing.class_name)
    after, movement = moved(paths, path, at_utc_s)
    return after, None if movement is None else movement.place


def _side(line: CountLine, box: Box) -> int:
    """1: right of the line, -1: left of it, 0: not clear of it."""
    away, clear = _away(line, box), clear_of(box)
    return 1 if away > clear else -1 if away < -clear else 0


def _away(line: CountLine, box: Box) -> float:
    """How far an object's foot is right of a line (below 0: left)."""
    return _turn(line.start, line.end, foot_point(box)) / line.length


def _turn(a: Point, b: Point, p: Point) -> float:
    """Above 0 if `p` lies to the right of one who goes from `a` to `b` on a picture, whose y grows downwards."""
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])


def _cuts(line: CountLine, there: Point, here: Point) -> bool:
    """Whether the segment between two points on different sides cuts the line between its ends."""
    return _turn(there, here, line.start) * _turn(there, here, line.end) <= 0
