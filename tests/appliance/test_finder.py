"""The search of objects and a camera's day, over a real store: what was recorded, put together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.clip_video import video_now
from edge.appliance.finder import Finder
from edge.appliance.picture_files import PictureFiles
from edge.core.alarms import Alarm
from edge.core.clips import RingNow, VideoNow
from edge.core.clock import ManualClock
from edge.core.counts import Counted, Place, WatchedTime
from edge.core.errors import InvalidValue, NotFound
from edge.core.finding import ObjectSearch, read_cursor
from edge.core.tracks import TrackedObject
from edge.settings import CameraSettings, ClipSettings, parse
from edge.store.clips import ClipRecord
from edge.store.store import Store

#: 2026-10-25 00:00 in Berlin, a day of 25 hours.
MIDNIGHT = 1792879200.0
NORTH = {"id": "north", "url": "rtsp://192.0.2.1/n", "classes": ["car"]}


class Box:
    """A finder over a real store; it is noon, Berlin."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.cameras: dict[str, Any] = {}
        self.switch(True)
        self.clock = ManualClock(0.0, MIDNIGHT + 13 * 3600)
        self.records = AlarmRecords(store, PictureFiles(folder), lambda *_: None)
        self.finder = self.made()

    def made(self, **limits: int) -> Finder:
        return Finder(self.store, self.clock, lambda: cast(Any, self.cameras), ZoneInfo("Europe/Berlin"), **limits)

    def switch(self, on: bool) -> None:
        self.cameras["north"] = SimpleNamespace(settings=parse(CameraSettings, NORTH | {"enabled": on}))

    def put(self, number: int, after_s: float, kind: str = "car") -> None:
        began = MIDNIGHT + after_s
        self.records.put_object(
            TrackedObject(number, "north", kind, 0.8, (0.1, 0.1, 0.2, 0.2), began, began, 0.0, 3, ended_utc_s=began + 9)
        )


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Store(None, tmp_path) as store:
        yield Box(store, tmp_path)


async def test_objects_are_found_with_the_lines_that_they_crossed(box: Box) -> None:
    for number in (1, 2, 3):
        box.put(number, 60.0 * number)
    box.records.put_place(Counted(Place("line", "gate", "forward"), "car", 2, MIDNIGHT + 121))
    box.records.put_place(Counted(Place("zone", "drive"), "car", 2, MIDNIGHT + 122))
    box.records.put_place(Counted(Place("movement", "drive", "road"), "car", 2, MIDNIGHT + 123))
    await box.records.flush()
    first = box.finder.objects(ObjectSearch(), 2, None, None)
    assert [f.object.id for f in first.found] == [3, 2]
    assert [(x.line, x.way, x.at_utc_s) for x in first.found[1].lines] == [("gate", "forward", MIDNIGHT + 121)]
    assert (first.next, first.looked_back_to_utc_s) == (f"{MIDNIGHT + 120!r}-2", MIDNIGHT + 120)
    assert [f.object.id for f in box.finder.objects(ObjectSearch(zone="drive"), 9, None, None).found] == [2]


async def test_a_day_of_25_hours_has_its_lanes(box: Box) -> None:
    box.put(1, 30.0)
    box.put(2, 24.5 * 3600, "bus")
    await box.records.flush()
    began = MIDNIGHT + 700
    box.store.alarms.put_alarms([Alarm(4, "r", "R", "object", "warning", "north", "", "new", began, "a car")])
    box.store.clips.add_clip(ClipRecord(0, "north", "making", "ann", began, began - 5, began + 10))
    box.store.journal.append("camera.live", camera="north", at_utc_s=MIDNIGHT + 60)
    box.store.journal.append("camera.stalled", camera="north", data={"fault": "silent"}, at_utc_s=MIDNIGHT + 900)
    box.store.journal.append(
        "camera.reconnecting", camera="north", data={"fault": "a new one"}, at_utc_s=MIDNIGHT + 910
    )
    box.store.journal.append("camera.live", camera="north", at_utc_s=MIDNIGHT + 960)
    day = box.finder.timeline("north", None, 3600)
    assert (day.day, day.today, day.camera_state) == ("2026-10-25", "2026-10-25", "on")
    assert (len(day.hours), len(day.buckets)) == (25, 25)
    assert [(n, b.objects) for n, b in enumerate(day.buckets) if b.objects] == [(0, {"car": 1}), (24, {"bus": 1})]
    assert [a.id for a in day.alarms] == [4]
    assert [c.at_utc_s for c in day.clips] == [began]
    assert [(o.from_utc_s - MIDNIGHT, o.to_utc_s, o.cause, o.fault) for o in day.outages] == [
        (900.0, MIDNIGHT + 960, "stalled", "silent")
    ]
    assert day.known_from_utc_s == MIDNIGHT + 60
    empty = box.finder.timeline("north", date(2026, 3, 29), 600)
    assert (len(empty.hours), len(empty.buckets), empty.alarms, empty.outages) == (23, 23 * 6, (), ())
    assert empty.known_from_utc_s is None


