"""How far two answers say the same: the accuracy metric of the task with one answer as the truth. Needs no teacher."""

from __future__ import annotations

from edge.core.accuracy import count, named_right
from edge.core.vision import Detections, Task


def agreement_counts(task: Task, answer: Detections, fresh: Detections) -> tuple[int, int]:
    """(agreeing, all) objects, to be added up over frames before dividing: frames without objects do not count, as
    they do not in the accuracy. Detection: the two parts of F1 at IoU 0.5; classification: named alike, and seen."""
    if task == "detection":
        c = count(answer, fresh, 0.5)
        return 2 * c.right, 2 * c.right + c.wrong + c.missed
    return named_right(answer, fresh)[0], len(fresh)


def agreement(task: Task, answer: Detections, fresh: Detections) -> float:
    """[0, 1]: F1 at IoU 0.5 (detection), or the share of the fresh answer's objects that `answer` names the same
    (classification). Two empty answers agree."""
    right, total = agreement_counts(task, answer, fresh)
    return right / total if total else 1.0
