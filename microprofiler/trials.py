"""Trials and how they are shared: configurations of one family need one trial (thesis section 2.4.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edge.core.configs import Layers, RetrainingConfig
from edge.core.trials import TrialResult, TrialRunner

__all__ = ["Family", "TrialResult", "TrialRunner", "families", "sample_frames"]


@dataclass(frozen=True, order=True)
class Family:
    """The choices that shape the accuracy-epoch curve: configurations that differ only in epochs or data fraction share
    it."""

    layers: Layers
    batch_size: int
    learning_rate: float
    last_layer_width: int

    @property
    def id(self) -> str:
        """A readable name for tables and history keys."""
        width = f"-w{self.last_layer_width}" if self.last_layer_width else ""
        return f"{self.layers}-b{self.batch_size}-lr{self.learning_rate:g}{width}"

    @staticmethod
    def of(config: RetrainingConfig) -> Family:
        """The family that `config` belongs to."""
        return Family(config.layers, config.batch_size, config.learning_rate, config.last_layer_width)

    def to_json(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__dataclass_fields__}


def families(space: Iterable[RetrainingConfig]) -> dict[Family, tuple[RetrainingConfig, ...]]:
    """The configurations of `space` by family, both in the order given."""
    out: dict[Family, list[RetrainingConfig]] = {}
    for config in space:
        out.setdefault(Family.of(config), []).append(config)
    return {family: tuple(configs) for family, configs in out.items()}


def sample_frames(train_frames: int, fraction: float, minimum: int) -> int:
    """Training frames of a trial: `fraction` of all, at least `minimum`, at most all.

    The thesis' 5-10 % of a small window would be a handful of pictures that do not hold every class, hence the floor.
    """
    return max(1, min(train_frames, max(minimum, math.ceil(fraction * train_frames - 1e-9))))