def test_days_and_cameras_that_are_not_there(box: Box) -> None:
    with pytest.raises(NotFound, match="west"):
        box.finder.timeline("west", None, 600)
    with pytest.raises(InvalidValue, match=r"day.*2026-10-25"):
        box.finder.timeline("north", date(2026, 10, 26), 600)
    with pytest.raises(InvalidValue, match="day"):
        box.finder.timeline("north", date(1, 1, 1), 600)
    box.switch(False)
    assert box.finder.timeline("north", None, 600).camera_state == "off"
    box.store.journal.append("camera.removed", camera="west", at_utc_s=MIDNIGHT + 5)
    gone = box.finder.timeline("west", None, 600)
    assert gone.camera_state == "removed"
    assert [(o.cause, o.to_utc_s) for o in gone.outages] == [("removed", None)]


def test_a_worker_that_failed_and_a_restart_are_outages_and_a_retraining_that_failed_is_none(box: Box) -> None:
    for at, kind, camera, data in (
        (10.0, "appliance.started", None, {}), (20.0, "camera.live", "north", {}),
        (100.0, "worker.worker_lost", "north", {"kind": "retrain"}),
        (200.0, "worker.worker_lost", "north", {"kind": "camera"}), (260.0, "camera.live", "north", {}),
        (400.0, "plan", None, {}), (500.0, "appliance.started", None, {}), (510.0, "camera.connecting", "north", {}),
        (520.0, "camera.live", "north", {}),
    ):  # fmt: skip
        box.store.journal.append(kind, camera=camera, data=data, at_utc_s=MIDNIGHT + at)
    day = box.finder.timeline("north", None, 3600)
    assert [(o.cause, o.from_utc_s - MIDNIGHT, (o.to_utc_s or 0.0) - MIDNIGHT) for o in day.outages] == [
        ("worker_lost", 200.0, 260.0), ("box_off", 400.0, 520.0),
    ]  # fmt: skip
    assert (day.known_from_utc_s, day.cut) == (MIDNIGHT + 20, ())


def test_a_camera_without_lines_for_a_while_is_watched_and_a_day_with_too_many_changes_is_cut(box: Box) -> None:
    minutes = [WatchedTime("north", int(MIDNIGHT) + 60 * n, 60.0, 99) for n in range(30) if not 10 <= n < 20]
    box.store.counts.add_counts([], minutes, [])
    box.store.journal.append("camera.live", camera="north", at_utc_s=MIDNIGHT + 1)
    assert [o.cause for o in box.finder.timeline("north", None, 600).outages] == ["not_watched"]
    box.store.journal.append("camera.changed", camera="north", data={"fields": ["lines"]}, at_utc_s=MIDNIGHT + 590)
    assert box.finder.timeline("north", None, 600).outages == ()
    cut = box.made(most_changes=1).timeline("north", None, 600)
    assert (cut.cut, cut.outages) == (("outages",), ())


def test_a_camera_that_is_asked_for_must_be_there(box: Box) -> None:
    with pytest.raises(NotFound, match="nroth"):
        box.finder.objects(ObjectSearch(cameras=("north", "nroth")), 9, None, None)
    assert box.finder.objects(ObjectSearch(cameras=("north",)), 9, None, None).found == ()
    with pytest.raises(InvalidValue, match="bucket_s"):
        box.finder.timeline("nroth", None, 7)


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("zone", {"zone": "a\x00"}), ("line", {"line": ""}), ("classes", {"classes": ("car", "b\x00s")}),
        ("cameras", {"cameras": ("x" * 600,)}),
    ],
)  # fmt: skip
def test_a_name_that_nothing_can_have_is_refused_by_its_field(field: str, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=field):
        ObjectSearch(**wanted)
    with pytest.raises(InvalidValue, match="after"):
        read_cursor("\u0661-1")


def test_the_video_in_memory_is_reported_or_why_there_is_none() -> None:
    site = parse(ClipSettings, {"ring_s": 20})

    def now(settings: dict[str, Any], ring: RingNow | None, up: bool = True) -> VideoNow:
        camera = SimpleNamespace(
            settings=parse(CameraSettings, NORTH | settings), worker_up=up, report=SimpleNamespace(ring=ring)
        )
        return video_now(site, cast(Any, camera))

    full = RingNow("h264", 25.0)
    assert now({}, full) == VideoNow(20.0)
    assert now({}, RingNow("h264", 7.0)) == VideoNow(7.0)
    assert now({}, RingNow()).missing == "no_video"
    assert now({}, None).missing == "no_video"
    assert now({}, full, up=False).missing == "camera_away"
    assert now({"enabled": False}, full).missing == "camera_off"
    assert now({"clips": {"enabled": False}}, full).missing == "not_kept"
    assert video_now(site, None).missing == "camera_removed"
