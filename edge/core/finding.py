"""Values of the search of objects and of a camera's day. Times are UTC epoch seconds."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from edge.core import checks
from edge.core.camera import CameraFault, CameraState
from edge.core.counts import Direction, Place
from edge.core.errors import InvalidValue

_LATEST_UTC_S: Final = 2.0**40
_LONGEST_S: Final = 1e9
_CURSOR: Final = re.compile(r"([0-9]{1,13}(?:\.[0-9]{1,20})?)-([0-9]{1,16})")
MOST_NAMES: Final = 200
_LONGEST_NAME: Final = 512
#: Lengths of a bucket of a day, in seconds; an hour is a whole number of each.
BUCKET_S: Final = (300, 600, 900, 1800, 3600)


def check_bucket(bucket_s: int) -> None:
    """Raises InvalidValue."""
    if bucket_s not in BUCKET_S:
        raise InvalidValue("bucket_s", bucket_s, ", ".join(map(str, BUCKET_S)))


@dataclass(frozen=True)
class ObjectSearch:
    """Objects that came from `from_utc_s` to before `to_utc_s`, were in the zone `zone`, crossed the line `line` (in
    the direction `way`; None: any), and stayed in view from `least_s` to `most_s` seconds; one that is still there
    has stayed until now. `cameras` and `classes` empty, and None elsewhere: any. `attribute`: a name and the label that
    an application gave. Raises InvalidValue."""

    cameras: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    zone: str | None = None
    line: str | None = None
    way: Direction | None = None
    from_utc_s: float | None = None
    to_utc_s: float | None = None
    least_s: float | None = None
    most_s: float | None = None
    attribute: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        for path, names in (("cameras", self.cameras), ("classes", self.classes)):
            if len(names) > MOST_NAMES:
                raise InvalidValue(path, f"{len(names)} names", f"at most {MOST_NAMES} names")
            for name in names:
                _name(path, name)
        for path, place in (("zone", self.zone), ("line", self.line)):
            if place is not None:
                _name(path, place)
        if self.way is not None and self.line is None:
            raise InvalidValue("way", self.way, "only with `line`")
        _span("from", self.from_utc_s, "to", self.to_utc_s, _LATEST_UTC_S)
        _span("least_s", self.least_s, "most_s", self.most_s, _LONGEST_S)


def _name(path: str, name: str) -> None:
    if not 0 < len(name) <= _LONGEST_NAME or "\x00" in name:
        raise InvalidValue(path, name[:100], f"names of 1 to {_LONGEST_NAME} characters without NUL")


def _span(first: str, low: float | None, last: str, high: float | None, most: float) -> None:
    for path, value in ((first, low), (last, high)):
        if value is not None:
            checks.in_range(path, value, 0.0, most)
    if low is not None and high is not None and high < low:
        raise InvalidValue(last, high, f"at least {first} ({low:g})")


@dataclass(frozen=True, order=True)
class FoundAfter:
    """Where a search goes on: after this object, the `id` telling apart those that came at once."""

    began_utc_s: float
    id: int

    @property
    def cursor(self) -> str:
        """For transports; `read_cursor` is its inverse."""
        return f"{self.began_utc_s!r}-{self.id}"


def read_cursor(cursor: str) -> FoundAfter:
    """Raises InvalidValue for what no answer gave."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidValue("after", cursor[:100], "`next` of an earlier answer")
    return FoundAfter(float(found[1]), int(found[2]))


@dataclass(frozen=True)
class PlacePassed:
    """An object was counted at a line or in a zone, at `utc_s`."""

    object: int
    place: Place
    utc_s: float


@dataclass(frozen=True)
class ObjectsCame:
    """So many objects of a class came in a bucket of a day (0: its first)."""

    bucket: int
    class_name: str
    objects: int


@dataclass(frozen=True)
class DaySpan:
    """From the beginning of a day to its end. Raises InvalidValue."""

    from_utc_s: float
    to_utc_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.from_utc_s) and self.from_utc_s < self.to_utc_s):
            raise InvalidValue("day", (self.from_utc_s, self.to_utc_s), "an end after the beginning")


#: The part of the box that failed, or the state of the camera's stream, while nothing was watched: the box was off, or
#: has no answer of the camera yet (`starting`); the camera's worker failed (`worker_lost`); too few answers came
#: although the camera was live (`not_watched`).
OutageCause = Literal[
    "box_off",
    "removed",
    "stopped",
    "worker_lost",
    "refused",
    "stalled",
    "reconnecting",
    "connecting",
    "starting",
    "not_watched",
]


@dataclass(frozen=True)
class StateChange:
    """From now on a camera's stream is in this state. `removed`: there is no such camera any more; `worker_lost`: the
    process that reads it failed."""

    at_utc_s: float
    state: CameraState | Literal["removed", "worker_lost"]
    fault: CameraFault | None = None


@dataclass(frozen=True)
class BoxStart:
    """The box was started; before that it gave a sign of life at `alive_utc_s` (None: none is known)."""

    at_utc_s: float
    alive_utc_s: float | None


@dataclass(frozen=True)
class Outage:
    """A time in which a camera was not watched. `to_utc_s` None: it goes on."""

    from_utc_s: float
    to_utc_s: float | None
    cause: OutageCause
    fault: CameraFault | None = None
