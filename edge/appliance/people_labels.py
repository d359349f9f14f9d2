"""Labels of pictures that people agree on, from their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edge.core.truth import FrameKey, Question
from edge.core.zones import Box
from edge.store.answers import AnswerRecord
from edge.upkeep.label_files import PictureLabels
from scheduler.truth.people import agreed


def pictures_of(records: Iterable[AnswerRecord], candidates: Mapping[FrameKey, int]) -> list[PictureLabels]:
    """Every picture with an answer. Of a box that fits, the teacher's is taken where it fits, else the student's.

    `candidates`: how many boxes each frame has; a picture is complete when people agree about all of them and every
    object that no model saw was marked. Where the number is not known the picture is not complete.
    """
    given = list(records)
    together = agreed(r.answer for r in given)
    by_frame: dict[FrameKey, dict[Question, AnswerRecord]] = {}
    for record in given:
        said, answer = together[record.answer.question], record.answer
        mine = by_frame.setdefault(answer.question.key, {})
        if (answer.verdict, answer.missed) == (said.verdict, said.missed):
            before = mine.get(answer.question)
            if before is None or len(before.answer.marked) <= len(answer.marked):
                mine[answer.question] = record
    out = []
    for key, found in sorted(by_frame.items(), key=lambda item: (item[0].window, item[0].frame)):
        objects: list[tuple[Box, str]] = []
        for record in found.values():
            objects += _objects(record)
        whole = found.get(Question(key, "missed"))
        marked_all = whole is not None and whole.answer.missed == len(whole.answer.marked)
        sure = sum(q.kind == "box" and together[q].verdict != "unsure" for q in found)
        size = next(((r.width, r.height) for r in given if r.answer.question.key == key and r.width), (0, 0))
        out.append(PictureLabels(key, tuple(objects), marked_all and sure == candidates.get(key), *size))
    return out


def _objects(record: AnswerRecord) -> list[tuple[Box, str]]:
    verdict = record.answer.verdict
    if verdict == "counted":
        return [(m.box, record.classes[m.class_index]) for m in record.answer.marked]
    teacher = record.teacher_box if verdict in ("yes", "teacher") else None
    box = teacher or (record.student_box if verdict in ("yes", "student") else None)
    return [] if box is None or record.class_name is None else [(box, record.class_name)]
