"""Whether a retrained model comes into force, and whether a promoted one is taken back.

Scores come from few labelled frames, so a difference of two scores is noise to a part. Its standard error is taken as
sqrt(p (1 - p) / frames), the binomial error of one score: both models are judged on the same frames, and the errors
that they share cancel. The gate asks for half a standard error above the tolerance line (never more than
`CAUTION_LIMIT`, so that a clear gain always passes); taking back asks for half a standard error beyond the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edge.core import checks
from edge.core.roll_backs import RollBackReason

#: Part of the standard error that counts as doubt.
DOUBT = 0.5
#: Most points that doubt may ask for at the gate (0-1).
CAUTION_LIMIT = 0.03
#: Fewer frames than this say nothing about a model in force.
FEWEST_FRAMES = 5


@dataclass(frozen=True)
class Decision:
    """`yes` and why, in words for the lineage."""

    yes: bool
    reason: str

    def __bool__(self) -> bool:
        return self.yes


def standard_error(accuracy: float, frames: int) -> float:
    """Standard error of an accuracy [0, 1] measured on `frames` > 0 frames."""
    p = min(max(accuracy, 1 / (2 * frames)), 1 - 1 / (2 * frames))
    return math.sqrt(p * (1 - p) / frames)


def gate(candidate: float, parent: float, frames: int, tolerance: float) -> Decision:
    """Whether `candidate` may replace its `parent`; both are accuracies [0, 1] on the same held-out `frames`.

    Never when it is worse than the parent by more than `tolerance`, and never without a held-out frame. Raises
    InvalidValue for values out of range.
    """
    checks.in_range("candidate", candidate, 0.0, 1.0)
    checks.in_range("parent", parent, 0.0, 1.0)
    checks.in_range("frames", frames, 0, 1e9)
    checks.in_range("tolerance", tolerance, 0.0, 1.0)
    if frames == 0:
        return Decision(False, "no held-out frame to judge it on")
    gain = candidate - parent
    said = f"{100 * candidate:.1f} % against {100 * parent:.1f} % on {frames} held-out frames"
    caution = min(CAUTION_LIMIT, DOUBT * standard_error(parent, frames))
    needed = caution - tolerance
    if gain < -tolerance:
        return Decision(False, f"{said}: worse than the parent beyond the tolerance of {100 * tolerance:.1f} points")
    if gain < needed - 1e-12:
        return Decision(False, f"{said}: so few frames ask for {100 * needed:+.1f} points, it has {100 * gain:+.1f}")
    return Decision(True, f"{said}: {100 * gain:+.1f} points where {100 * needed:+.1f} were needed")


def roll_back(live: float, parent: float, frames: int, margin: float) -> RollBackReason | None:
    """Why a promoted model is taken back (None: it stays): `live` is its accuracy [0, 1] on the frames that it
    answered, `parent` its parent's on the same `frames`. Fewer than FEWEST_FRAMES say nothing.

    Raises InvalidValue for values out of range.
    """
    checks.in_range("live", live, 0.0, 1.0)
    checks.in_range("parent", parent, 0.0, 1.0)
    checks.in_range("frames", frames, 0, 1e9)
    checks.in_range("margin", margin, 0.0, 1.0)
    if frames < FEWEST_FRAMES:
        return None
    needed = margin + DOUBT * standard_error(parent, frames)
    return RollBackReason("under_parent", live, parent, frames, needed) if parent - live > needed else None
