"""Which cameras are retrained as one group, and whether a plan expects more from that than from one retraining each.

A window has few labelled pictures of one camera. Students of one detector and one class list can learn from each
other's, alike or not: a retraining on the pictures of all takes less device time than one each, and teaches more
(measured in docs/students.md; ECCO retrains cameras in groups, RECL reuses models among them). A group is one camera
that leads, whose retraining it is, and members that are judged with its result, each on its own kept-out pictures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge.core import checks
from edge.core.camera_look import CameraLook
from edge.core.configs import Layers
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.siblings import distance
from scheduler.timeline import Outcome, evaluate

#: Cameras of a group at most: pictures of more are more than one short retraining takes in.
MOST_CAMERAS = 12
#: Sets of so many cameras are tried: a window that is too short for one retraining of all may have the time for fewer.
SIZES = (MOST_CAMERAS, 6, 3)
#: Sets of each size that are planned for: those whose cameras would gain most. A plan takes long with many cameras.
MOST_TRIED = 2
#: The distance of two cameras of which one was not looked at yet; no two are further apart.
STRANGERS = 1e6
#: Work that each member adds to the leader's own retraining, as a part of it. With a fifth, cameras that do not look
#: alike gained less than alone.
WORK_PER_MEMBER = 0.6
#: A camera is stale if a retraining of its own is expected to gain so much: one that is not leads no group.
STALE = 0.01
#: A group must promise so much more than one retraining each: a camera's gain alone is known better.
BETTER_BY = 0.002
#: The part of an own retraining's gain that a camera of a group of `WHOLE_GROUP` or more gets by its longest one,
#: before any group was measured here: about the mean of what was measured on twelve cameras (docs/students.md).
FIRST_KEPT, MOST_KEPT = 1.6, 2.0
#: Groups of so many cameras were measured; what a smaller one brings beyond an own retraining is counted in proportion.
WHOLE_GROUP = 6
#: A group's retraining teaches its members by this power of its work (docs/students.md).
WORK_EXPONENT = 0.75
#: The part that a retraining of some layers teaches, of one of equal work that trains all.
TEACHES: Mapping[Layers, float] = {"all": 1.0, "last_stage": 0.65, "head": 0.45}
#: How fast what groups kept of an own retraining's gain is learned: the weight of one outcome.
LEARNING_RATE = 0.2
#: The part that groups kept fades by this part in each window, so that groups are tried again after a bad time.
FORGOTTEN = 0.05


@dataclass(frozen=True)
class Group:
    """`leader`'s retraining is that of `members` too (other cameras, in order of name). The pictures of `guests`,
    cameras of other boxes, teach in it as those of members do."""

    leader: str
    members: tuple[str, ...]
    guests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.not_empty("group.members", (*self.members, *self.guests))
        checks.unique("group", [self.leader, *self.members, *self.guests])

    @property
    def others(self) -> int:
        """Cameras beside the leader."""
        return len(self.members) + len(self.guests)


@dataclass(frozen=True)
class GroupChoice:
    """A group that a window's plan expects more from: the accuracy that each member gains by the retraining that
    teaches most (`gains`), the part of it (0-1) by each option of the leader (`parts`), and by how much the site gains
    over one retraining each (`gained`, mean accuracy times windows)."""

    group: Group
    gains: Mapping[str, float]
    parts: Mapping[str, float]
    gained: float


def groups_of(
    looks: Mapping[str, CameraLook | None], limit: float = math.inf, most: int = MOST_CAMERAS
) -> tuple[tuple[str, ...], ...]:
    """Sets of two to `most` cameras of which every two look alike within `limit`; those that look most alike come
    together, and a camera whose look is not known last. No camera is in two. Names in order.
    """
    sets = [[name] for name in sorted(looks)]
    apart = np.full((len(sets), len(sets)), math.inf)
    for (a, (one,)), (b, (other,)) in itertools.combinations(enumerate(sets), 2):
        apart[a, b] = apart[b, a] = _apart(looks[one], looks[other])
    while len(sets) > 1:
        sizes = np.array([len(s) for s in sets])
        found = np.where(sizes[:, None] + sizes > most, math.inf, apart)
        a, b = sorted(int(i) for i in np.unravel_index(int(found.argmin()), found.shape))
        if not found[a, b] <= min(limit, STRANGERS):
            break
        apart[a] = apart[:, a] = np.maximum(apart[a], apart[b])
        apart = np.delete(np.delete(apart, b, 0), b, 1)
        sets[a] += sets.pop(b)
    return tuple(sorted(tuple(sorted(s)) for s in sets if len(s) > 1))


def sets_of(looks: Mapping[str, CameraLook | None]) -> tuple[tuple[str, ...], ...]:
    """Sets of cameras that may be a group, of several sizes; a camera is in a large set and in a smaller one. Names and
    sets in order."""
    return tuple(sorted({s for most in SIZES for s in groups_of(looks, most=most)}))


def _apart(one: CameraLook | None, other: CameraLook | None) -> float:
    return STRANGERS if one is None or other is None else min(STRANGERS, distance(one, other))


def group_work(members: int) -> float:
    """Work of a group's retraining, as a multiple of the leader's own, for so many members beside it."""
    return 1.0 + WORK_PER_MEMBER * members


def taught_parts(options: Sequence[RetrainingOption]) -> dict[str, float]:
    """By option: the part (0-1) of what a group's members gain by the one of `options` that teaches most."""
    taught = {o.id: o.teaches * o.device_seconds**WORK_EXPONENT for o in options}
    most = max(taught.values(), default=0.0)
    return {name: value / most if most > 0 else 1.0 for name, value in taught.items()}


