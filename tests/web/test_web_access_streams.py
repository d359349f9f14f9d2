"""Sockets and streams over real connections end with the login."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx
import pytest
import websockets
from access_kit import PASSWORD, Accounts, log_in
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.core.access import Principal
from web.server import WebServer


@pytest.fixture
async def server(app: FastAPI) -> AsyncIterator[WebServer]:
    server = WebServer(app, "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


async def test_the_live_socket_waits_for_a_password_of_ones_own(server: WebServer, accounts: Accounts) -> None:
    accounts.access.records.add_user("eve", "viewer", None, accounts.hash, True, "test")
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
    server: WebServer, accounts: Accounts, service: DictAppliance
) -> None:
    url = f"ws://127.0.0.1:{server.port}/api/v1/live"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(url):
            pass
    assert refused.value.response.status_code == 403
    async with websockets.connect(url, additional_headers=accounts.person("viewer", {"north"})) as socket:
        await socket.send("{}")  # all cameras
        for _ in range(3):
            message = await socket.recv()
            assert isinstance(message, bytes)
            assert b'"camera":"north"' in message
        assert service.live.watching == [(("north",), 4.0)]
        await socket.send(json.dumps({"cameras": ["south"]}))
        while isinstance(message := await socket.recv(), bytes):
            assert b'"camera":"south"' not in message
        assert json.loads(message)["error"]["code"] == "not_found"
    async with websockets.connect(url, additional_headers=accounts.person("viewer", set())) as socket:
        await socket.send("{}")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.3)


async def test_there_are_no_other_sockets(server: WebServer, accounts: Accounts) -> None:
    for path in ("/", "/api/v1/cameras", "/api/v1/live/", "/x"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(
                f"ws://127.0.0.1:{server.port}{path}", additional_headers=accounts.person("admin", name=f"u{len(path)}")
            ):
                pass
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("how", ["revoked", "disabled", "fewer cameras", "by a command"])
async def test_open_streams_end_with_the_login(
    server: WebServer, accounts: Accounts, service: DictAppliance, how: str
) -> None:
    header = accounts.person("viewer", name="ann")
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
        access = accounts.access
        if how == "revoked":
            token = next(iter((await access.directory.everybody(0)).tokens.values()))
            await access.tokens.remove(Principal("boss", "admin"), token.id, "boss")
        elif how == "disabled":
            await access.users.change("ann", {"disabled": True}, "boss")
        elif how == "fewer cameras":
            await access.users.change("ann", {"cameras": ["south"]}, "boss")
        else:
            await asyncio.to_thread(access.records.remove_user, "ann", "command line")
            accounts.clock.advance(2.1)
        async with asyncio.timeout(15):
            async for _ in events.aiter_bytes():
                pass
            async for _ in pictures.aiter_bytes():
                pass
            with contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await socket.recv()
        assert socket.close_code == 4401
    async with asyncio.timeout(30):
        while service.live.watching or service.events.listeners:
            await asyncio.sleep(0.01)


async def test_events_are_sent_to_users_who_may_see_the_camera(
    server: WebServer, accounts: Accounts, service: DictAppliance
) -> None:
    url = f"http://127.0.0.1:{server.port}/api/v1/events/stream"
    async with (
        httpx.AsyncClient() as client,
        client.stream("GET", url, headers=accounts.person("viewer", {"north"})) as got,
    ):
        lines = got.aiter_lines()
        async with asyncio.timeout(10):
            while not service.events.listeners:
                await asyncio.sleep(0.01)
            service.events.note("model.promoted", "south")
            service.events.note("plan", None, shares={"south": 1})
            service.events.note("model.promoted", "north")
            events = []
            async for line in lines:
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                if len(events) == 2:
                    break
    assert [(e["kind"], e["camera"], e["data"]) for e in events] == [
        ("plan", None, {}),
        ("model.promoted", "north", {}),
    ]
