"""A folder, and no proxies."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.models.folder import ModelsFolder


@pytest.fixture
def folder(tmp_path: Path) -> ModelsFolder:
    return ModelsFolder(tmp_path / "models")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
