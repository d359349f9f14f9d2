"""Moves the wall clock of every Python process that is started with this folder on its path.

The first eight bytes of the file that MAGPIE_SOAK_CLOCK names are a number of seconds (float64), which the wall clock
is ahead of the machine's. It may change at any time. Monotonic clocks, `datetime.now` and times of files stay as they
are.
"""

from __future__ import annotations

import mmap
import os
import struct
import time

_FILE = os.environ.get("MAGPIE_SOAK_CLOCK", "")


def _move(file: str) -> None:
    with open(file, "rb") as opened:
        shared = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)
    read = struct.Struct("<d").unpack_from
    real, real_ns, local, universal = time.time, time.time_ns, time.localtime, time.gmtime

    def now() -> float:
        return real() + float(read(shared)[0])

    time.time = now
    time.time_ns = lambda: real_ns() + round(read(shared)[0] * 1e9)
    time.localtime = lambda seconds=None: local(now() if seconds is None else seconds)
    time.gmtime = lambda seconds=None: universal(now() if seconds is None else seconds)


if _FILE:
    _move(_FILE)
