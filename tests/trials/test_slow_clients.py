"""Hundreds of clients that send or read slowly (slowhttptest): all others are answered, and their connections end."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import psutil
import pytest
from appliance_double import DictAppliance

from web.app import create_app
from web.server import WebServer

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
        attack = await asyncio.create_subprocess_exec(
            "slowhttptest", *mode, "-u", url + path, "-c", str(CLIENTS), "-r", "200", "-i", "5", "-l", str(SECONDS),
            "-p", "2", stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        most = asked = 0
        async with httpx.AsyncClient(base_url=url, headers={"connection": "close"}) as client:
            while attack.returncode is None:
                answer = await client.get("/livez", timeout=10)
                assert answer.status_code == 200
                asked, most = asked + 1, max(most, held(server.port))
                await asyncio.wait({asyncio.ensure_future(attack.wait())}, timeout=0.3)
        assert asked > 3
        if mode == ("-H",):
            assert most > CLIENTS / 2, "they were there"
        async with asyncio.timeout(60):
            while held(server.port):
                await asyncio.sleep(0.1)
    finally:
        await server.stop()


def held(port: int) -> int:
    """Connections that the server holds."""
    found = psutil.Process().net_connections("tcp")
    return sum(c.laddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in found)
