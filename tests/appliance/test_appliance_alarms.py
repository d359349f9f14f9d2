"""The join of tracker, rules, database and listeners on a real store: restarts, losses, pictures, rules refused."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.appliance.alarms import Alarms
from edge.core.alarms import AccuracyMeasured, Alarm, RolledBack, ServedNow
from edge.core.camera import CameraFault, CameraStatus
from edge.core.clock import ManualClock
from edge.core.errors import Conflict, InvalidValue, InvalidValues, NotFound, Unavailable
from edge.core.roll_backs import RollBackReason
from edge.core.tracks import ObjectNews
from edge.core.vision import Detections
from edge.outputs.messages import OutputEvent, kind_of, message_id
from edge.runtime import messages as m
from edge.settings import CameraSettings, RetentionSettings, SiteSettings, parse
from edge.store.store import Store

JPEG = b"\xff\xd8 a picture \xff\xd9"
SITE = {"rules": [{"id": "lost", "kind": "camera_lost"}, {"id": "any", "kind": "object"}]}


class Box:
    """Alarms over a real store, with cameras whose state the test sets; their messages are written down."""

    def __init__(self, folder: Path, clock: ManualClock, site: dict[str, Any]) -> None:
        zone = {"name": "drive", "polygon": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}
        settings = {"id": "gate", "url": "rtsp://192.0.2.1/g", "classes": ["car", "person"], "zones": [zone]}
        self.clock, self.live = clock, True
        self.fault: CameraFault | None = None
        self.watched: list[float] = []
        self.store = Store(None, folder, clock=clock, busy_timeout_ms=50)
        camera = SimpleNamespace(id="gate", settings=parse(CameraSettings, settings), status=self._status)
        self.cameras: dict[str, Any] = {"gate": camera}
        self.noted: list[tuple[str, dict[str, Any]]] = []
        self.kinds: list[str] = []
        self.delivered: list[OutputEvent] = []
        self.asked: list[m.TakePictures] = []
        self.complaints: list[str] = []
        self.alarms = Alarms(
            parse(SiteSettings, site | {"data_dir": str(folder)}), self.store, clock, lambda: self.cameras, self._take,
            partial(ServedNow, {}), self._note, lambda kind, camera, data: self.kinds.append(kind),
            self.delivered.append,
            lambda code, message: self.complaints.append(code),
            on_objects=lambda settings, there, utc_s: self.watched.append(utc_s),
        )  # fmt: skip

    def _status(self) -> CameraStatus:
        message = "" if self.live else "no route"
        return CameraStatus("gate", "live" if self.live else "reconnecting", fault=self.fault, message=message)

    def _take(self, camera: str, order: m.TakePictures) -> bool:
        self.asked.append(order)
        return True

    def _note(self, kind: str, camera: str | None = None, data: dict[str, Any] | None = None) -> None:
        self.noted.append((kind, data or {}))

    def answer(self, *places: tuple[float, float], label: int = 0, number: int = 1) -> None:
        """An answer with a box at each place, 0.5 s after the one before."""
        self.clock.advance(0.5)
        boxes = [(x, y, x + 0.05, y + 0.05) for x, y in places]
        found = Detections.build(boxes, [0.8] * len(boxes), [label] * len(boxes))
        self.alarms.answered("gate", m.Answered(number, self.clock.monotonic(), self.clock.utc(), found))

    def phases(self, rule: str) -> list[str]:
        return [kind for kind, data in self.noted if data.get("rule") == rule and kind.startswith("alarm.")]

    async def end(self) -> None:
        await self.alarms.close()
        self.store.close()

    def die(self) -> None:
        """As if killed: nothing is written any more."""
        for task in self.alarms._tasks:
            task.cancel()
        self.store.close()


@pytest.fixture
async def start(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts the alarms, and again on the same data."""
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(sqlite_template, data / "magpie.db")
    clock, started = ManualClock(1000.0), []

    async def run(site: dict[str, Any] = SITE, enabled: bool = True) -> Box:
        box = Box(data, clock, site)
        gate = box.cameras["gate"]
        gate.settings = gate.settings.model_copy(update={"enabled": enabled})
        started.append(box)
        await box.alarms.open()
        return box

    yield run
    for box in started:
        await box.end()


