"""Bodies of true accuracy for OpenAPI; edge.appliance.truth checks what came."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from edge.settings import Settings


class TruthMarked(Settings):
    """An object that a person marked."""

    box: tuple[float, float, float, float] = Field(description="x1, y1, x2, y2 as fractions of the picture")
    class_: str = Field(alias="class", min_length=1, max_length=60)


class TruthAnswer(Settings):
    """An answer to one question."""

    window: int = Field(ge=0, le=2**53)
    frame: int = Field(ge=0, le=2**53)
    kind: Literal["box", "missed"]
    candidate: int | None = Field(None, ge=0, description="of a box question")
    verdict: Literal["yes", "no", "student", "teacher", "counted", "unsure"] = Field(
        description="student, teacher: of two boxes only that one fits; counted: to a missed question"
    )
    missed: int | None = Field(None, ge=0, le=99, description="objects that no box fits; with counted")
    marked: list[TruthMarked] = Field(default_factory=list, description="where they are, or some of them")


class TruthAnswers(Settings):
    """Answers to questions, kept all or none."""

    answers: list[TruthAnswer] = Field(min_length=1, max_length=100)


class TruthImport(Settings):
    """A label file."""

    any_text: ClassVar[frozenset[str]] = frozenset({"document", "files"})
    format: Literal["coco", "yolo"]
    document: dict[str, Any] | None = Field(None, description="the COCO file")
    files: dict[str, str] | None = Field(None, description="the YOLO texts by file name, classes.txt among them")
    complete: bool = Field(False, description="every picture holds all the objects that there are")


ALL: tuple[type[Settings], ...] = (TruthAnswers, TruthImport)
