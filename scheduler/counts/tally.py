"""From answers to buckets of a minute: objects counted, how full zones were, how long a camera was watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from edge.core.counts import STEP_S, Count, Counted, CountLine, Place, WatchedTime, summed, watched_sum
from edge.core.tracks import TrackedObject
from scheduler.counts.passing import CountingState, step

#: Between two answers that are further apart the place was not watched: an object could have passed unseen.
GAP_S: Final = 3.0
#: A camera that was not watched for so long has lost all objects that were there.
GONE_S: Final = 60.0
_MINUTE_S: Final = STEP_S["minute"]


@dataclass(frozen=True)
class MinuteTally:
    """The counts of one camera in minutes that were not taken yet; `at_utc_s` is the last answer's time; `over`: the
    objects that were there then are gone."""

    camera: str
    passing: CountingState = field(default_factory=CountingState)
    at_utc_s: float | None = None
    counts: tuple[Count, ...] = ()
    watched: tuple[WatchedTime, ...] = ()
    over: bool = False


def answered(
    tally: MinuteTally, objects: Sequence[TrackedObject], lines: Sequence[CountLine], at_utc_s: float
) -> tuple[MinuteTally, tuple[Counted, ...]]:
    """Take the objects after an answer given at `at_utc_s`. Where the clock went back, time begins anew from there:
    nothing is watched twice, and what is counted goes to the minute that the clock shows."""
    passing, counted = step(tally.passing, objects, lines, at_utc_s)
    start_s = minute_of(at_utc_s)
    gap_s = 0.0 if tally.at_utc_s is None else at_utc_s - tally.at_utc_s
    passed_s = gap_s if 0.0 < gap_s <= GAP_S else 0.0
    new = [Count(tally.camera, start_s, c.place, c.class_name, 1) for c in counted]
    new += _in_zones(tally.camera, start_s, objects, passed_s)
    watched = WatchedTime(tally.camera, start_s, passed_s, 1)
    return (
        replace(
            tally, passing=passing, at_utc_s=at_utc_s, counts=summed((*tally.counts, *new)),
            watched=watched_sum((*tally.watched, watched)), over=False,
        ),
        counted,
    )  # fmt: skip


def unanswered(
    tally: MinuteTally, lines: Sequence[CountLine], at_utc_s: float
) -> tuple[MinuteTally, tuple[Counted, ...]]:
    """No answer was counted until `at_utc_s`: once that lasts for GONE_S, the objects that were there are
    gone, and what they did by then is counted, once. No time is watched. Objects that are there again under the same
    number, in a picture that stood still, do not count again."""
    if tally.over or tally.at_utc_s is None or at_utc_s - tally.at_utc_s < GONE_S:
        return tally, ()
    passing, counted = step(tally.passing, (), lines, at_utc_s)
    new = [Count(tally.camera, minute_of(at_utc_s), c.place, c.class_name, 1) for c in counted]
    return replace(tally, passing=passing, counts=summed((*tally.counts, *new)), over=True), counted


def taken(
    tally: MinuteTally, before_utc_s: float | None = None
) -> tuple[MinuteTally, tuple[Count, ...], tuple[WatchedTime, ...]]:
    """The tally without the minutes that are over at `before_utc_s` (None: without any), and those minutes."""
    limit = None if before_utc_s is None else minute_of(before_utc_s)

    def over(start_s: int) -> bool:
        # A minute that is ahead of the clock (which was set back) is over, too.
        return limit is None or start_s != limit

    counts = tuple(c for c in tally.counts if over(c.start_s))
    watched = tuple(w for w in tally.watched if over(w.start_s))
    left = replace(
        tally,
        counts=tuple(c for c in tally.counts if not over(c.start_s)),
        watched=tuple(w for w in tally.watched if not over(w.start_s)),
    )
    return left, counts, watched


def minute_of(utc_s: float) -> int:
    """The beginning of the minute that a time is in."""
    return int(utc_s // _MINUTE_S) * _MINUTE_S


def _in_zones(camera: str, start_s: int, objects: Sequence[TrackedObject], passed_s: float) -> list[Count]:
    present: Counter[tuple[str, str]] = Counter()
    standing: Counter[tuple[str, str]] = Counter()
    for tracked in objects:
        for zone in tracked.zones:
            present[zone, tracked.class_name] += 1
            standing[zone, tracked.class_name] += tracked.still
    return [
        Count(
            camera, start_s, Place("zone", zone), name, 0, number * passed_s, standing[zone, name] * passed_s, number
        )
        for (zone, name), number in present.items()
    ]  # fmt: skip
