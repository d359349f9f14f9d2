"""Forecasts over REST: who may ask, who sees what, and what is refused."""

from __future__ import annotations

import httpx
import pytest
from access_kit import Accounts, browser
from appliance_double import DictAppliance
from fastapi import FastAPI


async def test_an_operator_asks_and_everybody_sees_their_cameras(
    app: FastAPI, accounts: Accounts, service: DictAppliance
) -> None:
    async with browser(app) as client:
        client.headers.update(accounts.person("operator"))
        begun = await client.post("/capacity", json={"kind": "device", "factor": 0.5})
        assert begun.status_code == 202, begun.text
        newest = begun.json()["forecasts"][0]
        assert newest["change"] == {"kind": "device", "factor": 0.5, "camera": None, "words": "half the device"}
        assert [c["camera"] for c in newest["cameras"]] == ["north", "south"]
        assert "points of error" in {n["code"]: n for n in newest["notes"]}["past"]["of_all"]
        client.headers.update(accounts.person("viewer", {"south"}))
        seen = (await client.get("/capacity")).json()["forecasts"]
        assert [[c["camera"] for c in f["cameras"]] for f in seen] == [["south"], ["south"]]
        assert seen[1]["outcome"]["error"] is None
        assert seen[0]["change"]["words"] is None
        assert [n["of_all"] for n in seen[0]["notes"]] == [None, None], "the error is that of all cameras"
        assert "north" not in (await client.get("/capacity")).text
        assert "of error" not in (await client.get("/capacity")).text
        assert (await client.post("/capacity", json={"kind": "box"})).status_code == 403
        client.headers.update(accounts.person("operator", {"south"}))
        assert (await client.post("/capacity", json={"kind": "box"})).status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "wall"}, "kind"),
        ({}, "kind"),
        ({"kind": "device", "factor": 1.0}, "factor"),
        ({"kind": "window", "factor": 2.0}, "factor"),
        ({"kind": "camera", "camera": "dock"}, "camera"),
        ({"kind": "box", "windows": 2}, "windows"),
        ({"kind": "box", "weeks": 2}, "weeks"),
    ],
)
async def test_bad_questions_name_the_field(
    app: FastAPI, accounts: Accounts, body: dict[str, object], field: str
) -> None:
    async with browser(app) as client:
        client.headers.update(accounts.person("operator"))
        refused = await client.post("/capacity", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["error"]["problems"][0]["path"] == field


async def test_too_few_windows_is_a_conflict(
    client: httpx.AsyncClient, accounts: Accounts, service: DictAppliance
) -> None:
    service.windows.capacity.windows = 1
    client.headers.update(accounts.person("operator"))
    refused = await client.post("/capacity", json={"kind": "window"})
    assert refused.status_code == 409
    assert "needs 3" in refused.json()["error"]["message"]
