"""Rests of a thread that codes a clip anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import av

from edge.core.errors import StoreError

#: No rest is longer, in seconds: a machine that was suspended meanwhile is no slow one.
LONGEST_S: Final = 0.25

_Frames = Callable[[av.VideoFrame], av.VideoFrame]


class Rests:
    """Thread-safe. Answers of the same process go first: a clip rests after each picture as long as that took. A lower
    priority of the thread would hold answers up, wherever it waits for a core while it holds the interpreter's lock."""

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, rest: Callable[[float], object] | None = None
    ) -> None:
        self._now_s = now_s
        self._given_up = threading.Event()
        self._rest = rest or self._given_up.wait
        self._hurried = False

    def none(self) -> None:
        """No more rests: the process ends."""
        self._hurried = True

    def give_up(self) -> None:
        """The next picture is not coded any more."""
        self._given_up.set()

    def between(self, each: _Frames) -> _Frames:
        """`each`, with a rest before every picture but the first. It raises StoreError when given up."""
        began_s: float | None = None

        def rested(frame: av.VideoFrame) -> av.VideoFrame:
            nonlocal began_s
            if began_s is not None and not self._hurried:
                self._rest(min(LONGEST_S, self._now_s() - began_s))
            if self._given_up.is_set():
                raise StoreError("the clip was given up: its worker ends")
            began_s = self._now_s()
            return each(frame)

        return rested
