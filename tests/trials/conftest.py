"""Trials with programs of others: skipped, with the reason, where these are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "web"))


@pytest.fixture(autouse=True)
def nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial uses what is installed: a command such as `uv run` finds it in its cache, or fails."""
    for name in ("UV_OFFLINE", "PIP_NO_INDEX", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "1")
