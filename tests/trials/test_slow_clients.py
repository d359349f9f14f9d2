"""Hundreds of clients that send or read slowly (slowhttptest): all others are answered, and their connections end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from appliance_double import DictAppliance

from benchmarks.waiting import PATIENCE_S, until_async
from web.app import create_app
from web.server import WebServer

pytestmark = pytest.mark.timeout(300)

CLIENTS = 400
#: Longer than headers may take.
SECONDS = 30


@pytest.mark.parametrize(
    ("mode", "path"),
    [(("-H",), "/livez"), (("-B",), "/api/v1/login"), (("-X", "-k", "3"), "/api/v1/openapi.json")],
    ids=["slow headers", "slow body", "slow reading"],
)
async def test_others_are_answered_meanwhile(mode: tuple[str, ...], path: str, tmp_path: Path) -> None:
    if shutil.which("slowhttptest") is None:
        pytest.skip("slowhttptest is not installed")
    server = WebServer(create_app(DictAppliance(), static=tmp_path), "127.0.0.1", 0)
    await server.start()
    url = f"http://127.0.0.1:{server.port}"
    try:
        async with (
            attack(mode, url + path) as ended,
            httpx.AsyncClient(base_url=url, headers={"connection": "close"}) as rest,
        ):
            most = asked = 0
            while not ended.done():
                answer = await rest.get("/livez", timeout=PATIENCE_S)
                assert answer.status_code == 200
                asked, most = asked + 1, max(most, held(server.port))
                await asyncio.wait({ended}, timeout=0.3)
        assert asked > 3
        if mode == ("-H",):
            assert most > CLIENTS / 2, "they were there"
        await until_async(lambda: not held(server.port), "the server has closed their connections")
    finally:
        await server.stop()


@asynccontextmanager
async def attack(mode: tuple[str, ...], url: str) -> AsyncIterator[asyncio.Task[int]]:
    """slowhttptest runs; the task is done when it has ended. It does not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        "slowhttptest", *mode, "-u", url, "-c", str(CLIENTS), "-r", "200", "-i", "5", "-l", str(SECONDS), "-p", "2",
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    ended = asyncio.create_task(process.wait())
    try:
        yield ended
    finally:
        if not ended.done():
            process.kill()
        await ended


def held(port: int) -> int:
    """Connections that the server holds."""
    found = psutil.Process().net_connections("tcp")
    return sum(c.laddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in found)
