"""Give freed memory back to the system.

After a connection, a clip, a window of a camera or a job of a profiler ended, and each minute in the control process.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """glibc's `malloc_trim`; nothing where there is none.

    FFmpeg frees all it took for a connection, but glibc keeps the pages: measured 65 KiB more for each time a camera is
    connected anew, against 2 KiB with this call. A camera that flaps for weeks would look like a leak. Threads that
    read students' files or a database's answers have an arena each, which keeps what they freed, too.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # absent in musl
    if trim is not None:
        trim(0)
