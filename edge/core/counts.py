"""Counts of objects: the places of a camera where they are made, their buckets, and how true they are.

A *place* is what objects are counted at: a line in one of its two directions, a movement from one zone to another, or a
zone. Counts are kept by place and class in buckets of a minute, an hour and a day (UTC), beside how much of that time
the camera was watched: a time in which it was not is unknown, not zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.zones import Point

Direction = Literal["forward", "backward"]
PlaceKind = Literal["line", "movement", "zone"]
Step = Literal["minute", "hour", "day"]
#: The lengths of buckets, in seconds.
STEP_S: Final[Mapping[Step, int]] = {"minute": 60, "hour": 3600, "day": 86_400}
#: Seconds of frames that are one cluster of checks, for counts of a step; a year has too many minutes.
CLUSTER_S: Final[Mapping[Step, int]] = {"minute": 60, "hour": 900, "day": 21_600}
_MOST: Final = 1e12
#: A shorter line (in fractions of the picture; at 640x360 some 13 pixels) is a slip of the hand.
MIN_LENGTH: Final = 0.02

#: Of a report's HTML, and of its totals, as JSON: larger ones are left out of the message to webhooks.
MOST_REPORT_BYTES: Final = 120_000


@dataclass(frozen=True)
class CountLine:
    """A line on the picture, from `start` to `end` (x, y in fractions). An object that crosses it to the right of
    a person who walks from start to end goes `forward`. Only objects of `classes` count (empty: all). Raises
    InvalidValue."""

    name: str
    start: Point
    end: Point
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_line(f"lines.{self.name}", self.start, self.end)

    @property
    def length(self) -> float:
        """In fractions of the picture."""
        return math.dist(self.start, self.end)


def check_line(path: str, start: Point, end: Point) -> None:
    """Raises InvalidValue naming `path` and the end that is outside the picture, or the length."""
    for name, point in (("start", start), ("end", end)):
        if len(point) != 2 or not all(math.isfinite(v) and 0.0 <= v <= 1.0 for v in point):
            raise InvalidValue(f"{path}.{name}", list(point), "[x, y], each from 0 to 1")
    length = math.dist(start, end)
    if length < MIN_LENGTH:
        raise InvalidValue(path, f"a length of {length:.2g}", f"at least {MIN_LENGTH:g} of the picture")


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where objects are counted. `name`: the line, or the (first) zone; `way`: a line's direction, the last zone of a
    movement, empty for a zone."""

    kind: PlaceKind
    name: str
    way: str = ""


@dataclass(frozen=True)
class Counted:
    """An object was counted at a place: once for each object and place."""

    place: Place
    class_name: str
    object: int
    utc_s: float


@dataclass(frozen=True, slots=True)
class Corrected:
    """A count corrected by what labels say, and the interval that holds the true count with 90 %."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        return {"value": round(self.value, 2), "low": round(self.low, 2), "high": round(self.high, 2)}


@dataclass(frozen=True, slots=True)
class Count:
    """Objects of one class at one place in the bucket that begins at `start_s` (UTC epoch seconds). `seconds`: of a
    zone, the sum over objects of the time that they were in it, and `standing_s` of the time that they stood; `most`:
    the most that were in it at once. `settled`: all labels have come, and `corrected` is what they make of it (None:
    too few)."""

    camera: str
    start_s: int
    place: Place
    class_name: str
    objects: int = 0
    seconds: float = 0.0
    standing_s: float = 0.0
    most: int = 0
    settled: bool = False
    corrected: Corrected | None = None

    def __post_init__(self) -> None:
        # Tens of thousands are made for one answer: only what may be wrong is looked at closely.
        if not (0 <= self.objects <= _MOST and 0.0 <= self.seconds <= _MOST):
            checks.in_range("count.objects", self.objects, 0, _MOST)
            checks.in_range("count.seconds", self.seconds, 0.0, _MOST)

    def with_more(self, other: Count) -> Count:
        """The sum of two counts of one bucket, place and class."""
        return Count(
            self.camera, self.start_s, self.place, self.class_name, self.objects + other.objects,
            self.seconds + other.seconds, self.standing_s + other.standing_s, max(self.most, other.most),
        )  # fmt: skip


@dataclass(frozen=True)
class WatchedTime:
    """How much of the bucket that begins at `start_s` a camera was watched: seconds between answers that came soon
    after each other, and how many answers there were."""

    camera: str
    start_s: int
    seconds: float = 0.0
    answers: int = 0


@dataclass(frozen=True)
class CountCheck:
    """A teacher's labels of the frames of one minute beside what was counted over a line, or the objects in a zone: how
    many were `followed`, `there` (labels), and the `same` in both; sums over `frames` frames."""

    camera: str
    start_s: int
    place: Place
    class_name: str
    frames: int
    followed: int
    there: int
    same: int


@dataclass(frozen=True)
class PlaceCount:
    """Objects of all classes at one place in one bucket. `corrected` None: nothing is known; `most`: in a zone at
    once."""

    place: Place
    objects: int
    corrected: Corrected | None
    most: int = 0

    def to_json(self) -> dict[str, Any]:
        true = None if self.corrected is None else self.corrected.to_json()
        return {"objects": self.objects, "corrected": true, "most": self.most}


@dataclass(frozen=True)
class CountedMinute:
    """A minute of a camera that is over, as outputs and metrics report it: once. `watched`: the part of it [0, 1] in
    which answers came; `counts` by place and class, `places` all classes at every place of the camera."""

    camera: str
    start_s: int
    watched: float
    answers_per_s: float
    counts: tuple[tuple[Count, Corrected | None], ...]
    places: tuple[PlaceCount, ...]

    def to_json(self) -> dict[str, Any]:
        """For outputs: a bucket as REST shows it, with its camera and its length."""
        return {
            "camera": self.camera, "start_utc_s": self.start_s, "seconds": STEP_S["minute"], "watched": self.watched,
            "answers_per_s": self.answers_per_s, "counts": [count_row(*row) for row in self.counts],
        }  # fmt: skip


@dataclass(frozen=True)
class DayReport:
    """A camera's day (2026-11-26, in the box's time zone) as an HTML file. `watched`: the part of it [0, 1]; `totals`:
    the day's counts as REST shows them."""

    camera: str
    day: str
    from_utc_s: int
    to_utc_s: int
    watched: float
    totals: Sequence[Mapping[str, Any]]
    html: str

    def to_json(self) -> dict[str, Any]:
        """For outputs; `html` and `totals` are each null where too large for a message."""
        return {
            "camera": self.camera, "day": self.day, "from_utc_s": self.from_utc_s, "to_utc_s": self.to_utc_s,
            "watched": self.watched, "totals": _unless_large(list(self.totals)), "html": _unless_large(self.html),
        }  # fmt: skip


