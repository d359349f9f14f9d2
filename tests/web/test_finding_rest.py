"""Found objects, days, and clips of a moment by REST: what is asked, who sees which cameras, what is refused."""

from __future__ import annotations

from pathlib import Path

import httpx
from access_kit import Accounts
from appliance_double import NOW, DictAppliance

from edge.core.finding import ObjectSearch
from web.app import create_app


async def test_objects_days_and_clips_are_found(tmp_path: Path, sqlite_template: Path) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    viewer, other = accounts.person("viewer"), accounts.person("viewer", {"south"})
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(web), base_url="http://box/api/v1", headers={"origin": "http://box"}
    ) as client:
        first = (await client.get("/objects/search?limit=3", headers=viewer)).json()
        assert [f["object"]["id"] for f in first["found"]] == [5, 4, 3]
        assert first["found"][0]["lines"][0]["line"] == "gate"
        rest = (await client.get("/objects/search", params={"after": first["next"]}, headers=viewer)).json()
        assert ([f["object"]["id"] for f in rest["found"]], rest["next"]) == ([2], None)
        mine = (await client.get("/objects/search?limit=1", headers=other)).json()
        assert ([f["camera"] for f in mine["found"]], bool(mine["next"])) == (["south"], True)
        asked = {
            "cameras": ["north", "south"], "classes": ["car", "bus, red"], "zone": "drive", "line": "gate",
            "way": "forward", "from": 1000, "to": 2000, "least_s": 1.5, "most_s": 60, "attribute": "colour:red: dark",
        }  # fmt: skip
        answered = await client.get("/objects/search", params=asked, headers=viewer)
        assert answered.status_code == 200, answered.text
        assert box.alarms.finder.asked[-1] == ObjectSearch(
            ("north", "south"), ("car", "bus, red"), "drive", "gate", "forward", 1000.0, 2000.0, 1.5, 60.0,
            ("colour", "red: dark"),
        )  # fmt: skip
        for path in (
            "/objects/search?cameras=south&cameras=north", "/cameras/north/timeline",
            "/cameras/north/clip-around?at=1790000000",
        ):  # fmt: skip
            assert (await client.get(path, headers=other)).status_code == 404, path
        for query, field in (
            ("way=forward", "way"),
            ("line=gate&way=up", "query.way"),
            ("from=20&to=10", "to"),
            ("least_s=5&most_s=1", "most_s"),
            ("attribute=red", "attribute"),
            ("classes=car&classes=", "classes"),
            ("zone=a%00", "zone"),
            ("after=yesterday", "after"),
            ("after=nan-1", "after"),
        ):
            refused = await client.get(f"/objects/search?{query}", headers=viewer)
            assert (refused.status_code, refused.json()["error"]["problems"][0]["path"]) == (422, field), refused.text
        assert (await client.get("/objects/search?cameras=nroth", headers=viewer)).status_code == 404
        day = (await client.get("/cameras/south/timeline?day=2026-09-21&bucket_s=3600", headers=other)).json()
        assert (day["camera"], len(day["buckets"]), day["alarms"][0]["camera"]) == ("south", 24, "south")
        assert (await client.get("/cameras/south/timeline?day=2027-01-01", headers=viewer)).status_code == 422
        assert (await client.get("/cameras/south/timeline?bucket_s=7", headers=viewer)).status_code == 422
        assert (await client.get("/cameras/west/timeline", headers=viewer)).status_code == 404

        async def around(at_utc_s: float) -> tuple[str, int | None, str | None]:
            answer = (await client.get(f"/cameras/south/clip-around?at={at_utc_s}", headers=other)).json()
            return answer["state"], answer["clip"], answer["reason"]

        assert await around(1790000000.0) == ("kept", 2, None)
        assert await around(NOW - 15.0) == ("can_be_made", None, None)
        assert await around(NOW - 3600.0) == ("none", None, "too_old")
