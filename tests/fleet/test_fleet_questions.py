"""Questions of users to all boxes, and orders given on any box, over the agents' real links."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_agents_kit import FleetOfAgents, until

from edge.core.errors import Forbidden, InvalidValue, NotFound, NotUnderstood
from edge.core.fleet_links import FleetMember, FleetOrder
from edge.core.fleet_questions import (
    MOST_BYTES,
    BoxQuestion,
    BoxReply,
    FleetQuestion,
    FleetReplies,
    FleetUser,
    PictureQuestion,
    RowFilter,
)
from edge.fleet.codes import JoinCode
from edge.fleet.joining import join_fleet
from edge.fleet.links import Links
from edge.fleet.own_agent import OwnAgent

ANN = FleetUser("ann", "viewer", ("gate",))
ROOT = FleetUser("root", "admin")


async def ask(fleet: FleetOfAgents, name: str, asked: FleetQuestion) -> dict[str, BoxReply]:
    """What the others answer to a box's appliance."""
    async with OwnAgent(fleet.folder(name), fleet.settings[name]) as agent:
        return {reply.box: reply for reply in (await agent.ask("/questions", asked, FleetReplies, 10.0)).boxes}


async def three(fleet: FleetOfAgents, **more: Any) -> None:
    """Three boxes of which b1 decides; `more`: settings of b3."""
    await fleet.found("b1")
    await fleet.join("b2", "b1")
    await fleet.join("b3", "b1", **more)
    await until(lambda: all(len(fleet.status(b).boxes) == 3 for b in ("b1", "b2", "b3")), "all know each other")


