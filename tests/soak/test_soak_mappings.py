"""Memory of a process by kind of mapping, as the kernel describes it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys

import pytest

from benchmarks.soak.mappings import KINDS, bytes_by_kind, mappings, memory_mb

_GLIBC = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_trim")
SMAPS = """\
55d000000000-55d000010000 rw-p 00000000 00:00 0                          [heap]
Size:                 64 kB
Anonymous:            40 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
Anonymous:            12 kB
7f0000021000-7f0004000000 ---p 00000000 00:00 0
Anonymous:             0 kB
7f0013f00000-7f0014100000 rw-p 00000000 00:00 0
Anonymous:          1500 kB
7f0014100000-7f0018000000 ---p 00000000 00:00 0
Anonymous:             0 kB
7f0020000000-7f0020200000 rw-p 00000000 00:00 0
Anonymous:          2048 kB
7f0020300000-7f0020301000 rw-p 00000000 00:00 0
Anonymous:             4 kB
7f0020400000-7f0020500000 rw-p 00001000 fe:00 12345                      /usr/lib/a file.so
Anonymous:             8 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Anonymous:            16 kB
"""


def test_each_mapping_has_its_kind() -> None:
    asked: list[tuple[int, int]] = []

    def anonymous(begin: int, end: int) -> int:
        asked.append((begin, end))
        return 700 * 1024

    found = bytes_by_kind(mappings(SMAPS.splitlines()), anonymous)
    assert {kind: size // 1024 for kind, size in found.items()} == {
        "heap": 40,
        "arenas": 12 + 700,
        "mapped": 800 + 2048 + 4 + 16,
        "files": 8,
    }
    assert asked == [(0x7F0014000000, 0x7F0014100000)], "an arena that the kernel joined with what lies before it"


_ALLOCATES = """
import sys, threading
kept = []
def small():
    kept.extend(bytearray(3000) for _ in range(10_000))
if sys.argv[1] == "thread":
    thread = threading.Thread(target=small)
    thread.start()
    thread.join()
elif sys.argv[1] == "first":
    small()
elif sys.argv[1] == "objects":
    kept.extend([n, n] for n in range(300_000))
elif sys.argv[1] == "large":
    kept.append(bytearray(b"x") * 30_000_000)
print("ready", flush=True)
input()
"""


@pytest.mark.skipif(not _GLIBC or platform.machine() != "x86_64", reason="arenas are glibc's; their place is x86-64's")
@pytest.mark.parametrize(
    ("what", "kind"), [("first", "heap"), ("thread", "arenas"), ("objects", "mapped"), ("large", "mapped")]
)
def test_memory_of_a_running_process(what: str, kind: str) -> None:
    def of(what: str) -> dict[str, float]:
        with subprocess.Popen(
            [sys.executable, "-c", _ALLOCATES, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            found = memory_mb(child.pid)
            child.communicate("\n")
        assert found is not None
        return found

    nothing, found = of("nothing"), of(what)
    more = {k: found[k] - nothing[k] for k in KINDS}
    assert more[kind] > 20.0, f"30 MB: {more}"
    assert all(abs(more[k]) < 5.0 for k in KINDS if k != kind), more


def test_a_process_that_is_gone_has_none() -> None:
    assert memory_mb(2**22 + 1) is None
    assert memory_mb(os.getpid()) is not None
