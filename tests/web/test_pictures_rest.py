"""The teacher's labels over REST: shapes, bounds, pictures, and paths that lead nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from appliance_double import DictAppliance, jpeg

from web.app import create_app


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(DictAppliance(), static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1/cameras") as client:
        yield client


async def test_disagreements_lead_to_their_pictures(client: httpx.AsyncClient) -> None:
    found = (await client.get("/north/disagreements", params={"limit": 2})).json()
    assert len(found) == 2
    for one in found:
        picture = await client.get(f"/north/disagreements/{one['window']}/{one['frame']}.jpg")
        assert picture.headers["content-type"] == "image/jpeg"
        assert picture.headers["cache-control"].startswith("private")
        assert picture.content == jpeg(one["frame"])


async def test_classes_are_counted_for_as_many_windows_as_asked(client: httpx.AsyncClient) -> None:
    found = (await client.get("/north/classes", params={"windows": 2})).json()
    assert [one["window"] for one in found] == [3, 2]
    assert set(found[0]["teacher"]) == set(found[0]["student"])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/west/disagreements", 404), ("/west/classes", 404), ("/west/disagreements/3/9.jpg", 404),
     ("/north/disagreements/3/10.jpg", 404), ("/north/disagreements/99/9.jpg", 404),
     ("/north/disagreements/3/-1.jpg", 422), ("/north/disagreements/3/..%2f..%2fsite.jpg", 404),
     ("/north/disagreements/3/%2e%2e.jpg", 422), ("/%2e%2e/disagreements/3/9.jpg", 404),
     ("/north/disagreements/x/9.jpg", 422), ("/north/disagreements?limit=0", 422),
     ("/north/disagreements?limit=101", 422), ("/north/classes?windows=201", 422), ("/north/classes?window=2", 422)],
)  # fmt: skip
async def test_what_is_not_there_or_out_of_range_is_refused(client: httpx.AsyncClient, path: str, status: int) -> None:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
