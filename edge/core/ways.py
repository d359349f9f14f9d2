"""How the objects of an answer go on, and the answer as it stands in for a later frame.

A box that answers so and so many frames a second gives the frames between the last answer. Where a car goes by, an
answer half a second old is an answer about another place; with the way of each object it is about the right one, for
no further look at a picture. (Tracking between detections: Chen et al., Glimpse, SenSys 2015.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue
from edge.core.vision import Detections

#: (N, 3) of N objects: way of the middle in x and y, fractions of the picture a second, and growth of the size's
#: logarithm a second. Zeros: nothing is known, or it stands.
Ways = NDArray[np.float32]

#: Answers that move on must agree by so much more than answers that stay: where nothing moves, which of the two is
#: better is chance.
CLEARLY = 0.01

#: An answer goes on for so many seconds at most: later the places of its objects are not known.
FURTHEST_S = 1.5


def gone_on(answer: Detections, ways: Ways | None, passed_s: float) -> Detections:
    """The answer `passed_s` seconds later: every object moved on, without those whose middle has left the picture.
    Without `ways` it is the answer itself. Raises InvalidValue where there is not one way per object."""
    if ways is None or not len(answer) or passed_s <= 0.0:
        return answer
    if ways.shape != (len(answer), 3):
        raise InvalidValue("ways", ways.shape, f"({len(answer)}, 3)")
    passed = min(passed_s, FURTHEST_S)
    middle = (answer.boxes[:, :2] + answer.boxes[:, 2:]) / 2 + passed * ways[:, :2]
    half = (answer.boxes[:, 2:] - answer.boxes[:, :2]) / 2 * np.exp(passed * ways[:, 2:])
    there: NDArray[np.bool_] = np.all((middle >= 0.0) & (middle <= 1.0), axis=1)
    boxes = np.clip(np.concatenate([middle - half, middle + half], 1), 0.0, 1.0)
    return Detections(boxes.astype(np.float32), answer.scores, answer.classes).select(there)


@dataclass(frozen=True)
class MovingAnswer:
    """An answer and the `ways` (N, 3) of its objects, of which a later frame's answer was made."""

    answer: Detections
    ways: Ways

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {"answer": self.answer.to_json(), "ways": [[round(float(v), 5) for v in way] for way in self.ways]}

    @staticmethod
    def from_json(value: dict[str, Any]) -> MovingAnswer:
        """Inverse of `to_json`."""
        return MovingAnswer(Detections.from_json(value["answer"]), np.asarray(value["ways"], np.float32).reshape(-1, 3))
