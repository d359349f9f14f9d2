"""Complaints for the operator: kept for the page and /readyz, logged, and journaled."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from edge.core.clock import Clock
from edge.core.journal_kinds import JournalNote

log = logging.getLogger(__name__)

_MOST = 50


class Complaints:
    """The newest of what went wrong, each sentence once for each camera. `note` journals."""

    def __init__(self, clock: Clock, note: JournalNote) -> None:
        #: {"code", "message", "camera", "utc_s"}, the newest last.
        self.recent: deque[dict[str, Any]] = deque(maxlen=_MOST)
        self._clock, self._note = clock, note

    def add(self, code: str, message: str, camera: str | None = None) -> None:
        """Something went wrong now; `camera` None: it concerns no single camera. `message` does not name the camera."""
        log.warning("%s: %s", code, message if camera is None else f"{camera}: {message}")
        said = (message, camera)
        self.recent = deque((c for c in self.recent if (c["message"], c["camera"]) != said), _MOST)
        self.recent.append({"code": code, "message": message, "camera": camera, "utc_s": self._clock.utc()})
        self._note("complaint", camera=camera, data={"code": code, "message": message})
