"""Rules, alarms and objects over REST: what they answer, what they refuse, and to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_kit import Accounts, browser
from appliance_double import DictAppliance
from fastapi import FastAPI

from web.app import create_app


@pytest.fixture
def accounts(tmp_path: Path, sqlite_template: Path) -> Accounts:
    return Accounts(tmp_path, sqlite_template)


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance(("north", "south"))


@pytest.fixture
def app(service: DictAppliance, accounts: Accounts, tmp_path: Path) -> FastAPI:
    return create_app(service, tmp_path, accounts.access)


@pytest.fixture
async def client(app: FastAPI, accounts: Accounts) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(app) as client:
        client.headers.update(accounts.person("operator"))
        yield client


RULE: dict[str, Any] = {"id": "parked", "kind": "object", "classes": ["car"], "dwell_s": 5, "cameras": ["north"]}


async def test_a_rule_is_added_changed_and_removed(client: httpx.AsyncClient) -> None:
    added = await client.post("/rules", json=RULE)
    assert added.status_code == 201
    assert added.headers["location"] == "/api/v1/rules/parked"
    assert added.json()["dwell_s"] == 5
    assert (await client.post("/rules", json=RULE)).status_code == 409
    changed = await client.patch("/rules/parked", json={"severity": "critical", "cameras": None})
    assert (changed.json()["severity"], changed.json()["cameras"]) == ("critical", [])
    assert changed.json() in (await client.get("/rules")).json()
    assert (await client.get("/rules/parked")).json() == changed.json()
    assert (await client.delete("/rules/parked")).status_code == 204
    assert (await client.get("/rules/parked")).status_code == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (RULE | {"kind": "fire"}, "kind"),
        (RULE | {"below": 2}, "below"),
        (RULE | {"quiet_hours": ["7-9"]}, "quiet_hours[0]"),
        (RULE | {"id": "../../etc"}, "id"),
        (RULE | {"zones": ["<script>alert(1)</script>"]}, "zones[0]"),
        (RULE | {"colour": "red"}, "colour"),
    ],
)
async def test_a_rule_that_is_wrong_is_refused(client: httpx.AsyncClient, body: dict[str, Any], path: str) -> None:
    before = (await client.get("/rules")).json()
    answer = await client.post("/rules", json=body)
    assert answer.status_code == 422
    assert [p["path"] for p in answer.json()["error"]["problems"]] == [path]
    assert (await client.get("/rules")).json() == before


async def test_alarms_and_objects_in_pages(client: httpx.AsyncClient) -> None:
    everything = (await client.get("/alarms")).json()
    assert [a["id"] for a in everything] == [5, 4, 3, 2, 1]
    assert [a["id"] for a in (await client.get("/alarms?limit=2&before=4")).json()] == [3, 2]
    assert {a["camera"] for a in (await client.get("/alarms?camera=north")).json()} == {"north"}
    assert all(a["ended_utc_s"] is None for a in (await client.get("/alarms?active=true")).json())
    assert [a["id"] for a in (await client.get("/alarms?rule=disk-low")).json()] == [1]
    assert len((await client.get("/objects?class=car")).json()) == 4
    assert (await client.get("/objects?class=bus")).json() == []
    for wrong in ("/alarms?limit=0", "/alarms?active=perhaps", "/objects?klass=car", "/alarms?camera=../x"):
        assert (await client.get(wrong)).status_code == 422, wrong


async def test_an_alarm_is_acknowledged_once(client: httpx.AsyncClient) -> None:
    seen = await client.post("/alarms/2/acknowledge", json={})
    assert seen.json()["acknowledged_by"].startswith("operator")
    assert (await client.post("/alarms/99/acknowledge", json={})).status_code == 404


async def test_pictures(client: httpx.AsyncClient) -> None:
    for path in ("/alarms/2/picture.jpg", "/objects/2/picture.jpg"):
        picture = await client.get(path)
        assert picture.headers["content-type"] == "image/jpeg"
        assert picture.content.startswith(b"\xff\xd8")
    assert (await client.get("/alarms/1/picture.jpg")).status_code == 404, "an alarm of the disk has none"
    assert (await client.get("/objects/77/picture.jpg")).status_code == 404
    assert (await client.get("/alarms/0/picture.jpg")).status_code == 422


async def test_who_may_see_one_camera_sees_its_alarms_only(client: httpx.AsyncClient, accounts: Accounts) -> None:
    await client.post("/rules", json=RULE)
    await client.post("/rules", json=RULE | {"id": "elsewhere", "cameras": ["south"]})
    await client.post("/rules", json=RULE | {"id": "both", "cameras": ["north", "south"]})
    client.headers.update(accounts.person("operator", {"north"}))
    answer = await client.get("/alarms")
    assert answer.status_code == 200, answer.text
    assert {a["camera"] for a in answer.json()} == {"north"}
    assert {o["camera"] for o in (await client.get("/objects")).json()} == {"north"}
    rules = {r["id"]: r["cameras"] for r in (await client.get("/rules")).json()}
    assert "elsewhere" not in rules
    assert rules["both"] == ["north"]
    for method, path in (
        ("GET", "/alarms?camera=south"),
        ("GET", "/objects?camera=south"),
        ("GET", "/rules/elsewhere"),
        ("GET", "/alarms/4/picture.jpg"),
        ("GET", "/objects/4/picture.jpg"),
        ("POST", "/alarms/4/acknowledge"),
        ("POST", "/alarms/1/acknowledge"),
    ):
        answer = await client.request(method, path)
        assert answer.status_code == 404, (method, path)
        assert "south" not in answer.text.replace("camera south does not exist", "")
    assert (await client.post("/rules", json=RULE | {"id": "mine"})).status_code == 403


@pytest.mark.parametrize(
    ("cameras", "tenants", "seen"),
    [
        (None, {"gate"}, {2, 3, 4, 5, 6, 10}),
        ({"north"}, {"gate"}, {2, 3, 6, 10}),
        (set(), {"gate"}, {6, 10}),
        ({"north"}, {"streets"}, {2, 3}),
        ({"north", "south"}, {"streets"}, {2, 3, 4, 5, 8, 11}),
        ({"north"}, None, {2, 3, 6, 7, 10}),
        ({"north", "south"}, None, {2, 3, 4, 5, 6, 7, 8, 10, 11}),
        (None, None, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
    ],
)
async def test_alarms_are_listed_and_acknowledged_by_one_rule(
    client: httpx.AsyncClient, service: DictAppliance, accounts: Accounts, cameras: set[str] | None,
    tenants: set[str] | None, seen: set[int],
) -> None:  # fmt: skip
    """Who sees a tenant acknowledges its alarm, and those of its served models; one of the whole box is for those who
    see all of it."""
    service.alarms.tenants = {"gate": (), "parking": (), "streets": ("north", "south")}
    service.alarms.served = {None: (), "gate": (), "streets": ("south",)}
    token = accounts.token(accounts.user("ann", "operator", cameras, tenants), "operator", cameras)
    client.headers["authorization"] = f"Bearer {token}"
    found = (await client.get("/alarms")).json()
    assert {a["id"] for a in found} == seen
    assert all("parking" not in str(a["details"]) for a in found) or tenants is None
    shown = {t["id"] for t in (await client.get("/tenants")).json()["tenants"]}
    mine = {a["details"]["tenant"] for a in found if a["kind"] == "tenant"}
    assert mine & {"gate", "parking"} == shown & {"gate", "parking"}, "as the page shows tenants"
    for number in range(1, 12):
        answer = await client.post(f"/alarms/{number}/acknowledge", json={})
        assert answer.status_code == (200 if number in seen else 404), number
        if number in seen:
            assert answer.json()["id"] == number


async def test_a_viewer_looks_only(client: httpx.AsyncClient, accounts: Accounts) -> None:
    client.headers.update(accounts.person("viewer"))
    assert (await client.get("/alarms")).status_code == 200
    for method, path in (
        ("POST", "/rules"),
        ("PATCH", "/rules/disk-low"),
        ("DELETE", "/rules/disk-low"),
        ("POST", "/alarms/2/acknowledge"),
    ):
        assert (await client.request(method, path, json={})).status_code == 403
