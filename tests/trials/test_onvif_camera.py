"""A camera of the `ipycam` package, an ONVIF server that was not written for this, is found and tells its streams.

It has an environment of its own: `MAGPIE_IPYCAM` names its Python (a command line). Without one this is skipped. It
listens at UDP port 3702, which must be free.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.waiting import PATIENCE_S
from edge.core.discovery import FoundDevice, SearchOrder, StreamNeed
from edge.discovery.addresses import interfaces
from edge.discovery.search import SearchTimes, search
from scheduler.substreams import judge

pytestmark = pytest.mark.timeout(240)

SCRIPT = Path(__file__).with_name("onvif_camera.py")
DISCOVERY_PORT = 3702


@contextmanager
def camera(username: str = "", password: str = "") -> Iterator[int]:
    command = shlex.split(os.environ.get("MAGPIE_IPYCAM", ""))
    if not command:
        pytest.skip("no ipycam here (MAGPIE_IPYCAM names the Python of its environment)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probes:
        try:
            probes.bind(("", DISCOVERY_PORT))
        except OSError:
            pytest.skip(f"UDP port {DISCOVERY_PORT} is taken")
    process = subprocess.Popen(
        [*command, str(SCRIPT), username, password], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=PATIENCE_S)


def good(found: FoundDevice) -> None:
    assert found.fault is None
    assert found.name
    assert [(p.codec, p.width, p.height) for p in found.profiles] == [("h264", 1920, 1080), ("h264", 640, 360)]
    assert all(p.url.startswith("rtsp://127.0.0.1:8554/") for p in found.profiles)
    assert judge(found.profiles, StreamNeed(320, 192, 5.0)) == ("dearer", "proposed")


async def test_it_is_found_by_multicast() -> None:
    with camera() as port:
        result = await search(SearchOrder(), SearchTimes(listen_s=5.0), interfaces("127.0.0.0/8"))
    (found,) = [d for d in result.devices if d.address == f"127.0.0.1:{port}"]
    good(found)


async def test_it_is_asked_by_its_address_with_a_password() -> None:
    with camera("viewer", "s3cret-pa55") as port:
        right = await search(SearchOrder((f"127.0.0.1:{port}",), "", "viewer", "s3cret-pa55"))
        wrong = await search(SearchOrder((f"127.0.0.1:{port}",), "", "viewer", "wrong"))
    good(right.devices[0])
    assert wrong.devices[0].fault == "refused"
