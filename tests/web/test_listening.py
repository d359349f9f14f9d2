"""The sockets of the page and of served inference."""

from __future__ import annotations

import asyncio
import socket

import psutil
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from web.listening import AsgiServer

#: More than the kernel's buffers of both ends hold.
_LARGE = bytes(32 * 2**20)


def connections(port: int) -> int:
    """Connections that the server holds."""
    found = psutil.Process().net_connections("tcp")
    return sum(c.laddr.port == port and c.status != psutil.CONN_LISTEN for c in found)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_a_client_that_takes_nothing_of_its_answer_is_cut_off() -> None:
    app = Starlette(routes=[Route("/", lambda request: Response(_LARGE))])
    server = AsgiServer(app, "127.0.0.1", 0, "a test", "test.port", unread_s=3.0)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert connections(server.port) == 1
        async with asyncio.timeout(60):
            while connections(server.port):
                await asyncio.sleep(0.05)
        writer.close()
    finally:
        await server.stop()
