"""Freed memory goes back to the system.

It is given back after a connection, a clip, a window of a camera or a job of a profiler ended, and each minute in the
control process, whose threads share few arenas.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

#: `M_ARENA_MAX` of glibc's malloc.h.
_ARENA_MAX: Final = -8


def share_arenas(most: int = 2) -> None:
    """From now on threads of this process allocate in at most `most` arenas of glibc, unless the environment says how
    many (MALLOC_ARENA_MAX, GLIBC_TUNABLES); nothing where there is no glibc.

    Threads that plan take much memory for moments, and arenas of their own would keep it.
    """
    mallopt = _glibc("mallopt")
    said = "MALLOC_ARENA_MAX" in os.environ or "malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if mallopt is not None and not said:
        mallopt(_ARENA_MAX, most)


def give_back() -> None:
    """glibc's `malloc_trim`; nothing where there is none.

    FFmpeg frees all it took for a connection, but glibc keeps the pages: measured 65 KiB more for each time a camera is
    connected anew, against 2 KiB with this call. A camera that flaps for weeks would look like a leak. Threads that
    read students' files or a database's answers have an arena each, which keeps what they freed, too.
    """
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _glibc(name: str) -> Callable[..., int] | None:
    """A function of the C library; None: there is none of this name, as in musl."""
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return found
