"""The times of a day in which a camera was not watched, from the changes of its stream and the box's starts."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from edge.core.camera import CameraFault
from edge.core.counts import STEP_S, WatchedTime
from edge.core.finding import BoxStart, DaySpan, Outage, OutageCause, StateChange

#: Of states that follow each other without the camera being live in between, the first here gives the cause.
_RANK: Final[tuple[OutageCause, ...]] = (
    "box_off", "removed", "stopped", "worker_lost", "refused", "stalled", "reconnecting", "connecting", "starting",
    "not_watched",
)  # fmt: skip
#: A shorter one is none: a camera answers some times a second.
SHORTEST_S: Final = 1.0
_MINUTE_S: Final = STEP_S["minute"]
#: A minute that was watched for less is missing.
_WATCHED_S: Final = 30.0


@dataclass(frozen=True)
class WatchedMinutes:
    """The watched minutes of a camera that counts (of other cameras there are none). `places_changed_utc_s`: when its
    lines or zones were changed. A camera that has none for a while does not count, and is watched all the same."""

    minutes: tuple[WatchedTime, ...] = ()
    places_changed_utc_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Mark:
    """From `at_utc_s` on the camera is not watched, by this cause; None: it is."""

    at_utc_s: float
    cause: OutageCause | None
    fault: CameraFault | None = None


@dataclass(frozen=True)
class _ShownPart:
    """The part of a day that outages are shown of. `running`: it ends now."""

    from_utc_s: float
    to_utc_s: float
    running: bool


def outages(
    day: DaySpan,
    changes: Sequence[StateChange],
    starts: Sequence[BoxStart],
    watched: WatchedMinutes,
    now_utc_s: float,
    read_to_utc_s: float | None = None,
) -> tuple[Outage, ...]:
    """The outages of a day up to now, in order; they do not overlap, and each lies in the day. `changes` and `starts`
    in the order of time, those before the day too: the last of these is the state at its beginning, which is not known
    without one, and then no outage is shown before the first. The first start after the day is wanted, too. Between
    `watched` minutes, those that are missing are outages. `read_to_utc_s`: changes after it are not known, and no
    outage is shown from there on (None: all of the day are known)."""
    end = min(day.to_utc_s, now_utc_s)
    shown = _ShownPart(day.from_utc_s, end, end < day.to_utc_s)
    if read_to_utc_s is not None and read_to_utc_s < end:
        shown = _ShownPart(day.from_utc_s, read_to_utc_s, False)
    found = [cut for o in _joined(_marks(changes, starts)) if (cut := _inside(o, shown)) is not None]
    for first, last in _missing(watched):
        found += [
            cut
            for gap in _without(first, last, found, shown.to_utc_s)
            if (cut := _inside(Outage(*gap, "not_watched"), shown)) is not None
        ]
    return tuple(sorted(found, key=lambda o: o.from_utc_s))


def known_from(changes: Sequence[StateChange], day: DaySpan, journal_from_utc_s: float | None = None) -> float | None:
    """From when on the camera's state is known; None: it is not, on this day. `journal_from_utc_s`: before it the
    journal was deleted, but for the last state of each camera (None: all of it is there)."""
    first = min((c.at_utc_s for c in changes), default=None)
    if first is not None and journal_from_utc_s is not None:
        first = max(first, journal_from_utc_s)
    return first if first is None or first < day.to_utc_s else None


def _marks(changes: Sequence[StateChange], starts: Iterable[BoxStart]) -> list[_Mark]:
    if not changes:
        return []
    # The camera was not there yet, or it is not known how it was.
    first = changes[0].at_utc_s
    marks = [_Mark(c.at_utc_s, None if c.state == "live" else c.state, c.fault) for c in changes]
    for start in starts:
        if start.at_utc_s <= first:
            continue
        if start.alive_utc_s is not None and first <= start.alive_utc_s < start.at_utc_s:
            marks.append(_Mark(start.alive_utc_s, "box_off"))
        # A camera that is off, or gone, says nothing when the box starts.
        before = changes[bisect.bisect_left(changes, start.at_utc_s, key=lambda c: c.at_utc_s) - 1].state
        marks.append(_Mark(start.at_utc_s, before if before in ("removed", "stopped") else "starting"))
    # Stable, so that the latest of a camera's changes at one instant holds.
    return sorted(marks, key=lambda m: m.at_utc_s)


def _joined(marks: Sequence[_Mark]) -> list[Outage]:
    found: list[Outage] = []
    current: Outage | None = None
    for mark in marks:
        if mark.cause is None:
            if current is not None:
                found.append(replace(current, to_utc_s=mark.at_utc_s))
            current = None
        elif current is None:
            current = Outage(mark.at_utc_s, None, mark.cause, mark.fault)
        elif (mark.cause == "box_off") != (current.cause == "box_off") and not _of_start(current, mark):
            # A fault of the camera and a box that was off are two outages.
            found.append(replace(current, to_utc_s=mark.at_utc_s))
            current = Outage(mark.at_utc_s, None, mark.cause, mark.fault)
        else:
            cause = min(current.cause, mark.cause, key=_RANK.index)
            current = replace(current, cause=cause, fault=mark.fault or current.fault)
    return found if current is None else [*found, current]


def _of_start(current: Outage, mark: _Mark) -> bool:
    """Whether a camera is only on its way after the box was off."""
    return current.cause == "box_off" and mark.cause in ("starting", "connecting")


def _inside(outage: Outage, shown: _ShownPart) -> Outage | None:
    """The part of an outage that is shown; None where there is next to nothing of it."""
    first = max(outage.from_utc_s, shown.from_utc_s)
    last = shown.to_utc_s if outage.to_utc_s is None else min(outage.to_utc_s, shown.to_utc_s)
    if last - first < SHORTEST_S:
        return None
    goes_on = outage.to_utc_s is None and shown.running
    return replace(outage, from_utc_s=first, to_utc_s=None if goes_on else last)


def _missing(watched: WatchedMinutes) -> list[tuple[float, float]]:
    """The gaps between minutes that were watched, but for those in which the camera may not have counted."""
    starts = sorted({m.start_s for m in watched.minutes if m.seconds >= _WATCHED_S})
    gaps = [(a + _MINUTE_S, b) for a, b in itertools.pairwise(starts) if b > a + _MINUTE_S]
    # A change lies in a minute that was watched still, or again.
    changed = watched.places_changed_utc_s
    return [(a, b) for a, b in gaps if not any(a - _MINUTE_S <= at <= b + _MINUTE_S for at in changed)]


def _without(first: float, last: float, shown: Iterable[Outage], end_utc_s: float) -> list[tuple[float, float]]:
    """A time without the outages that are shown already. A rest of less than a minute beside one of them belongs to
    it: minutes are watched whole or not."""
    left = [(first, last)]
    for outage in shown:
        to = end_utc_s if outage.to_utc_s is None else outage.to_utc_s
        left = [
            part
            for a, b in left
            for part in (
                [(a, b)] if to <= a or b <= outage.from_utc_s else [(a, min(b, outage.from_utc_s)), (max(a, to), b)]
            )
        ]
    return [(a, b) for a, b in left if b - a >= _MINUTE_S]
