"""`/windows/{n}/explained` over ASGI, for those who may see every camera and those who may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance

from edge.core.access import Principal
from web.app import create_app


class Viewer:
    """Everybody who asks may see these cameras."""

    def __init__(self, *cameras: str) -> None:
        self._cameras = frozenset(cameras)

    @property
    def directory(self) -> Viewer:
        return self

    def when_changed(self, _: Any) -> None: ...

    async def who(self, _: Any) -> Principal:
        return Principal("ann", "viewer", self._cameras, "token", "t1")


async def ask(tmp_path: Path, path: str, access: Any = None, **body: Any) -> httpx.Response:
    app = create_app(DictAppliance(("junction-north",)), static=tmp_path, access=access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box/api/v1") as client:
        return await (client.post(path, json=body) if body else client.get(path))


async def test_a_window_is_explained(tmp_path: Path) -> None:
    body = (await ask(tmp_path, "/windows/2/explained")).json()
    assert body["window"]["id"] == 2
    assert [c["camera"] for c in body["cameras"]] == ["junction-north"]
    assert body["timeline"][0]["shares"][0]["camera"] == "junction-north"
    assert (await ask(tmp_path, "/windows/9/explained")).status_code == 404
    assert (await ask(tmp_path, "/windows/-1/explained")).status_code == 422


async def test_who_may_not_see_the_camera_reads_nothing_of_it(tmp_path: Path) -> None:
    answer = await ask(tmp_path, "/windows/2/explained", Viewer("elsewhere"))
    assert answer.status_code == 200
    assert "junction-north" not in answer.text
    assert [s["kind"] for s in answer.json()["timeline"][0]["shares"]][-1] == "others"


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({"model": {"name": "plates", "rate": 3, "slo_ms": 40}}, []),
        ({"model": {"name": "plates", "rate": -3, "slo_ms": "soon"}}, ["model.rate", "model.slo_ms"]),
        ({"camera": {"id": "Not an id"}}, ["camera.id"]),
    ],
)
async def test_what_is_asked_of_admission_is_checked_as_it_is_typed(
    tmp_path: Path, asked: dict[str, Any], paths: list[str]
) -> None:
    answer = await ask(tmp_path, "/check/admission", **asked)
    assert [p["path"] for p in answer.json()["problems"]] == paths
