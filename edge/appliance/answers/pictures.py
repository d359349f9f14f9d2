"""Pictures that the teacher labelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, Shown, answer
from edge.core.disagreements import Verdict


@answer
class JudgedObject:
    """An object of student or teacher. `verdict`: "extra": only the student saw it, "missed": only the teacher did,
    "class": they call it differently."""

    box: Shown[BoxAnswer]
    class_: Annotated[Shown[str], Field(alias="class")]
    score: Shown[float]
    verdict: Shown[Verdict]


@answer
class DisagreementAnswer:
    """A labelled picture about which student and teacher differ. The answer was `answer_age_s` old; sizes in pixels."""

    window: Shown[int]
    frame: Shown[int]
    utc_s: Shown[float]
    model_version: Shown[str]
    answer_age_s: Shown[float]
    width: Shown[int]
    height: Shown[int]
    student: Shown[tuple[JudgedObject, ...]]
    teacher: Shown[tuple[JudgedObject, ...]]
    kinds: Shown[tuple[Verdict, ...]]


@answer
class WindowClasses:
    """Objects per class that teacher and student saw in a window's labelled pictures."""

    window: Shown[int]
    start_utc_s: Shown[float | None]
    frames: Shown[int]
    teacher: Shown[Mapping[str, int]]
    student: Shown[Mapping[str, int]]
