"""How true the labels are: questions to people, their answers, true accuracy, label files."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Path, Query, Response

from edge.appliance.answers.truth import CocoFile, ImportedLabels, QuestionsAnswer, TruthOfCamera
from edge.appliance.truth_service import TruthService
from web import limits
from web.examples import truth as examples
from web.parts import Body, Caller, CameraId, Service, Who, WindowNumber, example, seen, takes
from web.rest_router import JPEG, rest_router
from web.roles import OPERATOR, VIEWER, Row

router = rest_router("cameras", "/cameras/{camera}/truth")
ROLES: Final = {
    "GET /cameras/{camera}/truth": VIEWER,
    "GET /cameras/{camera}/truth/questions": OPERATOR,
    "GET /cameras/{camera}/truth/pictures/{window}/{frame}.jpg": VIEWER,
    "POST /cameras/{camera}/truth/answers": Row("operator", audit="answered questions"),
    "GET /cameras/{camera}/truth/export": VIEWER,
    "POST /cameras/{camera}/truth/import": Row("operator", audit="imported labels"),
}

_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "a COCO file, or a ZIP archive of YOLO text files",
        "model": CocoFile,
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


async def _truth(service: Service) -> TruthService:
    return service.truth


Truth = Annotated[TruthService, Depends(_truth)]


@router.get("", responses=example(examples.TRUTH))
async def estimate(camera: CameraId, caller: Caller, service: Truth) -> TruthOfCamera:
    """True accuracy (F1 at IoU 0.5 against what people see) of student and teacher in the newest window with enough
    answers, each with its 90 % interval, and findings: "teacher_worse", "people_contradict"."""
    return limits.whole(caller, await asyncio.to_thread(service.estimate, seen(caller, camera)))


@router.get("/questions", responses=example(examples.QUESTIONS))
async def questions(
    camera: CameraId,
    caller: Caller,
    service: Truth,
    by: Who,
    limit: Annotated[int, Query(ge=1, le=100, description="how many at most")] = 10,
    second: Annotated[bool, Query(description="those that others have answered, for a second opinion")] = False,
) -> QuestionsAnswer:
    """The next questions in the order of asking. Answer them in this order: `probability` holds only then."""
    found = await asyncio.to_thread(service.questions, seen(caller, camera), limit, by, second)
    return limits.whole(caller, found)


@router.get("/pictures/{window}/{frame}.jpg", response_class=Response, responses=JPEG)
async def picture(
    camera: CameraId,
    window: WindowNumber,
    frame: Annotated[int, Path(ge=0, le=2**53, description="number of a labelled frame", examples=[1834])],
    caller: Caller,
    service: Truth,
) -> Response:
    """A picture that a question is about. 404 when retention has deleted it."""
    found = await asyncio.to_thread(service.picture, seen(caller, camera), window, frame)
    return Response(found, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


@router.post("/answers", responses=example(examples.TRUTH), openapi_extra=takes("TruthAnswers", examples.ANSWERS))
async def answer(camera: CameraId, body: Body, caller: Caller, service: Truth, by: Who) -> TruthOfCamera:
    """Keep answers, all or none; the estimate that follows. An answer is never changed: a second one to the same
    question is kept beside it, and of each person the latest counts."""
    return limits.whole(caller, await asyncio.to_thread(service.answer, seen(caller, camera), body, by))


@router.get("/export", response_class=Response, responses=_FILE)
async def export(
    camera: CameraId,
    caller: Caller,
    service: Truth,
    format: Annotated[Literal["coco", "yolo"], Query(description="of the file")] = "coco",
) -> Response:
    """People's labels of the pictures, as a label file."""
    found = await asyncio.to_thread(service.export, seen(caller, camera), format)
    return Response(
        found.content,
        media_type=found.media_type,
        headers={"content-disposition": f'attachment; filename="{found.name}"', "cache-control": "no-store"},
    )


@router.post("/import", responses=example(examples.IMPORTED), openapi_extra=takes("TruthImport", examples.LABEL_FILE))
async def import_labels(camera: CameraId, body: Body, caller: Caller, service: Truth, by: Who) -> ImportedLabels:
    """Add the labels of a COCO or YOLO file as answers. Pictures that the file does not call complete answer nothing,
    unless `complete` says that all are."""
    found = await asyncio.to_thread(service.import_labels, seen(caller, camera), body, by)
    return limits.whole(caller, found)
