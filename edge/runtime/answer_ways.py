"""How the objects of one camera's answers go on: the tracker's word for it, kept from answer to answer."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.vision import Detections
from edge.core.ways import Ways
from edge.tracking.tracker import TrackerState
from edge.tracking.ways import WaysState, with_answer


class AnswerWays:
    """Of one camera, whose answers name `classes` by their place. `trusted`: ways are given from the first answer on,
    also where answers that stay were nearer to the next ones."""

    def __init__(self, camera: str, classes: Sequence[str], trusted: bool = False) -> None:
        self._classes, self._trusted = classes, trusted
        self._state = WaysState(TrackerState(camera))

    def after(self, answer: Detections, at_s: float) -> Ways | None:
        """The ways (N, 3) of the objects of a fresh answer about a picture of `at_s` (monotonic seconds); None where
        answers that stay were nearer to the next ones lately."""
        before = self._state
        self._state = with_answer(before, answer, self._classes, at_s)
        # An answer that is not newer than the one before is of other objects.
        if self._state is before:
            return None
        return self._state.ways if self._trusted or self._state.right else None
