"""Short trial trainings: the micro-profiler's requests and the training room's answers.

The types live here so that the training room can answer without knowing the micro-profiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue


@dataclass(frozen=True)
class TrialResult:
    """One short trial of `config` on a sample of `frames` training frames (thesis section 2.4.4).

    `points` are (epoch, held-out accuracy [0, 1]) after each epoch tried, epochs increasing from 1;
    `start_accuracy` is that of the student before it, on the same held-out data of `held_out_objects` objects.
    All costs are device seconds at 100 % of one device: `device_seconds_per_epoch` one pass over `frames` frames;
    `setup_seconds` the part that does not grow with epochs or frames; `prefix_seconds` the frozen prefix' activations
    that this trial computed for `prefix_frames` training frames (0 when an earlier trial had computed them);
    `evaluation_seconds` all held-out evaluations of this trial together.
    """

    config: RetrainingConfig
    points: tuple[tuple[int, float], ...]
    start_accuracy: float
    device_seconds_per_epoch: float
    setup_seconds: float
    frames: int
    held_out_objects: int = 0
    prefix_seconds: float = 0.0
    prefix_frames: int = 0
    evaluation_seconds: float = 0.0

    def __post_init__(self) -> None:
        checks.not_empty("trial.points", self.points)
        last = 0
        for n, (epoch, accuracy) in enumerate(self.points):
            checks.in_range(f"trial.points[{n}].accuracy", accuracy, 0.0, 1.0)
            if epoch <= last:
                raise InvalidValue(f"trial.points[{n}].epoch", epoch, f"a number above {last}")
            last = epoch
        checks.in_range("trial.start_accuracy", self.start_accuracy, 0.0, 1.0)
        checks.in_range("trial.frames", self.frames, 1, 1e9)
        for name in ("device_seconds_per_epoch", "setup_seconds", "prefix_seconds", "evaluation_seconds"):
            checks.in_range(f"trial.{name}", getattr(self, name), 0.0, 1e9)

    @property
    def device_seconds(self) -> float:
        """All that this trial cost."""
        training = self.points[-1][0] * self.device_seconds_per_epoch
        return self.setup_seconds + self.prefix_seconds + training + self.evaluation_seconds

    def to_json(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        return out | {"config": self.config.to_json(), "points": [list(p) for p in self.points]}


class TrialRunner(Protocol):
    """Runs trials on one camera's labelled window. Frozen-prefix activations are computed once and shared by calls."""

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult | None:
        """Train a copy of the student with `config` for `epochs` on a uniform random sample of `data_fraction` of all
        training frames (drawn with `seed`; `config.epochs` and `config.data_fraction` are not used). One that has to
        hand in early answers with the epochs that it has, or None if it has none."""
