"""Feeds the golden model: frames are labelled as they come, older windows first, and nothing waits for ever.

Frames not labelled by the time their window was planned are labelled when there is nothing else to do: those labels are
used in the next window. Frames may be taken out for another box to label; those that come back without a label go on
here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.core.labels import LabelledFrame, SampledFrame
from edge.runtime.messages import Label, Labelled
from golden.budget import choose, hints

#: Frames given to the worker ahead of its answers; enough to keep it busy, few enough to lose with it.
_AHEAD = 2
#: A frame that was with the golden worker when it died so often is not tried again.
_TRIES = 2
#: Frames of past windows that may still wait for their labels; beyond, the oldest are given up.
_MOST_LATE = 200


def label_path(picture: Path) -> Path:
    """Where the label of a recorded picture is kept."""
    return picture.with_suffix(".label.json")


def keep_label(labelled: LabelledFrame) -> None:
    """Keep a label beside its picture, for a restart. One that cannot be kept (full disk) is still used; after a
    restart the frame is labelled again. Blocks."""
    path = label_path(labelled.frame.path)
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(labelled.to_json()), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)


@dataclass
class LabelCounters:
    """Counted since the appliance started. `labelled`: here, or by another box for this one. `missed`: not labelled in
    time for their window; of these `late` were labelled after it all the same, and `late_dropped` given up."""

    labelled: int = 0
    unreadable: int = 0
    given_up: int = 0
    missed: int = 0
    late: int = 0
    late_dropped: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))


@dataclass
class _Sample:
    """The frames of one camera's window, and their labels as they come."""

    frames: dict[str, SampledFrame] = field(default_factory=dict)
    labels: dict[str, LabelledFrame] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        return len(self.frames) - len(self.finished)


