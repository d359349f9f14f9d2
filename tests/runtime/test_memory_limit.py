"""How much memory a worker may have, and how it is read."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from edge.core.workers import FRONT, GOLDEN, Worker
from edge.runtime.memory_limit import own_bytes, usable_bytes, worker_limit_bytes
from edge.runtime.process import OUT_OF_MEMORY, cause_of
from edge.settings import MachineSettings

GIB = 2**30


@pytest.mark.parametrize(
    ("asked_mb", "total", "limit"),
    [(None, 4 * GIB, 2 * GIB), (None, 64 * GIB, 16 * GIB), (1000, 64 * GIB, 1000 * 2**20), (512.5, GIB, 537_395_200)],
)
def test_the_limit_is_as_asked_or_a_quarter(asked_mb: float | None, total: int, limit: int) -> None:
    assert worker_limit_bytes(asked_mb, total) == limit


def test_a_container_has_what_its_group_has(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    assert usable_bytes(tmp_path) == total
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_bytes(tmp_path) == total
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    assert usable_bytes(tmp_path) == GIB
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text(f"{GIB // 2}\n")
    assert usable_bytes(tmp_path) == GIB // 2


def test_shared_pages_are_not_a_processs_own(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/statm").write_text("900 500 120 1 0 700 0\n")
    assert own_bytes(7, tmp_path) == 380 * os.sysconf("SC_PAGE_SIZE")
    assert own_bytes(8, tmp_path) == 0, "it is gone"
    before = own_bytes(os.getpid())
    kept = b"x" * (64 * 2**20)
    assert own_bytes(os.getpid()) >= before + len(kept) // 2


def test_the_front_is_bounded_by_what_it_takes() -> None:
    assert not FRONT.memory_limited
    assert all(w.memory_limited for w in (GOLDEN, Worker.of_camera("a"), Worker("executor-1", "executor")))


def test_a_limit_that_no_worker_could_start_under_is_refused() -> None:
    with pytest.raises(ValidationError, match="worker_memory_mb"):
        MachineSettings(worker_memory_mb=100)


@pytest.mark.parametrize(
    ("code", "cause"), [(0, "other"), (None, "other"), (OUT_OF_MEMORY, "memory"), (-9, "signal"), (3, "error")]
)
def test_causes_by_exit_code(code: int | None, cause: str) -> None:
    assert cause_of(code) == cause
