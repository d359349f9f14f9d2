"""Minutes that are over: those that are due to be sent, and the counts of one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from edge.core.counts import STEP_S, Corrected, Count, CountedMinute, Place, PlaceCount, WatchedTime, watched_part
from scheduler.counts.checks import ClusterSums, SumsAround, sums_around
from scheduler.counts.correction import corrected
from scheduler.counts.near import checked_place

MINUTE_S: Final = STEP_S["minute"]
#: So long after its end a minute's last answers have come and are in the database.
SETTLED_S: Final = 15.0
#: Minutes that are older are not sent: after a long time without a database, or without a box.
LATEST_S: Final = 3600


def due_minutes(sent_until_s: int | None, now_utc_s: float) -> range:
    """The beginnings of the minutes to be sent at `now_utc_s`, of which those that begin before `sent_until_s` were
    sent (None: nothing was ever sent; then the last one). After the clock was set back nothing is sent until it has
    caught up: no minute is sent twice. If it was set back by more than an hour, time begins anew."""
    end = int((now_utc_s - SETTLED_S) // MINUTE_S) * MINUTE_S
    if sent_until_s is None or sent_until_s > end + LATEST_S:
        return range(end - MINUTE_S, end, MINUTE_S)
    return range(max(sent_until_s, end - LATEST_S), end, MINUTE_S)


class ChecksAround(Protocol):
    """Checks as `CheckIndex` sums them."""

    def around(self, place: Place, class_name: str, first_s: float, end_s: float, counted: int) -> SumsAround:
        """Of a class and of all classes at a place, around a time in which so many objects were counted there."""


class TotalChecks:
    """Checks around one long time, summed elsewhere: `totals(from_s, to_s)` has the sums of all places."""

    def __init__(self, totals: Callable[[float, float], Mapping[tuple[Place, str], Sequence[int]]]) -> None:
        self._totals, self._known = totals, dict[tuple[float, float], Mapping[tuple[Place, str], Sequence[int]]]()

    def around(self, place: Place, class_name: str, first_s: float, end_s: float, counted: int) -> SumsAround:
        """As `CheckIndex.around`."""
        own, every = (partial(self._between, place, name) for name in (class_name, ""))
        return sums_around(place, first_s, end_s, counted, own, every)

    def _between(self, place: Place, class_name: str, first_s: float, end_s: float) -> ClusterSums:
        asked = first_s, end_s
        found = self._known.get(asked)
        if found is None:
            found = self._known[asked] = self._totals(*asked)
        return ClusterSums(*found.get((place, class_name), ()))


def objects_by_place(counts: Iterable[Count]) -> Counter[Place]:
    """Objects of all classes by place."""
    found: Counter[Place] = Counter()
    for count in counts:
        found[count.place] += count.objects
    return found


def corrected_count(count: Count, at_place: int, truth: ChecksAround, first_s: float, end_s: float) -> Corrected | None:
    """A count of the time from `first_s` to `end_s`, corrected by the labels around that time; None: too few.
    `at_place`: the objects of all classes that were counted at its place then."""
    if count.settled:
        return count.corrected
    sums = truth.around(checked_place(count.place), count.class_name, first_s, end_s, at_place)
    return corrected(count.objects, at_place, *sums)


def counted_minute(
    watched: WatchedTime, places: Sequence[Place], counts: Sequence[Count], truth: ChecksAround
) -> CountedMinute:
    """The minute of `watched`, in which `counts` were counted. `places`: those that the camera has now."""
    first, end = watched.start_s, watched.start_s + MINUTE_S
    at: dict[Place, list[Count]] = defaultdict(list)
    for count in counts:
        at[count.place].append(count)
    part, rate = watched_part(watched, MINUTE_S)
    objects = objects_by_place(counts)
    return CountedMinute(
        watched.camera, first, part, rate,
        tuple((c, corrected_count(c, objects[c.place], truth, first, end)) for c in counts),
        tuple(_all_classes(place, objects[place], at.get(place, ()), truth, first, end) for place in places),
    )  # fmt: skip


def _all_classes(
    place: Place, objects: int, counts: Sequence[Count], truth: ChecksAround, first_s: int, end_s: int
) -> PlaceCount:
    _, every, crossings = truth.around(checked_place(place), "", first_s, end_s, objects)
    # Of each class: they need not have been there at the same moment.
    most = max((c.most for c in counts), default=0)
    return PlaceCount(place, objects, corrected(objects, objects, every, every, crossings), most)
