"""True accuracy: questions to people and what follows from their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, OfCamera, Shown, answer
from edge.core.truth import QuestionKind, Source, Verdict


@answer
class TruthInterval:
    """A true F1 (or a difference of two) with its interval; `more_to_halve`: answers that would halve it."""

    value: Shown[float]
    low: Shown[float]
    high: Shown[float]
    more_to_halve: Shown[int | None]


@answer
class TruthEstimate:
    """True accuracy of student and teacher in one window (edge.core.truth.TrueAccuracy)."""

    student: Shown[TruthInterval]
    teacher: Shown[TruthInterval]
    difference: Shown[TruthInterval]
    confidence: Shown[float]
    method: Shown[str]
    frames: Shown[int]
    objects: Shown[float]
    answers: Shown[int]
    unsure: Shown[int]
    contradicted: Shown[int]
    questions: Shown[int]
    power: Shown[Mapping[str, float]]
    teacher_worse: Shown[bool]


@answer
class FindingAnswer:
    """Something the operator should know."""

    kind: Shown[Literal["teacher_worse", "people_contradict"]]
    camera: OfCamera[str]
    window: Shown[int]
    value: Shown[float]
    message: Shown[str]


@answer
class TruthOfWindow:
    """A window's estimate."""

    window: Shown[int]
    estimate: Shown[TruthEstimate]


@answer
class TruthOfCamera:
    """The newest estimate and what is asked. `detection` false: the camera classifies, nothing is asked; `asking`: the
    window asked about, with `answers` so far; `enough`: answers after which a newer window is begun."""

    camera: OfCamera[str]
    detection: Shown[bool]
    window: Shown[int | None]
    estimate: Shown[TruthEstimate | None]
    asking: Shown[int | None]
    answers: Shown[int]
    answers_needed: Shown[int]
    enough: Shown[int]
    findings: Shown[tuple[FindingAnswer, ...]]
    history: Shown[tuple[TruthOfWindow, ...]]


@answer
class QuestionAnswer:
    """A question about one candidate ("box") or the whole picture ("missed"). `others`: boxes of other candidates."""

    window: Shown[int]
    frame: Shown[int]
    utc_s: Shown[float]
    kind: Shown[Literal["box", "missed"]]
    candidate: Shown[int | None]
    class_: Annotated[Shown[str | None], Field(alias="class")]
    student_box: Shown[BoxAnswer | None]
    teacher_box: Shown[BoxAnswer | None]
    others: Shown[tuple[BoxAnswer, ...]]
    width: Shown[int]
    height: Shown[int]
    probability: Shown[float]
    stratum: Shown[str]


@answer
class QuestionsAnswer:
    """The next questions in the order of asking; `window` null: nothing can be asked now."""

    camera: OfCamera[str]
    window: Shown[int | None]
    classes: Shown[tuple[str, ...]]
    questions: Shown[tuple[QuestionAnswer, ...]]


@answer
class ImportedLabels:
    """The result of a label file: pictures read, answers added, pictures that were not complete, of no labelled frame,
    and answers that were there already."""

    pictures: Shown[int]
    answers: Shown[int]
    incomplete: Shown[int]
    unknown: Shown[int]
    there: Shown[int]


@answer
class CocoPictureOrigin:
    """The labelled frame of a picture in a COCO file. `complete`: all of its objects are there; `size_known` false: its
    size is taken as 1000 x 1000."""

    window: int
    frame: int
    complete: bool
    size_known: bool


@answer
class CocoPicture:
    """A picture in a COCO file; sizes in pixels."""

    id: int
    file_name: str
    width: int
    height: int
    magpie: CocoPictureOrigin


@answer
class CocoAnnotation:
    """An object in a picture: `bbox` is left, top, width, height in pixels."""

    id: int
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float
    iscrowd: int


@answer
class CocoCategory:
    """A class."""

    id: int
    name: str
    supercategory: str


@answer
class CocoInfo:
    """About a COCO file."""

    description: str


@answer
class MarkedObject:
    """An object that a person marked."""

    box: BoxAnswer | None
    class_: Annotated[str, Field(alias="class")]


@answer
class StoredAnswer:
    """The answer of the person `by` with what it was about. `missed`: how many objects no box fits; `width` and
    `height` of the picture in pixels (0: not known); `imported_by`: the person who brought it in with a file."""

    id: int
    camera: str
    window: int
    frame: int
    kind: QuestionKind
    candidate: int | None
    verdict: Verdict
    missed: int | None
    marked: tuple[MarkedObject, ...]
    class_: Annotated[str | None, Field(alias="class")]
    student_box: BoxAnswer | None
    teacher_box: BoxAnswer | None
    width: int
    height: int
    by: str
    imported_by: str | None
    utc_s: float
    source: Source


@answer
class CocoOrigin:
    """The answers that a COCO file was made from, so that they can be imported as they were."""

    camera: str
    answers: tuple[StoredAnswer, ...]


@answer
class CocoFile:
    """People's labels as a COCO detection file."""

    info: CocoInfo
    images: tuple[CocoPicture, ...]
    annotations: tuple[CocoAnnotation, ...]
    categories: tuple[CocoCategory, ...]
    magpie: CocoOrigin
