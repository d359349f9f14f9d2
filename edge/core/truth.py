"""How true the labels are: questions to people about pictures, their answers, and the result for student and teacher.

Truth is what a perfect person would mark. A detector's true accuracy is its F1 at IoU 0.5 (edge.core.accuracy) against
truth instead of against the teacher's labels. Boxes are normalised xyxy in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from edge.core import checks
from edge.core.accuracy import match
from edge.core.errors import InvalidValue
from edge.core.labels import LabelledFrame
from edge.core.vision import Detections
from edge.core.zones import Box

QuestionKind = Literal["box", "missed"]
#: To a "box" question: "yes" (an object, and every box shown fits it), "no" (none fits an object of the class),
#: "student" or "teacher" (of two boxes, only that one fits), "unsure". To a "missed" question: "counted" or "unsure".
Verdict = Literal["yes", "no", "student", "teacher", "counted", "unsure"]
Source = Literal["page", "import"]
#: The finder of a candidate: the student and the teacher, or one of them only.
Group = Literal["both", "student", "teacher"]
GROUPS: tuple[Group, ...] = get_args(Group)
KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)
SOURCES: tuple[Source, ...] = get_args(Source)
VERDICTS: Mapping[QuestionKind, tuple[Verdict, ...]] = {
    "box": ("yes", "no", "student", "teacher", "unsure"),
    "missed": ("counted", "unsure"),
}
#: A student's and a teacher's box of one class are about one object from this overlap on. It is lower than the 0.5 at
#: which accuracy is counted: two boxes may both fit an object and fit each other less well.
SAME_OBJECT_IOU = 0.3
#: A person can report at most this many missed objects of one picture.
MAX_MISSED = 99


@dataclass(frozen=True)
class Candidate:
    """A box of the student's, a box of the teacher's, or one of each that are about the same object.

    Scores are 0 where there is no box. `index` numbers the candidates of a frame, best first.
    """

    index: int
    class_index: int
    student: Box | None
    teacher: Box | None
    student_score: float = 0.0
    teacher_score: float = 0.0

    def __post_init__(self) -> None:
        if self.student is None and self.teacher is None:
            raise InvalidValue("candidate", None, "a box of the student's or of the teacher's")

    @property
    def group(self) -> Group:
        if self.student is not None and self.teacher is not None:
            return "both"
        return "student" if self.student is not None else "teacher"


@dataclass(frozen=True)
class FrameKey:
    """A labelled frame of a camera."""

    window: int
    frame: int


@dataclass(frozen=True)
class AskableFrame:
    """A labelled picture as questions are made of it. `ambiguous`: objects that the teacher was not sure of."""

    key: FrameKey
    candidates: tuple[Candidate, ...]
    ambiguous: int = 0


@dataclass(frozen=True)
class Question:
    """Of one candidate ("box": is there an object that the box fits?), or of a whole picture ("missed": which objects
    does no box fit?; `candidate` is None)."""

    key: FrameKey
    kind: QuestionKind
    candidate: int | None = None

    def __post_init__(self) -> None:
        checks.one_of("question.kind", self.kind, KINDS)
        if (self.candidate is None) != (self.kind == "missed"):
            raise InvalidValue("question.candidate", self.candidate, "a number for a box question, else nothing")


@dataclass(frozen=True)
class NextQuestion:
    """A question to ask. `probability`: the part of its stratum (`size` questions) that will have been asked then, so
    that 1/probability is the weight of its answer. `stratum`: a Group, or "missed"."""

    question: Question
    stratum: str
    size: int
    probability: float


@dataclass(frozen=True)
class Marked:
    """An object that a person marked: a box and an index into the camera's classes."""

    box: Box
    class_index: int

    def __post_init__(self) -> None:
        box_ok = len(self.box) == 4 and all(0.0 <= v <= 1.0 for v in self.box)
        if not box_ok or self.box[0] >= self.box[2] or self.box[1] >= self.box[3]:
            raise InvalidValue("marked.box", self.box, "x1 < x2, y1 < y2, fractions of the picture from 0 to 1")


@dataclass(frozen=True)
class Answer:
    """The answer of the person `by`. `missed`: how many objects no box fits (of a "counted" verdict); `marked` may
    show them all or some. `imported_by`: the person who brought it in with a file that names its author. The latest
    answer of a person to a question is the one that counts; one that was brought in counts only where there is none of
    the person's own."""

    question: Question
    verdict: Verdict
    by: str
    utc_s: float
    missed: int | None = None
    marked: tuple[Marked, ...] = ()
    source: Source = "page"
    imported_by: str | None = None

    def __post_init__(self) -> None:
        kind = self.question.kind
        checks.one_of("answer.verdict", self.verdict, VERDICTS[kind])
        checks.one_of("answer.source", self.source, SOURCES)
        if (self.missed is None) == (self.verdict == "counted"):
            raise InvalidValue("answer.missed", self.missed, "a number with the verdict counted, and only then")
        if self.missed is not None:
            whole = isinstance(self.missed, int) and not isinstance(self.missed, bool)
            if not whole or not len(self.marked) <= self.missed <= MAX_MISSED:
                allowed = f"a whole number from {len(self.marked)} (the objects marked) to {MAX_MISSED}"
                raise InvalidValue("answer.missed", self.missed, allowed)
        elif self.marked:
            raise InvalidValue("answer.marked", len(self.marked), "no objects without the verdict counted")