def kept_by(kept: float, cameras: int) -> float:
    """`kept` for a group of so many cameras: fewer have fewer pictures of others."""
    return min(kept, 1.0) + max(0.0, kept - 1.0) * _whole(cameras)


def _whole(cameras: int) -> float:
    return min(1.0, (cameras - 1) / (WHOLE_GROUP - 1))


def kept_part(before: float, expected: float, gained: float, cameras: int = WHOLE_GROUP) -> float:
    """The known part of an own retraining's gain that a member of a group gets, after a group whose members were
    `expected` to gain this alone (in sum, as plans count gains, times the part that the retraining's option teaches)
    and `gained` that; `cameras` were in it."""
    if expected < STALE:
        return before
    seen, rate = gained / expected, LEARNING_RATE
    if seen > 1.0:  # a small group says less of what a large one would bring
        seen, rate = 1.0 + (seen - 1.0) / _whole(cameras), rate * _whole(cameras)
    return before + rate * (min(MOST_KEPT, max(0.0, seen)) - before)


def kept_later(before: float) -> float:
    """The known part, a window later."""
    return before + FORGOTTEN * (FIRST_KEPT - before)


def choose_group(
    problem: WindowProblem,
    sets: Sequence[Sequence[str]],
    kept: float,
    plan: Callable[[WindowProblem], WindowPlan],
    taught: frozenset[str] = frozenset(),
    guests: frozenset[str] = frozenset(),
) -> GroupChoice | None:
    """The group that the planner expects most from, or None where one retraining each is as good. The names `guests` in
    `sets` are of cameras of other boxes: they teach, and gain nothing here.

    Both ways are planned in full, with the same shares and floors: the group's way with its leader's options at the
    group's work and none for its members, who gain `kept` of what their best option would, by the part that the
    leader's option teaches, when it ends. The cameras `taught` have no retraining of their own either way. A camera
    without options, or whose retraining runs, is in no group, and there is no group without a stale camera.
    """
    streams = {s.id: s for s in problem.streams}
    found = [(_own(s, guests), s) for s in free_sets(problem, sets, guests)]
    candidates = [s for own, s in found if own and len(s) > 1 and max(_gain(streams[n]) for n in own) >= STALE]
    if not candidates:
        return None
    own = _without(problem, taught)
    alone = _worth(own, evaluate(own, plan(own).segments))
    best: GroupChoice | None = None
    for names in _most_promising(candidates, streams):
        mine = sorted(_own(names, guests))
        # Of those that have a configuration which teaches the others most.
        leader = max(mine, key=lambda n: (max(o.teaches for o in streams[n].options), _gain(streams[n])))
        others = tuple(n for n in mine if n != leader)
        group = Group(leader, others, tuple(sorted(n for n in names if n in guests)))
        choice = _judged(problem, group, kept, plan, alone, taught)
        if choice is not None and (best is None or choice.gained > best.gained):
            best = choice
    return best


def free_sets(
    problem: WindowProblem, sets: Sequence[Sequence[str]], guests: frozenset[str] = frozenset()
) -> list[tuple[str, ...]]:
    """Of each set the cameras that have options and no retraining that runs, and `guests`; each once."""
    free = {s.id for s in problem.streams if s.options and s.running is None} | guests
    return list(dict.fromkeys(tuple(n for n in names if n in free) for names in sets))


def _own(names: Sequence[str], guests: frozenset[str]) -> list[str]:
    return [n for n in names if n not in guests]