async def test_a_page_of_alarms_is_short_only_at_its_end_for_a_user_of_some_cameras(start: Callable[..., Any]) -> None:
    """More alarms of tenants with other cameras than are fetched at once lie between the user's own."""
    box = await start()
    own, hidden = {1, 2, 3, 130, 250, 251}, 260
    rows = [
        Alarm(
            n, "goal", "Goal", "tenant", "warning", None, "streets", "new", 1000.0, "missed",
            details={"tenant": "streets", "cameras": ["gate"] if n in own else ["gate", "yard"]},
        )
        for n in range(1, hidden + 1)
    ]  # fmt: skip
    box.store.alarms.put_alarms(rows)
    for tenants in (None, {"streets"}):
        pages, before = [], None
        while True:
            page = box.alarms.alarms(2, before, None, None, None, {"gate"}, tenants)
            pages.append([a.id for a in page])
            if len(page) < 2:
                break
            before = page[-1].id
        assert pages == [[251, 250], [130, 3], [2, 1], []]
    assert box.alarms.alarms(2, None, None, None, None, {"gate"}, {"parking"}) == []


async def test_alarms_of_served_models_are_listed_for_who_sees_their_tenant(start: Callable[..., Any]) -> None:
    box = await start()
    details = ({}, {"tenant": "streets"}, {"tenant": "streets", "cameras": ["yard"]}, {"tenant": "parking"})
    rows = [
        Alarm(
            n, "late", "Late", "slo", "warning", None, "plates", "new", 1000.0, "late", details={"model": "plates", **d}
        )
        for n, d in enumerate(details, 1)
    ]  # fmt: skip
    box.store.alarms.put_alarms(rows)

    def listed(cameras: set[str] | None, tenants: set[str] | None) -> list[int]:
        return [a.id for a in box.alarms.alarms(10, None, None, None, None, cameras, tenants)]

    assert listed(None, None) == [4, 3, 2, 1]
    assert listed(None, {"streets"}) == [3, 2]
    assert listed({"gate"}, {"streets"}) == [2]
    assert listed({"gate"}, None) == [4, 2]
    assert listed({"gate", "yard"}, {"parking"}) == [4]
    assert listed(None, set()) == []


async def test_a_picture_that_stands_still_is_not_watched_by_who_counts(start: Callable[..., Any]) -> None:
    box = await start()
    box.answer((0.5, 0.5))
    box.fault = "frozen"
    box.answer((0.5, 0.5))
    box.answer((0.5, 0.5))
    box.fault = None
    box.answer((0.5, 0.5))
    assert len(box.watched) == 2
    assert box.watched[1] - box.watched[0] == pytest.approx(1.5)


async def test_an_active_alarm_survives_being_killed_and_ends_once(start: Callable[..., Any]) -> None:
    box = await start()
    box.live = False
    for _ in range(8):
        box.clock.advance(10)
        box.alarms.tick(slow=False)
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    assert box.phases("lost") == ["alarm.new"]
    assert box.phases("any") == ["alarm.new"]
    await box.alarms.records.flush()
    box.die()
    again = await start()
    assert again.phases("any") == ["alarm.end"], "no object outlives a run"
    ends = [d for d in again.delivered if isinstance(d, ObjectNews)]
    began = [d for d in box.delivered if isinstance(d, ObjectNews)]
    assert [(d.phase, d.object.id) for d in ends] == [("end", began[0].object.id)], "receivers hear of its end"
    row = ends[0].to_json()
    assert row["ended_utc_s"] >= row["began_utc_s"] == began[0].to_json()["began_utc_s"]
    assert {k: row[k] for k in ("class", "box", "zones")} == {
        k: began[0].to_json()[k] for k in ("class", "box", "zones")
    }
    assert [o.ended_utc_s for o in again.store.alarms.tracked_objects()] == [None], "once the outbox holds its end"
    await again.alarms.end_outlived()
    assert [o.ended_utc_s for o in again.store.alarms.tracked_objects()] == [row["ended_utc_s"]]
    again.alarms.tick(slow=True)
    assert again.phases("lost") == ["alarm.end"], "the camera is live again"
    assert [a.phase for a in again.alarms.alarms(10, None, None, "lost", None, None)] == ["new"], "not written yet"
    await again.alarms.records.flush()
    both = again.alarms.alarms(10, None, None, None, None, None)
    assert [a.phase for a in both] == ["end", "end"]
    assert all(o.ended_utc_s is not None for o in again.alarms.objects(10, None, None, None, None, None))
    again.answer((0.2, 0.2))
    again.answer((0.2, 0.2))
    numbers = [d.object.id for d in again.delivered if isinstance(d, ObjectNews) and d.phase == "new"]
    assert numbers[0] > 1000, "numbers that a killed run may have sent are not given again"


