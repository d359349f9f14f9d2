"""A box with accounts, its app and a client, where a module of tests makes none of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from access_kit import Accounts, browser
from appliance_double import DictAppliance
from fastapi import FastAPI

from web.app import create_app


@pytest.fixture
def accounts(tmp_path: Path, sqlite_template: Path) -> Accounts:
    return Accounts(tmp_path, sqlite_template)


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance(("north", "south"))


@pytest.fixture
def app(service: DictAppliance, accounts: Accounts, tmp_path: Path) -> FastAPI:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><title>Magpie</title>")
    return create_app(service, page, accounts.access)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(app) as client:
        yield client
