"""What is seen of a fleet of real appliances all the time: the answers of each camera by REST and, at the camera's
frame rate, on the live socket."""

from __future__ import annotations

import contextlib
import json
import statistics
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.fleet_boxes import RealBox
from benchmarks.soak.invariants import gaps
from benchmarks.soak.values import Gap
from benchmarks.soak.watching import runs
from benchmarks.waiting import until

#: Pictures a second that a viewer asks for: the most there are, so that every frame of a slower camera is shown.
_VIEW_FPS: Final = 15


class _Looks:
    """A thread for each box, from `with` to its end. `_look` runs in them until `_ending` is set."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(b,), daemon=True) for b in boxes]

    def _begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _look(self, box: RealBox) -> None:
        raise NotImplementedError


class Watch(_Looks):
    """Asks every box all the time which cameras it has, and which of them were seen to give new answers."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        super().__init__(boxes)
        #: (time, box, camera) of each look that saw new answers; (time, box, camera) of each camera that was there.
        self.answers: list[tuple[float, str, str]] = []
        self.there: list[tuple[float, str, str]] = []

    def __enter__(self) -> Watch:
        self._begin()
        return self

    def _look(self, box: RealBox) -> None:
        before: dict[str, int] = {}
        while not self._ending.is_set():
            found, now = box.answers(), time.monotonic()
            for camera, count in found.items():
                self.there.append((now, box.name, camera))
                if count and count != before.get(camera):
                    self.answers.append((now, box.name, camera))
            before = found
            self._ending.wait(0.1)

    def gap_s(self, camera: str, since: float, end: float) -> float:
        """The longest time without a new answer of a camera, on any box; reports come about once a second."""
        return longest_gap([t for t, _, c in self.answers if c == camera], since, end).length_s

    def answered_by_another(self, camera: str, box: str) -> bool:
        """Whether another box than this one was seen to answer a camera."""
        return any(b != box and c == camera for _, b, c in self.answers)

    def first(self, camera: str, since: float, without: str) -> tuple[float, str]:
        """When another box than `without` was seen to answer a camera first, and which. Raises ValueError for never."""
        return min((t, b) for t, b, c in self.answers if c == camera and t >= since and b != without)

    def owners_now(self, camera: str) -> set[str]:
        """The boxes that had a camera a moment ago."""
        now = time.monotonic()
        return {b for t, b, c in self.there[-200:] if c == camera and now - t < 0.5}

    def both_s(self, camera: str, since: float) -> float:
        """How long after `since` two boxes were seen to have a camera last; 0: never."""
        last: dict[str, float] = {}
        both = 0.0
        for t, box, name in sorted(self.there):
            if name == camera and t >= since:
                last[box] = t
                if sum(t - seen < 0.5 for seen in last.values()) > 1:
                    both = t - since
        return both


@dataclass(frozen=True)
class ShownAnswer:
    """A fresh answer that came over a live socket at `came_s`; its frame came to the box at `taken_s` (both
    monotonic)."""

    box: str
    camera: str
    came_s: float
    taken_s: float


class Viewers(_Looks):
    """A viewer of every box's live pictures. Each picture says whether its answer is fresh, so the time between two
    answers is seen to a frame. Of two answers within 60 ms, as after a stall, the second may not be shown."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        super().__init__(boxes)
        self.answers: list[ShownAnswer] = []

    def __enter__(self) -> Viewers:
        self._begin()
        return self

    def _look(self, box: RealBox) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(OSError, WebSocketException):  # the box is away, or just was killed
                self._view(box)
            self._ending.wait(0.5)

    def _view(self, box: RealBox) -> None:
        url = f"ws://{box.host}:{box.web}/api/v1/live"
        with connect(url, additional_headers=box.headers, compression=None, open_timeout=5, proxy=None) as socket:
            socket.send(json.dumps({"fps": _VIEW_FPS}))
            while not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    self._note(box, socket.recv(timeout=1.0))

    def _note(self, box: RealBox, message: str | bytes) -> None:
        came_s = time.monotonic()
        if isinstance(message, str):
            raise RuntimeError(f"{box.name} shows no pictures: {message}")
        (length,) = struct.unpack(">H", message[:2])
        header = json.loads(message[2 : 2 + length])
        if not header["stale"]:
            taken_s = came_s - time.time() + header["utc_s"]
            self.answers.append(ShownAnswer(box.name, header["camera"], came_s, taken_s))

    def wait_for(self, cameras: Sequence[str]) -> None:
        """Wait until an answer of each camera was shown. Raises TimeoutError."""
        until(lambda: set(cameras) <= {a.camera for a in self.answers}, f"pictures of {', '.join(cameras)}", 60)

    def seen(self, camera: str, fps: float, since: float, end: float) -> dict[str, float]:
        """The answers of a camera, on any box: the longest time between two of them in frame periods, as they came to
        the viewer (with its beginning, in seconds after `since`) and by the times of their frames; and how many there
        were a second. Both times include the beginning and the end of the watch."""
        found = [a for a in self.answers if a.camera == camera]
        came = [a.came_s for a in found if since <= a.came_s <= end]
        late_s = statistics.median([a.came_s - a.taken_s for a in found] or [0.0])
        longest = longest_gap(came, since, end)
        taken = longest_gap([a.taken_s + late_s for a in found], since, end)
        return {
            "came_periods": round(longest.length_s * fps, 2),
            "came_at_s": round(longest.from_s - since, 2),
            "frames_periods": round(taken.length_s * fps, 2),
            "per_s": round(len(came) / (end - since), 2),
        }


def longest_gap(times: Sequence[float], since: float, end: float) -> Gap:
    """The longest time between two in a row of these times, of `since` and of `end`."""
    return max(gaps({"": sorted(times)}, since, end), key=lambda gap: gap.length_s)


@dataclass(frozen=True)
class KnownProcess:
    """A process of a box: `kind` is a worker's kind, "control", or the program that it runs."""

    kind: str
    pid: int
    began: float


def processes_of(box: RealBox) -> list[KnownProcess]:
    """The processes of a box now. Raises OSError where the box does not answer."""
    overview = box.ask("/overview")
    if overview is None:
        raise OSError(f"{box.name} does not answer")
    kinds = {w["pid"]: w["kind"] for w in overview["workers"]}
    found = []
    for number, process in enumerate(box.processes()):
        with contextlib.suppress(psutil.Error):
            kind = "control" if number == 0 else kinds.get(process.pid) or _program(process)
            found.append(KnownProcess(kind, process.pid, process.create_time()))
    return found


def ended_of(before: Sequence[KnownProcess]) -> dict[str, int]:
    """How many of those processes have ended, by kind."""
    return dict(Counter(sorted(p.kind for p in before if not runs(p.pid, p.began))))


def _program(process: psutil.Process) -> str:
    command: list[Any] = process.cmdline()
    for word, following in pairwise(command):
        if word == "-m":
            return str(following)
    script = next((str(word).rsplit("/", 1)[-1] for word in command[1:2] if str(word).endswith(".py")), "")
    name = str(command[0]) if command and str(command[0]).startswith("ray::") else process.name()
    return script or name
