"""Coming in: logins, cookies, set-up and login links, and what limits them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_kit import PASSWORD, Accounts, browser, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI

from web.app import create_app
from web.auth import session_cookie


async def test_a_login_and_its_cookie(client: httpx.AsyncClient, accounts: Accounts) -> None:
    accounts.user("ann", "operator", {"north"})
    assert (await client.get("/me")).status_code == 401
    answer = await log_in(client, " Ann ")
    assert answer.status_code == 200
    about = answer.json()
    assert (about["name"], about["role"], about["cameras"]) == ("ann", "operator", ["north"])
    assert about["expires_utc_s"] == accounts.clock.utc() + 12 * 3600
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("magpie_session=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie  # http
    me = (await client.get("/me")).json()
    assert (me["name"], me["kind"], me["csrf"], me["must_change"]) == ("ann", "session", about["csrf"], False)
    assert client.cookies["magpie_session"] not in json.dumps(me)
    assert (await client.post("/logout")).status_code == 204
    assert (await client.get("/me")).status_code == 401


async def test_the_cookie_is_secure_under_tls(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "viewer")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://box/api/v1") as client:
        answer = await log_in(client, "ann")
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_two_appliances_on_one_host_do_not_share_a_cookie(
    app: FastAPI, accounts: Accounts, tmp_path: Path
) -> None:
    """A browser sends every cookie of a host to all its ports."""
    (tmp_path / "two").mkdir()
    other = Accounts(tmp_path / "two")
    second = create_app(DictAppliance(), tmp_path, other.access)
    accounts.user("ann", "viewer")
    other.user("bob", "admin")
    jar = httpx.Cookies()
    for of, port, name in ((app, 8080, "ann"), (second, 8081, "bob")):
        transport = httpx.ASGITransport(of)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://box:{port}/api/v1", cookies=jar) as client:
            assert (await log_in(client, name)).status_code == 200
            jar = httpx.Cookies(client.cookies)
    assert set(jar.keys()) == {"magpie_session_8080", "magpie_session_8081"}
    for of, port, name in ((app, 8080, "ann"), (second, 8081, "bob")):
        transport = httpx.ASGITransport(of)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://box:{port}/api/v1", cookies=jar) as client:
            me = (await client.get("/me")).json()
            assert me["name"] == name
            assert (await client.post("/logout", headers={"x-csrf-token": me["csrf"]})).status_code == 204
            assert f"magpie_session_{port}" not in client.cookies


@pytest.mark.parametrize(
    ("host", "name"),
    [("box", "magpie_session"), ("box:8080", "magpie_session_8080"), ("[::1]", "magpie_session"),
     ("[::1]:443", "magpie_session_443"), ("", "magpie_session"), ("box:", "magpie_session"),
     ("box:1; Domain=x", "magpie_session"), ("box:123456", "magpie_session")],
)  # fmt: skip
def test_names_of_the_cookie(host: str, name: str) -> None:
    assert session_cookie(host) == name


@pytest.mark.parametrize(
    ("name", "password"),
    [("ann", "wrong"), ("ann", ""), ("nobody", PASSWORD), ("ann\x00", PASSWORD), ("' or 1=1 --", PASSWORD),
     ("<script>", "x"), ("ann", PASSWORD + " "), ("off", PASSWORD), ("linked", "")],
)  # fmt: skip
async def test_wrong_logins_all_sound_the_same(
    client: httpx.AsyncClient, accounts: Accounts, name: str, password: str
) -> None:
    accounts.user("ann", "admin")
    accounts.user("off", "viewer")
    accounts.access.records.change_user("off", {"disabled": True}, "test")
    accounts.access.records.add_user("linked", "viewer", None, None, False, "test")
    answer = await client.post("/login", json={"name": name, "password": password})
    if "\x00" in name:
        assert answer.status_code == 422
        return
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "name or password is wrong"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "body", [{}, {"name": 1, "password": []}, {"name": "ann"}, {"name": "a", "password": "p" * 2000}]
)
async def test_a_login_that_is_none_shows_nothing_back(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await client.post("/login", json=body)
    assert answer.status_code == 422
    assert all(p["given"] in (None, "(not shown)") for p in answer.json()["error"]["problems"])


async def test_logins_are_limited_and_recorded(app: FastAPI, accounts: Accounts) -> None:
    accounts.user("ann", "admin")
    async with browser(app) as client:
        tried = [(await log_in(client, "ann", "wrong")).status_code for _ in range(7)]
        assert tried == [401] * 5 + [429] * 2
        refused = await log_in(client, "ann")  # the right one has to wait, too
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "300")
    async with browser(app, "192.0.2.99") as elsewhere:  # no other address is kept out
        assert (await log_in(elsewhere, "ann")).status_code == 200
    accounts.clock.advance(301)
    async with browser(app) as client:
        assert (await log_in(client, "ann")).status_code == 200
    with accounts.database.read() as c:
        rows = c.exec_driver_sql("SELECT changed_by, address, value FROM audit WHERE subject = 'login'").all()
    assert len(rows) == 8
    assert {(r.changed_by, r.address) for r in rows} == {("ann", "192.0.2.7")}
    assert PASSWORD not in str(rows)


async def test_a_flood_of_logins_leaves_few_records(app: FastAPI, accounts: Accounts) -> None:
    async with browser(app) as client:
        for number in range(60):
            await client.post("/login", json={"name": f"user{number}", "password": "x" * 12})
    with accounts.database.read() as c:
        rows = c.exec_driver_sql("SELECT count(*) FROM audit WHERE subject = 'login'").scalar()
    assert rows == 20


async def test_the_setup_link_makes_the_first_admin_once(app: FastAPI, accounts: Accounts) -> None:
    link = await accounts.access.setup_link()
    async with browser(app) as client:
        assert (await client.get("/setup")).json() == {"open": True, "logged_in": False}
        wrong = await client.post("/setup", json={"token": "x", "name": "ann", "password": PASSWORD})
        assert wrong.status_code == 401
        weak = await client.post("/setup", json={"token": link, "name": "ann", "password": "password123"})
        assert weak.status_code == 422
        assert "password123" not in weak.text
        made = await client.post("/setup", json={"token": link, "name": "Ann", "password": PASSWORD})
        assert (made.status_code, made.json()["role"]) == (200, "admin")
        assert (await client.get("/me")).json()["name"] == "ann"
        assert (await client.get("/setup")).json() == {"open": False, "logged_in": True}
        again = await client.post("/setup", json={"token": link, "name": "eve", "password": PASSWORD})
        assert again.status_code == 409
    assert set((await accounts.access.directory.everybody(0)).users) == {"ann"}


async def test_a_setup_link_expires_and_the_newest_counts(app: FastAPI, accounts: Accounts) -> None:
    old = await accounts.access.setup_link()
    new = await accounts.access.setup_link(seconds=60)
    async with browser(app) as client:
        body = {"name": "ann", "password": PASSWORD}
        assert (await client.post("/setup", json=body | {"token": old})).status_code == 401
        accounts.clock.advance(61)
        assert (await client.post("/setup", json=body | {"token": new})).status_code == 401


async def test_a_login_link_works_once(app: FastAPI, accounts: Accounts) -> None:
    accounts.access.records.add_user("demo", "admin", None, None, False, "test")
    link = await accounts.access.login_link_for("demo")
    async with browser(app) as first, browser(app) as second:
        answers = await asyncio.gather(*(c.post("/login/link", json={"token": link}) for c in (first, second)))
        assert sorted(a.status_code for a in answers) == [200, 401]
    late = await accounts.access.login_link_for("demo", seconds=10)
    accounts.clock.advance(11)
    async with browser(app) as client:
        assert (await client.post("/login/link", json={"token": late})).status_code == 401


@pytest.mark.parametrize("kind", ["login", "setup"])
async def test_bad_links_do_not_shut_a_good_one_out(app: FastAPI, accounts: Accounts, kind: str) -> None:
    async def use(client: httpx.AsyncClient, link: str) -> int:
        if kind == "login":
            return (await client.post("/login/link", json={"token": link})).status_code
        body = {"token": link, "name": "ann", "password": PASSWORD}
        return (await client.post("/setup", json=body)).status_code

    if kind == "login":
        accounts.access.records.add_user("demo", "admin", None, None, False, "test")
    link = await (accounts.access.login_link_for("demo") if kind == "login" else accounts.access.setup_link())
    for number in range(110):  # from everywhere, more than one name may be tried
        async with browser(app, f"198.51.100.{number}") as stranger:
            assert await use(stranger, f"guess-{number}") == 401
    async with browser(app) as client:  # more than one name may be tried from one address
        assert [await use(client, f"old-{number}") for number in range(8)] == [401] * 8
        # The same bad one again and again has to wait, and so has one address in the end.
        assert [await use(client, "again") for _ in range(7)] == [401] * 5 + [429] * 2
        assert await use(client, link) == 200
        bad = [await use(client, f"bad-{number}") for number in range(30)]
        assert bad == [401 if kind == "login" else 409] * 17 + [429] * 13
    with accounts.database.read() as c:
        names = {r.changed_by for r in c.exec_driver_sql("SELECT changed_by FROM audit WHERE subject = 'login'").all()}
    assert names == {"(link)" if kind == "login" else "(set-up)"}, "no part of a link is on record"
