"""Rights over REST, sockets and streams: with the real records, tokens and sessions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from access_kit import PASSWORD, Door, browser, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.access.records import Everybody
from edge.appliance.answers.read import read
from edge.appliance.answers.state import Reason
from edge.appliance.answers.windows import WindowStory
from edge.core.access import ROLES, Principal, at_least
from edge.core.errors import Unavailable
from edge.core.plan_causes import PlanCause
from web import limits, roles, route_table
from web.app import create_app
from web.auth import routes_of, session_cookie
from web.examples.windows import WINDOW, WINDOW_DETAIL
from web.server import WebServer


@pytest.fixture
def door(tmp_path: Path, sqlite_template: Path) -> Door:
    return Door(tmp_path, sqlite_template)


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance(("north", "south"))


@pytest.fixture
def app(service: DictAppliance, door: Door, tmp_path: Path) -> FastAPI:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><title>Magpie</title>")
    return create_app(service, page, door.access)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(app) as client:
        yield client


def code(response: httpx.Response) -> str:
    return str(response.json()["error"]["code"])


# --- the table


def _filled(template: str) -> str:
    known = {
        "camera": "north",
        "version": "north-first-1",
        "number": "3",
        "window": "3",
        "frame": "1",
        "kind": "camera",
    }
    return re.sub(r"\{([^}:]*)(:[^}]*)?\}", lambda m: known.get(m[1], "1"), template)


def _routes() -> list[tuple[str, str]]:
    app = create_app(DictAppliance())
    return [(methods[0], path) for methods, path, _ in routes_of(app, route_table.row_of)]


def test_every_route_has_a_row() -> None:
    app = create_app(DictAppliance())
    assert [(methods, path) for methods, path, row in routes_of(app, route_table.row_of) if row is None] == []


def test_what_is_open_is_health_login_and_the_page() -> None:
    open_ones = {
        f"{method} {path}"
        for method, path in _routes()
        if (route_table.row_of(method, path) or roles.OPEN).least is None
    }
    assert open_ones == {
        "GET /livez", "GET /readyz", "POST /api/v1/login", "POST /api/v1/login/link", "GET /api/v1/setup",
        "POST /api/v1/setup", "MOUNT /",
    }  # fmt: skip


def test_what_changes_something_is_never_a_viewers() -> None:
    own = {"logout", "password", "tokens", "sessions"}  # one's own
    for method, path in _routes():
        row = route_table.row_of(method, path)
        assert row is not None
        if method in ("POST", "PUT", "PATCH", "DELETE") and row.least is not None:
            assert row.least != "viewer" or own & set(path.split("/")), (method, path)


async def test_every_route_asks_for_its_role(app: FastAPI, door: Door, service: DictAppliance) -> None:
    """Nobody, and each role, at every route: refused exactly where the table says so."""
    people = {role: door.person(role) for role in ROLES}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box") as client:
        for method, template in _routes():
            if method in ("WS", "MOUNT") or template.endswith(("stream", "stream.mjpeg")):
                continue
            row = route_table.row_of(method, template)
            assert row is not None
            path = _filled(template)
            strange = await client.request(method, path, json={})
            if row.least is None:
                assert strange.status_code != 401 or "login" in path, path
                continue
            assert strange.status_code == 401, (method, path, strange.text)
            for role in ROLES:
                if at_least(role, row.least):
                    continue
                before = (len(service.journal), dict(service.in_force), len(service.kept))
                answer = await client.request(method, path, json={}, headers=people[role])
                assert answer.status_code == 403, (method, path, role, answer.text)
                assert (len(service.journal), dict(service.in_force), len(service.kept)) == before
            if path.endswith(("/logout", "/me/password")):
                continue  # a session's, whatever the role
            # The least role that may: whatever the answer is, it is not a refusal.
            answer = await client.request(method, path, json={}, headers=people[row.least])
            assert answer.status_code not in (401, 403, 500), (method, path, row.least, answer.text)


async def test_a_password_that_somebody_else_chose_is_changed_first(
    app: FastAPI, door: Door, service: DictAppliance
) -> None:
    door.access.records.add_user("eve", "admin", None, door.hash, True, "test")
    may = {"GET /api/v1/me", "POST /api/v1/me/password", "GET /api/v1/setup", "POST /api/v1/logout"}
    async with browser(app) as eve:
        await log_in(eve, "eve")
        before = (len(service.journal), dict(service.in_force), len(service.kept))
        for method, template in _routes():
            row = route_table.row_of(method, template)
            assert row is not None
            assert row.before_change == (f"{method} {template}" in may), template
            if method in ("WS", "MOUNT") or row.least is None or row.before_change:
                continue
            answer = await eve.request(method, f"http://box{_filled(template)}", json={})
            assert answer.status_code == 403, (method, template)
            assert method == "HEAD" or code(answer) == "password_change_needed", template
        assert (len(service.journal), dict(service.in_force), len(service.kept)) == before
        assert (await eve.get("/setup")).json()["logged_in"] is True
        own = {"current": PASSWORD, "new": "quite another 1"}
        assert (await eve.get("/me")).json()["must_change"] is True
        assert (await eve.post("/me/password", json=own)).status_code == 204
        assert (await eve.get("/users")).status_code == 200
        assert (await eve.post("/logout")).status_code == 204


async def test_a_program_goes_on_while_its_user_has_to_change_the_password(app: FastAPI, door: Door) -> None:
    header = door.person("viewer")
    door.access.records.change_user("viewer-all", {"must_change": True}, "test")
    async with browser(app) as client:
        assert (await client.get("/overview", headers=header)).status_code == 200


async def test_a_route_without_a_row_is_refused(app: FastAPI, door: Door) -> None:
    @app.get("/api/v1/forgotten")
    async def forgotten() -> dict[str, bool]:
        return {"reached": True}

    app.router.routes.insert(0, app.router.routes.pop())
    async with browser(app) as client:
        answer = await client.get("/forgotten", headers=door.person("admin"))
    assert (answer.status_code, code(answer)) == (403, "forbidden")


@pytest.mark.parametrize(
    "path",
    ["/api/v1//cameras", "/api/v1/cameras/", "//api/v1/cameras", "/api/v1/./cameras", "/api/v1/x/../cameras",
     "/api/v1/%2e%2e/cameras", "/API/V1/cameras", "/api/v1/cameras;a=b", "/api/v1/cameras%00", "/api%2fv1/cameras",
     "/api/v1/cameras/north%2fsnapshot.jpg", "/livez/../api/v1/cameras", "/api/v1/login/../cameras",
     "/api/v1/openapi.json/", "/metrics/", "/../../etc/passwd", "/assets/..%2f..%2fapp.py"],
)  # fmt: skip
async def test_no_way_around_by_the_path(app: FastAPI, path: str) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box") as client:
        answer = await client.get(path)
    assert answer.status_code in (400, 401, 404), (path, answer.text)
    assert "rtsp" not in answer.text


# --- coming in


async def test_a_login_and_its_cookie(client: httpx.AsyncClient, door: Door) -> None:
    door.user("ann", "operator", {"north"})
    assert (await client.get("/me")).status_code == 401
    answer = await log_in(client, " Ann ")
    assert answer.status_code == 200
    about = answer.json()
    assert (about["name"], about["role"], about["cameras"]) == ("ann", "operator", ["north"])
    assert about["expires_utc_s"] == door.clock.utc() + 12 * 3600
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


async def test_the_cookie_is_secure_under_tls(app: FastAPI, door: Door) -> None:
    door.user("ann", "viewer")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://box/api/v1") as client:
        answer = await log_in(client, "ann")
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_two_appliances_on_one_host_do_not_share_a_cookie(app: FastAPI, door: Door, tmp_path: Path) -> None:
    """A browser sends every cookie of a host to all its ports."""
    (tmp_path / "two").mkdir()
    other = Door(tmp_path / "two")
    second = create_app(DictAppliance(), tmp_path, other.access)
    door.user("ann", "viewer")
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
async def test_wrong_logins_all_sound_the_same(client: httpx.AsyncClient, door: Door, name: str, password: str) -> None:
    door.user("ann", "admin")
    door.user("off", "viewer")
    door.access.records.change_user("off", {"disabled": True}, "test")
    door.access.records.add_user("linked", "viewer", None, None, False, "test")
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


async def test_logins_are_limited_and_recorded(app: FastAPI, door: Door) -> None:
    door.user("ann", "admin")
    async with browser(app) as client:
        tried = [(await log_in(client, "ann", "wrong")).status_code for _ in range(7)]
        assert tried == [401] * 5 + [429] * 2
        refused = await log_in(client, "ann")  # the right one has to wait, too
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "300")
    async with browser(app, "192.0.2.99") as elsewhere:  # nobody else is kept out
        assert (await log_in(elsewhere, "ann")).status_code == 200
    door.clock.advance(301)
    async with browser(app) as client:
        assert (await log_in(client, "ann")).status_code == 200
    with door.database.read() as c:
        rows = c.exec_driver_sql("SELECT changed_by, address, value FROM audit WHERE subject = 'login'").all()
    assert len(rows) == 8
    assert {(r.changed_by, r.address) for r in rows} == {("ann", "192.0.2.7")}
    assert PASSWORD not in str(rows)


async def test_a_flood_of_logins_leaves_few_records(app: FastAPI, door: Door) -> None:
    async with browser(app) as client:
        for number in range(60):
            await client.post("/login", json={"name": f"user{number}", "password": "x" * 12})
    with door.database.read() as c:
        rows = c.exec_driver_sql("SELECT count(*) FROM audit WHERE subject = 'login'").scalar()
    assert rows == 20


async def test_the_setup_link_makes_the_first_admin_once(app: FastAPI, door: Door) -> None:
    link = await door.access.setup_link()
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
    assert set((await door.access.directory.everybody(0)).users) == {"ann"}


async def test_a_setup_link_expires_and_the_newest_counts(app: FastAPI, door: Door) -> None:
    old = await door.access.setup_link()
    new = await door.access.setup_link(seconds=60)
    async with browser(app) as client:
        body = {"name": "ann", "password": PASSWORD}
        assert (await client.post("/setup", json=body | {"token": old})).status_code == 401
        door.clock.advance(61)
        assert (await client.post("/setup", json=body | {"token": new})).status_code == 401


async def test_a_login_link_works_once(app: FastAPI, door: Door) -> None:
    door.access.records.add_user("demo", "admin", None, None, False, "test")
    link = await door.access.login_link_for("demo")
    async with browser(app) as first, browser(app) as second:
        answers = await asyncio.gather(*(c.post("/login/link", json={"token": link}) for c in (first, second)))
        assert sorted(a.status_code for a in answers) == [200, 401]
    late = await door.access.login_link_for("demo", seconds=10)
    door.clock.advance(11)
    async with browser(app) as client:
        assert (await client.post("/login/link", json={"token": late})).status_code == 401


@pytest.mark.parametrize("kind", ["login", "setup"])
async def test_bad_links_do_not_shut_a_good_one_out(app: FastAPI, door: Door, kind: str) -> None:
    async def use(client: httpx.AsyncClient, link: str) -> int:
        if kind == "login":
            return (await client.post("/login/link", json={"token": link})).status_code
        body = {"token": link, "name": "ann", "password": PASSWORD}
        return (await client.post("/setup", json=body)).status_code

    if kind == "login":
        door.access.records.add_user("demo", "admin", None, None, False, "test")
    link = await (door.access.login_link_for("demo") if kind == "login" else door.access.setup_link())
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
    with door.database.read() as c:
        names = {r.changed_by for r in c.exec_driver_sql("SELECT changed_by FROM audit WHERE subject = 'login'").all()}
    assert names == {"(link)" if kind == "login" else "(set-up)"}, "no part of a link is on record"


# --- sessions and tokens


async def test_changes_need_the_csrf_token(client: httpx.AsyncClient, door: Door, service: DictAppliance) -> None:
    door.user("ann", "admin")
    await log_in(client, "ann")
    good = client.headers.pop("x-csrf-token")
    for given in ({}, {"x-csrf-token": ""}, {"x-csrf-token": good[:-1]}, {"x-csrf-token": "é" * 3}):
        headers = {k: v.encode() for k, v in given.items()}
        answer = await client.patch("/retraining", json={"window_s": 60}, headers=headers)
        assert (answer.status_code, code(answer)) == (403, "forbidden"), given
    assert service.next.window_s == 200
    assert (await client.patch("/retraining", json={"window_s": 60}, headers={"x-csrf-token": good})).status_code == 200
    # A form of another site's page, sent with the cookie:
    crossed = await client.patch(
        "/retraining", json={"window_s": 30}, headers={"x-csrf-token": good, "origin": "https://elsewhere.example"}
    )
    assert crossed.status_code == 403
    assert service.next.window_s == 60


async def test_the_csrf_token_of_another_session_is_none(app: FastAPI, door: Door) -> None:
    door.user("ann", "admin")
    async with browser(app) as one, browser(app) as two:
        await log_in(one, "ann")
        await log_in(two, "ann")
        one.headers["x-csrf-token"] = two.headers["x-csrf-token"]
        assert (await one.post("/logout")).status_code == 403


async def test_a_session_ends_in_time_and_when_it_is_not_used(app: FastAPI, door: Door) -> None:
    door.user("ann", "viewer")
    async with browser(app) as client:
        await log_in(client, "ann")
        for _ in range(11):  # used every hour, it lives for its twelve hours
            door.clock.advance(3600)
            assert (await client.get("/me")).status_code == 200
        door.clock.advance(3600)
        assert (await client.get("/me")).status_code == 401
        await log_in(client, "ann")
        door.clock.advance(4 * 3600 + 1)
        assert (await client.get("/me")).status_code == 401


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Bearer mgp_forged", "Basic YW5uOnB3", "bearer\tx", "Bearer " + "x" * 5000, "Token mgp_x"],
)
async def test_forged_tokens(client: httpx.AsyncClient, door: Door, header: str) -> None:
    door.user("ann", "admin")
    await log_in(client, "ann")  # the good cookie does not count beside a bad token
    answer = await client.get("/cameras", headers={"authorization": header})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_forged_cookies(app: FastAPI, door: Door) -> None:
    door.user("ann", "admin")
    async with browser(app) as client:
        for value in ("", "x", "a" * 4000, '"', "../../x"):
            answer = await client.get("/cameras", headers={"cookie": f"magpie_session={value}"})
            assert answer.status_code == 401
        with door.database.read() as c:  # what the database has of a session does not log anybody in
            await log_in(client, "ann")
            hashed = c.exec_driver_sql("SELECT hash FROM sessions").scalar()
        client.cookies.clear()
        assert (await client.get("/me", headers={"cookie": f"magpie_session={hashed}"})).status_code == 401


async def test_tokens_are_made_used_and_deleted(app: FastAPI, door: Door) -> None:
    door.user("ann", "operator", {"north"})
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
        door.clock.advance(86401)
        assert (await program.get("/me")).status_code == 401
        await log_in(ann, "ann")
        assert (await ann.delete(f"/tokens/{shown['id']}")).status_code == 204
        assert (await ann.get("/tokens")).json() == []


async def test_a_deleted_token_is_out_at_once(app: FastAPI, door: Door) -> None:
    boss = door.person("admin")
    token = door.token(door.user("ann", "viewer"), "viewer")
    async with browser(app) as client:
        header = {"authorization": f"Bearer {token}"}
        assert (await client.get("/me", headers=header)).status_code == 200
        listed = (await client.get("/tokens", headers=boss)).json()
        number = next(k["id"] for k in listed if k["user"] == "ann")
        assert (await client.delete(f"/tokens/{number}", headers=header | boss)).status_code == 204
        assert (await client.get("/me", headers=header)).status_code == 401


async def test_one_sees_and_ends_ones_own_sessions_only(app: FastAPI, door: Door) -> None:
    door.user("ann", "operator")
    door.user("bob", "operator")
    async with browser(app) as ann, browser(app) as bob:
        await log_in(ann, "ann")
        await log_in(bob, "bob")
        mine = (await ann.get("/sessions")).json()
        assert [(s["user"], s["current"]) for s in mine] == [("ann", True)]
        theirs = (await bob.get("/sessions")).json()[0]["id"]
        assert (await ann.delete(f"/sessions/{theirs}")).status_code == 404
        assert (await bob.get("/me")).status_code == 200
        everybody = (await ann.get("/sessions", headers=door.person("admin"))).json()
        assert {s["user"] for s in everybody} == {"ann", "bob"}
        assert (await bob.delete(f"/sessions/{theirs}")).status_code == 204
        assert (await bob.get("/me")).status_code == 401


async def test_a_token_has_no_power_over_its_users_others(app: FastAPI, door: Door) -> None:
    """A token that may only look, given to a program: its admin's sessions and tokens are nothing to it."""
    door.user("ann", "admin")
    strong, weak = door.token("ann", "admin"), door.token("ann", "viewer")
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


