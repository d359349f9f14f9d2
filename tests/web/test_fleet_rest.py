"""The routes of the fleet: who sees what of it, who gives orders, who is asked in whose name."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import httpx
from access_kit import Accounts
from appliance_double import DictAppliance

from edge.core.fleet_links import FleetOrder
from edge.core.fleet_questions import BoxQuestion, FleetUser
from web.app import create_app
from web.examples.fleet import FLEET, JOB_GIVEN, JOBS


async def test_viewers_see_the_fleet_and_users_of_some_cameras_those_cameras(
    tmp_path: Path, sqlite_template: Path
) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    viewer, some = accounts.person("viewer"), accounts.person("viewer", {"north"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box") as client:
        assert (await client.get("/api/v1/fleet")).status_code == 401
        assert (await client.get("/api/v1/fleet", headers=viewer)).json() == FLEET
        limited = (await client.get("/api/v1/fleet", headers=some)).json()
        assert [c["camera"] for c in limited["cameras"]] == ["north"]
        assert limited["overlaps"] == []
        assert len(limited["boxes"]) == 2


async def test_orders_are_for_administrators_who_see_every_camera_and_say_why_they_are_refused(
    tmp_path: Path, sqlite_template: Path
) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    admin, move = accounts.person("admin"), {"kind": "move", "camera": "north", "box": "b2"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box/api/v1") as client:
        for who in (accounts.person("operator"), accounts.person("admin", {"north"})):
            assert (await client.post("/fleet/orders", json=move, headers=who)).status_code == 403
        answer = (await client.post("/fleet/orders", json=move, headers=admin)).json()
        assert (answer["kind"], answer["box"], answer["cameras"], answer["code"]) == ("move", "b2", ["north"], None)
        assert (await client.post("/fleet/orders", json={"kind": "invite"}, headers=admin)).json()["code"]
        full = await client.post("/fleet/orders", json=move | {"box": "b3"}, headers=admin)
        assert (full.status_code, full.json()["error"]["message"]) == (409, "b3 does not admit the camera north")
        for bad, path in (
            ({"kind": "move", "box": "b2"}, "camera"),
            ({"kind": "drain"}, "box"),
            ({"kind": "leave", "box": "b2"}, "kind"),
            ({"kind": "invite", "hours": 0}, "hours"),
        ):
            refused = await client.post("/fleet/orders", json=bad, headers=admin)
            assert refused.status_code == 422
            assert refused.json()["error"]["problems"][0]["path"] == path
    assert [(o.kind, by) for o, by in box.fleet.orders] == [("move", "admin-all"), ("invite", "admin-all")]


async def test_all_boxes_are_asked_in_the_users_name_and_their_answers_are_limited_here_too(
    tmp_path: Path, sqlite_template: Path
) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    viewer, some, admin = accounts.person("viewer"), accounts.person("viewer", {"north"}), accounts.person("admin")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box/api/v1") as client:
        assert len((await client.get("/fleet/wall", headers=viewer)).json()["cameras"]) == 3
        limited = (await client.get("/fleet/wall", headers=some)).json()
        assert [c["camera"] for c in limited["cameras"]] == ["north"]
        assert (await client.get("/fleet/alarms", headers=some)).json()["rows"] == []
        assert (await client.get("/fleet/alarms?camera=south", headers=some)).status_code == 404
        found = (await client.get("/fleet/alarms?limit=7&rule=parked&active=true", headers=viewer)).json()
        assert [(r["box"], r["also_on"]) for r in found["rows"]] == [("b2", ["b1"])]
        assert (await client.get("/fleet/objects?class=car", headers=viewer)).json()["rows"][0]["box"] == "b2"
        assert (await client.get("/fleet/events?kind=plan", headers=viewer)).status_code == 200
        assert (await client.get("/fleet/audit", headers=viewer)).status_code == 403
        assert (await client.get("/fleet/audit", headers=admin)).json()["rows"][0]["change"]["by"] == "ann"
        picture = "/fleet/boxes/b2/cameras/{}/picture.jpg"
        assert (await client.get(picture.format("north"), headers=some)).headers["content-type"] == "image/jpeg"
        assert (await client.get(picture.format("south"), headers=some)).status_code == 404
    assert [(what, rows.limit, rows.rule, rows.of_class, rows.entry) for what, _, rows in box.all_boxes.asked[1:4]] == [
        ("alarms", 7, "parked", "", ""), ("objects", 100, "", "car", ""), ("events", 100, "", "", "plan"),
    ]  # fmt: skip


async def test_the_agent_hands_on_questions_and_orders_with_an_administrators_token(
    tmp_path: Path, sqlite_template: Path
) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    agent, viewer = accounts.person("admin"), accounts.person("viewer")
    asker = FleetUser("eve", "viewer", ("north",))
    question = {k: v for k, v in asdict(BoxQuestion("wall", asker)).items() if k != "api"}
    record = {"kind": "drain", "box": "b2", "camera": "", "by": "eve", "given_on": "b3"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box/api/v1") as client:
        for path, body, status in (("/fleet/answers", question, 200), ("/fleet/records", record, 204)):
            assert (await client.post(path, json=body, headers=viewer)).status_code == 403
            assert (await client.post(path, json=body, headers=agent)).status_code == status
    assert box.all_boxes.questions == [BoxQuestion("wall", asker)]
    assert box.fleet.recorded == [(FleetOrder("drain", "b2", by="eve"), "b3")]


async def test_operators_of_every_camera_give_and_withdraw_jobs(tmp_path: Path, sqlite_template: Path) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    viewer, operator = accounts.person("viewer"), accounts.person("operator")
    some = accounts.person("operator", {"north"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box/api/v1") as client:
        assert (await client.get("/fleet/jobs")).status_code == 401
        assert (await client.get("/fleet/jobs", headers=viewer)).json() == JOBS
        new = JOB_GIVEN | {"id": "new"}
        for headers in (viewer, some):
            assert (await client.post("/fleet/jobs", headers=headers, json=new)).status_code == 403
            assert (await client.delete("/fleet/jobs/first", headers=headers)).status_code == 403
        assert (await client.get("/fleet/jobs", headers=some)).status_code == 403
        made = await client.post("/fleet/jobs", headers=operator, json=new)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/fleet/jobs/new")
        assert made.json()["phase"] == "waiting"
        assert (await client.post("/fleet/jobs", headers=operator, json=new)).status_code == 409
        refused = await client.post("/fleet/jobs", headers=operator, json=new | {"prefer": [{"color": "red"}]})
        assert refused.status_code == 422
        assert "prefer[0].color" in refused.text
        assert (await client.delete("/fleet/jobs/new", headers=operator)).status_code == 204
        assert (await client.delete("/fleet/jobs/first", headers=operator)).status_code == 409
        assert (await client.delete("/fleet/jobs/none", headers=operator)).status_code == 404
    assert [order[:2] for order in box.fleet_jobs.orders] == [("submit", "new"), ("withdraw", "new")]
