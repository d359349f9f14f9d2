"""The table of rights: every route has a row, and asks for its role."""

from __future__ import annotations

import httpx
import pytest
from access_kit import PASSWORD, Accounts, browser, code, every_route, filled, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.core.access import ROLES, at_least
from web import roles, route_table
from web.app import create_app
from web.auth import routes_of


def test_every_route_has_a_row() -> None:
    app = create_app(DictAppliance())
    assert [(methods, path) for methods, path, row in routes_of(app, route_table.row_of) if row is None] == []


def test_what_is_open_is_health_login_and_the_page() -> None:
    open_ones = {
        f"{method} {path}"
        for method, path in every_route()
        if (route_table.row_of(method, path) or roles.OPEN).least is None
    }
    assert open_ones == {
        "GET /livez", "GET /readyz", "POST /api/v1/login", "POST /api/v1/login/link", "GET /api/v1/setup",
        "POST /api/v1/setup", "MOUNT /",
    }  # fmt: skip


def test_what_changes_something_is_never_a_viewers() -> None:
    own = {"logout", "password", "tokens", "sessions"}  # one's own
    for method, path in every_route():
        row = route_table.row_of(method, path)
        assert row is not None
        if method in ("POST", "PUT", "PATCH", "DELETE") and row.least is not None:
            assert row.least != "viewer" or own & set(path.split("/")), (method, path)


async def test_every_route_asks_for_its_role(app: FastAPI, accounts: Accounts, service: DictAppliance) -> None:
    """Without a log-in, and by each role, at every route: refused exactly where the table says so."""
    people = {role: accounts.person(role) for role in ROLES}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box") as client:
        for method, template in every_route():
            if method in ("WS", "MOUNT") or template.endswith(("stream", "stream.mjpeg")):
                continue
            row = route_table.row_of(method, template)
            assert row is not None
            path = filled(template)
            strange = await client.request(method, path, json={})
            if row.least is None:
                assert strange.status_code != 401 or "login" in path, path
                continue
            assert strange.status_code == 401, (method, path, strange.text)
            for role in ROLES:
                if at_least(role, row.least):
                    continue
                before = (len(service.events.journal), dict(service.cameras.in_force), len(service.cameras.kept))
                answer = await client.request(method, path, json={}, headers=people[role])
                assert answer.status_code == 403, (method, path, role, answer.text)
                assert (
                    len(service.events.journal),
                    dict(service.cameras.in_force),
                    len(service.cameras.kept),
                ) == before
            if path.endswith(("/logout", "/me/password")):
                continue  # a session's, whatever the role
            # The least role that may: whatever the answer is, it is not a refusal.
            answer = await client.request(method, path, json={}, headers=people[row.least])
            assert answer.status_code not in (401, 403, 500), (method, path, row.least, answer.text)


async def test_a_password_that_another_chose_is_changed_first(
    app: FastAPI, accounts: Accounts, service: DictAppliance
) -> None:
    accounts.access.records.add_user("eve", "admin", None, accounts.hash, True, "test")
    may = {"GET /api/v1/me", "POST /api/v1/me/password", "GET /api/v1/setup", "POST /api/v1/logout"}
    async with browser(app) as eve:
        await log_in(eve, "eve")
        before = (len(service.events.journal), dict(service.cameras.in_force), len(service.cameras.kept))
        for method, template in every_route():
            row = route_table.row_of(method, template)
            assert row is not None
            assert row.before_change == (f"{method} {template}" in may), template
            if method in ("WS", "MOUNT") or row.least is None or row.before_change:
                continue
            answer = await eve.request(method, f"http://box{filled(template)}", json={})
            assert answer.status_code == 403, (method, template)
            assert method == "HEAD" or code(answer) == "password_change_needed", template
        assert (len(service.events.journal), dict(service.cameras.in_force), len(service.cameras.kept)) == before
        assert (await eve.get("/setup")).json()["logged_in"] is True
        own = {"current": PASSWORD, "new": "quite another 1"}
        assert (await eve.get("/me")).json()["must_change"] is True
        assert (await eve.post("/me/password", json=own)).status_code == 204
        assert (await eve.get("/users")).status_code == 200
        assert (await eve.post("/logout")).status_code == 204


async def test_a_program_goes_on_while_its_user_has_to_change_the_password(app: FastAPI, accounts: Accounts) -> None:
    header = accounts.person("viewer")
    accounts.access.records.change_user("viewer-all", {"must_change": True}, "test")
    async with browser(app) as client:
        assert (await client.get("/overview", headers=header)).status_code == 200


async def test_a_route_without_a_row_is_refused(app: FastAPI, accounts: Accounts) -> None:
    @app.get("/api/v1/forgotten")
    async def forgotten() -> dict[str, bool]:
        return {"reached": True}

    app.router.routes.insert(0, app.router.routes.pop())
    async with browser(app) as client:
        answer = await client.get("/forgotten", headers=accounts.person("admin"))
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
