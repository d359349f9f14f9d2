"""The answers that another student would have given at the instants at which the one in force did."""

from __future__ import annotations

import numpy as np

from edge.core.accuracy import box_iou
from edge.core.labels import SampledFrame
from edge.core.vision import Detections
from edge.core.ways import gone_on

#: An object of another answer goes as the one that it overlaps so much, of those whose way is known.
_SAME = 0.3


def stood_in(answer: Detections, frame: SampledFrame) -> Detections:
    """The other student's `answer` about the picture that the frame's own answer was about, as it would have stood in
    for the frame: each object goes on as the own answer's object that it overlaps most."""
    going = frame.going
    if going is None or not len(going.answer) or not len(answer):
        return answer
    overlap = box_iou(answer.boxes, going.answer.boxes)
    ways = np.where(overlap.max(1, keepdims=True) >= _SAME, going.ways[overlap.argmax(1)], 0.0)
    return gone_on(answer, ways.astype(np.float32), frame.answer_age_s)
