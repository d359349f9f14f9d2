"""Sessions and tokens: made, forged, used, ended."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest
from access_kit import Accounts, browser, code, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.access.records import Everybody
from edge.core.errors import Unavailable


async def test_changes_need_the_csrf_token(
    client: httpx.AsyncClient, accounts: Accounts, service: DictAppliance
) -> None:
    accounts.user("ann", "admin")
    await log_in(client, "ann")
    good = client.headers.pop("x-csrf-token")
    for given in ({}, {"x-csrf-token": ""}, {"x-csrf-token": good[:-1]}, {"x-csrf-token": "é" * 3}):
        headers = {k: v.encode() for k, v in given.items()}
        answer = await client.patch("/retraining", json={"window_s": 60}, headers=headers)
        assert (answer.status_code, code(answer)) == (403, "forbidden"), given
    assert service.retraining.next.window_s == 200
    assert (await client.patch("/retraining", json={"window_s": 60}, headers={"x-csrf-token": good})).status_code == 200
    # A form of another site's page, sent with the cookie:
    crossed = await client.patch(
        "/retraining", json={"window_s": 30}, headers={"x-csrf-token": good, "origin": "https://elsewhere.example"}
    )
    assert crossed.status_code == 403
    assert service.retraining.next.window_s == 60


async def test_the_csrf_token_of_another_session_is_none(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "admin")
    async with browser(app) as one, browser(app) as two:
        await log_in(one, "ann")
        await log_in(two, "ann")
        one.headers["x-csrf-token"] = two.headers["x-csrf-token"]
        assert (await one.post("/logout")).status_code == 403


async def test_a_session_ends_in_time_and_when_it_is_not_used(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "viewer")
    async with browser(app) as client:
        await log_in(client, "ann")
        for _ in range(11):  # used every hour, it lives for its twelve hours
            accounts.clock.advance(3600)
            assert (await client.get("/me")).status_code == 200
        accounts.clock.advance(3600)
        assert (await client.get("/me")).status_code == 401
        await log_in(client, "ann")
        accounts.clock.advance(4 * 3600 + 1)
        assert (await client.get("/me")).status_code == 401


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Bearer mgp_forged", "Basic YW5uOnB3", "bearer\tx", "Bearer " + "x" * 5000, "Token mgp_x"],
)
async def test_forged_tokens(client: httpx.AsyncClient, accounts: Accounts, header: str) -> None:
    accounts.user("ann", "admin")
    await log_in(client, "ann")  # the good cookie does not count beside a bad token
    answer = await client.get("/cameras", headers={"authorization": header})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_forged_cookies(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "admin")
    async with browser(app) as client:
        for value in ("", "x", "a" * 4000, '"', "../../x"):
            answer = await client.get("/cameras", headers={"cookie": f"magpie_session={value}"})
            assert answer.status_code == 401
        with accounts.database.read() as c:  # what the database has of a session does not log anybody in
            await log_in(client, "ann")
            hashed = c.exec_driver_sql("SELECT hash FROM sessions").scalar()
        client.cookies.clear()
        assert (await client.get("/me", headers={"cookie": f"magpie_session={hashed}"})).status_code == 401


async def test_tokens_are_made_used_and_deleted(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "operator", {"north"})
    async with browser(app) as ann, browser(app) as program:
        await log_in(ann, "ann")
        made = await ann.post("/tokens", json={"name": "wall", "role": "viewer", "expires_days": 1})
        assert made.status_code == 201
        token, shown = made.json().pop("token"), made.json()
        assert shown["prefix"] == token[:10]
        assert shown["cameras"] == ["north"]
        program.headers["authorization"] = f"Bearer {token}"
        me = (await program.get("/me")).json()
        assert (me["name"], me["role"], me["kind"], me["csrf"]) == ("ann", "viewer", "token", None)
        assert (await program.post("/cameras/north/rollback", json={})).status_code == 403
        assert [c["id"] for c in (await program.get("/cameras")).json()] == ["north"]
        listed = (await ann.get("/tokens")).json()
        assert "token" not in listed[0]
        assert token not in json.dumps(listed)
        for more in ({"role": "admin"}, {"cameras": ["north", "south"]}):
            assert (await ann.post("/tokens", json={"name": "x"} | more)).status_code == 403
        assert (await program.post("/tokens", json={"name": "child"})).status_code == 403
        accounts.clock.advance(86401)
        assert (await program.get("/me")).status_code == 401
        await log_in(ann, "ann")
        assert (await ann.delete(f"/tokens/{shown['id']}")).status_code == 204
        assert (await ann.get("/tokens")).json() == []


async def test_a_deleted_token_is_out_at_once(app: FastAPI, accounts: Accounts) -> None:
    boss = accounts.person("admin")
    token = accounts.token(accounts.user("ann", "viewer"), "viewer")
    async with browser(app) as client:
        header = {"authorization": f"Bearer {token}"}
        assert (await client.get("/me", headers=header)).status_code == 200
        listed = (await client.get("/tokens", headers=boss)).json()
        number = next(k["id"] for k in listed if k["user"] == "ann")
        assert (await client.delete(f"/tokens/{number}", headers=header | boss)).status_code == 204
        assert (await client.get("/me", headers=header)).status_code == 401


async def test_one_sees_and_ends_ones_own_sessions_only(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "operator")
    accounts.user("bob", "operator")
    async with browser(app) as ann, browser(app) as bob:
        await log_in(ann, "ann")
        await log_in(bob, "bob")
        mine = (await ann.get("/sessions")).json()
        assert [(s["user"], s["current"]) for s in mine] == [("ann", True)]
        theirs = (await bob.get("/sessions")).json()[0]["id"]
        assert (await ann.delete(f"/sessions/{theirs}")).status_code == 404
        assert (await bob.get("/me")).status_code == 200
        everybody = (await ann.get("/sessions", headers=accounts.person("admin"))).json()
        assert {s["user"] for s in everybody} == {"ann", "bob"}
        assert (await bob.delete(f"/sessions/{theirs}")).status_code == 204
        assert (await bob.get("/me")).status_code == 401


async def test_a_token_has_no_power_over_its_users_others(app: FastAPI, accounts: Accounts) -> None:
    """A token that may only look, given to a program: its admin's sessions and tokens are nothing to it."""
    accounts.user("ann", "admin")
    strong, weak = accounts.token("ann", "admin"), accounts.token("ann", "viewer")
    async with browser(app) as ann, browser(app) as program:
        await log_in(ann, "ann")
        program.headers["authorization"] = f"Bearer {weak}"
        mine = (await program.get("/tokens")).json()
        assert [t["prefix"] for t in mine] == [weak[:10]]
        assert (await program.get("/sessions")).json() == []
        session = (await ann.get("/sessions")).json()[0]["id"]
        every = {t["prefix"]: t["id"] for t in (await ann.get("/tokens")).json()}
        assert (await program.delete(f"/sessions/{session}")).status_code == 404
        assert (await program.delete(f"/tokens/{every[strong[:10]]}")).status_code == 404
        assert (await ann.get("/me")).status_code == 200
        assert len((await program.get("/tokens", headers={"authorization": f"Bearer {strong}"})).json()) == 2
        assert (await program.delete(f"/tokens/{mine[0]['id']}")).status_code == 204
        assert (await program.get("/me")).status_code == 401


