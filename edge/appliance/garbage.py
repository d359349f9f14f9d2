"""Pauses of Python's search for garbage in cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """The pauses that overlap now, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if not self._open:
                self._was_on = gc.isenabled()
                gc.disable()
            self._open += 1

    def end(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open and self._was_on:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def no_garbage_search() -> Iterator[None]:
    """The search pauses in all threads until the block ends: for the short time in which a large answer is made, all
    of which is needed. Otherwise the search goes over all of it again and again."""
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