async def test_all_boxes_are_asked_for_a_user_and_those_that_give_no_answer_are_named(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        await three(fleet)
        fleet.appliances["b1"].found = {"alarms": [1]}
        fleet.appliances["b2"].found = {"alarms": [2]}
        question = BoxQuestion("alarms", ANN, RowFilter(20, camera="gate"))
        asked = FleetQuestion(question, {"b1": 77, "b2": 5})
        replies = await ask(fleet, "b2", asked)
        assert {b: t.outcome for b, t in replies.items()} == {"b1": "answered", "b3": "not_known"}, "b3 is of before"
        assert json.loads(replies["b1"].answer) == {"alarms": [1]}
        (seen,) = fleet.appliances["b1"].questions
        assert seen["asker"] == {"name": "ann", "role": "viewer", "cameras": ["gate"], "tenants": None}
        assert (seen["about"], seen["rows"]["camera"], seen["rows"]["before"]) == ("alarms", "gate", 77)
        assert fleet.appliances["b2"].questions == [], "its own appliance answers for itself"

        assert await ask(fleet, "b2", replace(asked, ended=("b1", "b3"))) == {}
        fleet.cut_off.add("b1")
        replies = await ask(fleet, "b2", asked)
        assert replies["b1"].outcome == "silent"
        assert replies["b1"].age_s is not None
        assert replies["b3"].age_s is None, "it never answered"
        fleet.cut_off.clear()
        fleet.appliances["b1"].found = {"alarms": "x" * MOST_BYTES}
        assert (await ask(fleet, "b2", asked))["b1"].outcome == "too_long"


async def test_an_appliance_that_hangs_holds_no_question_up(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        fleet.question_s = 2.0
        await three(fleet)
        fleet.appliances["b1"].found = {}
        fleet.appliances["b3"].found = None
        fleet.appliances["b3"].answers.clear()  # its appliance takes the question and answers nothing
        replies = await ask(fleet, "b2", FleetQuestion(BoxQuestion("wall", ROOT)))
        assert {b: t.outcome for b, t in replies.items()} == {"b1": "answered", "b3": "silent"}


async def test_pictures_come_from_the_box_that_has_the_camera_for_users_who_may_see_it(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        await three(fleet)
        fleet.appliances["b1"].watch("gate")

        async def picture(asked: PictureQuestion, by: str = "b2") -> bytes:
            async with OwnAgent(fleet.folder(by), fleet.settings[by]) as agent:
                return await agent.ask_bytes("/picture", asked, 5.0, 1 << 20)

        assert await picture(PictureQuestion("b1", "gate", ANN, 320)) == b"\xff\xd8 gate 320"
        with pytest.raises(NotFound):
            await picture(PictureQuestion("b1", "yard", ROOT))
        with pytest.raises(NotFound, match="camera gate does not exist"):
            await picture(PictureQuestion("b1", "gate", FleetUser("bob", "viewer", ("yard",))))
        with pytest.raises(NotFound, match="box b9"):
            await picture(PictureQuestion("b9", "gate", ROOT))
        async with Links(fleet.folder("b3").path) as links:
            target = FleetMember("b2", fleet.address("b2"))
            with pytest.raises(Forbidden, match="b3 asks b1 itself"):
                await links.ask_bytes(target, "/picture", PictureQuestion("b1", "gate", ROOT), 5.0, 1000)
            with pytest.raises(Forbidden, match="b3 asks the other boxes itself"):
                await links.ask(target, "/questions", FleetQuestion(BoxQuestion("wall", ROOT)), FleetReplies)


async def test_a_box_may_refuse_and_boxes_that_never_decide_do_not_get_the_audit(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        await three(fleet, role="member", answer=False)
        for appliance in fleet.appliances.values():
            appliance.found = {}
        wall, audit = (FleetQuestion(BoxQuestion(about, ROOT)) for about in ("wall", "audit"))
        assert {b: t.outcome for b, t in (await ask(fleet, "b2", wall)).items()} == {"b1": "answered", "b3": "refused"}
        assert {t.outcome for t in (await ask(fleet, "b3", wall)).values()} == {"answered"}
        assert {t.outcome for t in (await ask(fleet, "b3", audit)).values()} == {"refused"}
        assert (await ask(fleet, "b2", audit))["b1"].outcome == "answered"


async def test_an_order_is_recorded_where_it_was_given_and_on_the_head(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        await three(fleet)
        recorded = {name: appliance.recorded for name, appliance in fleet.appliances.items()}
        async with OwnAgent(fleet.folder("b2"), fleet.settings["b2"]) as agent:
            await agent.order(FleetOrder("drain", "b3", by="ann"))
        await until(lambda: recorded["b1"], "the head's appliance knows it")
        drained = {"kind": "drain", "box": "b3", "camera": "", "by": "ann", "given_on": "b2"}
        assert recorded == {"b1": [drained], "b2": [], "b3": []}, "b2's appliance gave it, and has recorded it"
        await fleet.order("undrain", "b3", by="b2")
        await until(lambda: len(recorded["b1"]) == 2 and recorded["b2"], "a command is recorded on both")
        assert recorded["b2"] == recorded["b1"][1:]
        assert recorded["b2"][0]["by"] == ""
        with pytest.raises(NotFound, match="box b9"):
            await fleet.order("drain", "b9", by="b2")
        await fleet.beats("b1", 2)
        assert len(recorded["b1"]) == 2, "what was refused is no change"


async def test_any_box_that_may_decide_has_the_head_make_a_join_code(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        await fleet.found("b1")
        await fleet.join("b2", "b1")
        await fleet.join("b3", "b1", role="member")
        await until(lambda: len(fleet.status("b3").boxes) == 3 and fleet.status("b1").mandate, "all know each other")
        async with OwnAgent(fleet.folder("b2"), fleet.settings["b2"]) as agent:
            made = await agent.order(FleetOrder("invite", "b2", by="ann", hours=2.0))
            with pytest.raises(InvalidValue, match="hours"):
                await agent.order(FleetOrder("invite", "b2", hours=0.0))
            with pytest.raises(NotUnderstood, match="upgrade it"):
                await agent.ask("/of-a-later-version", FleetOrder("invite", "b2"), FleetReplies)
        assert (made.box, made.hours) == ("b1", 2.0)
        settings = fleet.settings["b2"].model_copy(update={"name": "b4", "address": "https://127.0.0.1:9"})
        code = JoinCode.parse(made.code)
        assert await join_fleet(fleet.folder("b4"), fleet.address("b1"), code, settings, "machine") == "b1"
        with pytest.raises(Forbidden, match="b3 may not let boxes in"):
            await fleet.order("invite", "b3", by="b3")
