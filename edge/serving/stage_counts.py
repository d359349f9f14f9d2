"""Counts of an application's stages: how often each was asked, rows per request, times, and budgets that were left."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from edge.core.applications import Application, Stage
from edge.core.front_messages import StageTraffic

_RECENT = 4096


@dataclass
class StageCounts:
    """One stage of one application since the last report."""

    requests: int = 0
    answered: int = 0
    over: int = 0
    rows: int = 0
    of_rows: int = 0
    took_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    fan_out: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def asked(self, rows: int, of_rows: int) -> None:
        """A request of the application with `of_rows` rows asks the stage's model for `rows` (0: for nothing)."""
        self.requests += 1
        self.rows += rows
        self.of_rows += of_rows
        self.fan_out.append(rows / of_rows)

    def ended(self, took_s: float, allowed_s: float) -> None:
        """It was answered after `took_s`, where it was allowed `allowed_s`."""
        self.answered += 1
        self.over += took_s > allowed_s
        self.took_ms.append(took_s * 1000)

    def taken(self, application: Application, stage: Stage) -> StageTraffic:
        """The counts, which begin anew."""
        fan_out = self.fan_out or [0.0]
        found = StageTraffic(
            application.name,
            stage.name,
            stage.model,
            self.requests,
            self.answered,
            self.over,
            self.rows,
            self.rows / max(1, self.of_rows),
            float(np.percentile(fan_out, 99)),
            tuple(float(q) for q in np.percentile(self.took_ms, (50, 99))) if self.took_ms else (),
            application.budgets.get(stage.name, 0.0),
            self.of_rows,
        )
        self.requests = self.answered = self.over = self.rows = self.of_rows = 0
        self.took_ms.clear()
        self.fan_out.clear()
        return found
