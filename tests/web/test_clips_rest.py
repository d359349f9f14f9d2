"""Clips by REST: who sees, makes, downloads and deletes them; parts of the file; the audit; what is refused."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import httpx
from access_kit import Accounts
from appliance_double import DictAppliance

from web.app import create_app


async def test_clips_are_seen_made_downloaded_and_deleted(tmp_path: Path, sqlite_template: Path) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    box.clips.path = tmp_path / "clip.mp4"
    box.clips.path.write_bytes(bytes(range(256)) * 20)
    web = create_app(box, tmp_path, accounts.access)
    operator, viewer, other = (
        accounts.person("operator"),
        accounts.person("viewer"),
        accounts.person("viewer", {"south"}),
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(web), base_url="http://box", headers={"origin": "http://box"}
    ) as client:
        assert (await client.get("/api/v1/clips")).status_code == 401
        assert [c["id"] for c in (await client.get("/api/v1/clips", headers=viewer)).json()] == [2, 1]
        assert [c["camera"] for c in (await client.get("/api/v1/clips", headers=other)).json()] == ["south"]
        for path in ("", "/video.mp4", "/download", "/boxes"):
            assert (await client.get(f"/api/v1/clips/1{path}", headers=other)).status_code == 404, path
            assert (await client.get(f"/api/v1/clips/9{path}", headers=viewer)).status_code == 404, path
        assert (await client.get("/api/v1/clips?camera=north", headers=other)).status_code == 404
        part = await client.get("/api/v1/clips/1/video.mp4", headers=viewer | {"range": "bytes=2-5"})
        assert (part.status_code, part.content) == (206, b"\x02\x03\x04\x05"), "a browser plays parts of it"
        whole = await client.get("/api/v1/clips/1/download", headers=viewer)
        digest = hashlib.sha256(whole.content).digest()
        assert whole.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
        assert whole.headers["content-disposition"] == 'attachment; filename="north-1.mp4"'
        assert (await client.get("/api/v1/clips/1", headers=viewer)).json()["video"]["sha256"] == digest.hex()
        assert (await client.get("/api/v1/clips/1/boxes", headers=viewer)).json()["answers"][0]["at_s"] == 0.2
        asked = {"camera": "north", "before_s": 2, "after_s": 3}
        assert (await client.post("/api/v1/clips", json=asked, headers=viewer)).status_code == 403
        made = await client.post("/api/v1/clips", json=asked, headers=operator)
        assert (made.status_code, made.json()["state"]) == (202, "making")
        for bad, field in (
            ({"camera": "north", "after_s": 100}, "after_s"),
            ({"camera": "north", "before_s": "5"}, "before_s"),
            ({"camera": "north", "seconds": 5}, "seconds"),
            ({}, "camera"),
        ):
            refused = await client.post("/api/v1/clips", json=bad, headers=operator)
            assert refused.status_code == 422, refused.text
            assert refused.json()["error"]["problems"][0]["path"] == field
        assert (await client.delete("/api/v1/clips/1", headers=viewer)).status_code == 403
        assert (await client.delete("/api/v1/clips/1", headers=operator)).status_code == 204
        assert (await client.get("/api/v1/clips/1", headers=viewer)).status_code == 404
        with accounts.database.read() as c:
            audited = c.exec_driver_sql(
                "SELECT subject, action FROM audit WHERE subject LIKE 'clips%' ORDER BY id"
            ).all()
        assert audited == [("clips/1/download", "downloaded"), ("clips", "asked for a clip"), ("clips/1", "deleted")]