async def test_an_end_that_is_delivered_again_after_a_kill_has_the_same_id(start: Callable[..., Any]) -> None:
    box = await start()
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    await box.alarms.records.flush()
    box.clock.advance(30)
    box.alarms.tick(slow=False)  # it ended; the record of that is not written any more
    box.die()
    ids = [message_id("depot", d) for d in box.delivered if isinstance(d, ObjectNews) and d.phase == "end"]
    assert len(ids) == 1
    for _ in range(2):  # killed once more before the record ends
        again = await start()
        ids += [message_id("depot", d) for d in again.delivered if isinstance(d, ObjectNews)]
        again.die()
    assert len(ids) == 3
    assert len(set(ids)) == 1


async def test_a_rules_interval_holds_over_a_restart(start: Callable[..., Any]) -> None:
    site = {"rules": [{"id": "any", "kind": "object", "min_interval_s": 600}]}
    box = await start(site)
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    assert box.phases("any") == ["alarm.new"]
    await box.end()
    again = await start(site)
    again.clock.advance(300)
    again.answer((0.2, 0.2))
    again.answer((0.2, 0.2))
    assert again.phases("any") == [], "300 s after the last one"
    again.clock.advance(300)
    again.answer((0.7, 0.7))
    again.answer((0.7, 0.7))
    assert again.phases("any") == ["alarm.new"]


async def test_a_picture_that_cannot_be_kept_leaves_no_file(
    start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = await start()
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2), number=5)
    of = box.asked[0].wanted[0].of
    await box.alarms.records.flush()

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as stream:
            stream.write(data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    box.alarms.answered("gate", m.Picture(of, JPEG))
    await box.alarms.records.flush()
    monkeypatch.undo()

    def locked(*_: object) -> bool:
        raise Unavailable("the database is locked")

    monkeypatch.setattr(box.store.alarms, "set_picture", locked)
    box.alarms.answered("gate", m.Picture(of, JPEG))
    await box.alarms.records.flush()
    monkeypatch.undo()
    assert box.alarms.counts()["lost"]["pictures_not_kept"] == 2
    assert [p for p in (tmp_path / "data").rglob("*") if p.suffix in (".tmp", ".jpg")] == []


async def test_everything_is_reported_in_order_and_with_its_phase(start: Callable[..., Any]) -> None:
    box = await start()
    for n in range(4):
        box.answer((0.2 + 0.01 * n, 0.2), number=n)
    box.clock.advance(10)
    box.alarms.tick(slow=False)
    said = [(kind_of(d), d.phase) for d in box.delivered]
    assert said == [("object", "new"), ("alarm", "new"), ("object", "end"), ("alarm", "end")]
    assert box.kinds == ["object.new", "object.end"]
    first = box.delivered[0].to_json()
    assert (first["class"], first["camera"], first["zones"]) == ("car", "gate", ["drive"])
    ended = box.delivered[3].to_json()
    assert ended["object"] == first["id"]
    assert ended["message"] == "car is gone"


async def test_pictures_are_asked_for_kept_and_dropped(start: Callable[..., Any], tmp_path: Path) -> None:
    box = await start()
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2), number=7)
    asked = [(order.number, f"{w.of.kind}/{w.of.number}", w.crop is None) for order in box.asked for w in order.wanted]
    assert asked == [(7, "alarms/1", True), (7, "objects/1", False)]
    await box.alarms.records.flush()
    for of in (m.PictureOf("alarms", 1), m.PictureOf("objects", 1), m.PictureOf("alarms", 99)):
        box.alarms.answered("gate", m.Picture(of, JPEG))
    box.alarms.answered("gate", m.Picture(m.PictureOf("objects", 1), b""))
    update = box.delivered[-1]
    assert (kind_of(update), update.phase, update.picture) == ("alarm", "update", True)
    await box.alarms.records.flush()
    assert box.alarms.alarm_picture(1) == box.alarms.object_picture(1) == JPEG
    assert sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "data").rglob("*.jpg")) == [
        "data/alarms/gate/1.jpg", "data/objects/gate/1.jpg",
    ]  # fmt: skip
    lost = box.alarms.counts()["lost"]
    assert (lost["pictures_not_taken"], lost["pictures_not_kept"]) == (0, 1), "one came: nothing is missing"
    box.alarms.answered("gate", m.Picture(m.PictureOf("alarms", 1), b""))
    assert box.alarms.counts()["lost"]["pictures_not_taken"] == 1
    box.clock.advance(20)
    box.alarms.tick(slow=False)
    await box.alarms.records.flush()
    report = await box.alarms.retain(RetentionSettings(max_object_pictures_mb=1e-9))
    assert report.pictures == 2
    with pytest.raises(NotFound, match="no picture of alarm 1"):
        box.alarms.alarm_picture(1)


