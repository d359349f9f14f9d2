"""Watches a fleet of real appliances all the time: the answers of each camera by REST and, at the camera's frame rate,
on the live socket; and which processes of a box have ended."""

from __future__ import annotations

import contextlib
import json
import statistics
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final, Self

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.fleet_boxes import RealBox, asked
from benchmarks.soak.invariants import gaps
from benchmarks.soak.values import Gap
from benchmarks.soak.watching import runs
from benchmarks.waiting import until

#: Pictures a second that a viewer asks for: the most there are, so that every frame of a slower camera is shown.
_VIEW_FPS: Final = 15
#: A box's last look says what is so now for so long; a busy machine answers slowly.
_LATELY_S: Final = 2.0


class _Looks(ABC):
    """A thread for each box, from `with` to its end. `_look` runs in them until `_ending` is set."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(b,), daemon=True) for b in boxes]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    @abstractmethod
    def _look(self, box: RealBox) -> None:
        """Look at a box."""


@dataclass(frozen=True)
class BoxLook:
    """A look at `at_s` (monotonic) that a box answered: the `cameras` that it has, and those that gave `answers` since
    the look before."""

    at_s: float
    cameras: frozenset[str]
    answers: frozenset[str]


class Watch(_Looks):
    """Asks every box all the time which cameras it has, and which of them gave new answers."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        super().__init__(boxes)
        #: By box, the looks that it answered, in order. Between two of them nothing is known.
        self.looks: dict[str, list[BoxLook]] = {box.name: [] for box in boxes}

    def _look(self, box: RealBox) -> None:
        before: dict[str, int] = {}
        while not self._ending.is_set():
            rows = box.ask("/cameras")
            if rows is not None:
                before = self.note(box.name, time.monotonic(), _counts(rows), before)
            self._ending.wait(0.1)

    def note(self, box: str, at_s: float, counts: dict[str, int], before: dict[str, int]) -> dict[str, int]:
        """Note a look that a box answered, with the answers that each camera gave so far; `before`: those of the look
        before. Returns `counts`."""
        new = frozenset(camera for camera, count in counts.items() if count and count != before.get(camera))
        self.looks[box].append(BoxLook(at_s, frozenset(counts), new))
        return counts

    def gap_s(self, camera: str, since: float, end: float) -> float:
        """The longest time without a new answer of a camera, on any box; reports come about once a second."""
        times = [look.at_s for looks in self.looks.values() for look in list(looks) if camera in look.answers]
        return longest_gap(times, since, end).length_s

    def longest_look_s(self, since: float, end: float, without: str = "") -> float:
        """The longest time in which one of the boxes but `without` answered no look."""
        return max(
            longest_gap([look.at_s for look in looks], since, end).length_s
            for box, looks in self.looks.items()
            if box != without
        )

    def first(self, camera: str, since: float, without: str) -> tuple[float, str] | None:
        """When a box other than `without` was seen to answer a camera first, and which. None: never."""
        seen = (
            (look.at_s, box)
            for box, looks in self.looks.items()
            for look in list(looks)
            if box != without and look.at_s >= since and camera in look.answers
        )
        return min(seen, default=None)

    def owners_now(self, camera: str, since: float) -> set[str] | None:
        """The boxes that have a camera by their last looks. None: a box has answered none lately, or none since
        `since`."""
        least = max(since, time.monotonic() - _LATELY_S)
        last = {box: looks[-1] if looks else None for box, looks in self.looks.items()}
        if any(look is None or look.at_s < least for look in last.values()):
            return None
        return {box for box, look in last.items() if look is not None and camera in look.cameras}

    def both_s(self, camera: str, since: float, end: float) -> float | None:
        """How long after `since` two boxes had a camera last, at most: a box that was seen to have it counts as having
        it until it is seen without it. 0: never; None: a box answered no look after `since`."""
        if any(not looks or looks[-1].at_s < since for looks in self.looks.values()):
            return None
        spans = [self._had(camera, box, end) for box in self.looks]
        both = [
            min(one_end, other_end)
            for ones, others in combinations(spans, 2)
            for one, one_end in ones
            for other, other_end in others
            if max(one, other, since) < min(one_end, other_end)
        ]
        return max(both, default=since) - since

    def _had(self, camera: str, box: str, end: float) -> list[tuple[float, float]]:
        """From when a box was seen to have a camera, until when it was seen without it."""
        found: list[tuple[float, float]] = []
        since: float | None = None
        for look in self.looks[box]:
            if camera in look.cameras:
                since = look.at_s if since is None else since
            elif since is not None:
                found.append((since, look.at_s))
                since = None
        return found if since is None else [*found, (since, end)]


def _counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {row["id"]: row["state"]["inference"]["answers"] for row in rows}


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
    """The processes of a box now. Raises TimeoutError where the box does not answer."""
    kinds = {w["pid"]: w["kind"] for w in asked(box, "/overview")["workers"]}
    found = []
    for number, process in enumerate(box.processes()):
        with contextlib.suppress(psutil.Error):
            kind = "control" if number == 0 else kinds.get(process.pid) or _program(process)
            found.append(KnownProcess(kind, process.pid, process.create_time()))
    return found


def kinds_of(processes: Sequence[KnownProcess]) -> dict[str, int]:
    """How many processes there are, by kind."""
    return dict(Counter(sorted(p.kind for p in processes)))


def ended_of(before: Sequence[KnownProcess]) -> dict[str, int]:
    """How many of those processes have ended, by kind."""
    return kinds_of([p for p in before if not runs(p.pid, p.began)])


def _program(process: psutil.Process) -> str:
    command: list[Any] = process.cmdline()
    for word, following in pairwise(command):
        if word == "-m":
            return str(following)
    script = next((str(word).rsplit("/", 1)[-1] for word in command[1:2] if str(word).endswith(".py")), "")
    return script or process_name(process)


def process_name(process: psutil.Process) -> str:
    """The name that a worker of Ray gives itself, or that of the program. Raises psutil.Error."""
    command: list[str] = process.cmdline()
    return command[0] if command and command[0].startswith("ray::") else str(process.name())
