"""Stores on both databases, as tests/store has them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "store"))

from postgres_server import postgres_server

from edge.store.store import default_url

#: Makes the address of a database of a kind for a data folder; `empty`: without tables.
Place = Callable[..., str]


@pytest.fixture
def place(request: pytest.FixtureRequest, sqlite_template: Path) -> Iterator[Place]:
    with ExitStack() as stack:

        def make(kind: str, folder: Path, empty: bool = False) -> str:
            folder.mkdir(parents=True, exist_ok=True)
            if kind == "sqlite":
                if not empty:
                    shutil.copy(sqlite_template, folder / "magpie.db")
                return default_url(folder)
            return stack.enter_context(postgres_server(request.config).new_database(empty=empty))

        yield make
