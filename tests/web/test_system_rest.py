"""`/system`, `/log` and `/check` over ASGI."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance

from edge.core.access import Principal
from web.app import create_app

LOGGER = logging.Logger("magpie.rest", "DEBUG")


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance()


@pytest.fixture
async def client(service: DictAppliance, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(service, static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        yield client


def put(service: DictAppliance, level: int, message: str, camera: str | None = None) -> None:
    record = LOGGER.makeRecord("magpie.rest", level, "f", 1, message, (), None, None, {"camera": camera})
    service.state.ring.handle(record)


async def test_system_tells_everything(client: httpx.AsyncClient) -> None:
    found = (await client.get("/system")).json()
    assert {"devices", "shares", "workers", "disk", "losses", "versions"} <= set(found)
    assert {x["camera"] for x in found["losses"]} == {None, "north", "south"}
    assert found["shares"]["promise"]


class Limited:
    """Everybody who asks is an operator of camera north alone."""

    @property
    def directory(self) -> Limited:
        return self

    def when_changed(self, _: Any) -> None: ...

    async def who(self, _: Any) -> Principal:
        return Principal("ann", "operator", frozenset({"north"}), "token", "t1")


async def test_who_may_see_some_cameras_sees_what_is_of_those_only(service: DictAppliance, tmp_path: Path) -> None:
    service.state.reasons = [
        {"code": "camera_refused", "message": "south: refused", "camera": "south"},
        {"code": "window_too_short", "message": "window 3: not retrained in it: south"},
    ]
    transport = httpx.ASGITransport(create_app(service, static=tmp_path, access=Limited()))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        found = (await client.get("/system")).json()
        assert {x["camera"] for x in found["losses"]} == {None, "north"}
        assert found["workers"] == []  # the one there is belongs to another camera
        whole = {"code": "window_too_short", "message": "this concerns the whole box", "camera": None}
        assert found["health"]["reasons"] == [whole]
        assert (await client.get("/log")).status_code == 403  # its texts may name any camera


async def test_log_is_filtered_and_followed(client: httpx.AsyncClient, service: DictAppliance) -> None:
    put(service, logging.INFO, "window opened")
    put(service, logging.WARNING, "camera is silent", "north")
    put(service, logging.ERROR, "disk is full")
    found = (await client.get("/log")).json()
    assert [r["message"] for r in found["records"]] == ["disk is full", "camera is silent", "window opened"]
    assert (found["forgotten"], found["records"][1]["camera"]) == (0, "north")

    async def said(**query: str | int) -> list[str]:
        answer = await client.get("/log", params=query)
        return [r["message"] for r in answer.json()["records"]]

    assert await said(level="WARNING") == ["disk is full", "camera is silent"]
    assert await said(text="SILENT") == ["camera is silent"]
    assert await said(after=2) == ["disk is full"]
    assert await said(before=3, limit=1) == ["camera is silent"]


@pytest.mark.parametrize("query", ["level=LOUD", "limit=0", "limit=1001", "before=0", "text=" + "x" * 201, "lines=3"])
async def test_bad_queries_are_refused_by_field(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/log?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["problems"][0]["path"] == f"query.{query.partition('=')[0]}"


@pytest.mark.parametrize(
    ("kind", "body", "paths"),
    [("camera", {"id": "north", "url": "rtsp://192.0.2.1/a", "classes": ["car"]}, set()),
     ("camera", {"id": "North!", "url": "http://x", "classes": []}, {"id", "url", "classes"}),
     ("camera", {"id": "n", "url": "/a", "classes": ["car"], "zones": [{"name": "z", "polygon": [[0, 0], [1, 1], [1, 0],
      [0, 1]]}]}, {"zones[0].polygon"}),
     ("retraining", {"window_s": 3, "space": {"epochs": [4, 0]}}, {"window_s", "space.epochs[1]"}),
     ("retraining", {"window": 200}, {"window"}),
     ("rule", {"id": "r", "kind": "object", "dwell_s": -1}, {"dwell_s"}),
     ("serving", {"headroom": 0.5}, {"headroom"}),
     ("mqtt", {"host": "broker", "port": 0}, {"port"}),
     ("webhook", {"id": "hook", "url": "ftp://x"}, {"url"}),
     ("user", {"name": "Ann B", "role": "boss", "cameras": ["A"], "password": "ann"}, {"name", "role", "cameras[0]",
      "password"}),
     ("user", {"name": "ann", "role": "viewer", "cameras": None}, set()),
     ("token", {"name": "grafana", "expires_days": -1}, {"expires_days"}),
     ("token", {"name": "two\nlines"}, {"name"}),
     ("secret", {"name": "a b", "value": "x"}, {"name"}),
     ("secret", {"name": "gate", "value": "two\nlines"}, {"value"})],
)  # fmt: skip
async def test_settings_are_checked_and_not_kept(
    client: httpx.AsyncClient, service: DictAppliance, kind: str, body: dict[str, object], paths: set[str]
) -> None:
    before = (dict(service.cameras.kept), service.retraining.next, service.served.planning)
    answer = await client.post(f"/check/{kind}", json=body)
    assert answer.status_code == 200
    assert {p["path"] for p in answer.json()["problems"]} == paths
    assert not any(p["given"] in ("ann", "two\nlines") for p in answer.json()["problems"] if p["path"] != "name")
    assert (dict(service.cameras.kept), service.retraining.next, service.served.planning) == before
    assert not service.events.journal


async def test_an_unknown_kind_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post("/check/database", json={})).status_code == 422
