"""Alarms that two boxes raised for one event, while both answered the camera: a fleet was split, and is whole again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Final

#: Two alarms of one event began within so long. Alarms farther apart may be of two events, and both are shown.
GAP_S: Final = 10.0
#: The clock of one box says when the overlap was; the other box's may differ by so much.
SLACK_S: Final = 5.0


@dataclass(frozen=True, order=True)
class RaisedAlarm:
    """An alarm of a box, by its number there; `utc_s`: when it began."""

    box: str
    number: int
    camera: str
    rule: str
    utc_s: float


@dataclass(frozen=True)
class ReportedOverlap:
    """Until `end_utc_s` the box `box` answered a camera that another one answered, too, since about `start_utc_s`."""

    box: str
    camera: str
    start_utc_s: float
    end_utc_s: float


def doubled(alarms: Iterable[RaisedAlarm], overlaps: Iterable[ReportedOverlap]) -> tuple[tuple[RaisedAlarm, ...], ...]:
    """Pairs of alarms of one event: of one camera and rule, by two boxes, within an overlap reported by one of the two,
    begun within `GAP_S` of each other. No alarm is in two pairs; those that began closest together are taken first."""
    reported = tuple(overlaps)
    of_one: dict[tuple[str, str], list[RaisedAlarm]] = {}
    for alarm in sorted(set(alarms)):
        of_one.setdefault((alarm.camera, alarm.rule), []).append(alarm)
    found = [
        pair for some in of_one.values() for pair in combinations(some, 2) if _of_one_event(pair[0], pair[1], reported)
    ]
    taken: set[RaisedAlarm] = set()
    pairs = []
    for pair in sorted(found, key=lambda p: (abs(p[0].utc_s - p[1].utc_s), p)):
        if taken.isdisjoint(pair):
            taken.update(pair)
            pairs.append(pair)
    return tuple(pairs)


def _of_one_event(one: RaisedAlarm, other: RaisedAlarm, reported: tuple[ReportedOverlap, ...]) -> bool:
    if one.box == other.box or abs(one.utc_s - other.utc_s) > GAP_S:
        return False
    return any(
        o.camera == one.camera
        and o.box in (one.box, other.box)
        and all(o.start_utc_s - SLACK_S <= a.utc_s <= o.end_utc_s + SLACK_S for a in (one, other))
        for o in reported
    )
