"""Which objects of a labelled frame lie near a place, and which of those that are followed are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from edge.core.accuracy import box_iou
from edge.core.counts import CountCheck, CountLine, Place
from edge.core.zones import Box, Zone, foot_point

#: An object lies near a line when its foot is at most so far from it (in fractions of the picture), beside it.
NEAR: Final = 0.15
#: Two boxes show one object when they overlap by so much (intersection over union).
_SAME: Final = 0.3
#: Frames of so many seconds are one cluster: they show the same objects.
CLUSTER_S: Final = 60


@dataclass(frozen=True)
class NamedBox:
    """A box xyxy in fractions of the picture, and its class."""

    box: Box
    class_name: str


@dataclass(frozen=True)
class FrameChecks:
    """The objects in one labelled frame, of every place and class: (followed, there, same)."""

    utc_s: float
    found: Mapping[tuple[Place, str], tuple[int, int, int]]


def checked(
    followed: Sequence[NamedBox],
    labels: Sequence[NamedBox],
    lines: Sequence[CountLine],
    zones: Sequence[Zone],
    utc_s: float,
) -> FrameChecks:
    """Compare followed objects with a teacher's labels in one frame. A label of another class than the object's is
    another object: it would be counted as that class."""
    pairs = _paired(followed, labels)
    found: dict[tuple[Place, str], list[int]] = {}

    def count(place: Place, class_name: str, what: int) -> None:
        found.setdefault((place, class_name), [0, 0, 0])[what] += 1

    for what, boxes in enumerate((followed, labels)):
        for one in boxes:
            for place in places_near(one, lines, zones):
                count(place, one.class_name, what)
    for mine, theirs in pairs:
        both = set(places_near(followed[mine], lines, zones)) & set(places_near(labels[theirs], lines, zones))
        for place in both:
            count(place, labels[theirs].class_name, 2)
    return FrameChecks(utc_s, {key: (a, b, c) for key, (a, b, c) in found.items()})


def places_near(one: NamedBox, lines: Sequence[CountLine], zones: Sequence[Zone]) -> tuple[Place, ...]:
    """The places that an object lies near (see `checked_place`): lines, and the zones that it stands in."""
    foot = foot_point(one.box)
    at_lines = (x for x in lines if _counts(x, one) and _beside(x, foot))
    in_zones = (z for z in zones if _counts(z, one) and z.contains(foot))
    return (*(Place("line", x.name) for x in at_lines), *(Place("zone", z.name) for z in in_zones))


def _counts(place: CountLine | Zone, one: NamedBox) -> bool:
    return not place.classes or one.class_name in place.classes


def checked_place(place: Place) -> Place:
    """The place whose checks tell how true counts at `place` are: a line's are those of both directions, and those of
    the zone that a movement ends in are the movement's."""
    if place.kind == "movement":
        return Place("zone", place.way)
    return Place(place.kind, place.name)


def as_checks(camera: str, frames: Sequence[FrameChecks]) -> tuple[CountCheck, ...]:
    """The sums of frames, by cluster, place and class."""
    sums: dict[tuple[int, Place, str], list[int]] = {}
    for frame in frames:
        start_s = int(frame.utc_s // CLUSTER_S) * CLUSTER_S
        for (place, name), row in frame.found.items():
            into = sums.setdefault((start_s, place, name), [0, 0, 0, 0])
            for n, value in enumerate((1, *row)):
                into[n] += value
    return tuple(CountCheck(camera, start_s, place, name, *row) for (start_s, place, name), row in sorted(sums.items()))


def _beside(line: CountLine, foot: tuple[float, float]) -> bool:
    along = (line.end[0] - line.start[0], line.end[1] - line.start[1])
    away = (foot[0] - line.start[0], foot[1] - line.start[1])
    length = line.length
    where = (along[0] * away[0] + along[1] * away[1]) / length**2
    distance = abs(along[0] * away[1] - along[1] * away[0]) / length
    return 0.0 <= where <= 1.0 and distance <= NEAR


def _paired(followed: Sequence[NamedBox], labels: Sequence[NamedBox]) -> list[tuple[int, int]]:
    """Pairs of the same class that overlap, each once, the best first."""
    overlap = box_iou(np.array([f.box for f in followed]), np.array([t.box for t in labels]))
    overlaps = sorted(
        (-float(overlap[a, b]), a, b)
        for a, mine in enumerate(followed)
        for b, theirs in enumerate(labels)
        if mine.class_name == theirs.class_name and overlap[a, b] >= _SAME
    )
    used_a: set[int] = set()
    used_b: set[int] = set()
    out = []
    for _, a, b in overlaps:
        if a not in used_a and b not in used_b:
            used_a.add(a)
            used_b.add(b)
            out.append((a, b))
    return out