async def test_a_link_is_used_once_however_many_come_at_once(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "viewer")
    link = await accounts.access.login_link_for("ann")
    async with browser(app) as client:
        answers = await asyncio.gather(*(client.post("/login/link", json={"token": link}) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [200, 401, 401, 401, 401]


async def test_a_new_password_ends_links_that_were_given_out(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "viewer")
    async with browser(app) as client:
        link = await accounts.access.login_link_for("ann")
        await client.patch("/users/ann", json={"password": "8 herons by the weir"}, headers=accounts.person("admin"))
        assert (await client.post("/login/link", json={"token": link})).status_code == 401
        await log_in(client, "ann", "8 herons by the weir")
        link = await accounts.access.login_link_for("ann")
        new = {"current": "8 herons by the weir", "new": "9 herons by the weir"}
        assert (await client.post("/me/password", json=new)).status_code == 204
        assert (await client.post("/login/link", json={"token": link})).status_code == 401


async def test_a_database_that_is_away_keeps_no_request_waiting(
    app: FastAPI, accounts: Accounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    header, read, goes_on = accounts.person("viewer"), accounts.access.records.everybody, threading.Event()

    def hangs() -> Everybody:
        goes_on.wait(30)
        raise Unavailable("the database does not answer")

    async with browser(app) as client:
        assert (await client.get("/me", headers=header)).status_code == 200
        monkeypatch.setattr(accounts.access.records, "everybody", hangs)
        accounts.access.directory.patience_s = 0.01
        accounts.clock.advance(2.5)
        try:
            # With a server that does not answer, and once it is known to be away.
            assert (await client.get("/me", headers=header)).status_code == 200
        finally:
            goes_on.set()
        for _ in range(3):
            accounts.clock.advance(2.5)
            await asyncio.sleep(0.02)
            assert (await client.get("/me", headers=header)).status_code == 200
            assert (await client.get("/me", headers={"authorization": "Bearer mgp_x"})).status_code == 401
        assert caplog.text.count("users cannot be read") == 1
        monkeypatch.setattr(accounts.access.records, "everybody", read)
        accounts.access.records.remove_user("viewer-all", "test")
        for _ in range(500):  # a reading goes on beside the requests
            accounts.clock.advance(2.5)
            if (await client.get("/me", headers=header)).status_code == 401:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("a user that is gone still comes in after the database is back")
