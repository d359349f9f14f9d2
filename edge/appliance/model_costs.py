"""The cost of an answer of a shipped teacher or student on this box: measured once, in a process of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.core.errors import MagpieError
from edge.models.shelf import KnownDescription
from edge.runtime.one_off import run_once
from edge.runtime.process import Channel

log = logging.getLogger(__name__)

#: A picture of so many pixels, and so many answers, of which the fastest counts.
_HEIGHT, _WIDTH, _ANSWERS = 360, 640, 5


@dataclass(frozen=True)
class Timed:
    """CPU milliseconds of one answer on one core."""

    answer_ms: float


def measure(channel: Channel, description: tuple[str, str]) -> None:
    """Worker main: `description` is (kind, path)."""
    import time

    import numpy as np

    from edge.detectors.description import read_detector
    from golden.spec import read_teacher
    from golden.teacher import open_teacher

    kind, path = description
    # A student answers like a teacher; its description may say more.
    teacher = open_teacher(read_detector(Path(path)) if kind == "student" else read_teacher(Path(path)))
    picture = np.full((_HEIGHT, _WIDTH, 3), 127, np.uint8)
    took = []
    for _ in range(_ANSWERS):
        began = time.process_time()
        teacher.label(picture)
        took.append(time.process_time() - began)
        channel.beat()
    channel.send(Timed(1000 * min(took)))


def in_a_process(description: KnownDescription, limit_bytes: int | None = None) -> float:
    """Milliseconds. Raises MagpieError if the model cannot be opened in at most `limit_bytes` of memory (None: as for
    workers without a setting)."""
    order = (description.kind, description.path)
    timed = run_once(f"cost-{description.name}", measure, order, str(description.path), limit_bytes)
    assert isinstance(timed, Timed)
    return timed.answer_ms


class ModelCosts:
    """Costs as far as they are known; the others are measured in the background, one after another."""

    def __init__(self, timed: Callable[[KnownDescription], float] = in_a_process) -> None:
        self._timed = timed
        self._known: dict[tuple[str, str], float] = {}
        self._failed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._measuring: threading.Thread | None = None

    def of(self, descriptions: Sequence[KnownDescription]) -> list[float | None]:
        """Of each the milliseconds, or None; begins to measure those whose files are here."""
        with self._lock:
            waiting = [d for d in descriptions if d.here and self._key(d) not in self._known.keys() | self._failed]
            if waiting and (self._measuring is None or not self._measuring.is_alive()):
                self._measuring = threading.Thread(
                    target=self._measure, args=(waiting,), name="model-costs", daemon=True
                )
                self._measuring.start()
            return [self._known.get(self._key(d)) for d in descriptions]

    def wait(self) -> None:
        """Until what was begun is measured."""
        if self._measuring is not None:
            self._measuring.join()

    @staticmethod
    def _key(description: KnownDescription) -> tuple[str, str]:
        return description.kind, description.name

    def _measure(self, waiting: Sequence[KnownDescription]) -> None:
        for description in waiting:
            try:
                took = self._timed(description)
            except MagpieError as error:
                log.warning("%s: its cost cannot be measured: %s", description.name, error)
                with self._lock:
                    self._failed.add(self._key(description))
                continue
            with self._lock:
                self._known[self._key(description)] = took
