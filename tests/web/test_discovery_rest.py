"""The search for cameras over REST."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_kit import Accounts
from appliance_double import DictAppliance
from discovery_kit import Device, served

from edge.appliance.access_control import AccessControl
from edge.appliance.answers.discovery import FoundCameras, NeedAnswer
from edge.appliance.discovery import CameraDiscovery
from edge.appliance.stream_needs import StreamNeeds
from edge.core.clock import SystemClock
from edge.core.errors import Conflict, Unavailable
from edge.discovery import addresses
from edge.settings import AccessSettings, CameraSearch, SiteSettings, parse
from edge.store.store import Store
from web.app import create_app


async def test_who_may_search_and_that_it_is_recorded(tmp_path: Path, sqlite_template: Path) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    app = create_app(box, tmp_path, accounts.access)
    admin, operator = accounts.person("admin"), accounts.person("operator")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box/api/v1") as client:
        asked = {"addresses": ["192.0.2.10"], "username": "viewer", "password_from": "secret:cameras"}
        assert (await client.post("/discovery", json=asked, headers=operator)).status_code == 403
        found = (await client.post("/discovery", json=asked, headers=admin)).json()
        assert [c["fault"] for c in found["cameras"]] == [None, "refused"]
        bad = await client.post("/discovery", json={"addresses": [""], "fps": 0, "password": "x"}, headers=admin)
    assert bad.status_code == 422
    assert {p["path"] for p in bad.json()["error"]["problems"]} == {"addresses[0]", "fps", "password"}
    assert [a.username for a in box.cameras.discovery.asked] == ["viewer"]
    with contextlib.closing(Store(None, tmp_path)) as store:
        recorded = [(r.subject, r.action) for r in store.settings.audit(limit=5)]
    assert [a for a in recorded if a[1] == "searched for cameras"], recorded


@pytest.fixture
def access(tmp_path: Path, sqlite_template: Path) -> AccessControl:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    return AccessControl(Store(None, tmp_path), tmp_path, AccessSettings(), SystemClock())


@pytest.fixture
def discovery(access: AccessControl, monkeypatch: pytest.MonkeyPatch) -> CameraDiscovery:
    monkeypatch.setattr(addresses, "own_interfaces", lambda: {ipaddress.IPv4Interface("127.0.0.1/8")})
    return CameraDiscovery(SiteSettings(site="yard"), access, 2**31)


async def test_the_service_asks_a_device_with_a_kept_password(
    discovery: CameraDiscovery, access: AccessControl
) -> None:
    access.put_secret("cameras", "s3cret-pa55", "test")
    device = Device(username="viewer", password="s3cret-pa55")
    with served(device):
        asked = {"addresses": [device.address], "username": "viewer", "password_from": "secret:cameras"}
        running = asyncio.create_task(discovery.search(asked))
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="is running"):
            await discovery.search(asked)
        found = await running
    (camera,) = found.cameras
    assert [s.verdict for s in camera.streams] == ["dearer", "proposed", "too_small"]
    assert found.need == NeedAnswer(width=320, height=192, fps=5.0, fixed=True, source="usual", student="", unread="")
    assert "s3cret-pa55" not in repr(found)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"username": "viewer", "password_from": "file:/etc/shadow"}, "password_from"),
        ({"username": "viewer", "password_from": "secret:none"}, "password_from"),
        ({"password_from": "secret:cameras"}, "password_from: got '(not shown)', allowed: empty where no username"),
        ({"network": "127.0.0.0/8", "addresses": ["127.0.0.1"]}, "network: got '127.0.0.0/8', allowed: empty"),
        ({"student": {"architecture": "resnet18"}}, "student.architecture"),
        ({"student": {"model": "yolox_nano"}, "task": "classification"}, "student.model"),
        ({"network": "203.0.113.0/24"}, "network"),
        ({"addresses": ["ftp://camera"]}, "addresses"),
    ],
)
async def test_what_cannot_be_asked(discovery: CameraDiscovery, asked: dict[str, Any], field: str) -> None:
    for _ in range(2):  # a search that failed is over
        with pytest.raises(ValueError, match=re.escape(field)):
            await discovery.search(asked)


async def until_free(discovery: CameraDiscovery, asked: dict[str, Any]) -> FoundCameras:
    while True:
        try:
            return await discovery.search(asked)
        except Conflict:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("turns", [0, 1])
async def test_who_gives_up_does_not_keep_others_from_searching(discovery: CameraDiscovery, turns: int) -> None:
    with served(Device()) as device:
        given_up = asyncio.create_task(discovery.search({"addresses": [device.address]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        found = await until_free(discovery, {"addresses": [device.address]})
    assert [c.fault for c in found.cameras] == [None]


async def test_a_search_ends_when_the_appliance_stops(discovery: CameraDiscovery) -> None:
    with served(Device(silent=True)) as device:
        running = asyncio.create_task(discovery.search({"addresses": [device.address]}))
        while not device.answered:
            await asyncio.sleep(0.01)
        discovery.close()
        with pytest.raises(Unavailable, match="stops"):
            await running
    discovery.close()


@pytest.mark.parametrize(
    ("site", "asked", "need"),
    [
        ("yolox_nano", {}, (416, 416, False, "site", "yolox_nano")),
        ("", {"student": {"model": "yolox_nano"}, "shape": "model"}, (416, 416, True, "camera", "yolox_nano")),
        ("yolox_nano", {"student": {"architecture": "ssdlite_mobilenet_v3", "input_width": 640, "input_height": 352}},
         (640, 352, True, "camera", "")),
        ("yolox_nano", {"task": "classification"}, (320, 192, True, "usual", "")),
        ("/no/such.yaml", {}, (320, 192, True, "usual", "")),
    ],
)  # fmt: skip
def test_whose_input_a_stream_is_wanted_for(site: str, asked: dict[str, Any], need: tuple[Any, ...]) -> None:
    wanted = parse(CameraSearch, asked | {"fps": 4.0})
    needs = StreamNeeds(site, 2**31)
    needs.begin(wanted)
    proposal = needs.need_of(wanted, time.monotonic() + 30)
    found = proposal.need
    assert (found.width, found.height, found.fixed, proposal.source, proposal.student) == need
    assert found.fps == 4.0
    assert ("/no/such.yaml" in proposal.unread) == (site == "/no/such.yaml")
