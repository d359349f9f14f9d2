"""How much memory one worker may have, and how much it has.

A worker's memory is what is its own and resident: pages that it does not share through a file or shared memory.
Pages that it has from the fork server count, too, about 0.4 GB. A process whose private mappings reach twice the limit
is refused more by the kernel, so that it cannot outrun a check once a second.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import Final

import psutil

#: Without a setting: this part of the memory that Magpie may use, and never less than one with a large model needs.
_PART: Final = 4
_LEAST_BYTES: Final = 2 * 2**30
#: Private mappings may be so many times the limit: torch and allocators map more than they ever touch.
_MAPPED: Final = 2


def worker_limit_bytes(asked_mb: float | None, total_bytes: int) -> int:
    """The limit of one worker: as asked, in MiB, or a quarter of `total_bytes`, at least 2 GiB."""
    return int(asked_mb * 2**20) if asked_mb is not None else max(_LEAST_BYTES, total_bytes // _PART)


def usable_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The memory that this machine, or the container that we run in, has."""
    total = int(psutil.virtual_memory().total)
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            total = min(total, int((groups / name).read_text()))
    return total


def own_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """The memory that a process holds for itself; 0 of one that is gone."""
    try:
        fields = (proc / str(pid) / "statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def limit_mappings(limit_bytes: int) -> None:
    """Bound what this process may map for itself, beyond what it has. Not where a GPU is used: CUDA maps, and does not
    touch, as much as the device has."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        data = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        most = data + _MAPPED * limit_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
