"""The picture that a camera's student wants, read from its description beside the search."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from edge.core.discovery import NeedSource, StreamNeed
from edge.core.errors import MagpieError
from edge.discovery.daemon_thread import in_daemon_thread
from edge.models.descriptions import described
from edge.runtime.students import StudentInput, input_of
from edge.settings import DRAWN_INPUT, CameraSearch

#: Inputs that are kept; more are read again.
_MOST_KEPT: Final = 16


@dataclass(frozen=True)
class KnownNeed:
    """A need, whose input it is, and the student's name; `unread` says why that student's input could not be read."""

    need: StreamNeed
    source: NeedSource
    student: str = ""
    unread: str = ""


def read_need(wanted: CameraSearch) -> KnownNeed:
    """The need of the student in `wanted`, read now. Raises as edge.runtime.students.input_of."""
    model = wanted.student.model
    return published_need(wanted, model, "camera", input_of(model)) if model else drawn_need(wanted)


def published_need(wanted: CameraSearch, model: str, source: NeedSource, given: StudentInput) -> KnownNeed:
    """The need of a published detector with this input."""
    fixed = given.fixed or wanted.shape == "model"
    return KnownNeed(StreamNeed(given.width, given.height, wanted.fps, fixed), source, model)


def drawn_need(wanted: CameraSearch, unread: str = "") -> KnownNeed:
    """The need of one of our own architectures: of the size in `wanted`, or the usual one. A classifier looks at parts
    of the picture, so its input says nothing of the whole."""
    height, width = DRAWN_INPUT
    student = wanted.student
    if wanted.task != "detection" or unread or not (student.input_height or student.input_width):
        return KnownNeed(StreamNeed(width, height, wanted.fps), "usual", unread=unread)
    size = StreamNeed(student.input_width or width, student.input_height or height, wanted.fps)
    return KnownNeed(size, "camera")


class StreamNeeds:
    """Needs of the students that searches ask for. `site_student`: of cameras that name none; `memory_limit` bytes may
    be used to read a description. One that was read is kept until its file changes."""

    def __init__(self, site_student: str, memory_limit: int) -> None:
        self._site_student, self._memory_limit = site_student, memory_limit
        self._read: dict[tuple[str, int], Future[StudentInput]] = {}

    def begin(self, wanted: CameraSearch) -> None:
        """Begin to read the description, which may take a process."""
        model, _ = self._named(wanted)
        if model:
            self._reading(model)

    def need_of(self, wanted: CameraSearch, ends_s: float) -> KnownNeed:
        """The need, the usual one if the description cannot be read until `ends_s` on the monotonic clock."""
        model, source = self._named(wanted)
        if not model:
            return drawn_need(wanted)
        try:
            given = self._reading(model).result(max(0.0, ends_s - time.monotonic()))
        except TimeoutError:
            return drawn_need(wanted, f"{model} could not be read in time")
        except MagpieError as error:
            return drawn_need(wanted, str(error))
        return published_need(wanted, model, source, given)

    def _named(self, wanted: CameraSearch) -> tuple[str, NeedSource]:
        """As a camera's own student, edge.runtime.students.student_of."""
        if wanted.student.model:
            return wanted.student.model, "camera"
        own = wanted.student.architecture is not None or wanted.task != "detection"
        return ("" if own else self._site_student), "site"

    def _reading(self, model: str) -> Future[StudentInput]:
        key = (model, _changed_ns(described(model, "student")))
        known = self._read.get(key)
        if known is None or (known.done() and known.exception() is not None):
            if len(self._read) >= _MOST_KEPT:
                self._read.clear()
            known = in_daemon_thread(f"input of {model}", partial(input_of, model, self._memory_limit))
            self._read[key] = known
        return known


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
