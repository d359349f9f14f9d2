"""Stores, and outputs over them, for the tests of the outputs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from joined_outputs import FakeSite, Joined, Opener

from edge.store.store import Store


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    """A store on SQLite."""
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(None, tmp_path) as opened:
        yield opened


@pytest.fixture
async def joined(store: Store) -> AsyncIterator[Opener]:
    """Opens outputs over the store with a site of two cameras; what is still open at the end is closed."""
    async with AsyncExitStack() as stack:

        async def open_(outputs: dict[str, Any], site: FakeSite | None = None, **more: Any) -> Joined:
            opened = Joined(outputs, store, site or FakeSite(), **more)
            await stack.enter_async_context(opened)
            return opened

        yield open_