def _unless_large(value: Any) -> Any:
    return value if len(json.dumps(value)) <= MOST_REPORT_BYTES else None


def count_row(count: Count, true: Corrected | None) -> dict[str, Any]:
    """A count as it is shown, without its bucket."""
    return {
        "kind": count.place.kind, "name": count.place.name, "way": count.place.way, "class": count.class_name,
        "objects": count.objects, "seconds": round(count.seconds, 1) if count.seconds else 0.0,
        "standing_s": round(count.standing_s, 1) if count.standing_s else 0.0, "most": count.most,
        "corrected": None if true is None
        # Of a settled one they were rounded when they were kept.
        else {"value": true.value, "low": true.low, "high": true.high} if count.settled else true.to_json(),
    }  # fmt: skip


def watched_part(watched: WatchedTime, length_s: int) -> tuple[float, float]:
    """The part of a bucket of `length_s` seconds that was watched [0, 1], and the answers per second in it."""
    rate = round(watched.answers / watched.seconds, 2) if watched.seconds > 0 else 0.0
    return round(min(1.0, watched.seconds / length_s), 4), rate


def places_of(lines: Iterable[str], zones: Iterable[str]) -> tuple[Place, ...]:
    """The places that a camera's lines and zones make, by name, without movements."""
    ways: tuple[Direction, ...] = ("forward", "backward")
    return (*(Place("line", n, way) for n in lines for way in ways), *(Place("zone", n) for n in zones))


def summed(counts: Iterable[Count]) -> tuple[Count, ...]:
    """Counts with those of the same bucket, place and class added up, in order."""
    found: dict[tuple[str, int, Place, str], Count] = {}
    for count in counts:
        key = (count.camera, count.start_s, count.place, count.class_name)
        found[key] = found[key].with_more(count) if key in found else count
    return tuple(found[key] for key in sorted(found))


def totals(counts: Iterable[Count], start_s: int) -> tuple[Count, ...]:
    """Counts of one camera, of any buckets, added up to one that begins at `start_s`, in order."""
    camera = ""
    found: dict[tuple[Place, str], list[Any]] = {}
    for c in counts:
        camera = c.camera
        known = found.get((c.place, c.class_name))
        if known is None:
            found[c.place, c.class_name] = [c.objects, c.seconds, c.standing_s, c.most]
            continue
        known[0] += c.objects
        known[1] += c.seconds
        known[2] += c.standing_s
        known[3] = max(known[3], c.most)
    return tuple(Count(camera, start_s, place, name, *found[place, name]) for place, name in sorted(found))


def watched_sum(watched: Iterable[WatchedTime]) -> tuple[WatchedTime, ...]:
    """As `summed`, of the time that cameras were watched."""
    found: dict[tuple[str, int], WatchedTime] = {}
    for one in watched:
        before = found.get((one.camera, one.start_s), WatchedTime(one.camera, one.start_s))
        found[one.camera, one.start_s] = replace(
            one, seconds=before.seconds + one.seconds, answers=before.answers + one.answers
        )
    return tuple(found[key] for key in sorted(found))


def coarser(counts: Iterable[Count], step_s: int) -> tuple[Count, ...]:
    """Counts in buckets of `step_s` seconds."""
    return summed(moved(c, c.start_s // step_s * step_s) for c in counts)


def moved(count: Count, start_s: int) -> Count:
    """A count as part of another bucket, not settled there."""
    return replace(count, start_s=start_s, settled=False, corrected=None)


def watched_coarser(watched: Iterable[WatchedTime], step_s: int) -> tuple[WatchedTime, ...]:
    """The time that cameras were watched, in buckets of `step_s` seconds."""
    return watched_sum(replace(w, start_s=w.start_s // step_s * step_s) for w in watched)
