"""One object as it is followed: a frozen value, and its next value with the next box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edge.core.tracks import Seen, TrackedObject, TrackerLimits
from edge.core.zones import Box, Zone, zones_at
from edge.tracking import boxes as bx
from edge.tracking import motion as mo

#: A box that overlaps the one it began with by so much has not moved.
_STILL_OVERLAP = 0.65
#: How much of earlier votes is kept. Another class must lead by so much.
_KEEP_VOTES, _CLASS_LEAD = 0.9, 1.3
#: How much of a box's sides and look is taken over at once.
_NEW_SIDES, _NEW_LOOK = 0.6, 0.3
#: One that stands is expected as one of which so many seconds nothing was seen, however long it was.
_STANDS_S = 0.4
#: A box that shows less of an object than those before it makes its extent smaller only by and by: within so many
#: seconds, or a way of so many sizes, since one that moves away or turns becomes smaller itself.
_EXTENT_S, _EXTENT_WAY = 5.0, 1.0
#: Where it was seen last: so many times at least, more of them within so many seconds, and so many at most.
_TRAIL, _TRAIL_S, _LONGEST_TRAIL = 4, 0.5, 16

Votes = dict[str, float]


@dataclass(frozen=True)
class Stay:
    """In a zone: since when, until when it was seen inside, and since when outside (None: it is inside)."""

    entered_s: float
    inside_s: float
    outside_s: float | None = None
    left: bool = False


@dataclass(frozen=True)
class ScoredBox:
    """One box of an answer with the scores of the names given to it; `look` empty where none was sent; `cut` off by
    the picture's edge."""

    box: Box
    votes: Votes
    look: tuple[float, ...]
    sure: bool
    cut: bool

    @property
    def score(self) -> float:
        return max(self.votes.values())

    @property
    def centre(self) -> mo.Point:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def sides(self) -> tuple[float, float]:
        return self.box[2] - self.box[0], self.box[3] - self.box[1]

    @property
    def size(self) -> float:
        """Root of its area."""
        width, height = self.sides
        return math.sqrt(width * height)

    @property
    def variance(self) -> float:
        """Of its centre."""
        return mo.measured(self.size, self.cut)


@dataclass(frozen=True)
class Ahead:
    """Where an object is expected at `at_s` by how others went from where it was, and how much larger it is by then
    (logarithm)."""

    at_s: float
    motion: mo.Motion
    growth: float


@dataclass(frozen=True)
class SeenAt:
    """Where an object was seen, and how large."""

    at_s: float
    centre: mo.Point
    size: float


@dataclass(frozen=True)
class Course:
    """Where an object was seen last, a few times, and where it is expected where the flow says it; `extent`: the
    picture's part that its boxes filled lately, as of the last of them."""

    trail: tuple[SeenAt, ...] = ()
    ahead: Ahead | None = None
    extent: Box = (0.0, 0.0, 0.0, 0.0)

    def at(self, at_s: float) -> Ahead | None:
        """Where it is expected at `at_s`, where the flow says it."""
        return self.ahead if self.ahead is not None and self.ahead.at_s == at_s else None


@dataclass(frozen=True)
class Anchor:
    """The box that an object has not left since `since_s`."""

    box: Box
    since_s: float


