"""Connections that have shown no certificate: few at once, not for long, and counted when they are turned away."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.waiting import free_port
from benchmarks.waiting import until_async as until
from edge.core.fleet_links import RefusedBy
from edge.fleet.door import Door, DoorLimits
from edge.fleet.folder import FleetFolder
from edge.fleet.identity import client_context, joining_context, server_context
from edge.fleet.joining import found_fleet
from edge.settings import FleetSettings


class Echo(asyncio.Protocol):
    """Sends back what it reads."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


Connect = Callable[[ssl.SSLContext | None], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Opened = tuple[Connect, list[RefusedBy]]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a box of a fleet."""
    folder = FleetFolder(tmp_path_factory.mktemp("box"))
    found_fleet(folder, "yard", FleetSettings(name="b1", token="env:X"), "machine")
    return folder.path


@asynccontextmanager
async def door(folder: Path, limits: DoorLimits) -> AsyncIterator[Opened]:
    """A listening door with an echo behind it; connections are closed at the end."""
    refused: list[RefusedBy] = []
    guarded = Door(server_context(folder, refused.append), lambda why, _: refused.append(why), limits)
    port = free_port()
    server = await asyncio.get_running_loop().create_server(lambda: guarded.protocol(Echo), "127.0.0.1", port)
    writers: list[asyncio.StreamWriter] = []

    async def connect(context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = None if context is None else "b1"
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        writers.append(writer)
        return reader, writer

    try:
        yield connect, refused
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await guarded.close()


async def answered(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    """Whether the echo behind the door answers."""
    reader, writer = connection
    writer.write(b"hello")
    return await reader.read(5) == b"hello"


async def closed(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    """Whether the other side closes the connection."""
    try:
        return await connection[0].read(1) == b""
    except ConnectionError:
        return True


async def test_more_connections_without_a_certificate_than_allowed_are_closed_and_counted(box: Path) -> None:
    async with door(box, DoorLimits(total=3, of_one=2)) as (connect, refused):
        idle = [await connect(None), await connect(None)]
        assert await closed(await connect(None))
        assert refused == ["too_many"]
        with pytest.raises(ConnectionError):
            await connect(client_context(box))
        for _, writer in idle:
            writer.close()
        held = []

        async def comes_in() -> bool:
            try:
                held.append(await connect(client_context(box)))
            except ConnectionError:
                return False
            return True

        while not await comes_in():  # the door has not seen yet that the idle ones are gone
            await asyncio.sleep(0.01)
        for _ in range(4):
            assert await comes_in(), "members do not count"
        assert all([await answered(one) for one in held])


async def test_a_client_without_a_certificate_is_answered_but_may_not_stay(box: Path) -> None:
    unknown = joining_context((box / "ca.pem").read_text())
    async with door(box, DoorLimits(of_one=1, stay_s=0.4)) as (connect, refused):
        first = await connect(unknown)
        assert await answered(first)
        with pytest.raises(ConnectionError):
            await connect(unknown)
        assert refused == ["too_many"]
        assert await closed(first)
        again = None
        while again is None:
            try:
                again = await connect(unknown)
            except ConnectionError:
                await asyncio.sleep(0.01)
        assert await answered(again)


async def test_a_connection_that_begins_no_tls_is_closed_after_a_while(box: Path) -> None:
    async with door(box, DoorLimits(handshake_s=0.1)) as (connect, refused):
        async with asyncio.timeout(20.0):  # less than the 60 s of asyncio itself
            assert await closed(await connect(None))
        await until(lambda: refused == ["too_slow"], "it is counted")
