"""Pictures of alarms and objects that cameras are asked for, within a measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from edge.core.clock import Clock
from edge.core.tracks import TrackedObject
from edge.runtime import messages as m
from edge.store.alarms import PictureOwner

#: Pictures asked of a camera: so many at once, so many a second; of one object at most so many, each so much better.
_PICTURES_AT_ONCE, _PICTURES_PER_S = 6.0, 1.0
_PICTURES_OF_ONE, _BETTER, _PICTURE_EVERY_S = 3, 1.5, 1.0
#: With less free disk than this no picture is kept, and the operator hears of it.
LOW_DISK_BYTES: Final = 200_000_000
_EDGE: Final = 0.01


@dataclass
class _Pictures:
    """The pictures asked for one object: how many, how good the best is, when the last was asked for, whether one
    came, and whether one is kept."""

    asked: int = 0
    best: float = 0.0
    asked_s: float = 0.0
    came: bool = False
    kept: bool = False


class PictureRequests:
    """`take(camera, order)` hands an order to the camera's worker; False if the worker is not there. `free_bytes` of
    the disk are set from outside; `not_taken` counts alarms and objects that have no picture."""

    def __init__(self, clock: Clock, take: Callable[[str, m.TakePictures], bool]) -> None:
        self._clock, self._take = clock, take
        self._of_object: dict[int, _Pictures] = {}
        self._tokens: dict[str, tuple[float, float]] = {}
        self.free_bytes = 1 << 62
        self.not_taken = 0

    # -- objects that are followed

    def follow(self, number: int) -> None:
        """An object that is new: pictures of it are asked for from now on."""
        self._of_object[number] = _Pictures()

    def ended(self, number: int) -> None:
        """An object that has ended: it is counted if no picture of it came."""
        pictures = self._of_object.pop(number, None)
        self.not_taken += pictures is not None and not pictures.came

    def kept(self, number: int) -> bool:
        """Whether a picture of an object that is followed is kept."""
        known = self._of_object.get(number)
        return known is not None and known.kept

    # -- asking

    def ask_for_alarms(self, camera: str, frame: int, numbers: Iterable[int]) -> None:
        """Ask for a picture of a frame for each new alarm; those without are counted."""
        now_s, alarms = self._clock.monotonic(), list(numbers)
        allowed = [n for n in alarms if self._may_ask(f"{camera}/alarms", now_s)]
        wanted = tuple(m.PictureWanted(m.PictureOf("alarms", n)) for n in allowed)
        self.not_taken += len(alarms) - len(wanted)
        if wanted and not self._ask(camera, frame, wanted):
            self.not_taken += len(wanted)

    def ask_for_objects(self, camera: str, frame: int, utc_s: float, objects: Iterable[TrackedObject]) -> None:
        """Ask for a picture of each object seen at `utc_s` that is new, or is seen much better than before."""
        now_s, wanted = self._clock.monotonic(), []
        for tracked in objects:
            known = self._of_object.get(tracked.id)
            if known is None or tracked.seen_utc_s != utc_s or known.asked >= _PICTURES_OF_ONE:
                continue
            quality = _quality(tracked)
            if known.asked and (quality < _BETTER * known.best or now_s - known.asked_s < _PICTURE_EVERY_S):
                continue
            wanted.append((quality, tracked, known))
        wanted.sort(key=lambda w: (w[2].asked, -w[0]))
        orders = []
        for quality, tracked, known in wanted:
            if not self._may_ask(camera, now_s):
                break  # those that have none come first the next time, too
            known.asked, known.best, known.asked_s = known.asked + 1, quality, now_s
            orders.append(m.PictureWanted(m.PictureOf("objects", tracked.id), tracked.box))
        if orders:
            self._ask(camera, frame, tuple(orders))

    def _may_ask(self, bucket: str, now_s: float) -> bool:
        """Alarms and objects of each camera have a measure of their own."""
        tokens, at_s = self._tokens.get(bucket, (_PICTURES_AT_ONCE, now_s))
        tokens = min(_PICTURES_AT_ONCE, tokens + (now_s - at_s) * _PICTURES_PER_S)
        good = tokens >= 1.0
        self._tokens[bucket] = (tokens - good, now_s)
        return good

    def _ask(self, camera: str, frame: int, wanted: tuple[m.PictureWanted, ...]) -> bool:
        return self.free_bytes >= LOW_DISK_BYTES and self._take(camera, m.TakePictures(frame, wanted))

    def camera_gone(self, camera: str) -> None:
        """Forget the measure of a camera."""
        for bucket in (camera, f"{camera}/alarms"):
            self._tokens.pop(bucket, None)

    # -- what came of it

    def came(self, kind: PictureOwner, number: int) -> None:
        """A picture came."""
        known = self._of_object.get(number) if kind == "objects" else None
        if known is not None:
            known.came = True

    def missed(self, kind: PictureOwner, number: int) -> None:
        """The frame was gone. Of an object another is asked for; objects without one at their end are counted."""
        self.not_taken += kind == "alarms"
        known = self._of_object.get(number) if kind == "objects" else None
        if known is not None and not known.came:
            known.best = 0.0

    def keep(self, number: int) -> None:
        """A picture of an object is kept; one that is not followed any more is left out."""
        known = self._of_object.get(number)
        if known is not None:
            known.kept = True


def _quality(tracked: TrackedObject) -> float:
    """How well an object shows: large, sure, and whole."""
    x0, y0, x1, y1 = tracked.box
    whole = min(x0, y0) > _EDGE and max(x1, y1) < 1 - _EDGE
    return (x1 - x0) * (y1 - y0) * tracked.score * (1.0 if whole else 0.4)
