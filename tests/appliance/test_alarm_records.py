"""Alarms, objects and pictures written behind: the newest of each, and nothing lost that the database can take."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.picture_files import PictureFiles
from edge.core.alarms import Alarm
from edge.core.counts import Counted, Place
from edge.core.errors import InvalidValue, Unavailable
from edge.core.finding import PlacePassed
from edge.core.tracks import TrackedObject


class Box:
    """Records over a database that is a few lists; while it is `away` nothing can be written."""

    def __init__(self, folder: Path) -> None:
        self.away = False
        self.alarms: list[int] = []
        self.objects: list[str] = []
        self.places: list[tuple[int, str, float]] = []
        self.pictures: list[tuple[str, int, int]] = []
        self.complaints: list[str] = []
        self.written = threading.Event()
        self.store = SimpleNamespace(
            alarms=SimpleNamespace(
                put_alarms=self._put_alarms, put_objects=self._put_objects, set_picture=self._picture
            ),
            finding=SimpleNamespace(put_object_places=self._put_places),
        )
        self.records = AlarmRecords(
            cast(Any, self.store), PictureFiles(folder), lambda code, message: self.complaints.append(code)
        )

    def _put_alarms(self, alarms: list[Alarm]) -> None:
        if self.away:
            raise Unavailable("the database is locked")
        if any("\x00" in a.message for a in alarms):
            raise InvalidValue("message", "NUL", "text")
        self.alarms += [a.id for a in alarms]
        self.written.set()

    def _put_objects(self, objects: list[TrackedObject]) -> None:
        self.objects += [f"{o.id} {o.class_name}" for o in objects]

    def _put_places(self, passed: list[PlacePassed]) -> None:
        self.places += [(p.object, p.place.name, p.utc_s) for p in passed]

    def _picture(self, kind: str, number: int, size: int) -> bool:
        self.pictures.append((kind, number, size))
        return number in self.alarms


def _alarm(number: int, message: str = "a car") -> Alarm:
    return Alarm(number, "any", "Any", "object", "warning", "gate", str(number), "new", 0.0, message)


def _object(number: int, name: str = "car") -> TrackedObject:
    return TrackedObject(number, "gate", name, 0.8, (0.1, 0.1, 0.2, 0.2), 0.0, 0.0, 0.0, 1)


async def test_the_newest_record_of_each_is_written(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for name in ("car", "bus"):
        box.records.put_object(_object(1, name))
    box.records.put_alarm(_alarm(1))
    assert len(box.records) == 2
    await box.records.flush()
    await box.records.flush()
    assert (box.alarms, box.objects, len(box.records)) == ([1], ["1 bus"], 0)


async def test_one_bad_record_is_counted_and_holds_up_no_others(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for number, message in enumerate(("a", "b\x00", "c")):
        box.records.put_alarm(_alarm(number, message))
    await box.records.flush()
    assert (box.alarms, box.records.lost_records, box.complaints) == ([0, 2], 1, [])


async def test_while_the_database_is_away_the_newest_wait(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.away = True
    for number in range(5001):
        box.records.put_alarm(_alarm(number))
    box.records.put_picture("alarms", 1, "gate", b"jpeg")
    box.records.put_place(Counted(Place("line", "gate", "forward"), "car", 7, 1.5))
    await box.records.flush()
    assert box.complaints == ["alarms_not_written"]
    assert (box.records.lost_records, box.records.lost_pictures) == (1, 1)
    box.away = False
    await box.records.flush()
    assert box.alarms == list(range(1, 5001))
    assert box.places == [(7, "gate", 1.5)]


async def test_a_picture_of_what_is_not_kept_is_deleted_and_counted(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.records.put_alarm(_alarm(1))
    for number in (1, 2):
        assert box.records.put_picture("alarms", number, "gate", b"jpeg")
    await box.records.flush()
    assert box.pictures == [("alarms", 1, 4), ("alarms", 2, 4)]
    assert [p.name for p in tmp_path.rglob("*.jpg")] == ["1.jpg"]
    assert box.records.lost_pictures == 1


async def test_of_too_many_pictures_the_last_are_lost(tmp_path: Path) -> None:
    box = Box(tmp_path)
    taken = [box.records.put_picture("objects", n, "gate", b"jpeg") for n in range(201)]
    assert taken == [True] * 200 + [False]
    assert box.records.put_picture("objects", 0, "gate", b"a better one"), "it takes the place of its own"
    assert box.records.lost_pictures == 1


async def test_records_are_written_behind_until_the_end(tmp_path: Path) -> None:
    box = Box(tmp_path)
    running = asyncio.create_task(box.records.run())
    box.records.put_alarm(_alarm(1))
    assert await asyncio.to_thread(box.written.wait, 30)
    box.records.end()
    await running
    assert box.alarms == [1]


async def test_an_unforeseen_error_does_not_end_the_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(tmp_path)

    def broken(alarms: list[Alarm]) -> None:
        box.records.end()
        raise RuntimeError("a bug")

    monkeypatch.setattr(box.store.alarms, "put_alarms", broken)
    box.records.put_alarm(_alarm(1))
    await box.records.run()
    assert box.complaints == ["alarms_not_written"]
