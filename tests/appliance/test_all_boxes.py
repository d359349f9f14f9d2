"""All boxes as one: each applies the user's role and limits, rows are merged, boxes that do not answer are named."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from edge.appliance.all_boxes import AllBoxes, page_of
from edge.appliance.answers.access import AuditAnswer
from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.fleet import FleetLendingAnswer
from edge.appliance.answers.fleet_wide import BoxFoundAnswer
from edge.appliance.answers.read import read
from edge.appliance.answers.state import BoxHealth, Overview
from edge.appliance.box_answers import BoxAnswers
from edge.appliance.fleet_cursor import cursor_of, cursor_text
from edge.core.access import Principal
from edge.core.errors import Forbidden, InvalidValue, NotFound, Unavailable
from edge.core.fleet_links import CameraEpoch, FleetAgreement, FleetCamera, FleetMember, FleetStatus
from edge.core.fleet_questions import BoxReply, FleetQuestion, FleetReplies, PictureQuestion, RowFilter
from edge.fleet.folder import FleetFolder
from edge.settings import SiteSettings, parse
from scheduler.fleet.pages import FleetCursor
from web.examples.access import AUDIT
from web.examples.alarms import ALARM, OBJECT
from web.examples.events import EVENT
from web.examples.fleet import FLEET
from web.examples.state import HEALTH, OVERVIEW

ANN = Principal("ann", "admin")
SOME = Principal("bob", "viewer", frozenset({"gate"}))
ONE = CameraEpoch(1, 1)
MEMBERS = tuple(FleetMember(b, f"https://{b}.yard:8470", 0) for b in ("b1", "b2", "b3"))
CAMERAS = (
    FleetCamera("gate", "b1", ONE, None, True, settings={"name": "The gate"}),
    FleetCamera("dock", "b3", ONE, None, True, settings={"name": "The dock"}),
)


def alarm(number: int, utc_s: float, camera: str = "gate") -> AlarmAnswer:
    return read(AlarmAnswer, ALARM | {"id": number, "began_utc_s": utc_s, "camera": camera})


class RecordsInMemory:
    """What a box has: alarms newest first, one object, one journal entry, one change."""

    def __init__(self, *alarms: AlarmAnswer) -> None:
        self._alarms = list(alarms)

    def overview(self) -> Overview:
        return read(Overview, OVERVIEW)

    def alarms(
        self, limit: int, before: int | None, camera: str | None, rule: str | None, active: bool | None,
        cameras: Collection[str] | None, tenants: Collection[str] | None = None,
    ) -> list[AlarmAnswer]:  # fmt: skip
        found = [a for a in self._alarms if before is None or a.id < before]
        return [a for a in found if cameras is None or a.camera in cameras][:limit]

    def objects(self, *_: Any) -> list[ObjectAnswer]:
        return [read(ObjectAnswer, OBJECT)]

    def recent(self, *_: Any) -> list[JournalEntry]:
        return [read(JournalEntry, EVENT)]

    def audit(self, *_: Any) -> list[AuditAnswer]:
        return [read(AuditAnswer, AUDIT)]

    def health(self) -> BoxHealth:
        return read(BoxHealth, HEALTH)

    def lending(self) -> FleetLendingAnswer:
        return read(FleetLendingAnswer, FLEET["lending"])

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        return b"\xff\xd8 mine"


class Neighbour:
    """The agent: asks the services of other boxes without a line between."""

    def __init__(self, others: dict[str, BoxAnswers]) -> None:
        self.others = others
        self.outcomes: dict[str, BoxReply] = {}
        self.picture = b"\xff\xd8 theirs"
        self.runs = True

    async def ask(self, path: str, asked: FleetQuestion, kind: Any, timeout_s: float) -> FleetReplies:
        if not self.runs:
            raise Unavailable("no box answers")
        replies = []
        for box, answers in self.others.items():
            if box in asked.ended:
                continue
            if box in self.outcomes:
                replies.append(self.outcomes[box])
                continue
            rows = replace(asked.question.rows, before=asked.before.get(box))
            try:
                found = await answers.answer(replace(asked.question, rows=rows))
            except Forbidden:
                replies.append(BoxReply(box, "refused"))
                continue
            plain = TypeAdapter(BoxFoundAnswer).dump_python(found, mode="json", by_alias=True)
            replies.append(BoxReply(box, "answered", 0.0, json.dumps(plain | {"of_a_later_version": 1})))
        return FleetReplies(tuple(replies))

    async def ask_bytes(self, path: str, asked: PictureQuestion, timeout_s: float, most: int) -> bytes:
        if asked.box not in self.others:
            raise NotFound(f"box {asked.box} is not in the fleet")
        return self.picture


def records_of(folder: Path, name: str, *alarms: AlarmAnswer) -> tuple[BoxAnswers, RecordsInMemory]:
    folder.mkdir()
    web = {"host": "0.0.0.0", "port": 8080}
    site = parse(SiteSettings, {"data_dir": str(folder), "fleet": {"name": name, "token": "env:X"}, "web": web})
    kept = RecordsInMemory(*alarms)
    every = cast(Any, kept)
    return BoxAnswers(site, every, every, every, every, kept.lending), kept


@pytest.fixture
def boxes(tmp_path: Path) -> tuple[AllBoxes, Neighbour]:
    """b1, whose gate b2 answered, too, from 100 to 160; b3 does not answer."""
    own, kept = records_of(tmp_path / "b1", "b1", alarm(3, 300.0), alarm(2, 120.0), alarm(1, 50.0, "yard"))
    other, _ = records_of(tmp_path / "b2", "b2", alarm(9, 200.0, "dock"), alarm(8, 121.0), alarm(7, 40.0))
    overlap = {"camera": "gate", "start_utc_s": 100.0, "end_utc_s": 160.0}
    FleetFolder(tmp_path / "b1").write_json("overlaps.json", [overlap | {"ours": {}, "theirs": {}}])
    agent = Neighbour({"b2": other, "b3": other})
    agent.outcomes["b3"] = BoxReply("b3", "silent", 12.0)
    agreement = FleetAgreement(members=MEMBERS, cameras=CAMERAS)
    status = FleetStatus("b1", 0.0, 1, "b1", True, True, agreement)
    return AllBoxes("b1", own, cast(Any, kept), cast(Any, agent), lambda: status), agent


def outcomes(found: Any) -> dict[str, str]:
    return {b.box: b.outcome for b in found.boxes}


async def test_alarms_of_all_boxes_are_one_list_page_by_page_and_a_doubled_one_is_one_row(
    boxes: tuple[AllBoxes, Neighbour],
) -> None:
    service, _ = boxes
    rows: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await service.alarms(ANN, RowFilter(2), cursor)
        assert outcomes(page)["b3"] == "silent"
        rows += page.rows
        cursor = page.next
    assert [(r.box, r.alarm.id, r.also_on) for r in rows] == [
        ("b1", 3, ()), ("b2", 9, ()), ("b2", 8, ("b1",)), ("b1", 1, ()), ("b2", 7, ()),
    ]  # fmt: skip


async def test_a_user_of_some_cameras_sees_those_of_every_box(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, _ = boxes
    page = await service.alarms(SOME, RowFilter(50), "")
    assert [(r.box, r.alarm.id) for r in page.rows] == [("b1", 3), ("b2", 8), ("b2", 7)]
    assert (await service.alarms(SOME, RowFilter(50, camera="dock"), "")).rows == ()
    assert (await service.objects(SOME, RowFilter(50), "")).rows == (), "of junction-north"
    assert [r.box for r in (await service.objects(ANN, RowFilter(50), "")).rows] == ["b1", "b2"]
    assert [r.entry.kind for r in (await service.events(ANN, RowFilter(50), "")).rows] == ["model.promoted"] * 2
    wall = await service.wall(Principal("bob", "viewer", frozenset({"dock", "junction-north"})))
    assert [(c.box, c.camera) for c in wall.cameras] == [
        ("b1", "junction-north"), ("b2", "junction-north"), ("b3", "dock"),
    ]  # fmt: skip
    assert (await service.wall(SOME)).cameras == (), "its box answered, and has no such camera"


async def test_the_audit_of_each_box_is_for_administrators_who_see_all(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, _ = boxes
    page = await service.audit(ANN, RowFilter(50), "")
    assert [(r.box, r.change.by) for r in page.rows] == [("b1", "ann"), ("b2", "ann")]
    for who in (Principal("bob", "operator"), Principal("eve", "admin", frozenset({"gate"}))):
        with pytest.raises(Forbidden):
            await service.audit(who, RowFilter(50), "")


async def test_a_silent_boxs_cameras_are_on_the_wall_as_the_list_has_them(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, agent = boxes
    wall = await service.wall(ANN)
    shown = {(c.box, c.camera): c for c in wall.cameras}
    there = {c["id"] for c in OVERVIEW["cameras"]}
    assert set(shown) == {(b, c) for b in ("b1", "b2") for c in there} | {("b3", "dock")}
    assert (shown["b3", "dock"].name, shown["b3", "dock"].state) == ("The dock", None)
    asked = {b.box: b for b in wall.boxes}
    assert (asked["b3"].outcome, asked["b3"].age_s) == ("silent", 12.0)
    assert asked["b2"].page == "http://b2.yard:8080/"
    agent.runs = False
    alone = await service.wall(ANN)
    assert outcomes(alone) == {"b1": "answered", "b2": "silent", "b3": "silent"}
    assert {c.box for c in alone.cameras} == {"b1", "b3"}


async def test_every_box_tells_its_version_shares_and_lending(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, _ = boxes
    found = await service.boxes(ANN)
    assert (found.me, [r.box for r in found.rows]) == ("b1", ["b1", "b2"])
    assert outcomes(found)["b3"] == "silent"
    now = found.rows[0].now
    assert now.version == HEALTH["version"]
    assert now.lending.there == read(FleetLendingAnswer, FLEET["lending"]).there
    shares = {(s.part, s.camera): s.share for s in now.shares}
    of = {camera: (s["inference"], s["retraining"]) for camera, s in OVERVIEW["shares"].items()}
    assert {(shares["inference", c], shares["retraining", c]) for c in of} == set(of.values())
    assert shares["golden", None] == OVERVIEW["golden_share"]
    assert shares["control", None] == OVERVIEW["control_share"]


async def test_shares_of_cameras_that_a_user_may_not_see_are_one(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, _ = boxes
    whole, some = await service.boxes(ANN), await service.boxes(SOME)
    for all_, seen in zip(whole.rows, some.rows, strict=True):
        assert {s.camera for s in seen.now.shares} == {None}
        assert sum(s.share for s in seen.now.shares) == pytest.approx(sum(s.share for s in all_.now.shares))
        assert {b.camera for b in seen.now.lending.there} <= set(SOME.cameras or ())


async def test_answers_that_cannot_be_read_harm_no_other(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, agent = boxes
    for bad in ("", "{", "[]", '{"page": 1}'):
        agent.outcomes["b2"] = BoxReply("b2", "answered", 0.0, bad)
        page = await service.alarms(ANN, RowFilter(50), "")
        assert outcomes(page)["b2"] == "failed"
        assert {r.box for r in page.rows} == {"b1"}
    for cursor in ("x", "eJw=", "A" * 4000, str(cursor_text(FleetCursor({"b1": 1})))[:-4]):
        with pytest.raises(InvalidValue, match="cursor"):
            await service.alarms(ANN, RowFilter(50), cursor)
    full = FleetCursor({"b1": 4}, frozenset({"b2"}), frozenset({("b3", 2)}))
    assert cursor_of(str(cursor_text(full))) == full


async def test_pictures_are_of_this_box_or_by_the_agent(boxes: tuple[AllBoxes, Neighbour]) -> None:
    service, agent = boxes
    assert await service.picture(SOME, "b1", "gate", 320) == b"\xff\xd8 mine"
    assert await service.picture(SOME, "b2", "gate", 320) == b"\xff\xd8 theirs"
    with pytest.raises(NotFound):
        await service.picture(SOME, "b2", "dock", 320)
    with pytest.raises(NotFound):
        await service.picture(ANN, "b9", "gate", 320)
    agent.picture = b"<script>"
    with pytest.raises(Unavailable, match="b2 sent no picture"):
        await service.picture(ANN, "b2", "gate", 320)


@pytest.mark.parametrize(
    ("page", "port", "tls", "address", "shown"),
    [
        ("https://yard.example/", 8080, True, "https://b2:8470", "https://yard.example/"),
        ("javascript:alert(1)", 8080, True, "https://b2:8470", ""),
        ("", 8080, True, "https://b2:8470", "https://b2:8080/"),
        ("", 8080, False, "https://[fd00::2]:8470", "http://[fd00::2]:8080/"),
        ("", None, True, "https://b2:8470", ""),
    ],
)
def test_a_boxs_page_is_an_address_of_the_web_or_none(
    page: str, port: int | None, tls: bool, address: str, shown: str
) -> None:
    assert page_of(BoxFoundAnswer(page=page, page_port=port, page_tls=tls, more=False), address) == shown
