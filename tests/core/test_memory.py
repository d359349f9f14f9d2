"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import psutil
import pytest

from edge.core.memory import give_back

_GLIBC = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.skipif(not _GLIBC, reason="only glibc keeps what was freed until it is asked to give it back")
def test_freed_memory_below_a_block_in_use_is_given_back() -> None:
    process = psutil.Process()
    give_back()  # what earlier tests freed would be taken again
    before = process.memory_info().rss
    # Larger than the blocks of Python's own allocator, smaller than what glibc maps apart.
    blocks = [bytearray(3000) for _ in range(20_000)]
    full = process.memory_info().rss
    kept = [blocks[-1], *blocks[:: len(blocks) // 20]]
    blocks.clear()
    give_back()
    assert full - before > 40e6
    assert process.memory_info().rss < before + 0.3 * (full - before)
    assert len(kept) == 21


_ARENAS_OF_THREADS = """
import re, sys, threading
from edge.core.memory import share_arenas

if sys.argv[1] == "shared":
    share_arenas(2)
meeting = threading.Barrier(8)


def allocate():
    meeting.wait()
    blocks = [bytearray(3000) for _ in range(100)]
    meeting.wait()
    return blocks


threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# The first heap of a thread's arena begins at a multiple of 64 MiB.
found = re.findall(r"^([0-9a-f]+)-[0-9a-f]+ rw-p 00000000 00:00 0 *$", open("/proc/self/maps").read(), re.M)
print(sum(int(begin, 16) % (64 << 20) == 0 for begin in found))
"""


@pytest.mark.skipif(not _GLIBC or platform.machine() != "x86_64", reason="arenas are glibc's; their place is x86-64's")
def test_threads_share_arenas(monkeypatch: pytest.MonkeyPatch) -> None:
    def arenas(how: str) -> int:
        found = subprocess.run(
            [sys.executable, "-c", _ARENAS_OF_THREADS, how], capture_output=True, text=True, check=True
        )
        return int(found.stdout)

    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert arenas("shared") <= 1, "beside the main arena"
    assert arenas("each") > 2
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert arenas("shared") > 1, "the environment decides"