class LabelQueue:
    """`send(message) -> bool` hands a Label to the golden worker; False while it is not there. `share()` is the part of
    the device that the worker can use now, `now()` a monotonic time in seconds."""

    def __init__(
        self,
        send: Callable[[Label], bool],
        share: Callable[[], float] = lambda: 1.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send, self._share, self._now = send, share, now
        self._samples: dict[tuple[str, int], _Sample] = {}
        self._classes: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {}
        self._pending: deque[SampledFrame] = deque()
        self._late: deque[SampledFrame] = deque()
        self._late_labels: dict[str, list[LabelledFrame]] = {}
        self._with_worker: dict[str, SampledFrame] = {}
        self._lent: dict[str, SampledFrame] = {}
        self._tries: dict[str, int] = {}
        self._busy_since: tuple[float, float] | None = None  # (time, share) of the last answer; None: it had no more
        self._cost = 0.0
        self.last_cost: float | None = None
        self.counters = LabelCounters()

    # -- cameras and frames

    def set_classes(self, camera: str, classes: tuple[str, ...], class_map: Mapping[str, tuple[str, ...]]) -> None:
        """The camera's classes and how the teacher's map to them."""
        self._classes[camera] = (classes, dict(class_map))

    def forget_camera(self, camera: str) -> None:
        """Drop everything of a camera that is gone."""
        self._classes.pop(camera, None)
        self._pending = deque(f for f in self._pending if f.camera != camera)
        self._late = deque(f for f in self._late if f.camera != camera)
        self._late_labels.pop(camera, None)
        self._lent = {i: f for i, f in self._lent.items() if f.camera != camera}
        for key in [k for k in self._samples if k[0] == camera]:
            sample = self._samples.pop(key)
            sample.changed.set()

    def add(self, frame: SampledFrame) -> None:
        """A frame of the sample; one whose label is on disk already (after a restart) is not labelled again."""
        sample = self._samples.setdefault((frame.camera, frame.window), _Sample())
        if frame.id in sample.frames:
            return
        sample.frames[frame.id] = frame
        known = _read_label(frame)
        if known is not None:
            sample.labels[frame.id] = known
            sample.finished.add(frame.id)
            return
        self._pending.append(frame)
        self._feed()

    def waiting(self) -> int:
        """Frames not labelled yet, of windows that are waited for; those that another box labels do not count."""
        return len(self._pending) + len(self._with_worker)

    @property
    def seconds_per_frame(self) -> float:
        """Wall time of one label under the share of now while there is always more to do; 0: not known."""
        share = self._share()
        return self._cost / share if share > 0 else 0.0

    def take_late(self, camera: str) -> tuple[LabelledFrame, ...]:
        """Labels of earlier windows that came too late for them; each is handed out once."""
        return tuple(self._late_labels.pop(camera, ()))

    # -- frames that another box labels

    def classes(self, camera: str) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]] | None:
        """The camera's classes and how the teacher's map to them; None: it is gone."""
        return self._classes.get(camera)

    def unsent(self) -> tuple[tuple[SampledFrame, ...], tuple[SampledFrame, ...]]:
        """The frames that the worker does not have yet, in their order: those that a window waits for; late ones."""
        return tuple(self._pending), tuple(self._late)

    def lend(self, ids: Collection[str]) -> tuple[SampledFrame, ...]:
        """Take frames out that the worker does not have yet: another box labels them."""
        taken = tuple(f for f in (*self._pending, *self._late) if f.id in ids)
        self._pending = deque(f for f in self._pending if f.id not in ids)
        self._late = deque(f for f in self._late if f.id not in ids)
        self._lent |= {f.id: f for f in taken}
        return taken

    def lent(self, frame: SampledFrame) -> bool:
        """Whether a frame is out still: its camera may be gone, or its pictures."""
        return self._lent.get(frame.id) is frame

    def lent_labelled(self, labelled: LabelledFrame) -> None:
        """Another box has labelled a frame that is out."""
        del self._lent[labelled.frame.id]
        self.counters.labelled += 1
        self._finish(labelled.frame, labelled)

    def take_back(self, frames: Iterable[SampledFrame]) -> None:
        """Another box did not label these frames: they are the next ones here, where they are still waited for."""
        back = [f for f in frames if self.lent(f)]
        for frame in reversed(back):
            del self._lent[frame.id]
            if (frame.camera, frame.window) in self._samples:
                self._pending.appendleft(frame)
        self._too_late([f for f in back if (f.camera, f.window) not in self._samples])
        self._feed()

    # -- the worker

    def received(self, message: Labelled) -> None:
        """One answer of the golden worker."""
        frame = self._with_worker.pop(message.frame_id, None)
        self.counters.seconds += message.seconds
        self._timed()
        if frame is not None:
            if message.labelled is None:
                self.counters.unreadable += 1
            else:
                self.counters.labelled += 1
            self._finish(frame, message.labelled)
        self._feed()
        if not self._with_worker:
            self._busy_since = None

    def _timed(self) -> None:
        """Wall time from answer to answer, where the worker always had more to do under one share, times that share:
        the device seconds that a label costs as the share really brings them."""
        now, share = self._now(), self._share()
        self.last_cost = None
        if self._busy_since is not None and self._busy_since[1] == share:
            self.last_cost = (now - self._busy_since[0]) * share
            self._cost = self.last_cost if not self._cost else 0.8 * self._cost + 0.2 * self.last_cost
        self._busy_since = (now, share)

    def worker_lost(self) -> None:
        """The worker is gone: its frames go back to the front, unless they were there too often."""
        self._busy_since = None
        for frame in reversed(list(self._with_worker.values())):
            self._tries[frame.id] = self._tries.get(frame.id, 0) + 1
            if self._tries[frame.id] >= _TRIES:
                self.counters.given_up += 1
                self._finish(frame, None)
            else:
                self._pending.appendleft(frame)
        self._with_worker.clear()

    def worker_ready(self) -> None:
        """The worker is there (again)."""
        self._feed()

    # -- the boundary

    async def complete(self, camera: str, window: int, timeout_s: float) -> tuple[LabelledFrame, ...]:
        """The labelled frames of a closed sample, in time order; frames not labelled in `timeout_s` are missing."""
        sample = self._samples.get((camera, window))
        if sample is None:
            return ()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        self._thin_out(camera, window, timeout_s)
        while sample.waiting and loop.time() < deadline:
            sample.changed.clear()
            try:
                async with asyncio.timeout(max(0.01, deadline - loop.time())):
                    await sample.changed.wait()
            except TimeoutError:
                break
        if sample.waiting:
            late = {f for f in sample.frames if f not in sample.finished}
            self.counters.missed += len(late)
            self._too_late([f for f in self._pending if f.id in late])
        self._samples.pop((camera, window), None)
        for frame_id in sample.frames:
            self._tries.pop(frame_id, None)
        return tuple(sorted(sample.labels.values(), key=lambda f: (f.frame.utc_s, f.frame.number)))

    # -- inside

    def _thin_out(self, camera: str, window: int, timeout_s: float) -> None:
        """Where the teacher cannot label all that waits in time, frames evenly drawn over the time that is left go
        first, and the others are given up: the measurement then still stands for that whole time."""
        waiting = [f for f in self._pending if f.camera == camera and f.window == window]
        cameras = len({f.camera for f in self._pending if f.window == window}) or 1
        each = self.seconds_per_frame * cameras
        budget = int(timeout_s / each) if each > 0 else len(waiting)
        if budget >= len(waiting):
            return
        chosen = {c.id for c in choose(hints(waiting), budget, 0.5, base_share=1.0)}
        dropped = [f for f in waiting if f.id not in chosen]
        self.counters.missed += len(dropped)
        for frame in dropped:
            self._finish(frame, None)
        self._too_late(dropped)

    def _too_late(self, frames: list[SampledFrame]) -> None:
        """Frames that their window no longer waits for: labelled when there is nothing else to do."""
        gone = {f.id for f in frames}
        self._pending = deque(f for f in self._pending if f.id not in gone)
        self._late.extend(frames)
        while len(self._late) > _MOST_LATE:
            self._late.popleft()
            self.counters.late_dropped += 1

    def _finish(self, frame: SampledFrame, labelled: LabelledFrame | None) -> None:
        sample = self._samples.get((frame.camera, frame.window))
        if sample is None:
            if labelled is not None and frame.camera in self._classes:
                self.counters.late += 1
                self._late_labels.setdefault(frame.camera, []).append(labelled)
            return
        if labelled is not None:
            sample.labels[frame.id] = labelled
        sample.finished.add(frame.id)
        sample.changed.set()

    def _feed(self) -> None:
        while len(self._with_worker) < _AHEAD:
            queue = self._pending or self._late
            if not queue:
                return
            frame = queue[0]
            classes = self._classes.get(frame.camera)
            if classes is None:
                queue.popleft()
                continue
            if not self._send(Label(frame.camera, classes[0], classes[1], (frame,))):
                return
            queue.popleft()
            self._with_worker[frame.id] = frame


def _read_label(frame: SampledFrame) -> LabelledFrame | None:
    try:
        value: dict[str, Any] = json.loads(label_path(frame.path).read_text(encoding="utf-8"))
        return LabelledFrame.from_json(value)
    except (OSError, ValueError, KeyError):
        return None
