"""The download left alone on a camera: the worth that its answers would have had at each least score, by window; and
that of its retrained students on the whole picture and on a part of it.

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
class RegionRecord:
    """How a student did looking at the whole picture, and at `region`."""

    whole: ScoreCounts = ScoreCounts()
    part: ScoreCounts = ScoreCounts()
    region: Region = WHOLE

    def after(self, whole: Sequence[Pair], part: Sequence[Pair] | None, region: Region) -> RegionRecord:
        """With the answers (from the lowest score on) of one more window, in which `region` was learned; without `part`
        nothing is known of a region any more."""
        counts = ScoreCounts() if part is None else self.part.after(part)
        return RegionRecord(self.whole.after(whole), counts, WHOLE if part is None else region)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"whole": self.whole.to_json(), "part": self.part.to_json(), "region": list(self.region)}

    @staticmethod
    def from_json(value: dict[str, Any]) -> RegionRecord:
        """Inverse of `to_json`. Raises InvalidValue for a region of nothing."""
        return RegionRecord(
            ScoreCounts.from_json(value["whole"]),
            ScoreCounts.from_json(value["part"]),
            check_region("baseline.region", value["region"]),
        )


@dataclass(frozen=True)
class Baseline:
    """The measurements of one camera: of the download left alone, and of the students in force that were retrained
    (None: none was measured yet)."""

    download: RegionRecord = RegionRecord()
    student: RegionRecord | None = None

    def score(self, region: Region, usual: float) -> float:
        """The least score that was best on past labels for the download looking at `region`."""
        d = self.download
        return (d.whole if region == WHOLE or d.part.objects <= 0 else d.part).best_score(usual)

    def of(self, retrained: bool) -> RegionRecord | None:
        """The record of the student that is in force: one that was `retrained`, or the download."""
        return self.student if retrained else self.download

    def to_json(self) -> dict[str, Any]:
        """Plain values; the download's as versions before wrote them."""
        student = {} if self.student is None else {"student": self.student.to_json()}
        return self.download.to_json() | student

    @staticmethod
    def from_json(value: dict[str, Any]) -> Baseline:
        """Inverse of `to_json`. Raises InvalidValue for a region of nothing."""
        student = value.get("student")
        return Baseline(RegionRecord.from_json(value), None if student is None else RegionRecord.from_json(student))
