"""The download left alone on a camera: the worth that its answers would have had at each least score, by window.

It is what every student is compared with, so it gets what a careful user would give it: classes merged, an input in the
camera's shape, and the least score that was best on past labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge.core.accuracy import Pair
from edge.core.configs import WHOLE, Region, check_region
from edge.core.thresholds import SCORES, score_counts, smoothed_best

#: Counts of earlier windows count so much less with each window.
REMEMBERED = 0.8


@dataclass(frozen=True)
class ScoreCounts:
    """For each of SCORES, how many answers were right and how many were given, and how many objects there were; sums
    over windows, older ones weighing less."""

    right: tuple[float, ...] = (0.0,) * len(SCORES)
    given: tuple[float, ...] = (0.0,) * len(SCORES)
    objects: float = 0.0

    def after(self, pairs: Sequence[Pair]) -> ScoreCounts:
        """With the answers (from the lowest score on) of one more window."""
        (right, given), objects = score_counts(pairs)
        return ScoreCounts(
            tuple(float(v) for v in REMEMBERED * np.array(self.right) + right),
            tuple(float(v) for v in REMEMBERED * np.array(self.given) + given),
            REMEMBERED * self.objects + objects,
        )

    def best_score(self, usual: float) -> float:
        """The least score of the best F1 (smoothed); `usual` before there were any objects."""
        return smoothed_best(np.array(self.right), np.array(self.given), self.objects, usual)

    @property
    def best_f1(self) -> float:
        """The best F1 over all least scores; 0 before there were any objects."""
        total = np.array(self.given) + self.objects
        if self.objects <= 0:
            return 0.0
        return float((2 * np.array(self.right) / total).max())

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {"right": list(self.right), "given": list(self.given), "objects": self.objects}

    @staticmethod
    def from_json(value: dict[str, Any]) -> ScoreCounts:
        """Inverse of `to_json`; counts for other scores than today's are left out."""
        right, given = tuple(value["right"]), tuple(value["given"])
        if len(right) != len(SCORES) or len(given) != len(SCORES):
            return ScoreCounts()
        return ScoreCounts(right, given, float(value["objects"]))


@dataclass(frozen=True)
class Baseline:
    """The download's record on one camera: looking at the whole picture, and at `region`."""

    whole: ScoreCounts = ScoreCounts()
    part: ScoreCounts = ScoreCounts()
    region: Region = WHOLE

    def score(self, region: Region, usual: float) -> float:
        """The least score that was best on past labels for a student that looks at `region`."""
        return (self.whole if region == WHOLE or self.part.objects <= 0 else self.part).best_score(usual)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"whole": self.whole.to_json(), "part": self.part.to_json(), "region": list(self.region)}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Baseline:
        """Inverse of `to_json`. Raises InvalidValue for a region of nothing."""
        return Baseline(
            ScoreCounts.from_json(value["whole"]),
            ScoreCounts.from_json(value["part"]),
            check_region("baseline.region", value["region"]),
        )
