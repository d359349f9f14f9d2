"""A REST resource is one file among the routes: its paths, roles, answers and examples; nothing else lists it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from access_kit import Accounts
from appliance_double import DictAppliance
from fastapi import FastAPI

from web import route_table, routes
from web.app import create_app

WEATHER = """
from typing import Final

from edge.appliance.answers.marks import Shown, answer
from web.parts import example
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("state", "/weather")
ROLES: Final = {"GET /weather": VIEWER, "POST /weather": EVERY_OPERATOR}


@answer
class Weather:
    rain: Shown[bool]


@router.get("", responses=example({"rain": True}))
async def weather() -> Weather:
    return Weather(rain=False)


@router.post("", responses=example({"rain": False}))
async def ask_for_rain() -> Weather:
    return Weather(rain=True)
"""


@pytest.fixture
def more_routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules stand among the routes."""
    monkeypatch.setattr(routes, "__path__", [*routes.__path__, str(tmp_path)])
    route_table.by_key.cache_clear()
    yield tmp_path
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(f"{routes.__name__}.{file.stem}", None)
        vars(routes).pop(file.stem, None)
    route_table.by_key.cache_clear()


@pytest.fixture
def app(more_routes: Path, tmp_path: Path, sqlite_template: Path) -> tuple[FastAPI, Accounts]:
    (more_routes / "weather.py").write_text(WEATHER, encoding="utf-8")
    folder = tmp_path / "box"
    folder.mkdir()
    accounts = Accounts(folder, sqlite_template)
    return create_app(DictAppliance(), tmp_path, accounts.access), accounts


async def test_one_file_is_served_under_its_roles_and_described(app: tuple[FastAPI, Accounts]) -> None:
    web, accounts = app
    viewer, operator = accounts.person("viewer"), accounts.person("operator")
    some = accounts.person("operator", {"north"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box") as client:
        assert (await client.get("/api/v1/weather")).status_code == 401
        assert (await client.get("/api/v1/weather", headers=viewer)).json() == {"rain": False}
        assert (await client.post("/api/v1/weather", headers=viewer)).status_code == 403
        assert (await client.post("/api/v1/weather", headers=some)).status_code == 403, "not of every camera"
        assert (await client.post("/api/v1/weather", headers=operator)).json() == {"rain": True}
        described = (await client.get("/api/v1/openapi.json", headers=viewer)).json()
    shown = described["paths"]["/api/v1/weather"]["get"]["responses"]["200"]["content"]["application/json"]
    assert shown["example"] == {"rain": True}
    assert shown["schema"]["$ref"].endswith("/Weather")


def test_two_files_that_declare_one_route_are_refused(more_routes: Path) -> None:
    (more_routes / "health_again.py").write_text('ROLES = {"GET /health": None}', encoding="utf-8")
    with pytest.raises(ValueError, match="GET /api/v1/health is declared by another module"):
        route_table.rows()


def test_a_route_without_a_role_is_refused(more_routes: Path) -> None:
    text = WEATHER.replace(', "POST /weather": EVERY_OPERATOR', "")
    (more_routes / "weather.py").write_text(text, encoding="utf-8")
    assert route_table.row_of("GET", "/api/v1/weather") is not None
    assert route_table.row_of("POST", "/api/v1/weather") is None
