"""Which objects of a labelled frame stand in a zone, and which of those that are followed are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from edge.core.accuracy import best_pairs, box_iou
from edge.core.counts import CountCheck, Place
from edge.core.zones import Box, Zone, foot_point

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
    zones: Sequence[Zone],
    utc_s: float,
) -> FrameChecks:
    """Compare followed objects with a teacher's labels in one frame. A label of another class than the object's is
    another object: it would be counted as that class. Lines: see `recount`."""
    pairs = _paired(followed, labels)
    found: dict[tuple[Place, str], list[int]] = {}

    def count(place: Place, class_name: str, what: int) -> None:
        found.setdefault((place, class_name), [0, 0, 0])[what] += 1

    for what, boxes in enumerate((followed, labels)):
        for one in boxes:
            for place in places_at(one, zones):
                count(place, one.class_name, what)
    for mine, theirs in pairs:
        both = set(places_at(followed[mine], zones)) & set(places_at(labels[theirs], zones))
        for place in both:
            count(place, labels[theirs].class_name, 2)
    return FrameChecks(utc_s, {key: (a, b, c) for key, (a, b, c) in found.items()})


def places_at(one: NamedBox, zones: Sequence[Zone]) -> tuple[Place, ...]:
    """The zones that an object stands in."""
    foot = foot_point(one.box)
    return tuple(
        Place("zone", z.name) for z in zones if (not z.classes or one.class_name in z.classes) and z.contains(foot)
    )


def checked_place(place: Place) -> Place:
    """The place whose checks tell how true counts at `place` are: its own, and for a movement those of the zone that it
    ends in."""
    return Place("zone", place.way) if place.kind == "movement" else place


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


def _paired(followed: Sequence[NamedBox], labels: Sequence[NamedBox]) -> list[tuple[int, int]]:
    """Pairs of the same class that overlap, each once, the best first."""
    overlap = box_iou(np.array([f.box for f in followed]), np.array([t.box for t in labels]))
    same = [[mine.class_name == theirs.class_name for theirs in labels] for mine in followed]
    return best_pairs(np.where(np.array(same, bool).reshape(overlap.shape), overlap, 0.0), _SAME)
