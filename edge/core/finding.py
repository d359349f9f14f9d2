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
_CURSOR: Final = re.compile(r"(\d{1,13}(?:\.\d{1,20})?)-(\d{1,16})")
MOST_NAMES: Final = 200


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
            if len(names) > MOST_NAMES or not all(names):
                raise InvalidValue(path, ",".join(names)[:100], f"at most {MOST_NAMES} names")
        if self.way is not None and self.line is None:
            raise InvalidValue("way", self.way, "only with `line`")
        _span("from", self.from_utc_s, "to", self.to_utc_s, _LATEST_UTC_S)
        _span("least_s", self.least_s, "most_s", self.most_s, _LONGEST_S)


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
class ObjectCame:
    """One object of a day."""

    began_utc_s: float
    class_name: str


@dataclass(frozen=True)
class DaySpan:
    """From the beginning of a day to its end. Raises InvalidValue."""

    from_utc_s: float
    to_utc_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.from_utc_s) and self.from_utc_s < self.to_utc_s):
            raise InvalidValue("day", (self.from_utc_s, self.to_utc_s), "an end after the beginning")


#: The part of the box that failed, or the state of the camera's stream, while nothing was watched: the box was off, or
#: has no answer of the camera yet (`starting`); nobody watched although the camera was live (`not_watched`).
OutageCause = Literal[
    "box_off", "removed", "stopped", "refused", "stalled", "reconnecting", "connecting", "starting", "not_watched"
]


@dataclass(frozen=True)
class StateChange:
    """From now on a camera's stream is in this state. `removed`: there is no such camera any more."""

    at_utc_s: float
    state: CameraState | Literal["removed"]
    fault: CameraFault | None = None


@dataclass(frozen=True)
class BoxStart:
    """The box was started; before that it gave a sign of life at `alive_utc_s` (None: never)."""

    at_utc_s: float
    alive_utc_s: float | None


@dataclass(frozen=True)
class Outage:
    """A time in which a camera was not watched. `to_utc_s` None: it goes on."""

    from_utc_s: float
    to_utc_s: float | None
    cause: OutageCause
    fault: CameraFault | None = None