def _most_promising(sets: Sequence[Sequence[str]], streams: Mapping[str, StreamProblem]) -> list[Sequence[str]]:
    by_size: dict[int, list[Sequence[str]]] = {}
    for names in sorted(sets, key=lambda s: (-sum(_gain(streams[n]) for n in s if n in streams), tuple(s))):
        by_size.setdefault(min((n for n in SIZES if len(names) <= n), default=MOST_CAMERAS), []).append(names)
    return [names for found in by_size.values() for names in found[:MOST_TRIED]]


def _judged(
    problem: WindowProblem,
    group: Group,
    kept: float,
    plan: Callable[[WindowProblem], WindowPlan],
    alone: float,
    taught: frozenset[str],
) -> GroupChoice | None:
    together = _without(grouped(problem, group), taught - {group.leader})
    kept = kept_by(kept, 1 + group.others)
    members = [s for s in problem.streams if s.id in group.members]
    gains = {s.id: min(kept * _gain(s), 1.0 - s.start_accuracy) for s in members}
    if not members:  # its leader is the only one here that guests can bring more than its own retraining
        (led,) = (s for s in problem.streams if s.id == group.leader)
        room = max(0.0, 1.0 - led.start_accuracy - _gain(led))
        gains = {led.id: min(max(0.0, kept - 1.0) * _gain(led), room)}
    parts = taught_parts(next(s.options for s in together.streams if s.id == group.leader))
    outcome = evaluate(together, plan(for_all(together, group, gains, parts)).segments)
    done = outcome.completed[group.leader]
    if not done:
        return None
    worth = _worth(together, outcome)
    for name, gain in gains.items():
        worth += parts[done[-1][0]] * gain * _served(together, outcome, name, done[-1][1]) / len(problem.streams)
    return GroupChoice(group, gains, parts, worth - alone) if worth - alone >= BETTER_BY else None


def grouped(problem: WindowProblem, group: Group) -> WindowProblem:
    """The problem in which the group's retraining takes the place of its cameras' own."""

    def of(stream: StreamProblem) -> StreamProblem:
        if stream.id in group.members:
            return replace(stream, options=())
        if stream.id != group.leader:
            return stream
        return replace(stream, options=with_group_work(stream.options, group))

    return replace(problem, streams=tuple(of(s) for s in problem.streams))


def for_all(
    problem: WindowProblem, group: Group, gains: Mapping[str, float], parts: Mapping[str, float]
) -> WindowProblem:
    """The problem that a group is planned by: its members' `gains`, times the part that an option teaches, count where
    the retraining is, at its leader. The objective of a plan, a mean over cameras, is the same while all are served
    alike. An option without a part, not known when the group was chosen, teaches nothing."""
    theirs = sum(gains.get(m, 0.0) for m in group.members or (group.leader,))

    def of(stream: StreamProblem) -> StreamProblem:
        if stream.id != group.leader:
            return stream
        options = tuple(
            replace(o, end_accuracy=o.end_accuracy + parts.get(o.id, 0.0) * theirs, members=len(group.members) or 1)
            for o in stream.options
        )
        return replace(stream, options=options)

    return replace(problem, streams=tuple(of(s) for s in problem.streams))


def _without(problem: WindowProblem, cameras: frozenset[str]) -> WindowProblem:
    """The problem in which these cameras are not retrained."""
    return replace(problem, streams=tuple(replace(s, options=()) if s.id in cameras else s for s in problem.streams))


def with_group_work(options: Sequence[RetrainingOption], group: Group) -> tuple[RetrainingOption, ...]:
    """A leader's options as they cost when the retraining is the group's."""
    work = group_work(group.others)
    return tuple(replace(o, device_seconds=o.device_seconds * work) for o in options)


def _gain(stream: StreamProblem) -> float:
    """The expected gain of the best retraining of its own; one that would lose is not made."""
    return max([0.0, *(o.end_accuracy - stream.start_accuracy for o in stream.options)])


def _worth(problem: WindowProblem, outcome: Outcome) -> float:
    """Mean accuracy over the window, and over what of the next one these models still serve, in windows."""
    after = problem.carry_s / problem.window_s
    last = [outcome.steps[s.id][-1].momentary if outcome.steps[s.id] else 0.0 for s in problem.streams]
    return outcome.objective + after * sum(last) / len(last)


def _served(problem: WindowProblem, outcome: Outcome, camera: str, since_s: float) -> float:
    """How long, in windows and weighed by the inference factor, `camera` serves from `since_s` to the end of what
    counts."""
    steps = outcome.steps[camera]
    inside = sum(max(0.0, s.end_s - max(s.start_s, since_s)) * s.factor for s in steps)
    after = problem.carry_s * (steps[-1].factor if steps else 0.0)
    return (inside + after) / problem.window_s
