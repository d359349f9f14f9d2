"""How far two answers say the same: the accuracy metric of the task with one answer as the truth. Needs no teacher."""

from __future__ import annotations

from edge.core.accuracy import count, named_right
from edge.core.vision import Detections, Task


def agreement(task: Task, answer: Detections, fresh: Detections) -> float:
    """[0, 1]: F1 at IoU 0.5 (detection), or the share of the fresh answer's objects that `answer` names the same
    (classification). Two empty answers agree."""
    if task == "detection":
        return count(answer, fresh, 0.5).f1
    return named_right(answer, fresh)[0] / len(fresh) if len(fresh) else 1.0
