"""REST of the model files: who may ask, and that answer, example and real service have one shape."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance
from pydantic import TypeAdapter

from edge.appliance.model_files import KnownFiles, ModelFiles
from edge.models.folder import Accepted, ModelsFolder, Notice
from web import route_table
from web.app import create_app
from web.examples.catalogue import CATALOGUE


class RealFiles(DictAppliance):
    """The double with the real model files of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model_files = ModelFiles({"MAGPIE_MODELS": str(folder)})  # type: ignore[assignment]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(RealFiles(tmp_path / "models"), static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        yield client


async def known(client: httpx.AsyncClient) -> Any:
    answer = await client.get("/models/catalogue")
    assert answer.status_code == 200
    return answer.json()


async def test_what_is_known_and_what_is_here(client: httpx.AsyncClient, tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path / "models")
    first = await known(client)
    assert first["folder"] == str(folder.path)
    assert {m["state"] for m in first["models"]} == {"missing"}
    assert {(d["kind"], d["name"]) for d in first["descriptions"]} >= {
        ("teacher", "traffic_ensemble"), ("student", "yolox_nano"), ("student", "picodet_s"), ("student", "nanodet_m"),
    }  # fmt: skip
    ensemble = next(d for d in first["descriptions"] if d["name"] == "traffic_ensemble")
    assert ensemble["models"] == ["deimv2_femto", "picodet_s", "yolox_nano"]
    assert ensemble["licences"] == ["Apache-2.0"]
    assert ensemble["bytes"] == 4116144 + 4040573 + 3660092
    assert not ensemble["here"]
    assert Path(ensemble["path"]).is_file()
    folder.make()
    for d in first["models"]:
        if d["name"] in ensemble["models"]:
            with folder.file(d["file"]).open("wb") as stream:
                stream.truncate(d["bytes"])
    folder.file("nanodet_m_416.onnx").write_bytes(b"other")
    folder.part("FastestDet.onnx").write_bytes(b"half")
    second = await known(client)  # looked at anew
    states = {m["name"]: m["state"] for m in second["models"]}
    assert (states["yolox_nano"], states["nanodet_m"], states["fastestdet"]) == ("here", "changed", "partial")
    assert next(d for d in second["descriptions"] if d["name"] == "traffic_ensemble")["here"]


async def test_what_was_added_and_its_licence(client: httpx.AsyncClient, tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path / "models")
    folder.make()
    folder.file("mine.onnx").write_bytes(b"net")
    digest = hashlib.sha256(b"net").hexdigest()
    folder.write_notice(Notice("mine", "mine.onnx", "", digest, 3, "AGPL-3.0", "", "added", "2026-11-22T00:00:00Z"))
    assert [(m["licence"], m["refused"], m["state"]) for m in (await known(client))["models"] if m["added"]] == [
        ("AGPL-3.0", True, "here")
    ]
    folder.accept(Accepted("AGPL-3.0", "mine", "ann", "2026-11-22T00:00:00Z"))
    assert [m["refused"] for m in (await known(client))["models"] if m["added"]] == [False]


async def test_a_damaged_index_is_reported(client: httpx.AsyncClient, tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path / "models")
    folder.make()
    (folder.path / "index.json").write_text("{")
    answer = await client.get("/models/catalogue")
    assert answer.status_code == 503
    assert "index.json" in answer.json()["error"]["message"]


async def test_the_example_has_the_shape_of_the_real_answer(client: httpx.AsyncClient) -> None:
    shape = TypeAdapter(KnownFiles)
    assert json.loads(json.dumps(asdict(shape.validate_python(CATALOGUE)))) == CATALOGUE
    assert json.loads(json.dumps(asdict(shape.validate_python(await known(client))))) == await known(client)


def test_operators_of_every_camera_may_ask() -> None:
    row = route_table.row_of("GET", "/api/v1/models/catalogue")
    assert row is not None
    assert (row.least, row.every_camera) == ("operator", True), "its costs name no camera but are the whole box's"
