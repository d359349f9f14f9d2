"""GET /fleet: who sees what of it."""

from __future__ import annotations

from pathlib import Path

import httpx
from access_kit import Door
from appliance_double import DictAppliance

from web.app import create_app
from web.examples.fleet import FLEET, JOB_GIVEN, JOBS


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


async def test_operators_of_every_camera_give_and_withdraw_jobs(tmp_path: Path, sqlite_template: Path) -> None:
    box, door = DictAppliance(), Door(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, door.access)
    viewer, operator = door.person("viewer"), door.person("operator")
    some = door.person("operator", {"north"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box/api/v1") as client:
        assert (await client.get("/fleet/jobs")).status_code == 401
        assert (await client.get("/fleet/jobs", headers=viewer)).json() == JOBS
        new = JOB_GIVEN | {"id": "new"}
        for headers in (viewer, some):
            assert (await client.post("/fleet/jobs", headers=headers, json=new)).status_code == 403
            assert (await client.delete("/fleet/jobs/first", headers=headers)).status_code == 403
        assert (await client.get("/fleet/jobs", headers=some)).status_code == 403
        made = await client.post("/fleet/jobs", headers=operator, json=new)
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/fleet/jobs/new")
        assert made.json()["phase"] == "waiting"
        assert (await client.post("/fleet/jobs", headers=operator, json=new)).status_code == 409
        refused = await client.post("/fleet/jobs", headers=operator, json=new | {"prefer": [{"color": "red"}]})
        assert refused.status_code == 422
        assert "prefer[0].color" in refused.text
        assert (await client.delete("/fleet/jobs/new", headers=operator)).status_code == 204
        assert (await client.delete("/fleet/jobs/first", headers=operator)).status_code == 409
        assert (await client.delete("/fleet/jobs/none", headers=operator)).status_code == 404
    assert [order[:2] for order in box.fleet_jobs.orders] == [("submit", "new"), ("withdraw", "new")]
