"""The live socket: every watched camera's pictures over one connection, boxes beside the pictures.

The client sends {"cameras": [ids], "fps": n} (no cameras: all) and may send it again to watch something else. Each
binary message is a 2-byte big-endian length, that many bytes of JSON header (`LivePicture.header`), and the JPEG. Text
messages are errors in the shape of REST.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from edge.appliance.answers.cameras import PictureHeader
from edge.appliance.answers.read import plain
from edge.appliance.service import ApplianceService, LivePicture
from edge.core.access import Principal
from edge.core.errors import InvalidValue, MagpieError
from edge.settings import parse
from web import limits
from web.bodies import LiveRequest
from web.errors import body_of, finite
from web.parts import Ending, caller_of, closing_of, parse_object, seen, service_of, until_closing
from web.rest_router import PREFIX
from web.roles import VIEWER

router = APIRouter(prefix=PREFIX)
ROLES: Final = {
    "WS /live": VIEWER,
}


def header_of(caller: Principal, picture: LivePicture) -> PictureHeader:
    """The header as the caller may see it. Raises NotFound if it is of a camera that the caller may not see."""
    return limits.whole(caller, picture.header)


def message(caller: Principal, picture: LivePicture) -> bytes:
    """One binary message, as the caller may see it. Raises NotFound as `header_of`."""
    header = json.dumps(finite(plain(PictureHeader, header_of(caller, picture))), separators=(",", ":")).encode()
    return struct.pack(">H", len(header)) + header + picture.jpeg


@router.websocket("/live")
async def live(socket: WebSocket) -> None:
    """Send what the last request of the client asks for, until it goes, the server stops or the login is over."""
    service, closing, caller = service_of(socket), closing_of(socket), caller_of(socket)
    await socket.accept()
    sending: asyncio.Task[None] | None = None
    ended = asyncio.create_task(_close_in_time(socket, closing))
    try:
        while True:
            text = await _request(socket)
            if sending is not None:
                await _end(sending)
            sending = asyncio.create_task(_serve(socket, service, caller, closing, text))
    except WebSocketDisconnect:
        pass
    finally:
        await _end(ended)
        if sending is not None:
            await _end(sending)


async def _request(socket: WebSocket) -> bytes:
    got = await socket.receive()
    if got["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(got.get("code", 1005))
    text = got.get("text")
    return text.encode("utf-8", "replace") if text is not None else got.get("bytes") or b""


async def _serve(
    socket: WebSocket, service: ApplianceService, caller: Principal, closing: asyncio.Event, text: bytes
) -> None:
    try:
        asked = parse(LiveRequest, parse_object(text))
        for camera in asked.cameras:
            service.cameras.one(seen(caller, camera))
        wanted = asked.cameras
        if not wanted and not caller.sees_all:
            wanted = caller.visible(c.id for c in service.cameras.all())
            if not wanted:
                return  # no cameras: to the service that would be all of them
        async for picture in until_closing(service.live.watch(wanted, asked.fps), closing):
            if picture is not None:
                await socket.send_bytes(_fitting(caller, picture))
    except MagpieError as error:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_text(json.dumps(body_of(error)))
    except (WebSocketDisconnect, RuntimeError):
        return  # the client went between two pictures; the receiving side sees it too


def _fitting(caller: Principal, picture: LivePicture) -> bytes:
    try:
        return message(caller, picture)
    except struct.error:
        raise InvalidValue("header", f"{len(picture.header.boxes)} boxes", "a header under 64 kB") from None


async def _close_in_time(socket: WebSocket, closing: Ending) -> None:
    await closing.wait()
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await socket.close(closing.code)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