@dataclass(frozen=True)
class Track:
    """A possible object; `object` is its number once it was announced. `box` was seen last;
    `sides` are smoothed; `anchor` is where it stands."""

    began_s: float
    began_utc_s: float
    began_box: Box
    seen_s: float
    seen_utc_s: float
    box: Box
    votes: tuple[tuple[str, float], ...]
    class_name: str
    score: float
    evidence: float
    motion: mo.Motion
    sides: tuple[float, float]
    look: tuple[float, ...]
    anchor: Anchor
    answers: int = 1
    missed: int = 0
    stays: tuple[tuple[str, Stay], ...] = ()
    object: int | None = None
    still: bool = False
    course: Course = Course()

    @property
    def size(self) -> float:
        """Root of its area."""
        return math.sqrt(self.sides[0] * self.sides[1])

    @property
    def began_at(self) -> mo.Point:
        """The middle of the box that it began with."""
        x0, y0, x1, y1 = self.began_box
        return (x0 + x1) / 2, (y0 + y1) / 2

    @property
    def stood_s(self) -> float:
        """How long it has been where it is."""
        return self.seen_s - self.anchor.since_s

    def expected(self, at_s: float) -> mo.Motion:
        """Where it is at `at_s`; one that stands does not go on."""
        passed = at_s - self.seen_s
        ahead = self.course.at(at_s)
        if ahead is not None:
            return ahead.motion
        if self.still:
            return self.motion.stopped.after(min(passed, _STANDS_S), self.size)
        return self.motion.after(passed, self.size)

    def predicted(self, at_s: float) -> Box:
        """Its box at `at_s`."""
        return self.around(self.expected(at_s).centre, at_s)

    def around(self, centre: mo.Point, at_s: float) -> Box:
        """Its box if its middle is there at `at_s`."""
        ahead = self.course.at(at_s)
        larger = 1.0 if ahead is None else math.exp(ahead.growth)
        (x, y), w, h = centre, larger * self.sides[0], larger * self.sides[1]
        return x - w / 2, y - h / 2, x + w / 2, y + h / 2

    def extent(self, at_s: float) -> Box:
        """The part of the picture that it fills at `at_s`, also where the last boxes showed a part of it."""
        # The middle of a box that shows the whole and a part in turn goes to and fro: only a sure way is one.
        dx, dy = ((at_s - self.seen_s) * speed for speed in self.motion.sure_velocity)
        x0, y0, x1, y1 = self.course.extent
        return x0 + dx, y0 + dy, x1 + dx, y1 + dy

    def zones(self) -> tuple[str, ...]:
        """Those it is in; the one that it was seen in last is the last."""
        there = [(stay.inside_s, stay.entered_s, zone) for zone, stay in self.stays if not stay.left]
        return tuple(zone for _, _, zone in sorted(there))

    def to_object(self, camera: str) -> TrackedObject:
        """As others see it."""
        return TrackedObject(
            id=self.object or 0,
            camera=camera,
            class_name=self.class_name,
            score=self.score,
            box=self.box,
            began_utc_s=self.began_utc_s,
            seen_utc_s=self.seen_utc_s,
            age_s=self.seen_s - self.began_s,
            answers=self.answers,
            zones=self.zones(),
            zone_s={zone: stay.inside_s - stay.entered_s for zone, stay in self.stays},
            still=self.still,
            began_box=self.began_box,
            velocity=(0.0, 0.0) if self.still else self.motion.velocity,
        )


def first_seen(answer: ScoredBox, seen: Seen, zones: Sequence[Zone]) -> Track:
    """A possible new object."""
    ranked = _ranked(answer.votes)
    name = ranked[0][0]
    return Track(
        began_s=seen.at_s,
        began_utc_s=seen.utc_s,
        began_box=answer.box,
        seen_s=seen.at_s,
        seen_utc_s=seen.utc_s,
        box=answer.box,
        votes=ranked,
        class_name=name,
        score=answer.score,
        evidence=answer.score,
        motion=mo.first(answer.centre, answer.size),
        sides=answer.sides,
        look=answer.look,
        anchor=Anchor(answer.box, seen.at_s),
        stays=_stays((), zones_at(zones, answer.box, name), seen.at_s, 0.0),
        course=Course((SeenAt(seen.at_s, answer.centre, answer.size),), extent=answer.box),
    )


def seen_again(
    pairs: Sequence[tuple[Track, ScoredBox]], seen: Seen, zones: Sequence[Zone], limits: TrackerLimits
) -> list[Track]:
    """The tracks after the boxes that are their own."""
    if not pairs:
        return []
    overlaps = bx.iou_each(np.array([t.anchor.box for t, _ in pairs]), np.array([a.box for _, a in pairs]))
    stand = (overlaps >= _STILL_OVERLAP).tolist()
    return [_after_box(*pair, stands, seen, zones, limits) for pair, stands in zip(pairs, stand, strict=True)]


def _after_box(
    track: Track, answer: ScoredBox, stands: bool, seen: Seen, zones: Sequence[Zone], limits: TrackerLimits
) -> Track:
    """The track after one box. `stands`: the box lies where the track has stood."""
    motion = track.expected(seen.at_s)
    there = track.around(motion.centre, seen.at_s)
    before = there[2] - there[0], there[3] - there[1]
    sides = [old ** (1 - _NEW_SIDES) * new**_NEW_SIDES for old, new in zip(before, answer.sides, strict=True)]
    counted = {name: _KEEP_VOTES * weight for name, weight in track.votes}
    for name, score in answer.votes.items():
        counted[name] = counted.get(name, 0.0) + score
    ranked = _ranked(counted)
    name = leading(ranked, track.class_name)
    anchor = track.anchor if stands else Anchor(answer.box, seen.at_s)
    return replace(
        track,
        seen_s=seen.at_s,
        seen_utc_s=seen.utc_s,
        box=answer.box,
        votes=ranked,
        class_name=name,
        score=max(track.score, answer.score),
        answers=track.answers + 1,
        missed=0,
        evidence=track.evidence + answer.score,
        motion=motion.seen(answer.centre, answer.variance),
        sides=(sides[0], sides[1]),
        look=_mixed(track.look, answer.look),
        anchor=anchor,
        still=seen.at_s - anchor.since_s >= limits.still_after_s,
        stays=_stays(track.stays, zones_at(zones, answer.box, name), seen.at_s, limits.leave_zone_after_s),
        course=Course(
            _recent((*track.course.trail, SeenAt(seen.at_s, answer.centre, answer.size))),
            extent=_extent(track, answer.box, seen.at_s),
        ),
    )


