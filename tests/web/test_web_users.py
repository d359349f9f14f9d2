"""Users, secrets, and the record of changes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from access_kit import PASSWORD, Accounts, browser, code, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI


async def test_users_are_kept_in_order(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "admin")
    async with browser(app) as ann, browser(app) as eve:
        await log_in(ann, "ann")
        new = {"name": "Eve", "role": "operator", "cameras": ["north"], "password": PASSWORD}
        made = await ann.post("/users", json=new)
        assert (made.status_code, made.json()["name"], made.json()["must_change"]) == (201, "eve", True)
        assert (await ann.post("/users", json=new)).status_code == 409
        assert "password" not in made.json()
        await log_in(eve, "eve")
        assert (await eve.get("/me")).json()["must_change"] is True
        assert (await eve.get("/cameras")).status_code == 403
        assert (await eve.post("/me/password", json={"current": "wrong", "new": "quite another 1"})).status_code == 422
        own = {"current": PASSWORD, "new": "quite another 1"}
        assert (await eve.post("/me/password", json=own)).status_code == 204
        assert (await eve.get("/me")).json()["must_change"] is False
        # In force at once:
        assert (await ann.patch("/users/eve", json={"role": "viewer", "cameras": None})).json()["role"] == "viewer"
        assert (await eve.get("/me")).json()["role"] == "viewer"
        assert (await eve.get("/users")).status_code == 403
        assert (await ann.patch("/users/eve", json={"disabled": True})).json()["disabled"] is True
        assert (await eve.get("/me")).status_code == 401
        assert (await log_in(eve, "eve", "quite another 1")).status_code == 401
        assert (await ann.delete("/users/eve")).status_code == 204
        assert [u["name"] for u in (await ann.get("/users")).json()] == ["ann"]


@pytest.mark.parametrize("change", [{"role": "viewer"}, {"disabled": True}, None])
async def test_the_last_admin_stays(app: FastAPI, accounts: Accounts, change: dict[str, Any] | None) -> None:
    accounts.user("ann", "admin")
    accounts.user("bob", "admin")
    accounts.access.records.change_user("bob", {"disabled": True}, "test")
    async with browser(app) as ann:
        await log_in(ann, "ann")
        answer = await (ann.delete("/users/ann") if change is None else ann.patch("/users/ann", json=change))
        assert (answer.status_code, code(answer)) == (409, "conflict")
        assert (await ann.get("/users")).status_code == 200


@pytest.mark.parametrize(
    ("body", "path"),
    [({"name": "<img src=x>", "role": "viewer", "password": PASSWORD}, "name"),
     ({"name": "", "role": "viewer", "password": PASSWORD}, "name"),
     ({"name": "x" * 64, "role": "viewer", "password": PASSWORD}, "name"),
     ({"name": "../ann", "role": "viewer", "password": PASSWORD}, "name"),
     ({"name": "eve", "role": "root", "password": PASSWORD}, "role"),
     ({"name": "eve", "role": "viewer", "password": "short"}, "password"),
     ({"name": "evelyn-smith", "role": "viewer", "password": "evelyn-smith1"}, "password"),
     ({"name": "eve", "role": "viewer", "password": PASSWORD, "cameras": ["A b"]}, "cameras[0]"),
     ({"name": "eve", "role": "viewer", "password": PASSWORD, "admin": True}, "admin")],
)  # fmt: skip
async def test_users_that_are_refused(app: FastAPI, accounts: Accounts, body: dict[str, Any], path: str) -> None:
    async with browser(app) as client:
        answer = await client.post("/users", json=body, headers=accounts.person("admin"))
    assert answer.status_code == 422
    assert [p["path"] for p in answer.json()["error"]["problems"]] == [path]
    assert body["password"] not in answer.text
    assert set((await accounts.access.directory.everybody(0)).users) == {"admin-all"}


async def test_a_change_made_by_a_command_is_in_force_within_seconds(app: FastAPI, accounts: Accounts) -> None:
    header = accounts.person("viewer", name="ann")
    async with browser(app) as client:
        assert (await client.get("/me", headers=header)).status_code == 200
        accounts.access.records.change_user(
            "ann", {"disabled": True}, "command line"
        )  # past Access, as `magpie user` does
        accounts.clock.advance(2.1)
        assert (await client.get("/me", headers=header)).status_code == 401


async def test_secrets_are_written_and_never_read(app: FastAPI, accounts: Accounts, service: DictAppliance) -> None:
    boss = accounts.person("admin")
    async with browser(app) as client:
        assert (await client.put("/secrets/gate", json={"value": "tomsecret"}, headers=boss)).status_code == 204
        assert service.secrets.values == {"gate": "tomsecret"}
        listed = await client.get("/secrets", headers=boss)
        assert [s["name"] for s in listed.json()] == ["gate"]
        assert "tomsecret" not in listed.text
        for role in ("viewer", "operator"):
            assert (await client.get("/secrets", headers=accounts.person(role))).status_code == 403
        bad = await client.put("/secrets/gate", json={"value": {"a": "tomsecret"}}, headers=boss)
        assert bad.status_code == 422
        assert "tomsecret" not in bad.text
        assert (await client.put("/secrets/..%2fgate", json={"value": "x"}, headers=boss)).status_code in (
            404,
            405,
            422,
        )
        assert (await client.delete("/secrets/gate", headers=boss)).status_code == 204
    assert service.secrets.audited == [("secret/gate", "admin-all")]


async def test_changes_say_who_and_from_where(app: FastAPI, accounts: Accounts, service: DictAppliance) -> None:
    async with browser(app, "192.0.2.55") as client:
        await client.post("/models/north-w2-1-2/pin", headers=accounts.person("operator", name="ann"))
    assert service.events.journal[-1]["data"]["by"] == "ann"
    with accounts.database.read() as c:
        query = "SELECT subject, action, changed_by, address FROM audit ORDER BY id DESC LIMIT 1"
        row = c.exec_driver_sql(query).one()
    assert tuple(row) == ("models/north-w2-1-2/pin", "pinned", "ann", "192.0.2.55")


async def test_what_becomes_of_dead_letters_is_recorded(
    app: FastAPI, accounts: Accounts, service: DictAppliance
) -> None:
    assert service.outputs is not None
    letters = await service.outputs.dead_letters(10, None)
    async with browser(app, "192.0.2.55") as client:
        admin = accounts.person("admin", name="ann")
        for letter, method, path in zip(letters, ("POST", "DELETE"), ("/retry", ""), strict=False):
            done = await client.request(method, f"/outputs/dead-letters/{letter.id}{path}", headers=admin)
            assert done.status_code == 204
    with accounts.database.read() as c:
        query = "SELECT action, changed_by, address FROM audit WHERE subject LIKE 'outputs/dead-letters/%' ORDER BY id"
        rows = [tuple(r) for r in c.exec_driver_sql(query)]
    assert rows == [("sent again", "ann", "192.0.2.55"), ("deleted", "ann", "192.0.2.55")][: len(letters)]
    assert rows


async def test_an_address_is_shown_as_one_line(
    accounts: Accounts, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    """A proxy's name of its client may be any text."""
    transport = httpx.ASGITransport(app, client=("9.9.9.9\x1b[31m\nlogged in", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        await client.post("/login", json={"name": "ann\nroot", "password": "x"})
    with accounts.database.read() as c:
        (address,) = c.exec_driver_sql("SELECT address FROM audit WHERE subject = 'login'").one()
    assert address == "9.9.9.9?[31m?logged in"
    assert all(c.isprintable() for c in caplog.messages[-1])
