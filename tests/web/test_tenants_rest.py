"""Tenants over REST: what is answered, what is refused, and to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from access_kit import Accounts, browser
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.appliance.answers.alarms import AlarmAnswer
from edge.appliance.answers.read import read
from edge.appliance.answers.tenants import TenantAnswer
from edge.core.access import Principal
from web import limits
from web.examples.alarms import ALARM
from web.examples.tenants import TENANT

TENANT_BODY: dict[str, Any] = {"id": "yard", "objective": {"metric": "accuracy", "goal": 0.7}, "cameras": ["south"]}


@pytest.fixture
async def client(app: FastAPI, accounts: Accounts) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(app) as client:
        client.headers.update(accounts.person("operator"))
        yield client


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 422, response.text
    problems: list[dict[str, Any]] = response.json()["error"]["problems"]
    return problems[0]


async def test_a_tenant_is_added_changed_and_removed(client: httpx.AsyncClient) -> None:
    added = await client.post("/tenants", json=TENANT_BODY)
    assert added.status_code == 201, added.text
    assert added.headers["location"] == "/api/v1/tenants/yard"
    assert (await client.post("/tenants", json=TENANT_BODY)).status_code == 409
    changed = await client.patch("/tenants/yard", json={"entitlement": 3, "objective": {"goal": 0.6}, "cameras": None})
    settings = changed.json()["settings"]
    assert (settings["entitlement"], settings["objective"]["goal"], settings["cameras"]) == (3, 0.6, [])
    assert settings["objective"]["metric"] == "accuracy", "a patch changes what it names"
    again = await client.patch("/tenants/yard", json={"objective": {"goal": None}})
    assert again.json()["settings"]["objective"]["goal"] == 0.99, "null is the default, at any depth"
    assert again.json()["settings"]["objective"]["metric"] == "accuracy"
    assert (await client.patch("/tenants/yard", json={"objective": {"goal": 0.6}})).json() == changed.json()
    assert changed.json() in (await client.get("/tenants")).json()["tenants"]
    detail = (await client.get("/tenants/yard")).json()
    assert detail["tenant"] == changed.json()
    assert [p["share"] for p in detail["curve"]["points"]] == sorted(p["share"] for p in detail["curve"]["points"])
    assert (await client.delete("/tenants/yard")).status_code == 204
    assert (await client.get("/tenants/yard")).status_code == 404
    assert (await client.delete("/tenants/yard")).status_code == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (TENANT_BODY | {"id": "history"}, "id"),
        (TENANT_BODY | {"id": "../etc"}, "id"),
        (TENANT_BODY | {"entitlement": -1}, "entitlement"),
        (TENANT_BODY | {"objective": {"goal": 0}}, "objective.goal"),
        (TENANT_BODY | {"objective": {"metric": "within_slo"}}, "objective.metric"),
        (TENANT_BODY | {"floor": 0.95}, "tenants[0].floor"),
        (TENANT_BODY | {"cameras": ["north"]}, "tenants[3].cameras[0]"),
        (TENANT_BODY | {"colour": "red"}, "colour"),
    ],
)
async def test_a_tenant_that_is_wrong_is_refused(client: httpx.AsyncClient, body: dict[str, Any], path: str) -> None:
    before = (await client.get("/tenants")).json()
    assert problem(await client.post("/tenants", json=body))["path"] == path
    assert (await client.get("/tenants")).json() == before


async def test_how_the_box_is_shared_is_changed(client: httpx.AsyncClient) -> None:
    changed = await client.patch("/sharing", json={"policy": "njc", "largest_step": 0.03})
    assert (await client.get("/sharing")).json() == changed.json()
    assert changed.json()["settings"]["policy"] == "njc"
    assert changed.json()["settings"]["explore"] == 0.1
    assert problem(await client.patch("/sharing", json={"policy": "parties"}))["path"] == "policy"
    assert problem(await client.patch("/sharing", json={"interval_s": 1}))["path"] == "interval_s"


async def test_another_policy_is_asked_about_the_recorded_day(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/sharing/what-if", json={"policy": "fair"})).json()
    assert answer["policy"] == "fair"
    assert [t["id"] for t in answer["tenants"]] == ["gate", "parking"]
    assert problem(await client.post("/sharing/what-if", json={"policy": "best"}))["path"] == "policy"
    assert problem(await client.post("/sharing/what-if", json={}))["path"] == "policy"


async def test_the_last_day_of_one_and_of_all(client: httpx.AsyncClient) -> None:
    whole = (await client.get("/tenants/history")).json()["rows"]
    assert {r["tenant"] for r in whole} == {"gate", "parking", "north-side"}
    one = (await client.get("/tenants/history?tenant=gate")).json()["rows"]
    assert one == [r for r in whole if r["tenant"] == "gate"]
    assert (await client.get("/tenants/history?tenant=nobody")).status_code == 404
    assert (await client.get("/tenants/history?tenant=No body")).status_code == 422
    assert (await client.get("/tenants/history?day=1")).status_code == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/tenants"),
        ("PATCH", "/tenants/gate"),
        ("DELETE", "/tenants/gate"),
        ("PATCH", "/sharing"),
        ("POST", "/sharing/what-if"),
    ],
)
async def test_a_change_is_an_operators_of_every_camera(
    app: FastAPI, accounts: Accounts, method: str, path: str
) -> None:
    async with browser(app) as client:
        viewer = accounts.person("viewer")
        for headers in (viewer, accounts.person("operator", {"north"})):
            answer = await client.request(method, path, json={}, headers=headers)
            assert answer.status_code == 403
        for read in ("/tenants", "/tenants/gate", "/sharing", "/tenants/history"):
            assert (await client.get(read, headers=viewer)).status_code == 200


async def test_a_user_of_some_cameras_sees_the_tenants_of_these(
    app: FastAPI, service: DictAppliance, accounts: Accounts
) -> None:
    service.tenants.states["gate"] = {
        "reason": {"code": "more", "numbers": {"moved": 0.02}, "others": ["default-cameras"]}
    }
    async with browser(app) as client:
        client.headers.update(accounts.person("operator", {"north"}))
        mine = (await client.get("/tenants")).json()["tenants"]
        assert [t["id"] for t in mine] == ["gate", "parking", "north-side"], "served models are everybody's"
        assert mine[0]["reason"] == {"code": "more", "numbers": {"moved": 0.02}, "others": []}
        assert {r["tenant"] for r in (await client.get("/tenants/history")).json()["rows"]} == {t["id"] for t in mine}
        for path in ("/tenants/{}", "/tenants/history?tenant={}"):
            hidden = await client.get(path.format("default-cameras"))
            absent = await client.get(path.format("nobody"))
            assert hidden.status_code == absent.status_code == 404
            assert hidden.text.replace("default-cameras", "nobody") == absent.text
        sharing = (await client.get("/sharing")).json()
        assert (sharing["social_welfare"], sharing["egalitarian_welfare"]) == (None, None), "they are of all tenants"
        client.headers.update(accounts.person("viewer", {"south"}))
        theirs = (await client.get("/tenants")).json()["tenants"]
        assert [t["id"] for t in theirs] == ["gate", "parking", "default-cameras"]


async def test_a_user_of_some_tenants_sees_these_and_changes_nothing_of_the_whole_box(
    app: FastAPI, accounts: Accounts
) -> None:
    async with browser(app) as client:
        token = accounts.token(accounts.user("ann", "operator", tenants={"gate"}), "operator")
        client.headers["authorization"] = f"Bearer {token}"
        assert [t["id"] for t in (await client.get("/tenants")).json()["tenants"]] == ["gate"]
        assert {r["tenant"] for r in (await client.get("/tenants/history")).json()["rows"]} == {"gate"}
        assert (await client.get("/tenants/gate")).status_code == 200
        for path in ("/tenants/parking", "/tenants/history?tenant=parking"):
            assert (await client.get(path)).status_code == 404
        assert (await client.get("/sharing")).json()["social_welfare"] is None, "it is of all tenants"
        assert "parking" not in (await client.get("/overview")).text
        metrics = (await client.get("http://box/metrics")).text
        assert 'tenant="gate"' in metrics
        assert "parking" not in metrics
        for method, path in (("POST", "/tenants"), ("PATCH", "/tenants/gate"), ("POST", "/sharing/what-if")):
            assert (await client.request(method, path, json={})).status_code == 403
        assert (await client.get("/cameras")).json(), "cameras have a limit of their own"
        assert (await client.get("/me")).json()["tenants"] == ["gate"]


def test_alarms_of_other_tenants_are_not_there_for_a_user_of_some() -> None:
    rows = [
        read(AlarmAnswer, ALARM | {"id": n, "camera": None, "kind": "tenant", "details": {"tenant": tenant}})
        for n, tenant in enumerate(("gate", "parking"))
    ]
    shown = limits.rows(Principal("ann", "viewer", tenants=frozenset({"gate"})), rows)
    assert [alarm.id for alarm in shown] == [0]
    assert limits.rows(Principal("bob", "viewer"), rows) == rows


async def test_the_tenants_of_a_user_are_set_and_checked(app: FastAPI, accounts: Accounts) -> None:
    async with browser(app) as client:
        client.headers.update(accounts.person("admin"))
        body = {"name": "ann", "role": "viewer", "tenants": ["gate"], "password": "orchid-lantern-pebble-42"}
        assert (await client.post("/users", json=body)).json()["tenants"] == ["gate"]
        assert (await client.patch("/users/ann", json={"tenants": None})).json()["tenants"] is None
        assert problem(await client.patch("/users/ann", json={"tenants": ["No!"]}))["path"] == "tenants[0]"
        checked = await client.post("/check/user", json={"name": "ann", "tenants": "gate"})
        assert checked.json()["problems"][0]["path"] == "tenants"


@pytest.mark.parametrize(("cameras", "seen"), [((), True), (("north",), True), (("north", "south"), False)])
def test_a_tenant_is_shown_to_who_may_see_all_of_its_cameras(cameras: tuple[str, ...], seen: bool) -> None:
    settings = TENANT["settings"] | {"applications": ["south-plates"]}
    found = read(TenantAnswer, TENANT | {"cameras": cameras, "applications": ["south-plates"], "settings": settings})
    shown = limits.rows(Principal("ann", "viewer", frozenset({"north"})), [found])
    assert bool(shown) == seen
    assert "south" not in repr(shown), "an application may be a camera's"
    assert limits.rows(Principal("bob", "viewer", None), [found]) == [found]
