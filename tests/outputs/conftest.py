"""Stores of the outputs' tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.store.store import Store


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    """A store on SQLite."""
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(None, tmp_path) as opened:
        yield opened
