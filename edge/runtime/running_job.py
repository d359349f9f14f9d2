"""A retraining that runs now."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from edge.core.configs import RetrainingConfig


@dataclass(frozen=True)
class RunningJob:
    """It began with plan number `plan`, which tells versions of one window apart. `box`: another one that does it."""

    job: str
    camera: str
    retraining: RetrainingConfig
    window: int
    share: float
    started_utc_s: float
    predicted_accuracy: float | None
    total_device_s: float
    fraction: float = 0.0
    held_out: float | None = None
    device_seconds: float = 0.0
    plan: int = 0
    box: str = ""

    @property
    def config(self) -> str:
        """The configuration's id."""
        return self.retraining.id

    def to_json(self) -> dict[str, Any]:
        """For REST and the page."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k != "plan"} | {"config": self.config}