async def test_a_crowd_is_not_photographed_at_once(start: Callable[..., Any]) -> None:
    box = await start()
    crowd = [(0.02 + 0.09 * n, 0.1 + 0.2 * k) for n in range(10) for k in range(2)]
    box.answer(*crowd)
    box.answer(*crowd)
    asked = [w.of.kind for order in box.asked for w in order.wanted]
    assert (asked.count("objects"), asked.count("alarms")) == (6, 6)
    counts = box.alarms.counts()
    assert counts["objects"] == {"gate": 20}
    assert counts["lost"]["pictures_not_taken"] == 14, "of alarms"
    for _ in range(40):
        for order in box.asked:
            for wanted in order.wanted:
                box.alarms.answered("gate", m.Picture(wanted.of, JPEG))
        box.asked.clear()
        box.answer(*crowd)
    await box.end()
    assert box.alarms.counts()["lost"]["pictures_not_taken"] == 14, "each object had its turn"


async def test_an_object_without_any_picture_is_counted_once(start: Callable[..., Any]) -> None:
    box = await start({"rules": []})
    for n in range(20):
        box.answer((0.2, 0.2), number=n)
        for order in box.asked:
            box.alarms.answered("gate", m.Picture(order.wanted[0].of, b""))
    assert len(box.asked) == 3, "it is tried again, not for ever"
    assert box.alarms.counts()["lost"]["pictures_not_taken"] == 0
    await box.end()
    assert box.alarms.counts()["lost"]["pictures_not_taken"] == 1


async def test_records_wait_while_the_database_cannot_be_written(start: Callable[..., Any], tmp_path: Path) -> None:
    box = await start()
    other = sqlite3.connect(tmp_path / "data" / "magpie.db")
    other.execute("BEGIN IMMEDIATE")
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    await box.alarms.records.flush()
    assert box.complaints == ["alarms_not_written"]
    assert box.alarms.alarms(10, None, None, None, None, None) == []
    other.rollback()
    other.close()
    await box.alarms.records.flush()
    assert [a.rule for a in box.alarms.alarms(10, None, None, None, None, None)] == ["any"]
    assert len(box.alarms.objects(10, None, None, None, None, None)) == 1
    assert box.alarms.counts()["lost"]["records"] == 0


async def test_a_record_that_can_never_be_written_holds_up_no_others(start: Callable[..., Any]) -> None:
    box = await start({"rules": []})
    gate = box.cameras["gate"]
    gate.settings = gate.settings.model_copy(update={"classes": ("ca\x00r", "person")})
    for _ in range(3):
        box.clock.advance(0.5)
        found = Detections.build([(0.1, 0.1, 0.2, 0.2), (0.6, 0.6, 0.7, 0.7)], [0.8, 0.8], [0, 1])
        box.alarms.answered("gate", m.Answered(1, box.clock.monotonic(), box.clock.utc(), found))
    await box.alarms.records.flush()
    assert [o.class_ for o in box.alarms.objects(10, None, None, None, None, None)] == ["person"]
    assert box.alarms.counts()["lost"]["records"] == 1


async def test_an_answer_of_another_list_of_classes_is_left_out(start: Callable[..., Any]) -> None:
    box = await start()
    box.answer((0.2, 0.2), label=5)
    box.answer((0.2, 0.2), label=5)
    assert box.delivered == []
    box.alarms.answered("nowhere", m.Answered(1, 2000.0, 3000.0, Detections.empty()))


