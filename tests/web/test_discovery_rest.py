"""The search for cameras over REST."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_kit import Door
from appliance_double import DictAppliance
from discovery_kit import Device, served

from edge.appliance.access_control import AccessControl
from edge.appliance.discovery import CameraDiscovery
from edge.core.clock import SystemClock
from edge.core.errors import Conflict
from edge.discovery import addresses
from edge.settings import AccessSettings, SiteSettings
from edge.store.store import Store
from web.app import create_app


async def test_who_may_search_and_that_it_is_recorded(tmp_path: Path, sqlite_template: Path) -> None:
    box, door = DictAppliance(), Door(tmp_path, sqlite_template)
    app = create_app(box, tmp_path, door.access)
    admin, operator = door.person("admin"), door.person("operator")
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
        recorded = [(r.subject, r.action) for r in store.audit(limit=5)]
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
    assert (found.need.width, found.need.height, found.need.fps) == (320, 192, 5.0)
    assert "s3cret-pa55" not in repr(found)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"password_from": "file:/etc/shadow"}, "password_from"),
        ({"password_from": "secret:none"}, "password_from"),
        ({"network": "203.0.113.0/24"}, "network"),
        ({"addresses": ["ftp://camera"]}, "addresses"),
    ],
)
async def test_what_cannot_be_asked(discovery: CameraDiscovery, asked: dict[str, Any], field: str) -> None:
    for _ in range(2):  # a search that failed is over
        with pytest.raises(ValueError, match=field):
            await discovery.search(asked)
