"""Objects that go as others went before them: where each is expected by its camera's flow, and what it adds to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from edge.tracking.flow import Flow, Sample
from edge.tracking.track import Ahead, SeenAt, Track

#: An object is taken on at once by so many seconds at the most: its way bends.
_STRIDE_S: Final = 0.25
#: So many strides after it was seen last it may be anywhere.
_FURTHEST_S: Final = 4.0
#: A sample is of an object that was seen so often, over so many seconds, and went at least so many sizes a second.
_ANSWERS, _LEAST_S, _MOST_S, _MOVES = 4, 0.35, 1.7, 0.35
#: Where answers are rare, the last so many of them will do; they are rare where so many seconds are between them.
_RARE, _RARE_S = 3, 0.5


def expected(tracks: Sequence[Track], flow: Flow, at_s: float) -> list[Track]:
    """The tracks with where they are ahead at `at_s`, where the flow says it."""
    going = [n for n, t in enumerate(tracks) if not t.still and 0.0 < at_s - t.seen_s <= _FURTHEST_S]
    if not going or not len(flow.samples):
        return [_to(t, None) for t in tracks]
    ahead: dict[int, Ahead | None] = {
        n: tracks[n].course.ahead or Ahead(tracks[n].seen_s, tracks[n].motion, 0.0) for n in going
    }
    for _ in range(math.ceil((_FURTHEST_S + 1) / _STRIDE_S)):
        left = {n: a for n, a in ahead.items() if a is not None and a.at_s < at_s}
        if not left:
            break
        ahead.update(zip(left, _one_stride([tracks[n] for n in left], list(left.values()), flow, at_s), strict=True))
    return [_to(t, ahead[n]) if n in ahead else t for n, t in enumerate(tracks)]


def _to(track: Track, ahead: Ahead | None) -> Track:
    return track if track.course.ahead is ahead else replace(track, course=replace(track.course, ahead=ahead))


def _one_stride(tracks: Sequence[Track], ahead: Sequence[Ahead], flow: Flow, at_s: float) -> list[Ahead | None]:
    """Where each is a stride later, at `at_s` at the latest; None where the flow does not say it."""
    sizes = np.array([t.size * math.exp(a.growth) for t, a in zip(tracks, ahead, strict=True)])
    going = flow.at(
        np.array([a.motion.centre for a in ahead]), sizes, np.array([a.motion.velocity for a in ahead]),
        np.array([a.motion.of_velocity for a in ahead]), [t.class_name for t in tracks],
    )  # fmt: skip
    out: list[Ahead | None] = []
    columns = (x.tolist() for x in (sizes, going.way, going.variance, going.growth, going.known))
    for a, size, (x, y), variance, growth, known in zip(ahead, *columns, strict=True):
        if not known:
            out.append(None)
            continue
        passed = min(_STRIDE_S, at_s - a.at_s)
        to = at_s if at_s - a.at_s <= _STRIDE_S else a.at_s + passed
        out.append(Ahead(to, a.motion.drawn((x, y), variance).after(passed, size), a.growth + passed * growth))
    return out


def learned(flow: Flow, tracks: Sequence[Track], at_s: float) -> Flow:
    """With the samples of those that were seen at `at_s`."""
    new = []
    for t in tracks:
        if t.object is None or t.seen_s != at_s or t.still or t.answers < _ANSWERS or len(t.course.trail) < 3:
            continue
        trail = _used(t.course.trail)
        first, last = trail[0], trail[-1]
        passed = last.at_s - first.at_s
        if not _LEAST_S <= passed <= _MOST_S:
            continue
        way = tuple((b - a) / passed for a, b in zip(first.centre, last.centre, strict=True))
        size = math.sqrt(first.size * last.size)
        if math.hypot(*way) < _MOVES * size:
            continue
        middle = tuple(sum(x) / len(trail) for x in zip(*(s.centre for s in trail), strict=True))
        growth = math.log(last.size / first.size) / passed
        new.append(Sample((middle[0], middle[1]), size, (way[0], way[1]), growth, t.class_name))
    return flow.with_samples(new)


def _used(trail: tuple[SeenAt, ...]) -> tuple[SeenAt, ...]:
    """The part of a trail that says how its object goes. After a gap between answers that are not rare none does."""
    few = trail[-_RARE:]
    rare = all(b.at_s - a.at_s >= _RARE_S for a, b in pairwise(few))
    return few if rare and trail[-1].at_s - trail[0].at_s > _MOST_S else trail