async def test_a_link_is_used_once_however_many_come_at_once(app: FastAPI, door: Door) -> None:
    door.user("ann", "viewer")
    link = await door.access.login_link_for("ann")
    async with browser(app) as client:
        answers = await asyncio.gather(*(client.post("/login/link", json={"token": link}) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [200, 401, 401, 401, 401]


async def test_a_new_password_ends_links_that_were_given_out(app: FastAPI, door: Door) -> None:
    door.user("ann", "viewer")
    async with browser(app) as client:
        link = await door.access.login_link_for("ann")
        await client.patch("/users/ann", json={"password": "8 herons by the weir"}, headers=door.person("admin"))
        assert (await client.post("/login/link", json={"token": link})).status_code == 401
        await log_in(client, "ann", "8 herons by the weir")
        link = await door.access.login_link_for("ann")
        new = {"current": "8 herons by the weir", "new": "9 herons by the weir"}
        assert (await client.post("/me/password", json=new)).status_code == 204
        assert (await client.post("/login/link", json={"token": link})).status_code == 401


async def test_a_database_that_is_away_keeps_nobody_waiting(
    app: FastAPI, door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    header, read, goes_on = door.person("viewer"), door.access.records.everybody, threading.Event()

    def hangs() -> Everybody:
        goes_on.wait(30)
        raise Unavailable("the database does not answer")

    async with browser(app) as client:
        assert (await client.get("/me", headers=header)).status_code == 200
        monkeypatch.setattr(door.access.records, "everybody", hangs)
        door.access.directory.patience_s = 0.01
        door.clock.advance(2.5)
        try:
            # With a server that does not answer, and once it is known to be away.
            assert (await client.get("/me", headers=header)).status_code == 200
        finally:
            goes_on.set()
        for _ in range(3):
            door.clock.advance(2.5)
            await asyncio.sleep(0.02)
            assert (await client.get("/me", headers=header)).status_code == 200
            assert (await client.get("/me", headers={"authorization": "Bearer mgp_x"})).status_code == 401
        assert caplog.text.count("users cannot be read") == 1
        monkeypatch.setattr(door.access.records, "everybody", read)
        door.access.records.remove_user("viewer-all", "test")
        for _ in range(500):  # a reading goes on beside the requests
            door.clock.advance(2.5)
            if (await client.get("/me", headers=header)).status_code == 401:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("a user that is gone still comes in after the database is back")


async def test_users_are_kept_in_order(app: FastAPI, door: Door) -> None:
    door.user("ann", "admin")
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
async def test_the_last_admin_stays(app: FastAPI, door: Door, change: dict[str, Any] | None) -> None:
    door.user("ann", "admin")
    door.user("bob", "admin")
    door.access.records.change_user("bob", {"disabled": True}, "test")
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
async def test_users_that_are_refused(app: FastAPI, door: Door, body: dict[str, Any], path: str) -> None:
    async with browser(app) as client:
        answer = await client.post("/users", json=body, headers=door.person("admin"))
    assert answer.status_code == 422
    assert [p["path"] for p in answer.json()["error"]["problems"]] == [path]
    assert body["password"] not in answer.text
    assert set((await door.access.directory.everybody(0)).users) == {"admin-all"}


async def test_a_change_made_by_a_command_is_in_force_within_seconds(app: FastAPI, door: Door) -> None:
    header = door.person("viewer", name="ann")
    async with browser(app) as client:
        assert (await client.get("/me", headers=header)).status_code == 200
        door.access.records.change_user("ann", {"disabled": True}, "command line")  # past Access, as `magpie user` does
        door.clock.advance(2.1)
        assert (await client.get("/me", headers=header)).status_code == 401


async def test_secrets_are_written_and_never_read(app: FastAPI, door: Door, service: DictAppliance) -> None:
    boss = door.person("admin")
    async with browser(app) as client:
        assert (await client.put("/secrets/gate", json={"value": "tomsecret"}, headers=boss)).status_code == 204
        assert service.secret_values == {"gate": "tomsecret"}
        listed = await client.get("/secrets", headers=boss)
        assert [s["name"] for s in listed.json()] == ["gate"]
        assert "tomsecret" not in listed.text
        for role in ("viewer", "operator"):
            assert (await client.get("/secrets", headers=door.person(role))).status_code == 403
        bad = await client.put("/secrets/gate", json={"value": {"a": "tomsecret"}}, headers=boss)
        assert bad.status_code == 422
        assert "tomsecret" not in bad.text
        assert (await client.put("/secrets/..%2fgate", json={"value": "x"}, headers=boss)).status_code in (
            404,
            405,
            422,
        )
        assert (await client.delete("/secrets/gate", headers=boss)).status_code == 204
    assert service.audited == [("secret/gate", "admin-all")]


async def test_changes_say_who_and_from_where(app: FastAPI, door: Door, service: DictAppliance) -> None:
    async with browser(app, "192.0.2.55") as client:
        await client.post("/models/north-w2-1-2/pin", headers=door.person("operator", name="ann"))
    assert service.journal[-1]["data"]["by"] == "ann"
    with door.database.read() as c:
        query = "SELECT subject, action, changed_by, address FROM audit ORDER BY id DESC LIMIT 1"
        row = c.exec_driver_sql(query).one()
    assert tuple(row) == ("models/north-w2-1-2/pin", "pinned", "ann", "192.0.2.55")


async def test_what_becomes_of_dead_letters_is_recorded(app: FastAPI, door: Door, service: DictAppliance) -> None:
    assert service.outputs is not None
    letters = await service.outputs.dead_letters(10, None)
    async with browser(app, "192.0.2.55") as client:
        admin = door.person("admin", name="ann")
        for letter, method, path in zip(letters, ("POST", "DELETE"), ("/retry", ""), strict=False):
            done = await client.request(method, f"/outputs/dead-letters/{letter.id}{path}", headers=admin)
            assert done.status_code == 204
    with door.database.read() as c:
        query = "SELECT action, changed_by, address FROM audit WHERE subject LIKE 'outputs/dead-letters/%' ORDER BY id"
        rows = [tuple(r) for r in c.exec_driver_sql(query)]
    assert rows == [("sent again", "ann", "192.0.2.55"), ("deleted", "ann", "192.0.2.55")][: len(letters)]
    assert rows


async def test_an_address_is_shown_as_one_line(door: Door, app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy's name of its client may be any text."""
    transport = httpx.ASGITransport(app, client=("9.9.9.9\x1b[31m\nlogged in", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        await client.post("/login", json={"name": "ann\nroot", "password": "x"})
    with door.database.read() as c:
        (address,) = c.exec_driver_sql("SELECT address FROM audit WHERE subject = 'login'").one()
    assert address == "9.9.9.9?[31m?logged in"
    assert all(c.isprintable() for c in caplog.messages[-1])


# --- some cameras only


@pytest.fixture
def only_north(door: Door) -> dict[str, str]:
    return door.person("operator", {"north"})


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/cameras/south"), ("PATCH", "/cameras/south"), ("GET", "/cameras/south/snapshot.jpg"),
     ("GET", "/cameras/south/stream.mjpeg"), ("GET", "/cameras/south/models"), ("POST", "/cameras/south/rollback"),
     ("GET", "/models/south-first-1/lineage"), ("POST", "/models/south-first-1/pin"),
     ("GET", "/events?camera=south"), ("GET", "/cameras/south/disagreements"), ("GET", "/cameras/south/classes")],
)  # fmt: skip
async def test_a_camera_that_may_not_be_seen_is_not_there(
    app: FastAPI, only_north: dict[str, str], method: str, path: str
) -> None:
    async with browser(app) as client:
        hidden = await client.request(method, path, json={}, headers=only_north)
        absent = await client.request(method, path.replace("south", "nowhere"), json={}, headers=only_north)
    assert hidden.status_code == absent.status_code == 404, hidden.text
    assert hidden.text.replace("south", "nowhere") == absent.text


async def test_every_answer_leaves_the_hidden_camera_out(
    app: FastAPI, service: DictAppliance, only_north: dict[str, str]
) -> None:
    service.reasons = [
        {"code": "camera_stalled", "message": "south: silent", "camera": "south"},
        {"code": "floor", "message": "no plan keeps south above it"},
    ]
    service.complaints = [{"code": "x", "message": "about south", "camera": None, "utc_s": 1.0, "window": 1}]
    service.note("model.promoted", "south")
    service.note("plan", None, shares={"south": 0.5})
    service.note("model.promoted", "north", version="v2", leader="south")
    whole = {path for method, path in _routes() if method == "GET" and not re.search(r"stream|schema|openapi", path)}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://box", headers=only_north
    ) as client:
        seen = 0
        for path in sorted(whole):
            answer = await client.get(_filled(path))
            if answer.status_code == 200:
                seen += 1
                assert "south" not in answer.text, (path, answer.text)
        assert seen > 15
        events = (await client.get("/api/v1/events")).json()
        own = (await client.get("/api/v1/events?camera=north")).json()
    assert [(e["kind"], e["camera"], e["data"]) for e in events] == [
        ("model.promoted", "north", {"version": "v2"}), ("plan", None, {})
    ]  # fmt: skip
    assert own == events[:1]


def test_why_a_plan_was_made_names_no_hidden_camera() -> None:
    me = Principal("ann", "viewer", frozenset({"north", "dock-2"}))
    problem = {"streams": [{"id": "north"}, {"id": "south"}]}
    causes = (
        PlanCause("retraining_late", "south"), PlanCause("retraining_late", "north"),
        PlanCause.recorded("retrain-south ended"), PlanCause("prepared"),
    )  # fmt: skip
    plan = WINDOW_DETAIL["plans"][0]
    plans = [
        plan | {"id": n, "problem": problem, "plan": {"x": 1}, "basis": {"asked": 1},
                "cause": c.words, "cause_code": c.code, "cause_camera": c.camera}
        for n, c in enumerate(causes)
    ]  # fmt: skip
    row = WINDOW["cameras"][0] | {"camera": "north"}
    story = read(WindowStory, WINDOW_DETAIL | {"window": WINDOW | {"cameras": [row]}, "plans": plans, "jobs": []})
    shown = limits.whole(me, story).plans
    assert [p.cause for p in shown] == ["another camera", causes[1].words, "another camera", causes[3].words]
    assert "south" not in repr(shown)
    assert all(p.problem is p.plan is p.basis is None for p in shown), "they are of all cameras together"


@pytest.mark.parametrize(
    ("camera", "message", "shown"),
    [("dock-2", "dock-2: silent", "dock-2: silent"), ("dock", "dock: silent", None),
     (None, "worker camera-dock ended", "this concerns the whole box")],
)  # fmt: skip
def test_a_message_is_shown_by_its_camera_and_not_by_its_words(
    camera: str | None, message: str, shown: str | None
) -> None:
    me = Principal("ann", "viewer", frozenset({"dock-2"}))
    reason = Reason(code="x", message=message, camera=camera)
    assert [r.message for r in limits.rows(me, [reason])] == ([] if shown is None else [shown])
    assert limits.rows(Principal("bob", "viewer", None), [reason]) == [reason], "who sees all reads all"


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/retraining"), ("POST", "/admission"), ("POST", "/windows/2/what-if"), ("PATCH", "/serving")],
)
async def test_what_concerns_every_camera_needs_the_right_to_see_them(
    app: FastAPI, only_north: dict[str, str], method: str, path: str
) -> None:
    async with browser(app) as client:
        answer = await client.request(method, path, json={}, headers=only_north)
    assert answer.status_code == 403
    assert "every camera" in answer.json()["error"]["message"]


async def test_who_may_see_no_camera_sees_none(app: FastAPI, door: Door) -> None:
    nobody = door.person("viewer", set())
    async with browser(app) as client:
        assert (await client.get("/cameras", headers=nobody)).json() == []
        assert (await client.get("/overview", headers=nobody)).json()["cameras"] == []


async def test_where_the_stream_comes_from_is_an_admins_to_change(app: FastAPI, door: Door) -> None:
    async with browser(app) as client:
        ann, boss = door.person("operator"), door.person("admin")
        now = (await client.get("/cameras/north", headers=ann)).json()["settings"]
        assert (
            await client.patch("/cameras/north", json={"name": "North", "url": now["url"]}, headers=ann)
        ).status_code == 200
        for patch in (
            {"url": "rtsp://198.51.100.9/x"}, {"password_from": "file:/etc/shadow"}, {"username": "root"},
            {"student": {"weights": "/etc/passwd"}}, {"student": None},
        ):  # fmt: skip
            refused = await client.patch("/cameras/north", json=patch, headers=ann)
            assert refused.status_code == 403, patch
        moved = await client.patch("/cameras/north", json={"url": "rtsp://198.51.100.9/x"}, headers=boss)
        assert moved.status_code == 200


async def test_health_says_code_words_only_to_strangers(app: FastAPI, service: DictAppliance, door: Door) -> None:
    service.reasons = [{"code": "camera_stalled", "message": "south: rtsp://10.0.0.9 is silent", "camera": "south"}]
    async with browser(app) as client:
        assert (await client.get("http://box/readyz")).json() == {
            "live": True, "ready": True, "reasons": [{"code": "camera_stalled"}]
        }  # fmt: skip
        told = (await client.get("http://box/readyz", headers=door.person("viewer"))).json()
        assert told["reasons"] == service.reasons
        assert (await client.get("http://box/")).status_code == 200


# --- sockets and streams, over real connections


@pytest.fixture
async def server(app: FastAPI) -> AsyncIterator[WebServer]:
    server = WebServer(app, "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


async def test_the_live_socket_waits_for_a_password_of_ones_own(server: WebServer, door: Door) -> None:
    door.access.records.add_user("eve", "viewer", None, door.hash, True, "test")
    base = f"127.0.0.1:{server.port}/api/v1"
    async with httpx.AsyncClient(base_url=f"http://{base}") as eve:
        await log_in(eve, "eve")
        cookie = {"cookie": "; ".join(f"{k}={v}" for k, v in eve.cookies.items())}
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(f"ws://{base}/live", additional_headers=cookie):
                pass
        answer = refused.value.response
        assert answer.status_code == 403
        assert json.loads(answer.body or b"")["error"]["code"] == "password_change_needed"
        own = {"current": PASSWORD, "new": "quite another 1"}
        assert (await eve.post("/me/password", json=own)).status_code == 204
        async with websockets.connect(f"ws://{base}/live", additional_headers=cookie) as socket:
            await socket.send("{}")
            assert isinstance(await socket.recv(), bytes)


async def test_the_live_socket_shows_what_the_caller_may_see(
    server: WebServer, door: Door, service: DictAppliance
) -> None:
    url = f"ws://127.0.0.1:{server.port}/api/v1/live"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(url):
            pass
    assert refused.value.response.status_code == 403
    async with websockets.connect(url, additional_headers=door.person("viewer", {"north"})) as socket:
        await socket.send("{}")  # all cameras
        for _ in range(3):
            message = await socket.recv()
            assert isinstance(message, bytes)
            assert b'"camera":"north"' in message
        assert service.watching == [(("north",), 4.0)]
        await socket.send(json.dumps({"cameras": ["south"]}))
        while isinstance(message := await socket.recv(), bytes):
            assert b'"camera":"south"' not in message
        assert json.loads(message)["error"]["code"] == "not_found"
    async with websockets.connect(url, additional_headers=door.person("viewer", set())) as socket:
        await socket.send("{}")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.3)


async def test_there_are_no_other_sockets(server: WebServer, door: Door) -> None:
    for path in ("/", "/api/v1/cameras", "/api/v1/live/", "/x"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(
                f"ws://127.0.0.1:{server.port}{path}", additional_headers=door.person("admin", name=f"u{len(path)}")
            ):
                pass
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("how", ["revoked", "disabled", "fewer cameras", "by a command"])
async def test_open_streams_end_with_the_login(server: WebServer, door: Door, service: DictAppliance, how: str) -> None:
    header = door.person("viewer", name="ann")
    base = f"127.0.0.1:{server.port}/api/v1"
    async with (
        websockets.connect(f"ws://{base}/live", additional_headers=header) as socket,
        httpx.AsyncClient(headers=header, timeout=20) as client,
        client.stream("GET", f"http://{base}/events/stream") as events,
        client.stream("GET", f"http://{base}/cameras/north/stream.mjpeg") as pictures,
    ):
        assert (events.status_code, pictures.status_code) == (200, 200)
        await socket.send("{}")
        await socket.recv()
        access = door.access
        if how == "revoked":
            token = next(iter((await access.directory.everybody(0)).tokens.values()))
            await access.tokens.remove(Principal("boss", "admin"), token.id, "boss")
        elif how == "disabled":
            await access.users.change("ann", {"disabled": True}, "boss")
        elif how == "fewer cameras":
            await access.users.change("ann", {"cameras": ["south"]}, "boss")
        else:
            await asyncio.to_thread(access.records.remove_user, "ann", "command line")
            door.clock.advance(2.1)
        async with asyncio.timeout(15):
            async for _ in events.aiter_bytes():
                pass
            async for _ in pictures.aiter_bytes():
                pass
            with contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await socket.recv()
        assert socket.close_code == 4401
    async with asyncio.timeout(5):
        while service.watching or service.listeners:
            await asyncio.sleep(0.01)


async def test_events_are_told_to_whoever_may_see_the_camera(
    server: WebServer, door: Door, service: DictAppliance
) -> None:
    url = f"http://127.0.0.1:{server.port}/api/v1/events/stream"
    async with (
        httpx.AsyncClient() as client,
        client.stream("GET", url, headers=door.person("viewer", {"north"})) as got,
    ):
        lines = got.aiter_lines()
        async with asyncio.timeout(10):
            while not service.listeners:
                await asyncio.sleep(0.01)
            service.note("model.promoted", "south")
            service.note("plan", None, shares={"south": 1})
            service.note("model.promoted", "north")
            told = []
            async for line in lines:
                if line.startswith("data: "):
                    told.append(json.loads(line.removeprefix("data: ")))
                if len(told) == 2:
                    break
    assert [(e["kind"], e["camera"], e["data"]) for e in told] == [("plan", None, {}), ("model.promoted", "north", {})]
