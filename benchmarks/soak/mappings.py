"""Memory of a running appliance's processes by kind of mapping, on Linux: `python -m benchmarks.soak.mappings PID`.

PID is the control process; those below it follow. In MB (10^6 bytes) of what is a process's own, or shared with the
fork server alone: `heap` of the first thread; `arenas` of the other threads (glibc's); `mapped`, other anonymous memory
(Python's small objects, large blocks, stacks); `files`, pages of files that were changed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

KINDS: Final = ("heap", "arenas", "mapped", "files")
#: glibc begins each heap of a thread's arena at a multiple of this, and makes all of it its own at once (x86-64).
_ARENA: Final = 64 * 2**20
_HEAD: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)")
#: A page's entry in pagemap: it is in memory, or swapped out; it is a file's or shared.
_IN_MEMORY, _SWAPPED, _FILE = 1 << 63, 1 << 62, 1 << 61


@dataclass(frozen=True)
class MemoryMapping:
    """A line of smaps: bytes from `begin` to `end`, of which `anonymous` are memory that no file has."""

    begin: int
    end: int
    access: str
    name: str
    anonymous: int


def mappings(smaps: Iterable[str]) -> list[MemoryMapping]:
    """Those that the lines of a process's smaps describe."""
    found: list[MemoryMapping] = []
    for line in smaps:
        head = _HEAD.match(line)
        if head is not None:
            found.append(MemoryMapping(int(head[1], 16), int(head[2], 16), head[3], head[4].strip(), 0))
        elif line.startswith("Anonymous:"):
            last = found[-1]
            found[-1] = MemoryMapping(last.begin, last.end, last.access, last.name, int(line.split()[1]) * 1024)
    return found


def bytes_by_kind(found: Sequence[MemoryMapping], anonymous: Callable[[int, int], int]) -> dict[str, int]:
    """Bytes of each of KINDS. `anonymous` counts those of a part of a mapping, between two addresses."""
    out = dict.fromkeys(KINDS, 0)
    for number, one in enumerate(found):
        if one.name:
            out["heap" if one.name == "[heap]" else "mapped" if one.name.startswith("[") else "files"] += one.anonymous
            continue
        begins = _arena(one, found[number + 1] if number + 1 < len(found) else None)
        of_arena = 0
        if begins is not None:
            # The kernel may have joined it with the mapping before it.
            of_arena = one.anonymous if begins == one.begin else anonymous(begins, one.end)
        out["arenas"] += of_arena
        out["mapped"] += one.anonymous - of_arena
    return out


def _arena(one: MemoryMapping, following: MemoryMapping | None) -> int | None:
    """Where the heap of an arena begins that `one` ends with: the rest of its 64 MiB follows, which nobody may touch
    yet. None: there is none."""
    begins = (one.end - 1) // _ARENA * _ARENA
    if following is None or following.begin != one.end or following.name or following.access != "---p":
        return None
    return begins if begins >= one.begin and following.end >= begins + _ARENA and "w" in one.access else None


def memory_mb(pid: int, proc: Path = Path("/proc")) -> dict[str, float] | None:
    """MB of each of KINDS that a process has; None if it is gone, or somebody else's."""
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        with (proc / str(pid) / "smaps").open(encoding="utf-8", errors="replace") as lines:
            found = mappings(lines)
        with (proc / str(pid) / "pagemap").open("rb") as entries:

            def anonymous(begin: int, end: int) -> int:
                entries.seek(begin // page * 8)
                pages = array("Q", entries.read((end - begin) // page * 8))
                return page * sum(bool(p & (_IN_MEMORY | _SWAPPED)) and not p & _FILE for p in pages)

            return {kind: size / 1e6 for kind, size in bytes_by_kind(found, anonymous).items()}
    except OSError:
        return None


def main() -> int:
    """0: the process was there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pid", type=int, help="the control process")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="again and again, until the process is gone")
    args = parser.parse_args()
    began_s, seen = time.monotonic(), False
    print("| seconds | process | " + " | ".join(KINDS) + " | all |\n" + "|---" * (len(KINDS) + 3) + "|")
    while True:
        processes: list[psutil.Process] = []
        with suppress(psutil.Error):
            root = psutil.Process(args.pid)
            processes = [root, *root.children(recursive=True)]
        for process in processes:
            if (mb := memory_mb(process.pid)) is not None:
                seen = True
                columns = " | ".join(f"{mb[kind]:.1f}" for kind in KINDS)
                print(f"| {time.monotonic() - began_s:.0f} | {process.pid} | {columns} | {sum(mb.values()):.1f} |")
        sys.stdout.flush()
        if not processes or not args.every:
            return 0 if seen else 1
        time.sleep(args.every)


if __name__ == "__main__":
    sys.exit(main())