def _extent(track: Track, box: Box, at_s: float) -> Box:
    """All of `box`, and less and less of what the track filled before."""
    passed = at_s - track.seen_s
    way = passed * math.hypot(*track.motion.sure_velocity) / track.size
    kept = math.exp(-passed / _EXTENT_S - way / _EXTENT_WAY)
    x0, y0, x1, y1 = (new + kept * (old - new) for old, new in zip(track.extent(at_s), box, strict=True))
    return min(x0, box[0]), min(y0, box[1]), max(x1, box[2]), max(y1, box[3])


def _recent(trail: tuple[SeenAt, ...]) -> tuple[SeenAt, ...]:
    """Without the oldest: a way is seen over a time, however many answers came in it."""
    now_s, first = trail[-1].at_s, max(0, len(trail) - _LONGEST_TRAIL)
    while len(trail) - first > _TRAIL and now_s - trail[first + 1].at_s >= _TRAIL_S:
        first += 1
    return trail[first:]


def joined(lost: Track, found: Track) -> Track:
    """`found` as the object that `lost` was."""
    votes = dict(lost.votes)
    for name, weight in found.votes:
        votes[name] = votes.get(name, 0.0) + weight
    ranked = _ranked(votes)
    stays = dict(lost.stays)
    for zone, stay in found.stays:
        before = stays.get(zone)
        stays[zone] = stay if before is None or before.left else replace(stay, entered_s=before.entered_s)
    return replace(
        found,
        object=lost.object,
        began_s=lost.began_s,
        began_utc_s=lost.began_utc_s,
        began_box=lost.began_box,
        votes=ranked,
        class_name=leading(ranked, lost.class_name),
        score=max(lost.score, found.score),
        answers=lost.answers + found.answers,
        stays=tuple(stays.items()),
    )


def leading(ranked: Sequence[tuple[str, float]], now: str) -> str:
    """The class after votes; another one must lead clearly."""
    best, weight = ranked[0]
    return best if weight > _CLASS_LEAD * dict(ranked).get(now, 0.0) else now


def _ranked(votes: Votes) -> tuple[tuple[str, float], ...]:
    """The order of names says nothing; the first of equals is always the same one."""
    return tuple(sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:8])


def _mixed(old: tuple[float, ...], new: tuple[float, ...]) -> tuple[float, ...]:
    if len(old) != len(new):
        return new or old
    return tuple((1 - _NEW_LOOK) * a + _NEW_LOOK * b for a, b in zip(old, new, strict=True))


def _stays(
    before: tuple[tuple[str, Stay], ...], inside: Sequence[str], at_s: float, leave_after_s: float
) -> tuple[tuple[str, Stay], ...]:
    """A zone is left when the object was seen outside for a while; one that is not seen at all has not left."""
    stays = dict(before)
    for zone, stay in before:
        if zone in inside:
            stays[zone] = Stay(at_s, at_s) if stay.left else Stay(stay.entered_s, at_s)
        elif not stay.left:
            outside = at_s if stay.outside_s is None else stay.outside_s
            stays[zone] = replace(stay, outside_s=outside, left=at_s - outside >= leave_after_s)
    for zone in inside:
        if zone not in stays:
            stays[zone] = Stay(at_s, at_s)
    return tuple(stays.items())


def apart(a: Sequence[tuple[float, ...]], b: Sequence[tuple[float, ...]]) -> NDArray[np.float64]:
    """(len(a), len(b)) mean squared difference of two looks; not a number where one of them is not known."""
    length = max((len(look) for look in (*a, *b)), default=0)
    if not length:
        return np.full((len(a), len(b)), math.nan)
    one, other = (
        np.array([look if len(look) == length else (math.nan,) * length for look in looks], np.float64).reshape(
            -1, length
        )
        for looks in (a, b)
    )
    return np.asarray(((one[:, None] - other[None]) ** 2).mean(2))
