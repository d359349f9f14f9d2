"""Fixtures for all rooms."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples_kit import tried
from hypothesis import settings

# A loaded machine must not fail a property: time is no property of ours.
settings.register_profile("magpie", deadline=None, max_examples=tried(40, 100))
settings.load_profile("magpie")

REPO = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with processes and sockets depend on the machine's load. Where CI says so, one that fails is tried once
    more, and the summary names it. `make test` never does."""
    if os.environ.get("MAGPIE_TRY_AGAIN"):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=1))


# Thousands of tests and their modules stay to the end: the garbage collector need not look at them each time.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True)
def declared_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every key of an entry that a test makes is declared in edge.core.journal_keys: another one would be hidden from
    users of some cameras. A test that is of no appliance has not loaded the journal, and needs not."""
    journal = sys.modules.get("edge.appliance.journal")
    if journal is None:
        yield
        return
    from edge.core.journal_keys import entry_keys

    send_live, missing = journal.Journal.send_live, []

    def watched(self: Any, kind: str, camera: str | None, data: Any, window: int | None = None) -> None:
        missing.extend((kind, key) for key in data if key not in entry_keys(kind).known)
        send_live(self, kind, camera, data, window)

    monkeypatch.setattr(journal.Journal, "send_live", watched)
    yield
    assert missing == [], "declare these keys in edge.core.journal_keys"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The developers' shared data (problems, clips, detectors); tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("MAGPIE_SHARED", REPO.parent / "shared"))
    if not (path / "data").is_dir():
        pytest.skip("the developers' shared data folder is absent (set MAGPIE_SHARED)")
    return path


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An upgraded empty SQLite file to copy, which is quicker than upgrading each time."""
    from edge.store import database as db
    from edge.store.store import default_url

    folder = tmp_path_factory.mktemp("sqlite-template")
    database = db.Database(default_url(folder))
    db.upgrade(database)
    database.close()
    return folder / "magpie.db"


@pytest.fixture
def upgraded_data(sqlite_template: Path, tmp_path: Path) -> Path:
    """A data folder with an upgraded empty SQLite file."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "magpie.db")
    return folder
