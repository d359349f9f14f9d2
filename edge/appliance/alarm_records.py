"""Alarms, objects and their pictures on their way to the database and the disk: written behind, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from edge.appliance.picture_files import PictureFiles
from edge.core.alarms import Alarm
from edge.core.counts import Counted, Place
from edge.core.errors import InvalidValue, MagpieError
from edge.core.finding import PlacePassed
from edge.core.tracks import TrackedObject
from edge.store.alarms import PictureOwner
from edge.store.store import Store

log = logging.getLogger(__name__)

Key = TypeVar("Key", int, tuple[int, Place])

#: Records that wait for the database; then the oldest give way, and are counted.
_MOST_WAITING = 5000
_PICTURES_WAITING = 200
_WRITE_EVERY_S = 1.0


class AlarmRecords:
    """Of each alarm and object the newest record waits, its places, and of each the newest picture. `lost_records`
    and `lost_pictures` count what could not be kept. `complain(code, message)` tells an operator."""

    def __init__(self, store: Store, files: PictureFiles, complain: Callable[[str, str], None]) -> None:
        self._store, self._files, self._complain = store, files, complain
        self._alarms: dict[int, Alarm] = {}
        self._objects: dict[int, TrackedObject] = {}
        self._places: dict[tuple[int, Place], float] = {}
        self._pictures: dict[tuple[PictureOwner, int], tuple[str | None, bytes]] = {}
        self.lost_records = self.lost_pictures = 0
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._ending = False

    def __len__(self) -> int:
        """Alarms and objects that wait."""
        return len(self._alarms) + len(self._objects)

    def put_alarm(self, alarm: Alarm) -> None:
        """Have an alarm written soon."""
        self._alarms[alarm.id] = alarm
        self._wake.set()

    def put_object(self, tracked: TrackedObject) -> None:
        """Have an object written within a second."""
        self._objects[tracked.id] = tracked

    def put_place(self, counted: Counted) -> None:
        """Have the line or zone that an object was counted at written, with or after the object."""
        if counted.place.kind != "movement":
            self._places.setdefault((counted.object, counted.place), counted.utc_s)

    def put_picture(self, kind: PictureOwner, number: int, camera: str | None, jpeg: bytes) -> bool:
        """Have a picture written within a second. Returns False, and counts it as lost, if too many wait."""
        if len(self._pictures) >= _PICTURES_WAITING and (kind, number) not in self._pictures:
            self.lost_pictures += 1
            return False
        self._pictures[kind, number] = (camera, jpeg)
        return True

    async def run(self) -> None:
        """Write behind until `end`."""
        while not self._ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.flush()
            except Exception:  # after a record that fails, the next ones are still written
                log.exception("alarms: writing failed")
                self._complain("alarms_not_written", "alarms and objects could not be written; the log tells more")

    def end(self) -> None:
        """`run` ends by itself: a thread that writes could not be stopped."""
        self._ending = True
        self._wake.set()

    async def flush(self) -> None:
        """Write what waits; if the database cannot be written it waits on."""
        async with self._writing:
            alarms, self._alarms = self._alarms, {}
            objects, self._objects = self._objects, {}
            pictures, self._pictures = self._pictures, {}
            places, self._places = self._places, {}
            if not (alarms or objects or pictures or places):
                return
            try:
                refused, not_kept = await asyncio.to_thread(self._write, alarms, objects, pictures, places)
                self.lost_records += refused
                self.lost_pictures += not_kept
            except MagpieError as error:
                self._complain("alarms_not_written", f"alarms and objects wait for the database: {error}")
                self._alarms = self._kept_back(alarms, self._alarms)
                self._objects = self._kept_back(objects, self._objects)
                # Of a place that is counted again the first time stays.
                newer = {key: places.get(key, at) for key, at in self._places.items()}
                self._places = self._kept_back(places, newer)
                self.lost_pictures += len(pictures)

    def _kept_back(self, failed: dict[Key, Any], newer: dict[Key, Any]) -> dict[Key, Any]:
        together = {**failed, **newer}
        surplus = len(together) - _MOST_WAITING
        for number in list(together)[: max(0, surplus)]:
            del together[number]
            self.lost_records += 1
        return together

    def _write(
        self,
        alarms: dict[int, Alarm],
        objects: dict[int, TrackedObject],
        pictures: dict[tuple[PictureOwner, int], tuple[str | None, bytes]],
        places: dict[tuple[int, Place], float],
    ) -> tuple[int, int]:
        """Returns how many records the database can never take, and how many pictures could not be kept."""
        refused = _put(self._store.alarms.put_alarms, list(alarms.values()))
        refused += _put(self._store.alarms.put_objects, list(objects.values()))
        passed = [PlacePassed(number, place, utc_s) for (number, place), utc_s in places.items()]
        refused += _put(self._store.finding.put_object_places, passed)
        lost = sum(
            not self._write_picture(kind, number, camera, jpeg) for (kind, number), (camera, jpeg) in pictures.items()
        )
        return refused, lost

    def _write_picture(self, kind: PictureOwner, number: int, camera: str | None, jpeg: bytes) -> bool:
        try:
            first = self._files.write(kind, number, camera, jpeg)
        except OSError:
            return False
        there = False
        try:
            there = self._store.alarms.set_picture(kind, number, len(jpeg))
        finally:
            if first and not there:  # nothing would ever delete it
                with contextlib.suppress(OSError):
                    self._files.drop(kind, number, camera)
        return there


def _put(put: Callable[[list[Any]], None], records: list[Any]) -> int:
    """Write records; returns how many the database can never take. Those hold up no others."""
    if not records:
        return 0
    try:
        put(records)
    except InvalidValue as error:
        if len(records) == 1:
            log.warning("a record of alarms and objects is lost: %s", error)
            return 1
        return sum(_put(put, [record]) for record in records)
    return 0