@dataclass(frozen=True)
class Agreed:
    """The people's joint answer to a question: a majority of the latest answer of each. A tie is "unsure".

    `people`: how many answered; `contradicted`: they do not all say the same.
    """

    verdict: Verdict
    missed: int | None
    people: int
    contradicted: bool


@dataclass(frozen=True)
class Interval:
    """An estimate of an accuracy (or of a difference of two), and the interval that covers the truth in `confidence`
    of such cases. `more_to_halve`: answers more, chosen as the questions are, after which it is half as wide; None
    where the pictures at hand do not hold so many questions."""

    value: float
    low: float
    high: float
    more_to_halve: int | None = None

    @property
    def width(self) -> float:
        return self.high - self.low

    def to_json(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "more_to_halve": self.more_to_halve,
        }


FindingKind = Literal["teacher_worse", "people_contradict"]


@dataclass(frozen=True)
class Finding:
    """Something the operator should know. "teacher_worse": `value` is by how much (0-1) the student's true F1 is above
    its teacher's; "people_contradict": `value` questions were answered differently by different people."""

    kind: FindingKind
    camera: str
    window: int
    value: float

    @property
    def message(self) -> str:
        """For people, beside the camera's name."""
        if self.kind == "teacher_worse":
            return (
                f"the teacher is worse than its student: people's answers put it"
                f" {100 * self.value:.0f} points below (window {self.window})"
            )
        number = int(self.value)
        noun = "question" if number == 1 else "questions"
        return f"people contradict each other on {number} {noun} (window {self.window})"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "camera": self.camera, "window": self.window, "value": round(self.value, 4),
            "message": self.message,
        }  # fmt: skip


@dataclass(frozen=True)
class TrueAccuracy:
    """True F1 at IoU 0.5 of student and teacher over the labelled pictures of `frames` frames.

    `difference` is the student's minus the teacher's. `answers` counts questions with an answer that could be used,
    `unsure` those without (unsure, or people at a tie), `contradicted` those that people answered differently.
    `power`: the weight (lambda) that the predictions got, by stratum; 0: answers alone.
    """

    student: Interval
    teacher: Interval
    difference: Interval
    confidence: float
    method: str
    frames: int
    objects: float
    answers: int
    unsure: int
    contradicted: int
    questions: int
    power: Mapping[str, float] = field(default_factory=dict)

    @property
    def teacher_worse(self) -> bool:
        """The teacher is worse than its student, beyond the interval."""
        return self.difference.low > 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "student": self.student.to_json(),
            "teacher": self.teacher.to_json(),
            "difference": self.difference.to_json(),
            "confidence": self.confidence,
            "method": self.method,
            "frames": self.frames,
            "objects": round(self.objects, 1),
            "answers": self.answers,
            "unsure": self.unsure,
            "contradicted": self.contradicted,
            "questions": self.questions,
            "power": {k: round(v, 3) for k, v in self.power.items()},
            "teacher_worse": self.teacher_worse,
        }


def askable(frame: LabelledFrame) -> AskableFrame:
    """The candidates of a labelled frame: boxes of student and teacher that are about one object are one candidate."""
    return candidates_of(
        FrameKey(frame.frame.window, frame.frame.number), frame.frame.answer, frame.labels, frame.ambiguous
    )


def candidates_of(key: FrameKey, student: Detections, teacher: Detections, ambiguous: int = 0) -> AskableFrame:
    """Candidates of a picture, best score first (ties in the order given)."""
    owner = match(student, teacher, SAME_OBJECT_IOU)
    free = np.ones(len(teacher), bool)
    free[owner[owner >= 0]] = False
    pairs = [(n, int(label)) for n, label in enumerate(owner)] + [(-1, int(label)) for label in np.flatnonzero(free)]

    def best(pair: tuple[int, int]) -> float:
        own = float(student.scores[pair[0]]) if pair[0] >= 0 else 0.0
        return max(own, float(teacher.scores[pair[1]]) if pair[1] >= 0 else 0.0)

    found = []
    for index, (s, t) in enumerate(sorted(pairs, key=best, reverse=True)):
        found.append(
            Candidate(
                index,
                int(student.classes[s]) if s >= 0 else int(teacher.classes[t]),
                box_of(student, s),
                box_of(teacher, t),
                float(student.scores[s]) if s >= 0 else 0.0,
                float(teacher.scores[t]) if t >= 0 else 0.0,
            )
        )
    return AskableFrame(key, tuple(found), ambiguous)


def box_of(found: Detections, index: int) -> Box | None:
    """A box as four numbers; None for the index -1."""
    if index < 0:
        return None
    x1, y1, x2, y2 = (float(v) for v in found.boxes[index])
    return (x1, y1, x2, y2)


def fitting(group: Group, student: bool, teacher: bool) -> Verdict:
    """The verdict on a candidate of which the student's box fits an object, the teacher's box does."""
    if not student and not teacher:
        return "no"
    if group != "both" or (student and teacher):
        return "yes"
    return "student" if student else "teacher"
