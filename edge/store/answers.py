"""Answers of people about labelled pictures: rows are added, never changed and never deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from edge.core import checks
from edge.core.truth import Answer, FrameKey, Marked, Question
from edge.core.zones import Box
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import MAX_PAGE, Part, page, text

_c = t.answers.c
_MAX_PIXELS = 100_000


@dataclass(frozen=True)
class AnswerRecord:
    """An answer with what it was about, so that it can be read without the picture and its manifest.

    `classes` name what `answer.marked` refers to by index. `width`, `height`: of the picture in pixels (0: not known).
    `class_name` and the boxes are of the candidate that a box question was about. `id` is 0 before it is kept.
    """

    camera: str
    answer: Answer
    classes: tuple[str, ...]
    class_name: str | None = None
    student_box: Box | None = None
    teacher_box: Box | None = None
    width: int = 0
    height: int = 0
    id: int = 0

    def __post_init__(self) -> None:
        text("answer.camera", self.camera)
        text("answer.by", self.answer.by)
        if self.answer.imported_by is not None:
            text("answer.imported_by", self.answer.imported_by)
        checks.in_range("answer.width", self.width, 0, _MAX_PIXELS)
        checks.in_range("answer.height", self.height, 0, _MAX_PIXELS)
        for marked in self.answer.marked:
            checks.in_range("answer.marked.class_index", marked.class_index, 0, len(self.classes) - 1)

    def to_json(self) -> dict[str, Any]:
        """For REST and exports."""
        answer, question = self.answer, self.answer.question
        return {
            "id": self.id, "camera": self.camera, "window": question.key.window, "frame": question.key.frame,
            "kind": question.kind, "candidate": question.candidate, "verdict": answer.verdict,
            "missed": answer.missed, "marked": _marked(self), "class": self.class_name,
            "student_box": _list(self.student_box), "teacher_box": _list(self.teacher_box), "width": self.width,
            "height": self.height, "by": answer.by, "imported_by": answer.imported_by, "utc_s": answer.utc_s,
            "source": answer.source,
        }  # fmt: skip


class AnswersPart(Part):
    """A second answer to a question, by any person, is a second row."""

    def all_answers(self, camera: str) -> tuple[AnswerRecord, ...]:
        """Every answer about a camera's pictures, in the order in which they came. Raises Unavailable."""
        found: list[AnswerRecord] = []
        while len(some := self.page(camera, after=found[-1].id if found else 0)) == MAX_PAGE:
            found += some
        return (*found, *some)

    @retried
    def add_answers(self, records: Sequence[AnswerRecord]) -> tuple[int, ...]:
        """Keep answers, all or none; their ids. Raises InvalidValue, DiskFull, Unavailable, StoreError."""
        ids = []
        with self.database.write() as c:
            for record in records:
                row = record.to_json()
                del row["id"]
                row |= {"class_name": row.pop("class"), "answered_by": row.pop("by"), "at_utc_s": row.pop("utc_s")}
                done = c.execute(sa.insert(t.answers).values(**row))
                key = done.inserted_primary_key
                assert key is not None
                ids.append(int(key[0]))
        return tuple(ids)

    @retried
    def page(
        self, camera: str | None = None, window: int | None = None, after: int = 0, limit: int = MAX_PAGE
    ) -> tuple[AnswerRecord, ...]:
        """Answers in the order in which they came, those after the id `after`, without those that cannot be read.
        Raises InvalidValue, Unavailable."""
        query = sa.select(t.answers).order_by(_c.id)
        if camera is not None:
            query = query.where(_c.camera == camera)
        if window is not None:
            query = query.where(_c.window == window)
        with self.database.read() as c:

            def fetch(wanted: int, last: int | None) -> Sequence[sa.Row[Any]]:
                return c.execute(query.where(_c.id > last).limit(wanted)).all()

            return tuple(
                self.database.unreadable.page("answer", page(limit), after, fetch, _record, lambda row: int(row.id))
            )

    @retried
    def last_answers(self) -> dict[str, int]:
        """Of each camera with answers the id of the last one."""
        query = sa.select(_c.camera, sa.func.max(_c.id)).group_by(_c.camera)
        with self.database.read() as c:
            return {str(camera): int(number) for camera, number in c.execute(query)}


def _record(row: Any) -> AnswerRecord:
    names = tuple(dict.fromkeys(str(m["class"]) for m in row.marked))
    marked = tuple(Marked(_box(m["box"]), names.index(str(m["class"]))) for m in row.marked)
    question = Question(FrameKey(int(row.window), int(row.frame)), row.kind, row.candidate)
    answer = Answer(
        question, row.verdict, row.answered_by, float(row.at_utc_s), row.missed, marked, row.source, row.imported_by
    )
    return AnswerRecord(
        row.camera, answer, names, row.class_name, None if row.student_box is None else _box(row.student_box),
        None if row.teacher_box is None else _box(row.teacher_box), row.width, row.height, int(row.id),
    )  # fmt: skip


def _marked(record: AnswerRecord) -> list[dict[str, Any]]:
    return [{"box": _list(m.box), "class": record.classes[m.class_index]} for m in record.answer.marked]


def _box(value: Sequence[float]) -> Box:
    x1, y1, x2, y2 = (float(v) for v in value)
    return (x1, y1, x2, y2)


def _list(box: Box | None) -> list[float] | None:
    return None if box is None else [round(v, 5) for v in box]
