"""Features of a candidate among all candidates of its window, for the predictions.

A fixed camera shows the same road in every picture. So the other pictures tell how large an object is at a place, where
objects are found often and surely, and which boxes stand still. No answer is in these features.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import box_iou
from edge.core.truth import AskableFrame, Candidate, FrameKey

Floats = NDArray[np.float64]

#: Centres (x, bottom) of the places, and how far one reaches.
_PLACES = np.array([(x, y) for x in (0.15, 0.5, 0.85) for y in (0.2, 0.4, 0.6, 0.85)])
_REACH = 0.15
#: The columns that `features` gives: those of the box itself, those among the window's boxes, and the places.
OWN, AMONG, PLACES = 12, 6, len(_PLACES)
FEATURES = OWN + AMONG + PLACES
#: A box of another picture with that much in common stands at the same place.
_STANDS = 0.7
#: No box is taken for smaller than that side when its neighbours are counted.
_LEAST_SIDE = 0.03
#: The teacher's mean score around a box goes towards the first, as if so many boxes with it were there.
_USUAL_SCORE, _WORTH = 0.5, 1.0
#: Log areas that are off by more are taken less into account (a Cauchy weight), in so many rounds.
_OFF, _ROUNDS = 0.7, 3


def features(frames: Sequence[AskableFrame], of: Collection[FrameKey] | None = None) -> Mapping[FrameKey, Floats]:
    """(N, FEATURES) of each frame's candidates, or only those `of` some; frames of one window describe each other."""
    windows: dict[int, list[AskableFrame]] = {}
    for frame in frames:
        windows.setdefault(frame.key.window, []).append(frame)
    out: dict[FrameKey, Floats] = {}
    for some in windows.values():
        out |= _of_window(some, of)
    return out


def _of_window(frames: Sequence[AskableFrame], of: Collection[FrameKey] | None) -> dict[FrameKey, Floats]:
    boxes = [boxes_of(f.candidates) for f in frames]
    everything = np.concatenate(boxes)
    off = _off_size(everything)
    scores = np.array([c.teacher_score for f in frames for c in f.candidates])
    # Where the boxes of each frame that has some begin.
    begins = np.cumsum([0, *(len(b) for b in boxes)])[:-1]
    starts = np.array([b for b, mine in zip(begins, boxes, strict=True) if len(mine)], np.int64)
    others = max(len(frames) - 1, 1)
    out = {}
    for frame, mine, begin in zip(frames, boxes, begins, strict=True):
        if of is not None and frame.key not in of:
            continue
        if not len(mine):
            out[frame.key] = np.zeros((0, FEATURES))
            continue
        here = slice(int(begin), int(begin) + len(mine))
        common, near = box_iou(mine, everything), _near(mine, everything)
        common[:, here], near[:, here] = 0.0, 0.0
        standing = (np.maximum.reduceat(common, starts, axis=1) > _STANDS).sum(1) / others
        around = near.sum(1)
        sure = (near @ scores + _WORTH * _USUAL_SCORE) / (around + _WORTH) - _USUAL_SCORE
        among = (
            np.clip(off[here], -2.0, 2.0),
            np.minimum(np.abs(off[here]), 2.0),
            np.log1p(10.0 * around / others),
            np.sqrt(standing),
            5.0 * sure,
            np.full(len(mine), math.log1p(len(mine)) - 2.0),
        )
        out[frame.key] = np.concatenate([_own(frame.candidates, mine), np.stack(among, 1), _at_places(mine)], 1)
    return out


def boxes_of(candidates: Sequence[Candidate]) -> Floats:
    """(N, 4): of each candidate the teacher's box, or the student's where there is none."""
    return np.array([c.teacher or c.student for c in candidates], np.float64).reshape(-1, 4)


def _sides(boxes: Floats) -> Floats:
    out: Floats = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-4)
    return out


def _own(candidates: Sequence[Candidate], boxes: Floats) -> Floats:
    """(N, OWN) of one frame's candidates, best first: its finder (student or teacher), scores, size, place, shape, and
    how far it lies in (or around) a better one, as a second box of one object does."""
    sides = _sides(boxes)
    has_student = np.array([c.student is not None for c in candidates])
    has_teacher = np.array([c.teacher is not None for c in candidates])
    size = (np.log(sides.prod(1)) + 6.0) / 2
    shape = np.clip(np.log(sides[:, 0] / sides[:, 1]), -2.0, 2.0)
    columns = (
        has_student & has_teacher,
        has_student & ~has_teacher,
        has_teacher & ~has_student,
        np.array([c.student_score for c in candidates]) - 0.5 * has_student,
        np.array([c.teacher_score for c in candidates]) - 0.5 * has_teacher,
        size,
        size**2,
        boxes[:, 3] - 0.5,
        (boxes[:, 0] + boxes[:, 2]) / 2 - 0.5,
        shape,
        shape**2,
        _in_a_better_one(boxes, sides),
    )
    return np.stack([np.asarray(c, np.float64) for c in columns], 1)


def _in_a_better_one(boxes: Floats, sides: Floats) -> Floats:
    """Of each box (N, 4) the largest common area with one before it, as a part of the smaller of the two."""
    area = sides.prod(1)
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = np.clip(high - low, 0.0, None).prod(2) / np.minimum(area[:, None], area[None, :])
    out: Floats = np.clip(np.tril(common, -1).max(1), 0.0, 1.0)
    return out


def _near(one: Floats, other: Floats) -> Floats:
    """(N, M): 1 where centres are the same, less the further away, in sides of the one."""
    apart = (one[:, None, :2] + one[:, None, 2:] - other[None, :, :2] - other[None, :, 2:]) / 2
    side = np.maximum(np.sqrt(_sides(one).prod(1)), _LEAST_SIDE)
    out: Floats = np.exp(-(apart**2).sum(2) / (2 * side[:, None] ** 2))
    return out


def _at_places(boxes: Floats) -> Floats:
    """(N, PLACES): how much each box stands at each place."""
    at = np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], 1)
    out: Floats = np.exp(-((at[:, None] - _PLACES[None]) ** 2).sum(2) / (2 * _REACH**2))
    return out


def _off_size(boxes: Floats) -> Floats:
    """(N,): by how much each log area is off the one that is usual at its place. The usual one is a line in x and a
    parabola in the bottom, fitted to the window's boxes."""
    if not len(boxes):
        return np.zeros(0)
    x, bottom = (boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]
    design = np.stack([np.ones(len(boxes)), x, bottom, bottom**2], 1)
    area = np.log(_sides(boxes).prod(1))
    ridge = np.diag([1e-3, 0.3, 0.3, 0.3])
    weight = np.ones(len(boxes))
    for _ in range(_ROUNDS + 1):
        usual = design @ np.linalg.solve((design.T * weight) @ design + ridge, (design.T * weight) @ area)
        weight = 1.0 / (1.0 + ((area - usual) / _OFF) ** 2)
    out: Floats = area - usual
    return out


def pair_overlaps(candidates: Sequence[Candidate]) -> Floats:
    """(N,): IoU of the student's and the teacher's box; 0 where there is one box only."""
    out = np.zeros(len(candidates))
    for n, c in enumerate(candidates):
        if c.student is not None and c.teacher is not None:
            out[n] = box_iou(np.array([c.student]), np.array([c.teacher]))[0, 0]
    return out