async def test_rules_that_name_what_is_not_there_are_refused(start: Callable[..., Any]) -> None:
    box = await start()
    rule = {"kind": "object", "name": "Cars in the Drive!", "zones": ["drive"], "classes": ["car"]}
    for more, path in (
        ({"cameras": ["yard"]}, "cameras[0]"),
        ({"zones": ["drive", "porch"]}, "zones[1]"),
        ({"classes": ["zebra"]}, "classes[0]"),
    ):
        with pytest.raises(InvalidValues) as caught:
            await box.alarms.add_rule(rule | more, "ann")
        assert path in [p.path for p in caught.value.problems]
    added = await box.alarms.add_rule(rule, "ann")
    assert added.id == "cars-in-the-drive"
    assert (await box.alarms.add_rule(rule, "ann")).id == "cars-in-the-drive-2"
    with pytest.raises(Conflict):
        await box.alarms.add_rule(rule | {"id": "any"}, "ann")
    with pytest.raises(InvalidValue, match="an id does not change"):
        await box.alarms.change_rule("any", {"id": "other"}, "ann")
    changed = await box.alarms.change_rule("cars-in-the-drive", {"zones": None, "dwell_s": 3}, "ann")
    assert (changed.zones, changed.dwell_s) == ((), 3.0)
    await box.alarms.remove_rule("cars-in-the-drive-2", "ann")
    records = box.store.settings.audit("settings/rules")
    assert len(records) == 4, "every change has its record, a refused one none"
    assert records[0].changed_by == "ann"


async def test_a_rule_about_what_is_gone_can_still_be_changed_and_switched_off(start: Callable[..., Any]) -> None:
    box = await start()
    rule = await box.alarms.add_rule({"kind": "object", "name": "parked", "zones": ["drive"], "cameras": ["gate"]}, "a")
    gate = box.cameras["gate"]
    gate.settings = gate.settings.model_copy(update={"zones": ()})
    assert (await box.alarms.change_rule(rule.id, {"enabled": False, "name": "x"}, "ann")).enabled is False
    box.cameras.clear()
    assert (await box.alarms.change_rule(rule.id, {"severity": "info"}, "ann")).severity == "info"
    with pytest.raises(InvalidValues, match=r"zones\[0\]"):
        await box.alarms.change_rule(rule.id, {"zones": ["porch"]}, "ann")


async def test_the_database_decides_once_a_rule_was_changed(start: Callable[..., Any]) -> None:
    box = await start()
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    await box.alarms.change_rule("any", {"enabled": False}, "ann")
    assert box.phases("any") == ["alarm.new", "alarm.end"]
    await box.end()
    again = await start(SITE | {"rules": []})
    assert {r.id: r.enabled for r in again.alarms.rules()} == {"lost": True, "any": False}


async def test_a_removed_camera_leaves_nothing_open(start: Callable[..., Any]) -> None:
    box = await start()
    box.answer((0.2, 0.2))
    box.answer((0.2, 0.2))
    del box.cameras["gate"]
    box.alarms.camera_gone("gate")
    assert box.phases("any") == ["alarm.new", "alarm.end"]
    assert box.alarms.active() == []
    assert box.alarms.counts()["objects_now"] == {}


async def test_a_roll_back_by_a_person_is_no_alarm(start: Callable[..., Any]) -> None:
    box = await start({"rules": [{"id": "back", "kind": "roll_back"}, {"id": "low", "kind": "accuracy", "below": 0.5}]})
    box.alarms.fact(RolledBack("gate", "m1", RollBackReason.asked("I say so")))
    assert box.noted == []
    worse = RollBackReason("under_parent", 0.4, 0.6, 100, 0.05)
    box.alarms.fact(RolledBack("gate", "m1", worse))
    box.alarms.fact(AccuracyMeasured("gate", 3, 0.41))
    assert [d["message"] for _, d in box.noted] == [
        f"back to m1: {worse.words}", "accuracy 0.41 in window 3, the rule's floor is 0.50",
    ]  # fmt: skip
    seen = await box.alarms.acknowledge(1, "ann")
    assert seen.acknowledged_by == "ann"
    assert box.phases("back") == ["alarm.new", "alarm.end"]


async def test_a_camera_that_was_switched_off_meanwhile_has_no_alarm_after_a_start(start: Callable[..., Any]) -> None:
    box = await start()
    box.live = False
    for _ in range(8):
        box.clock.advance(10)
        box.alarms.tick(slow=False)
    await box.end()
    again = await start(enabled=False)
    assert again.phases("lost") == ["alarm.end"]
