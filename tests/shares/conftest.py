"""Parts for tests of shares: a stand-in for the MPS program, short folders for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from share_kit import FakeMps


@pytest.fixture
def fake_mps(tmp_path: Path) -> FakeMps:
    """nvidia-cuda-mps-control on a PATH of its own, with its state folder."""
    return FakeMps.install(tmp_path / "bin", tmp_path / "mps-state")


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder with a short path for sockets (pytest's own are too long), removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="mg", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
