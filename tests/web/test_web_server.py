"""The real server on real sockets: the live socket's framing, streams, ports, and an end in time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from appliance_double import DictAppliance

from edge.core.errors import Unavailable
from web import errors as web_errors
from web.app import create_app
from web.parts import BODY_S
from web.server import HEADERS_S, WebServer


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance()


@pytest.fixture
async def server(service: DictAppliance, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[WebServer]:
    """Its patience with clients (`headers_s`, `body_s`) is a test's parameter."""
    patience: dict[str, float] = getattr(request, "param", {})
    app = create_app(service, static=tmp_path, body_s=patience.get("body_s", BODY_S))
    server = WebServer(app, "127.0.0.1", 0, headers_s=patience.get("headers_s", HEADERS_S))
    await server.start()
    yield server
    await server.stop()


def unpack(message: Any) -> tuple[dict[str, Any], bytes]:
    assert isinstance(message, bytes)
    (length,) = struct.unpack_from(">H", message)
    return json.loads(message[2 : 2 + length]), message[2 + length :]


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_live_pictures_and_their_boxes(server: WebServer, service: DictAppliance) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/v1/live") as socket:
        assert service.live.watching == []  # nothing is encoded before a viewer asks
        await socket.send(json.dumps({"cameras": ["south"], "fps": 5}))
        for expected in (1, 2):
            header, jpeg = unpack(await socket.recv())
            assert (header["camera"], header["number"]) == ("south", expected)
            assert len(header["boxes"]) == len(header["labels"]) == 1
            assert jpeg.startswith(b"\xff\xd8")
            assert jpeg.endswith(b"\xff\xd9")
        assert service.live.watching == [(("south",), 5.0)]
        await socket.send(json.dumps({"fps": 2}))  # watch all instead
        seen: set[str] = set()
        while seen != {"north", "south"}:
            seen.add(unpack(await socket.recv())[0]["camera"])
        assert service.live.watching == [((), 2.0)]
    await until(lambda: service.live.watching == [])


@pytest.mark.parametrize(
    ("sent", "code", "path"),
    [
        ("{", "invalid_value", "(body)"),
        ("[]", "invalid_value", "(body)"),
        ('{"fps": 0}', "invalid_value", "fps"),
        ('{"fps": 2, "camera": "north"}', "invalid_value", "camera"),
        ('{"cameras": ["West Side"]}', "invalid_value", "cameras[0]"),
        ('{"cameras": ["west"]}', "not_found", None),
    ],
)
async def test_a_wrong_request_is_answered_and_the_socket_stays(
    server: WebServer, sent: str, code: str, path: str | None
) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/v1/live") as socket:
        await socket.send(sent)
        error = json.loads(await socket.recv())["error"]
        assert error["code"] == code
        assert [p["path"] for p in error.get("problems", [])] == ([path] if path else [])
        await socket.send(json.dumps({"cameras": ["north"]}))
        assert unpack(await socket.recv())[0]["camera"] == "north"


async def test_messages_are_not_deflated(server: WebServer) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/v1/live") as socket:
        assert socket.response is not None
        assert "sec-websocket-extensions" not in socket.response.headers


async def test_another_sites_page_cannot_watch(server: WebServer, service: DictAppliance) -> None:
    url = f"ws://127.0.0.1:{server.port}/api/v1/live"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(url, origin=websockets.Origin("https://elsewhere.example")):
            pass
    assert refused.value.response.status_code == 403
    async with websockets.connect(url, origin=websockets.Origin(f"http://127.0.0.1:{server.port}")):
        pass


async def test_mjpeg(server: WebServer, service: DictAppliance) -> None:
    url = f"http://127.0.0.1:{server.port}/api/v1/cameras/north/stream.mjpeg?fps=5"
    async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
        assert response.headers["content-type"] == "multipart/x-mixed-replace; boundary=magpie-picture"
        got = b""
        async for chunk in response.aiter_bytes():
            got += chunk
            if got.count(b"--magpie-picture\r\n") >= 3:
                break
        head, _, rest = got.partition(b"\r\n\r\n")
        length = int(head.rpartition(b"content-length: ")[2])
        assert rest[:2] == b"\xff\xd8"
        assert rest[length : length + 2] == b"\r\n"
    await until(lambda: service.live.watching == [])


async def test_events_as_they_happen(server: WebServer, service: DictAppliance) -> None:
    url = f"http://127.0.0.1:{server.port}/api/v1/events/stream"
    async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        await until(lambda: service.events.listeners)
        service.events.note("model.promoted", "north", gain=float("nan"))
        line = await anext(x async for x in lines if x.startswith("data: "))
        event = json.loads(line.removeprefix("data: "))
        assert (event["kind"], event["camera"], event["data"]) == ("model.promoted", "north", {"gain": None})
    await until(lambda: service.events.listeners == [])


