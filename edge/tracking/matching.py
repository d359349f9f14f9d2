"""Which box of an answer belongs to which track: one box per object, then boxes and tracks are paired all at once.

A pair costs -2 ln of how likely it is (distance by the Kalman filter's own uncertainty, size, shape, class,
look). So a track that knows where its object is goes before one that may be anywhere, and one that has not been seen
for long takes nothing by chance: rejoin.py looks at those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from edge.core.tracks import Seen
from edge.tracking import boxes as bx
from edge.tracking.track import ScoredBox, Track, apart

#: Two boxes of one answer that overlap by more show one object, even under different names; so do two of one name if so
#: much of the smaller one lies within the other. One that fills so much of the picture shows none.
_SAME_OBJECT, _WITHIN, _WHOLE = 0.35, 0.8, 0.8
#: The most that a pair may cost: the cost of leaving a track and a box alone; with a box that is not sure.
_NO_PAIR, _NO_PAIR_UNSURE = 7.0, 6.5
_NEVER = 1e6
#: The bonus of a pair with an object that was reported, and the cost of another class.
_REPORTED_FIRST, _OTHER_CLASS = 4.0, 4.0
#: A box lies at most so many standard deviations and so many sizes away.
_FURTHEST, _REACH_MOST = 3.5, 5.0
#: Variance in squares of the size that costs nothing where answers come as often as this; it grows with the square of
#: the time between two answers, up to so much.
_COSTS_NOTHING, _OFTEN_S, _RARE_S = 0.04, 0.2, 1.0
#: Logarithm of sizes: standard deviation from one answer to the next, more a second, more at the picture's edge.
_GROWS, _GROWS_PER_S, _GROWS_MOST_S, _GROWS_CUT = 0.18, 0.35, 3.0, 0.6
#: Looks of one object from answer to answer (standard deviation), and the most that looks cost.
_LOOK, _LOOK_MOST = 0.05, 4.0
#: A single box goes on with what was seen within so many seconds, or so many answers.
_RECENT_S, _RECENT_ANSWERS = 1.5, 2.2


def one_per_object(seen: Seen) -> list[ScoredBox]:
    """Boxes of distinct objects, in an order of their own, with the scores of the names given to each."""
    given = np.asarray(seen.boxes, np.float64)
    width, height = given[:, 2] - given[:, 0], given[:, 3] - given[:, 1]
    usable = np.flatnonzero((width > 0) & (height > 0) & (width * height < _WHOLE)).tolist()
    boxes, scores, cut = given.tolist(), seen.scores.tolist(), bx.cut_off(given).tolist()
    looks: list[tuple[float, ...]] = [()] * len(given)
    if seen.looks is not None:
        looks = [tuple(look) for look in np.asarray(seen.looks, np.float64).tolist()]
    order = sorted(usable, key=lambda n: (-scores[n], *boxes[n], seen.classes[n], looks[n]))
    kept: list[int] = []
    votes: list[dict[str, float]] = []
    overlap, within = bx.iou_and_within(given, given)
    same_object, part = (overlap > _SAME_OBJECT).tolist(), (within > _WITHIN).tolist()
    for n in order:
        name, score = seen.classes[n], scores[n]
        alike = (
            k
            for k, other in enumerate(kept)
            if same_object[n][other] or (part[n][other] and name == seen.classes[other])
        )
        same = next(alike, None)
        if same is None:
            kept.append(n)
            votes.append({name: score})
        else:
            votes[same][name] = max(score, votes[same].get(name, 0.0))
    made = []
    for n, of in zip(kept, votes, strict=True):
        x0, y0, x1, y1 = boxes[n]
        made.append(ScoredBox((x0, y0, x1, y1), of, looks[n], max(of.values()) >= seen.sure, cut[n]))
    return made


def match(tracks: Sequence[Track], answers: Sequence[ScoredBox], at_s: float, since_last_s: float) -> dict[int, int]:
    """Which answer each track takes: first of those that are sure, then the rest of the tracks of the rest (as in
    ByteTrack, Zhang et al., ECCV 2022)."""
    found: dict[int, int] = {}
    usual_s = min(_RARE_S, max(_OFTEN_S, since_last_s))
    nothing = _COSTS_NOTHING * (usual_s / _OFTEN_S) ** 2
    recent_s = max(_RECENT_S, _RECENT_ANSWERS * usual_s) + 1e-6
    for sure, no_pair in ((True, _NO_PAIR), (False, _NO_PAIR_UNSURE)):
        rows = [n for n, t in enumerate(tracks) if n not in found and (t.still or at_s - t.seen_s <= recent_s)]
        columns = [n for n, a in enumerate(answers) if a.sure == sure]
        if not rows or not columns:
            continue
        cost = _costs([tracks[n] for n in rows], [answers[n] for n in columns], at_s, nothing)
        first_choice = np.array([[_REPORTED_FIRST if tracks[n].object is not None else 0.0] for n in rows])
        # A pair is worth what it costs less than none: as many pairs as possible would shift a whole queue by one.
        worth = np.where(cost < no_pair, cost - no_pair - first_choice, 0.0)
        for row, column in zip(*linear_sum_assignment(worth), strict=True):
            if cost[row, column] < no_pair:
                found[rows[row]] = columns[column]
    return found


def unlike(a: Sequence[tuple[float, ...]], b: Sequence[tuple[float, ...]]) -> NDArray[np.float64]:
    """(len(a), len(b)) how differently two look: 0 as one does from answer to answer, or where it is not known."""
    cost = np.minimum(apart(a, b) / _LOOK**2 - 1.0, _LOOK_MOST)
    return np.where(np.isnan(cost), 0.0, cost)


def _costs(tracks: Sequence[Track], answers: Sequence[ScoredBox], at_s: float, nothing: float) -> NDArray[np.float64]:
    """(tracks, answers); _NEVER where an answer cannot be the track's."""
    expected = [t.expected(at_s) for t in tracks]
    there = np.array([t.around(m.centre, at_s) for t, m in zip(tracks, expected, strict=True)])
    here = np.array([a.box for a in answers])
    cut_t, cut_a = bx.cut_off(there), np.array([a.cut for a in answers])
    size_t, size_a = bx.size(there)[:, None], bx.size(here)[None]
    variance = np.array([m.of_centre for m in expected])[:, None] + np.array([a.variance for a in answers])
    off = bx.centre(there)[:, None] - bx.centre(here)[None]
    away = off[..., 0] ** 2 + off[..., 1] ** 2
    area = size_t * size_a
    passed = np.array([at_s - t.seen_s for t in tracks])[:, None]
    grown = np.log(size_a / size_t)
    # The smaller one of two may be so because the picture's edge cuts it off.
    cut = np.where(grown < 0, cut_a[None], cut_t[:, None])
    growth = _GROWS + _GROWS_PER_S * np.minimum(passed, _GROWS_MOST_S) + np.where(cut, _GROWS_CUT, 0.0)
    shape = _shape(here)[None] - _shape(there)[:, None]
    named = {name: [name in a.votes for a in answers] for name in {t.class_name for t in tracks}}
    same = np.array([named[t.class_name] for t in tracks])
    cost = (
        away / variance
        + 2 * np.log(variance / (nothing * area))
        + (grown / growth) ** 2
        + (shape / (2 * growth)) ** 2
        + np.where(same, 0.0, _OTHER_CLASS)
        + unlike([t.look for t in tracks], [a.look for a in answers])
    )
    possible = (away <= _FURTHEST**2 * variance) & (away <= _REACH_MOST**2 * area)
    return np.asarray(np.where(possible, cost, _NEVER))


def _shape(boxes: bx.Boxes) -> NDArray[np.float64]:
    """Logarithm of width to height."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-6)
    return np.asarray(np.log(sides[:, 0] / sides[:, 1]))
