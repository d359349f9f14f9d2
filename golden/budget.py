"""Which sampled frames deserve the teacher, when it cannot label all of them. Pure; chance comes in as a number.

A choice has two parts. The *base* part is drawn evenly, so that each candidate has the same chance: on it, and on it
alone, realised accuracy is an unbiased estimate (systematic sampling with a random start, Cochran, Sampling
Techniques, ch. 8). The *informative* part is for training: frames where the student was unsure, where its answer
changed, or where the picture is unlike its neighbours, kept apart in time. Measuring on it would understate accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.labels import SampledFrame

Purpose = Literal["measure", "train"]


@dataclass(frozen=True)
class SampledCandidate:
    """A sampled frame with cheap hints, each the larger the more there is to learn, in any unit (ranks are compared).

    `doubt`: how unsure the student was; `change`: how much its answer differs from the one before; `novelty`: how
    much the picture differs from the one before.
    """

    id: str
    time_s: float
    doubt: float = 0.0
    change: float = 0.0
    novelty: float = 0.0


@dataclass(frozen=True)
class LabelChoice:
    """A frame to be labelled. `purpose`: "measure" (evenly drawn; may be trained on too) or "train" only."""

    id: str
    purpose: Purpose


def choose(
    candidates: Sequence[SampledCandidate], budget: int, start: float, base_share: float = 0.6
) -> tuple[LabelChoice, ...]:
    """At most `budget` of the candidates, in time order.

    `start` in [0, 1) is drawn at random by the caller; `base_share` of the budget (rounded up) is the base part. With
    a budget for all of them, all are chosen and all may be measured on.

    Raises:
        InvalidValue: budget, start or base_share out of range; a candidate twice.
    """
    if budget < 0:
        raise InvalidValue("budget", budget, "a whole number from 0")
    if not 0 <= start < 1:
        raise InvalidValue("start", start, "a number from 0, below 1")
    checks.in_range("base_share", base_share, 0.0, 1.0)
    checks.unique("candidates[].id", [c.id for c in candidates])
    ordered = sorted(candidates, key=lambda c: (c.time_s, c.id))
    if budget >= len(ordered):
        return tuple(LabelChoice(c.id, "measure") for c in ordered)
    base = evenly(len(ordered), math.ceil(budget * base_share), start)
    extra = _informative(ordered, set(base), budget - len(base))
    purpose: dict[int, Purpose] = {i: "measure" for i in base}  # noqa: C420 (keeps the literal type)
    purpose.update((i, "train") for i in extra)
    return tuple(LabelChoice(ordered[i].id, purpose[i]) for i in sorted(purpose))


def evenly(count: int, take: int, start: float) -> tuple[int, ...]:
    """`take` of `count` positions at equal steps from a random `start` in [0, 1): each has the chance take/count."""
    if take >= count:
        return tuple(range(count))
    step = count / take if take else 0.0
    return tuple(min(count - 1, int((start + k) * step)) for k in range(take))


def hints(frames: Sequence[SampledFrame]) -> tuple[SampledCandidate, ...]:
    """Candidates from what the recorder kept: doubt is the mean of 1 - |2 score - 1| over the answer (0.5 where there
    is none), change is the difference in the number of objects per class from the frame before.
    """
    ordered = sorted(frames, key=lambda f: (f.utc_s, f.number))
    out = []
    before: dict[int, int] | None = None
    for frame in ordered:
        scores = frame.answer.scores
        doubt = float(np.mean(1 - np.abs(2 * scores - 1))) if len(scores) else 0.5
        counts = {int(c): int(n) for c, n in zip(*np.unique(frame.answer.classes, return_counts=True), strict=True)}
        past = counts if before is None else before
        change = sum(abs(counts.get(c, 0) - past.get(c, 0)) for c in counts.keys() | past.keys())
        out.append(SampledCandidate(frame.id, frame.utc_s, doubt, float(change)))
        before = counts
    return tuple(out)


def allowance(budget: int, spent: int, elapsed_s: float, window_s: float) -> int:
    """How many more frames may be labelled now, if the budget is spent evenly over the window and never ahead of it."""
    checks.positive("window_s", window_s)
    due = math.floor(budget * min(max(elapsed_s / window_s, 0.0), 1.0) + 1e-9)
    return max(0, due - spent)


def _informative(ordered: Sequence[SampledCandidate], taken: set[int], count: int) -> list[int]:
    """Greedy: the highest sum of the three hints' ranks (0 to 1 each) and of the distance in time to what is taken."""
    times = np.array([c.time_s for c in ordered])
    worth = sum((_ranks(np.array([getattr(c, h) for c in ordered])) for h in ("doubt", "change", "novelty")), 0.0)
    span = max(float(times[-1] - times[0]), 1e-9)
    nearest = np.full(len(ordered), np.inf)
    for i in taken:
        nearest = np.minimum(nearest, np.abs(times - times[i]))
    chosen: list[int] = []
    for _ in range(count):
        # A frame right beside a labelled one teaches little; half the usual distance counts as far.
        far = np.clip(nearest / (0.5 * span / max(1, len(taken) + count)), 0, 1)
        score = worth + far
        score[[*taken, *chosen]] = -np.inf
        best = int(score.argmax())
        chosen.append(best)
        nearest = np.minimum(nearest, np.abs(times - times[best]))
    return chosen


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks in [0, 1]; equal values share the mean rank; all equal gives 0 for all (no information)."""
    if len(values) < 2 or float(np.ptp(values)) == 0.0:
        return np.zeros(len(values))
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    out: NDArray[np.float64] = ((ends - (counts + 1) / 2) / (len(values) - 1))[inverse]
    return out
