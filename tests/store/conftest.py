"""Stores on SQLite and on PostgreSQL; every test that takes `store` runs on both."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from postgres_server import postgres_server
from store_helpers import JumpClock

from edge.store.store import Store, default_url


@pytest.fixture
def clock() -> JumpClock:
    return JumpClock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[str]:
    """The address of a database with the newest schema."""
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        shutil.copy(template, data_dir / "magpie.db")
        yield default_url(data_dir)
        return
    with postgres_server(request.config).new_database() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[str]:
    """The address of a database without tables."""
    if request.param == "sqlite":
        yield default_url(data_dir)
        return
    with postgres_server(request.config).new_database(empty=True) as address:
        yield address


@pytest.fixture
def store(url: str, data_dir: Path, clock: JumpClock) -> Iterator[Store]:
    with Store(url, data_dir, clock=clock) as opened:
        yield opened


@pytest.fixture
def lite(sqlite_template: Path, data_dir: Path, clock: JumpClock) -> Iterator[Store]:
    """A store on SQLite only, for what does not depend on the database."""
    shutil.copy(sqlite_template, data_dir / "magpie.db")
    with Store(None, data_dir, clock=clock) as opened:
        yield opened