async def test_stop_ends_open_streams(service: DictAppliance, tmp_path: Path) -> None:
    server = WebServer(create_app(service, static=tmp_path), "127.0.0.1", 0, drain_s=3600)
    await server.start()
    base = f"127.0.0.1:{server.port}/api/v1"
    async with (
        websockets.connect(f"ws://{base}/live") as socket,
        httpx.AsyncClient() as client,
        client.stream("GET", f"http://{base}/events/stream") as events,
    ):
        await socket.send("{}")
        await socket.recv()
        await until(lambda: service.events.listeners)
        await server.stop()  # and waits for no stream, for which it would have an hour
        async for _ in events.aiter_lines():
            pass
        async for _ in socket:  # ends without an error only when the server closed in order
            pass
        assert socket.close_code == 1001
    assert service.live.watching == []
    assert service.events.listeners == []
    await server.stop()


async def test_a_taken_port_is_a_clear_error(server: WebServer, service: DictAppliance) -> None:
    second = WebServer(create_app(service), "127.0.0.1", server.port)
    with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{server.port}.*web\.port"):
        await second.start()
    await second.stop()


async def test_an_address_that_is_not_ours_is_a_clear_error(service: DictAppliance) -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1:0"):
        await WebServer(create_app(service), "192.0.2.1", 0).start()


async def test_a_port_is_free_again_after_stop(service: DictAppliance) -> None:
    first = WebServer(create_app(service), "127.0.0.1", 0)
    await first.start()
    port = first.port
    await first.stop()
    again = WebServer(create_app(service), "127.0.0.1", port)
    await again.start()
    assert again.port == port
    await again.stop()


# --- clients that take their time

_HEAD = b"POST /api/v1/check/retraining HTTP/1.1\r\nhost: box\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize("server", [{"headers_s": 0.2}], indirect=True)
@pytest.mark.parametrize(
    "said", [b"", b"GET /livez HTTP/1.1\r\nhost: b", b"GET /livez HTTP/1.1\r\nhost: box\r\n\r\nGET /l"]
)
async def test_a_connection_on_which_no_request_comes_is_closed(server: WebServer, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(said)
    async with asyncio.timeout(20):
        answered = await reader.read()
    assert answered.startswith(b"HTTP/1.1 200") == said.endswith(b"/l")
    writer.close()


@pytest.mark.parametrize("server", [{"headers_s": 0.5}], indirect=True)
async def test_headers_drop_by_drop_gain_no_time(server: WebServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

    async def drip() -> None:
        writer.write(b"GET /livez HTTP/1.1\r\nx: ")
        while True:
            writer.write(b"a")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    dripping.cancel()
    writer.close()


async def test_headers_without_end_are_not_kept(server: WebServer) -> None:
    for size, status in ((12 * 1024, b" 200 "), (17 * 1024, b" 400 ")):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: " + b"a" * size)
        if status == b" 200 ":
            writer.write(b"\r\n\r\n")
        async with asyncio.timeout(10):
            assert status in await reader.read(), size
        writer.close()


@pytest.mark.parametrize("server", [{"body_s": 0.2}], indirect=True)
async def test_a_body_that_does_not_come_is_given_up(server: WebServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(_HEAD + b"content-length: 100\r\n\r\n{")
    async with asyncio.timeout(20):
        answered = await reader.read()
    assert answered.startswith(b"HTTP/1.1 408")
    writer.close()


@pytest.mark.parametrize("server", [{"headers_s": 0.1}], indirect=True)
async def test_open_streams_and_sockets_outlast_the_time_for_headers(server: WebServer, service: DictAppliance) -> None:
    async with (
        websockets.connect(f"ws://127.0.0.1:{server.port}/api/v1/live") as socket,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client,
        client.stream("GET", "/api/v1/events/stream") as stream,
    ):
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith(":")
        late, _ = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(10):
            assert await late.read() == b"", "one that came after them and sent no headers has been given up"
        await socket.send("{}")
        assert isinstance(await socket.recv(), bytes)
        service.events.note("model.promoted", "north")
        async with asyncio.timeout(10):
            while not (await anext(lines)).startswith("data:"):
                pass


async def test_what_is_no_http_leaves_the_log_alone(server: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    for said in (b"\x16\x03\x01 hello\r\n\r\n", b"nonsense\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(said)
        async with asyncio.timeout(10):
            assert b" 400 " in await reader.read()
        writer.close()
    assert caplog.records == []


async def test_a_client_that_goes_in_the_middle_leaves_the_log_alone(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can do that, without a login."""
    gone, answer = asyncio.Event(), web_errors.Json.__call__

    async def send(self: web_errors.Json, *args: Any) -> None:
        gone.set()
        await answer(self, *args)

    monkeypatch.setattr(web_errors.Json, "__call__", send)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(_HEAD + b"content-length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    async with asyncio.timeout(10):
        await gone.wait()
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "lengths",
    ["content-length: 5\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 5"],
)
async def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_answered(
    server: WebServer, service: DictAppliance, lengths: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    smuggled = "GET /api/v1/doctor HTTP/1.1\r\nhost: box\r\n\r\n"
    writer.write(f"POST /api/v1/cameras/test HTTP/1.1\r\nhost: box\r\n{lengths}\r\n\r\n0\r\n\r\n{smuggled}".encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    writer.close()
