"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import psutil
import pytest

from edge.core.memory import give_back

_GLIBC = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.skipif(not _GLIBC, reason="only glibc keeps what was freed until it is asked to give it back")
def test_freed_memory_below_a_block_in_use_is_given_back() -> None:
    process = psutil.Process()
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
