"""Which cameras of which boxes are retrained as one group, and which box trains it. Pure; every box that heard the same
comes to the same groups.

Cameras of one kind of student that look alike are a group. A box with few of them gains by the pictures of others, one
with many has enough of its own (scheduler/groups.py): the box with the most cameras of a group among those with too few
trains it, if it retrains groups. Its plan decides whether it does; the student that comes of it goes to every box's own
gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from edge.core.box_groups import BoxGroup, CameraOfBox, SharedCamera
from scheduler.groups import MOST_CAMERAS, WHOLE_GROUP, groups_of
from scheduler.siblings import NOT_ALIKE, distance

#: Cameras of a group on its trainer, with those of other boxes: more of others bring it nothing that is known.
WHOLE: Final = WHOLE_GROUP


def box_groups(cameras: Sequence[SharedCamera]) -> tuple[BoxGroup, ...]:
    """The groups of cameras of two boxes or more, in order of their trainers and cameras; no camera is in two. Of the
    cameras of other boxes those that look most like the trainer's are in the group, so that it has `WHOLE` at most."""
    counts = Counter(c.box for c in cameras)
    found = []
    for kind in sorted({c.kind for c in cameras}):
        by_name = {c.of_box.name: c for c in cameras if c.kind == kind}
        for names in groups_of({name: c.look for name, c in by_name.items()}, NOT_ALIKE, MOST_CAMERAS):
            group = _group([by_name[name] for name in names], counts)
            if group is not None:
                found.append(group)
    return tuple(sorted(found, key=lambda g: (g.trainer, g.own)))


def _group(cameras: Sequence[SharedCamera], counts: Counter[str]) -> BoxGroup | None:
    """The group of alike cameras; None: they are of one box, or no box that trains groups has too few of its own."""
    own = Counter(c.box for c in cameras)
    few = [box for box, number in own.items() if number < WHOLE and all(c.trains for c in cameras if c.box == box)]
    if len(own) < 2 or not few:
        return None
    # Of equals the one that has fewer cameras in all: it has the more time.
    trainer = min(few, key=lambda box: (-own[box], counts[box], box))
    mine = [c for c in cameras if c.box == trainer]
    guests = sorted((c for c in cameras if c.box != trainer), key=lambda c: (_apart(c, mine), c.of_box))
    return BoxGroup(trainer, tuple(sorted(c.of_box for c in mine)), tuple(guests[: WHOLE - len(mine)]))


def _apart(camera: SharedCamera, mine: Sequence[SharedCamera]) -> float:
    return float(np.mean([distance(camera.look, one.look) for one in mine]))


def with_guests(sets: Sequence[Sequence[str]], group: BoxGroup, cameras: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Sets of names that a window of the trainer may retrain as one with the guests of a group whose own cameras are
    `cameras`, in this window: these alone, and each of `sets` that holds them all and leaves room for guests."""
    guests = [g.of_box.name for g in group.guests]
    if not cameras or not guests:
        return ()
    with_room = [s for s in sets if set(cameras) <= set(s) and len(s) < WHOLE]
    return tuple(
        sorted({tuple(sorted([*s, *guests[: WHOLE - len(s)]])) for s in [tuple(cameras), *map(tuple, with_room)]})
    )


def taught_boxes(taught: Sequence[CameraOfBox], but: str = "") -> tuple[str, ...]:
    """The boxes of cameras that taught, without `but`."""
    return tuple(sorted({one.box for one in taught} - {but}))
