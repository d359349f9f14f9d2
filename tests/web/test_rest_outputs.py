"""REST of the outputs: with the double for what transports do, and with real outputs for what must be so."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance

sys.path.insert(0, str(Path(__file__).parent.parent / "outputs"))

from joined_outputs import FakeSite, Joined
from outputs_kit import HttpReceiver, alarm, free_port, until

from edge.store.store import Store
from web.app import create_app

HOOK = {"id": "pager", "url": "https://pager.example/hook", "secret_from": "secret:pager"}


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance()


@pytest.fixture
async def client(service: DictAppliance, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(service, static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1/outputs") as client:
        yield client


async def test_broker(client: httpx.AsyncClient, service: DictAppliance) -> None:
    changed = await client.patch("/mqtt", json={"host": "other.example", "tls": True})
    assert changed.status_code == 200
    assert changed.json()["mqtt"]["host"] == "other.example"
    assert (await client.get("http://box/api/v1/outputs")).json() == changed.json()
    assert (await client.post("/mqtt/test")).json()["ok"]
    assert (await client.post("/mqtt/test", json={"port": 8883})).json()["ok"]
    refused = await client.post("/mqtt/test", json={"prefix": "#"})
    assert refused.json()["error"]["problems"][0]["path"] == "prefix"
    assert (await client.delete("/mqtt")).status_code == 204
    assert (await client.delete("/mqtt")).status_code == 404
    assert (await client.post("/mqtt/test")).status_code == 404
    missing = await client.patch("/mqtt", json={"tls": True})
    assert missing.json()["error"]["problems"][0]["path"] == "host"


async def test_webhooks(client: httpx.AsyncClient) -> None:
    added = await client.post("/webhooks", json=HOOK)
    assert added.status_code == 201
    assert (await client.post("/webhooks", json=HOOK)).status_code == 409
    assert (await client.patch("/webhooks/pager", json={"severities": ["critical"]})).json()["severities"] == [
        "critical"
    ]
    assert (await client.patch("/webhooks/pager", json={"id": "x"})).status_code == 422
    assert (await client.patch("/webhooks/other", json={})).status_code == 404
    assert (await client.post("/webhooks/pager/test")).json()["message"]
    assert (await client.delete("/webhooks/pager")).status_code == 204
    for path in ("/webhooks/pager", "/webhooks/..%2Fmqtt"):
        assert (await client.delete(path)).status_code == 404


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("ftp://pager.example/x", "https://"), ("//pager.example", "https://"), ("https://", "https://"),
        ("https://user:word@pager.example/", "no user or password"), ("https://pager.example/#x", "without #"),
        ("https://pager.example/a b", "https://"), ("javascript:alert(1)", "https://"),
    ],
)  # fmt: skip
async def test_addresses_that_are_none_are_refused(client: httpx.AsyncClient, url: str, allowed: str) -> None:
    response = await client.post("/webhooks", json=HOOK | {"url": url})
    assert response.status_code == 422
    (problem,) = response.json()["error"]["problems"]
    assert problem["path"] == "url"
    assert allowed in problem["allowed"]
    assert "word" not in str(problem["given"])


async def test_a_secret_in_the_wrong_place_is_not_repeated(client: httpx.AsyncClient) -> None:
    for path, field, body in (("/mqtt", "password_from", {}), ("/webhooks", "secret_from", HOOK)):
        method = "PATCH" if path == "/mqtt" else "POST"
        response = await client.request(method, path, json=body | {field: "correct horse"})
        assert response.status_code == 422
        assert response.json()["error"]["problems"][0]["path"] == field
        assert "horse" not in response.text


async def test_dead_letters(client: httpx.AsyncClient) -> None:
    letters = (await client.get("/dead-letters")).json()
    assert [letter["id"] for letter in letters] == [3]
    assert (await client.get("/dead-letters", params={"before": 3})).json() == []
    assert (await client.get("/dead-letters", params={"limit": 0})).status_code == 422
    assert (await client.post("/dead-letters/3/retry")).status_code == 204
    assert (await client.post("/dead-letters/3/retry")).status_code == 404
    assert (await client.delete("/dead-letters/3")).status_code == 404
    assert (await client.delete("/dead-letters/x")).status_code == 422


async def test_with_real_outputs(sqlite_template: Path, tmp_path: Path) -> None:
    """From adding a receiver to a dead letter that is sent again; the secret is never shown."""
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    site = FakeSite(secrets={"secret:pager": "correct horse"})
    answers = [200, 410]
    service = DictAppliance()
    async with HttpReceiver(lambda _: answers.pop(0) if answers else 200) as receiver:
        with Store(None, tmp_path) as store:
            async with Joined({}, store, site) as one:
                service.outputs = one.outputs  # type: ignore[assignment]
                transport = httpx.ASGITransport(create_app(service, static=tmp_path))
                async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1/outputs") as client:
                    hook: dict[str, Any] = HOOK | {"url": receiver.url}
                    said = [(await client.post("/webhooks", json=hook)).json()]
                    said.append((await client.post("/webhooks/pager/test")).json())
                    assert said[1]["ok"]
                    one.outputs.deliver(alarm(1))
                    await until(lambda: one.state("pager")["dead"] == 1, "given up")
                    said.append((await client.get("/dead-letters")).json())
                    (letter,) = said[2]
                    assert (letter["reason"], letter["camera"]) == ("the receiver answered 410", "north")
                    assert (await client.post(f"/dead-letters/{letter['id']}/retry")).status_code == 204
                    await until(lambda: len(receiver.posts) == 2, "sent again")
                    assert (await client.patch("/mqtt", json={"host": "127.0.0.1", "port": free_port()})).is_success
                    failed = (await client.post("/mqtt/test")).json()
                    assert not failed["ok"]
                    assert "refused" in failed["message"]
                    said.append((await client.get("http://box/api/v1/outputs")).json())
                    assert "horse" not in json.dumps(said)
