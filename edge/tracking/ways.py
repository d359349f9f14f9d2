"""How the objects of a camera's answers go on until its next answer: by the tracker, as long as that is right.

Each answer is compared with the one before: as it was, and as its objects were expected to have gone on. The way that
agreed better lately is how answers stand in for later frames. So a scene of standing cars, of pictures ten seconds
apart or of answers too rare to tell who is who keeps its answers where they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge.core.accuracy import Counts, count
from edge.core.tracks import Seen
from edge.core.vision import Detections
from edge.core.ways import CLEARLY, Ways, gone_on
from edge.tracking.going import expected
from edge.tracking.tracker import TrackerState, step

#: The part of earlier comparisons that is kept with each answer, and the objects that must have been compared.
_KEPT, _ENOUGH = 0.95, 20.0
#: Ways are means over the time until the next answer, as long as the last one took to come, within these seconds.
_SHORTEST_S, _LONGEST_S = 0.1, 1.0
#: An answer this many seconds after the one before compares nothing: the camera was away.
_AWAY_S = 5.0
_IOU = 0.5


@dataclass(frozen=True)
class Matches:
    """Objects right, and twice them with the wrong and the missed ones; older ones count less."""

    right: float = 0.0
    all: float = 0.0

    def after(self, counts: Counts) -> Matches:
        """With one comparison more."""
        return Matches(
            _KEPT * self.right + 2 * counts.right,
            _KEPT * self.all + 2 * counts.right + counts.wrong + counts.missed,
        )


@dataclass(frozen=True)
class WaysState:
    """The state of one camera: the tracker, the last answer with the ways of its objects, and how well the answers
    before agreed with the next ones, `held` where they were and `moved` on."""

    tracker: TrackerState
    next_id: int = 1
    at_s: float = -math.inf
    last: Detections | None = None
    ways: Ways | None = None
    held: Matches = Matches()
    moved: Matches = Matches()

    @property
    def right(self) -> bool:
        """Whether answers that move on are nearer to the next ones than answers that stay."""
        if self.moved.all < _ENOUGH or self.held.all <= 0:
            return False
        return self.moved.right / self.moved.all > self.held.right / self.held.all + CLEARLY


def with_answer(state: WaysState, answer: Detections, names: Sequence[str], at_s: float) -> WaysState:
    """The state after a fresh answer (N objects; `names` of all classes) about a picture of `at_s` (monotonic seconds).
    An answer that is not newer than the last one changes nothing."""
    passed = at_s - state.at_s
    if not passed > 0:
        return state
    if state.last is not None and passed < _AWAY_S:
        state = replace(
            state,
            held=state.held.after(count(state.last, answer, _IOU)),
            moved=state.moved.after(count(gone_on(state.last, state.ways, passed), answer, _IOU)),
        )
    seen = Seen(at_s, at_s, answer.boxes, answer.scores, tuple(names[c] for c in answer.classes))
    done = step(state.tracker, seen, next_id=state.next_id)
    ways = _ways(done.state, answer, at_s, min(max(passed, _SHORTEST_S), _LONGEST_S))
    return replace(state, tracker=done.state, next_id=done.next_id, at_s=at_s, last=answer, ways=ways)


def _ways(tracker: TrackerState, answer: Detections, at_s: float, ahead_s: float) -> Ways:
    """The way of each box: that of the track which took it, from now to `ahead_s` later."""
    then_s = at_s + ahead_s
    tracks = {t.box: t for t in expected(tracker.tracks, tracker.flow, then_s) if t.seen_s == at_s}
    out = np.zeros((len(answer), 3), np.float32)
    for n, box in enumerate(np.asarray(answer.boxes, np.float64).tolist()):
        track = tracks.get((box[0], box[1], box[2], box[3]))
        if track is None or track.still:
            continue
        ahead = track.course.at(then_s)
        here, there = track.motion.centre, track.expected(then_s).centre
        out[n] = (
            (there[0] - here[0]) / ahead_s, (there[1] - here[1]) / ahead_s,
            0.0 if ahead is None else ahead.growth / ahead_s,
        )  # fmt: skip
    return out
