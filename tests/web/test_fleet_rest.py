"""GET /fleet: who sees what of it."""

from __future__ import annotations

from pathlib import Path

import httpx
from access_kit import Door
from appliance_double import DictAppliance

from web.app import create_app
from web.examples.fleet import FLEET


async def test_viewers_see_the_fleet_and_users_of_some_cameras_those_cameras(
    tmp_path: Path, sqlite_template: Path
) -> None:
    box, door = DictAppliance(), Door(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, door.access)
    viewer, some = door.person("viewer"), door.person("viewer", {"north"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box") as client:
        assert (await client.get("/api/v1/fleet")).status_code == 401
        assert (await client.get("/api/v1/fleet", headers=viewer)).json() == FLEET
        limited = (await client.get("/api/v1/fleet", headers=some)).json()
        assert [c["camera"] for c in limited["cameras"]] == ["north"]
        assert limited["overlaps"] == []
        assert len(limited["boxes"]) == 2
