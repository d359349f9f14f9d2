"""Clips in the appliance: wishes of rules and people, what workers made of them, limits, restarts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from edge.appliance import clip_files
from edge.appliance.camera_memory import forget_pictures
from edge.appliance.clips import Clips
from edge.clips.mp4 import boxes_path, clip_path
from edge.core.alarms import Alarm
from edge.core.clips import ClipAsked, ClipFailed, ClipFault, ClipMade
from edge.core.clock import ManualClock
from edge.core.errors import Conflict, DiskFull, InvalidValue, NotFound, StoreError, Unavailable
from edge.settings import CameraSettings, SiteSettings, parse
from edge.store import tables as t
from edge.store.clips import ClipRecord
from edge.store.store import Store

NORTH = {"id": "north", "url": "rtsp://192.0.2.1/n", "classes": ["car"], "clips": {"before_s": 2.0}}
STILLS = {"id": "stills", "url": "/stills", "classes": ["car"]}
OFF = {"id": "off", "url": "rtsp://192.0.2.1/o", "classes": ["car"], "clips": {"enabled": False}}
SITE = {"site": "junction", "clips": {"ring_s": 20, "before_s": 5, "after_s": 10, "max_gb": 1e-6, "days": 1}}


class SetClock(ManualClock):
    """A clock whose UTC time is set by so many seconds."""

    set_by_s = 0.0

    def utc(self) -> float:
        return super().utc() + self.set_by_s


class Box:
    """Clips over a real store and folder; `orders` are those that workers got."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.clock = store, folder, SetClock(0.0)
        self.orders: list[ClipAsked] = []
        self.there = True
        self.noted: list[tuple[str, dict[str, Any]]] = []
        self.complaints: list[str] = []
        cameras = {}
        for settings, codec in ((NORTH, "h264"), (STILLS, "stills"), (OFF, "h264")):
            camera = parse(CameraSettings, settings)
            status = SimpleNamespace(codec=codec)
            cameras[camera.id] = SimpleNamespace(id=camera.id, settings=camera, status=lambda found=status: found)
        site = parse(SiteSettings, SITE | {"data_dir": str(folder)})
        self.clips = Clips(
            site, store, self.clock, lambda: cast(Any, cameras), self._order,
            lambda kind, camera, data: self.noted.append((kind, data)),
            lambda code, message, camera: self.complaints.append(message),
        )  # fmt: skip

    def _order(self, asked: ClipAsked) -> bool:
        self.orders.append(asked)
        return self.there

    async def alarm(self, number: int, camera: str = "north") -> None:
        at = self.clock.utc()
        await self.clips._take(Alarm(number, "r", "R", "object", "info", camera, "1", "new", at, ""))

    async def made(self, number: int, size: int = 400) -> None:
        """The worker has written the files of a clip."""
        path = clip_path(self.folder, "north", number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"v" * size)
        boxes_path(path).write_text(f'{{"clip":{number},"camera":"north","begins_utc_s":5.0,"answers":[]}}')
        done = ClipMade(number, "north", 5.0, 12.0, "h264", 320, 180, size, "ab", 0.0, 1.5, "camera_gone")
        await self.clips._take(done)

    def files(self) -> list[str]:
        return sorted(p.name for p in (self.folder / "clips").glob("*/*"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Store(None, tmp_path) as store:
        yield Box(store, tmp_path)


def fault_of(box: Box, clip: int) -> ClipFault | None:
    failure = box.clips.one(clip).failure
    return None if failure is None else failure.fault


async def test_a_person_asks_for_a_clip_and_gets_its_files(box: Box) -> None:
    now = box.clock.utc()
    wanted = await box.clips.make("north", None, 3.0, None, "ann")
    assert box.orders == [ClipAsked(wanted.id, "north", now, now - 2.0, now + 3.0)], "the camera's seconds, then ours"
    with pytest.raises(NotFound, match="making"):
        box.clips.video(wanted.id)
    with pytest.raises(Conflict, match="in the making"):
        await box.clips.remove(wanted.id, "ann")
    await box.made(wanted.id)
    found = box.clips.one(wanted.id)
    assert (found.state, found.failure) == ("kept", None)
    assert found.video is not None
    assert (found.video.seconds, found.video.bytes, found.video.missing_after_s) == (12.0, 400, 1.5)
    assert found.video.end == "camera_gone"
    assert box.clips.video(wanted.id).read_bytes() == b"v" * 400
    assert box.clips.boxes(wanted.id).answers == ()
    await box.clips.remove(wanted.id, "ann")
    assert box.files() == []
    with pytest.raises(NotFound):
        box.clips.one(wanted.id)
    assert [kind for kind, _ in box.noted] == ["clip.made", "clip.removed"]
    again = await box.clips.make("north", None, None, None, "ann")
    assert again.id > wanted.id, "a number is never given twice"


async def test_alarms_that_a_clip_shows_share_it(box: Box) -> None:
    await box.alarm(7)
    box.clock.advance(5.0)
    await box.alarm(8)
    assert len(box.orders) == 1
    await box.made(1)
    box.clock.advance(20.0)
    await box.alarm(9)
    assert [(c.id, c.alarms) for c in box.clips.all(10, None, None, None)] == [(2, (9,)), (1, (7, 8))]
    await box.alarm(10, "off")
    await box.alarm(11, "unknown")
    counts_now = box.clips.counts()
    assert (counts_now.made, counts_now.shared, counts_now.not_taken) == (1, 1, 2)
    assert box.clips.all(10, None, None, {"off"}) == []


async def test_wishes_that_cannot_be_granted(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValue, match="0 to 18: the ring holds 20 s"):
        await box.clips.make("north", None, 19.0, None, "ann")
    with pytest.raises(InvalidValue, match="at_utc_s"):
        await box.clips.make("north", None, None, box.clock.utc() - 60.0, "ann")
    with pytest.raises(Conflict, match="keeps no video"):
        await box.clips.make("off", None, None, None, "ann")
    with pytest.raises(Conflict, match="sends stills"):
        await box.clips.make("stills", None, None, None, "ann")
    with pytest.raises(NotFound):
        await box.clips.make("nowhere", None, None, None, "ann")
    box.there = False
    with pytest.raises(Unavailable, match="worker"):
        await box.clips.make("north", None, None, None, "ann")
    await box.alarm(1)
    assert box.store.clips.every_clip() == (), "nothing that was not begun is recorded"
    monkeypatch.setattr(clip_files.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    box.there = True
    with pytest.raises(DiskFull):
        await box.clips.make("north", None, None, None, "ann")
    await box.alarm(2)
    assert box.clips.counts().not_taken == 2


async def test_what_fails_is_counted_and_says_why(box: Box) -> None:
    for _ in range(3):
        await box.clips.make("north", None, None, None, "ann")
    await box.clips._take(ClipFailed(1, "north", "disk_full"))
    await box.clips._take(ClipFailed(2, "north", "not_in_ring", 10.0, 20.0))
    box.clock.advance(400.0)
    await box.clips._take(None)
    failures = [c.failure for c in box.clips.all(10, None, None, None) if c.failure is not None]
    assert [f.fault for f in failures] == ["no_answer", "not_in_ring", "disk_full"]
    assert failures[1].had_to_utc_s == 20.0
    assert box.clips.counts().failed == {"disk_full": 1, "not_in_ring": 1, "no_answer": 1}
    assert len(box.complaints) == 1, "an operator sees a disk that refuses"
    await box.made(3)
    assert box.files() == [], "too late: no record would ever delete it"


async def test_a_camera_that_goes_ends_its_clips(box: Box) -> None:
    wanted = await box.clips.make("north", None, None, None, "ann")
    box.clips.camera_gone("north")
    await box.clips._take(box.clips._news.get_nowait())
    assert fault_of(box, wanted.id) == "camera_off"


async def test_limits_are_kept_as_soon_as_a_clip_is_made(box: Box) -> None:
    for number in (1, 2, 3):
        await box.clips.make("north", None, None, None, "ann")
        await box.made(number, 400)
    assert [c.id for c in box.clips.all(10, None, None, None)] == [3, 2], "1,000 bytes are kept"
    assert box.files() == ["2.json", "2.mp4", "3.json", "3.mp4"]
    box.clock.advance(90_000.0)
    assert (await box.clips.retain()).to_json() == {
        "clips": 2, "bytes_freed": 800, "bytes_kept": 0, "failures": [],
    }  # fmt: skip
    assert box.files() == []


async def test_what_a_killed_run_left_is_cleared_away(box: Box) -> None:
    await box.clips.make("north", None, None, None, "ann")
    await box.made(1)
    half = ClipRecord(0, "north", "making", "", 5.0, 0.0, 10.0)
    number = box.store.clips.add_clip(half)
    folder = box.folder / "clips" / "north"
    for name in (f"{number}.mp4", f"{number}.json", f".{number}.mp4.part", "99.mp4"):
        (folder / name).write_bytes(b"x")
    await box.clips.open()
    assert box.files() == ["1.json", "1.mp4"]
    assert fault_of(box, number) == "interrupted"
    assert box.clips.counts().bytes == 400


async def test_nothing_is_left_of_a_clip_that_failed(box: Box) -> None:
    wanted = await box.clips.make("north", None, None, None, "ann")
    kept = await box.clips.make("north", None, None, None, "ann")
    await box.made(kept.id)
    folder = box.folder / "clips" / "north"
    for name in (f"{wanted.id}.mp4", f"{wanted.id}.json", f".{wanted.id}.mp4.part", f".{wanted.id}.json.0a1b.part"):
        (folder / name).write_bytes(b"x")
    await box.clips._take(ClipFailed(wanted.id, "north", "interrupted"))
    assert box.files() == [f"{kept.id}.json", f"{kept.id}.mp4"]
    await box.clips._take(ClipFailed(kept.id, "north", "camera_off"))
    assert box.clips.one(kept.id).state == "kept"
    assert len(box.files()) == 2, "reported after it was made"


async def test_old_files_that_no_record_names_go_while_it_runs(box: Box) -> None:
    making = await box.clips.make("north", None, None, None, "ann")
    kept = await box.clips.make("north", None, None, None, "ann")
    await box.made(kept.id)
    folder = box.folder / "clips" / "north"
    now = box.clock.utc()
    ages = {f"{making.id}.mp4": 4000.0, f"{kept.id}.mp4": 4000.0, f"{kept.id}.json": 4000.0}
    for name, age in (ages | {"99.mp4": 4000.0, ".98.mp4.part": 4000.0, "97.mp4": 60.0}).items():
        (folder / name).touch()
        os.utime(folder / name, (now - age, now - age))
    with box.store.database.write() as c:
        c.execute(sa.update(t.clips).where(t.clips.c.id == kept.id).values(alarms=["no number"]))
    assert box.store.clips.every_clip() == (box.store.clips.clip(making.id),), "the other's record cannot be read"
    await box.clips.retain()
    assert box.files() == sorted([*ages, "97.mp4"])


async def test_clips_in_the_making_are_not_kept_when_the_camera_gets_masks(box: Box) -> None:
    first = await box.clips.make("north", None, None, None, "ann")
    second = await box.clips.make("north", None, None, None, "ann")
    box.clips.masks_changed("north")
    await box.made(first.id)
    for _ in range(2):
        await box.clips._take(box.clips._news.get_nowait())
    await box.made(second.id)
    assert [fault_of(box, c.id) for c in (first, second)] == ["masks_changed"] * 2
    assert box.files() == []
    after = await box.clips.make("north", None, None, None, "ann")
    await box.made(after.id)
    assert box.clips.one(after.id).state == "kept"


async def test_a_clock_that_is_set_back_does_not_keep_a_clip_in_the_making(box: Box) -> None:
    wanted = await box.clips.make("north", None, None, None, "ann")
    box.clock.set_by_s = -86_400.0
    box.clock.advance(185.0)
    await box.clips._take(None)
    assert box.clips.one(wanted.id).state == "making"
    box.clock.advance(10.0)
    await box.clips._take(None)
    assert fault_of(box, wanted.id) == "no_answer"


async def test_without_a_database_alarms_without_a_clip_are_counted(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise Unavailable("the database is away")

    with monkeypatch.context() as away:
        away.setattr(box.store.clips, "add_clip", refused)
        with pytest.raises(Unavailable):
            await box.alarm(1)
    assert box.clips.counts().not_taken == 1
    box.there = False
    with monkeypatch.context() as away:
        away.setattr(box.store.clips, "delete_clips", refused)
        await box.alarm(2)
    assert box.clips.counts().not_taken == 2
    (record,) = box.store.clips.every_clip()
    assert (record.state, record.outcome["fault"]) == ("failed", "camera_off"), "not in the making for ever"


def test_what_a_camera_learns_from_goes_with_other_masks(tmp_path: Path) -> None:
    for part in ("pictures", "exemplars", "kept-out", "alarms"):
        for camera in ("north", "south"):
            (tmp_path / part / camera).mkdir(parents=True)
            (tmp_path / part / camera / "1.jpg").write_bytes(b"x")
    forget_pictures(tmp_path, "north")
    left = {p.relative_to(tmp_path).parts[0] for p in tmp_path.glob("*/north/*.jpg")}
    assert left == {"alarms"}
    assert len(list(tmp_path.glob("*/south/*.jpg"))) == 4


def test_pictures_that_cannot_be_deleted_are_an_error_after_all_others_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("pictures", "exemplars", "kept-out"):
        (tmp_path / part / "north").mkdir(parents=True)
    rmtree = shutil.rmtree

    def stubborn(folder: Path, ignore_errors: bool = False) -> None:
        if folder.parent.name != "exemplars" or not folder.exists():
            rmtree(folder)
        elif not ignore_errors:
            raise PermissionError(13, "Permission denied", "1.jpg")

    monkeypatch.setattr("edge.appliance.camera_memory.shutil.rmtree", stubborn)
    with pytest.raises(StoreError, match=r"earlier pictures of north .* Permission denied"):
        forget_pictures(tmp_path, "north")
    assert [p.parent.name for p in tmp_path.glob("*/north")] == ["exemplars"]
    forget_pictures(tmp_path, "south")
