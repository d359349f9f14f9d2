"""The fleet that this box belongs to: boxes, the head, who answers which camera; orders; all boxes as one; the jobs
that its head keeps."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Response

from edge.appliance.all_boxes_service import AllBoxesService
from edge.appliance.answers.fleet import FleetAnswer
from edge.appliance.answers.fleet_jobs import FleetJobAnswer, FleetJobsAnswer
from edge.appliance.answers.fleet_wide import (
    BoxFoundAnswer,
    FleetAlarmsAnswer,
    FleetAuditAnswer,
    FleetBoxesAnswer,
    FleetEventsAnswer,
    FleetObjectsAnswer,
    FleetOrderAnswer,
    FleetWallAnswer,
)
from edge.appliance.fleet_cursor import MOST_TEXT
from edge.core.fleet_questions import RowFilter
from edge.settings import parse
from web import limits
from web.examples import fleet as examples
from web.fleet_bodies import FleetOrderBody, FleetQuestionBody, FleetRecord
from web.parts import Body, Caller, Service, Who, example, seen, takes
from web.rest_router import JPEG, rest_router
from web.roles import EVERY_ADMIN, VIEWER, Row

router = rest_router("fleet", "/fleet")
ROLES: Final = {
    "GET /fleet": VIEWER,
    "POST /fleet/orders": EVERY_ADMIN,
    "GET /fleet/wall": VIEWER,
    "GET /fleet/boxes": VIEWER,
    "GET /fleet/boxes/{box}/cameras/{camera}/picture.jpg": VIEWER,
    "GET /fleet/alarms": VIEWER,
    "GET /fleet/objects": VIEWER,
    "GET /fleet/events": VIEWER,
    "GET /fleet/audit": EVERY_ADMIN,
    # Of this box's agent, whose token is an administrator's.
    "POST /fleet/answers": EVERY_ADMIN,
    "POST /fleet/records": EVERY_ADMIN,
    "GET /fleet/jobs": Row("viewer", every_camera=True),
    "POST /fleet/jobs": Row("operator", every_camera=True, audit="submitted"),
    "DELETE /fleet/jobs/{job}": Row("operator", every_camera=True, audit="withdrew"),
}

_ID = r"^[a-z0-9][a-z0-9_-]{0,62}$"


async def _all_boxes(service: Service) -> AllBoxesService:
    return service.all_boxes


AllBoxes = Annotated[AllBoxesService, Depends(_all_boxes)]
BoxName = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", examples=["b2"])]
JobId = Annotated[str, Path(description="id of a job", max_length=100, examples=["labels-north"])]
AnyCamera = Annotated[str, Path(max_length=63, pattern=_ID, examples=["north"])]
Limit = Annotated[int, Query(ge=1, le=150, description="how many at most")]
Cursor = Annotated[str, Query(max_length=MOST_TEXT, description="`next` of the page before; empty: the first page")]
OfCamera = Annotated[str | None, Query(pattern=_ID, description="only of this camera")]
Active = Annotated[bool | None, Query(description="only those that go on, or that have ended")]


@router.get("", responses=example(examples.FLEET))
async def fleet(service: Service, caller: Caller) -> FleetAnswer:
    """The fleet as this box's agent reported it last."""
    return limits.whole(caller, await asyncio.to_thread(service.fleet.fleet))


@router.post(
    "/orders",
    responses=example(examples.ORDERED),
    openapi_extra=takes("FleetOrderBody", {"kind": "move", "camera": "north", "box": "b2"}),
)
async def give_order(body: Body, service: Service, by: Who) -> FleetOrderAnswer:
    """Give the fleet an order, on any box: "move" a camera, "drain" or "undrain" a box, "revoke" one, or "invite" a new
    one (the answer has the join code). The audits of this box and of the head record it. 409 and 503 give the reason
    why it is not carried out."""
    return await service.fleet.order(parse(FleetOrderBody, body).order(), by)


@router.get("/wall", responses=example(examples.WALL))
async def wall(service: AllBoxes, caller: Caller) -> FleetWallAnswer:
    """The cameras of all boxes, as each box reports them now. A box that does not answer in time is named with its age,
    and its cameras are shown as the fleet's list has them."""
    return limits.whole(caller, await service.wall(caller))


@router.get("/boxes", responses=example(examples.BOXES))
async def boxes(service: AllBoxes, caller: Caller) -> FleetBoxesAnswer:
    """How the boxes are, as each reports itself now: its version, the shares of its device, its lending. A box that
    does not answer in time is named with its age."""
    return limits.whole(caller, await service.boxes(caller))


@router.get("/boxes/{box}/cameras/{camera}/picture.jpg", response_class=Response, responses=JPEG)
async def fleet_picture(
    box: BoxName,
    camera: AnyCamera,
    service: AllBoxes,
    caller: Caller,
    width: Annotated[int, Query(ge=16, le=1920, description="pixels")] = 640,
) -> Response:
    """The newest picture of a camera of any box."""
    picture = await service.picture(caller, box, seen(caller, camera), width)
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "no-store"})


@router.get("/alarms", responses=example(examples.ALARMS))
async def fleet_alarms(
    service: AllBoxes,
    caller: Caller,
    limit: Limit = 100,
    cursor: Cursor = "",
    camera: OfCamera = None,
    rule: Annotated[str | None, Query(pattern=_ID, description="only of this rule")] = None,
    active: Active = None,
) -> FleetAlarmsAnswer:
    """Alarms of all boxes, newest first. Page on with `cursor` = `next`. An alarm that two boxes raised while both
    answered its camera is one row (`also_on`)."""
    rows = RowFilter(limit, camera=_seen(caller, camera), rule=rule or "", active=active)
    return limits.whole(caller, await service.alarms(caller, rows, cursor))


@router.get("/objects", responses=example(examples.OBJECTS))
async def fleet_objects(
    service: AllBoxes,
    caller: Caller,
    limit: Limit = 100,
    cursor: Cursor = "",
    camera: OfCamera = None,
    of_class: Annotated[str | None, Query(alias="class", min_length=1, max_length=60)] = None,
    active: Active = None,
) -> FleetObjectsAnswer:
    """Objects that any box followed, newest first. Page on with `cursor` = `next`."""
    rows = RowFilter(limit, camera=_seen(caller, camera), of_class=of_class or "", active=active)
    return limits.whole(caller, await service.objects(caller, rows, cursor))


@router.get("/events", responses=example(examples.EVENTS))
async def fleet_events(
    service: AllBoxes,
    caller: Caller,
    limit: Limit = 100,
    cursor: Cursor = "",
    camera: OfCamera = None,
    kind: Annotated[str | None, Query(pattern=r"^[a-z0-9_.-]{1,100}$", examples=["model.promoted"])] = None,
) -> FleetEventsAnswer:
    """The journals of all boxes, newest first. Page on with `cursor` = `next`."""
    rows = RowFilter(limit, camera=_seen(caller, camera), entry=kind or "")
    return limits.whole(caller, await service.events(caller, rows, cursor))


@router.get("/audit", responses=example(examples.AUDIT))
async def fleet_audit(service: AllBoxes, caller: Caller, limit: Limit = 100, cursor: Cursor = "") -> FleetAuditAnswer:
    """Changes on all boxes, newest first. Page on with `cursor` = `next`."""
    return await service.audit(caller, RowFilter(limit), cursor)


@router.post("/answers", responses=example(examples.FOUND), openapi_extra=takes("FleetQuestionBody", examples.QUESTION))
async def answer(body: Body, service: AllBoxes) -> BoxFoundAnswer:
    """The rows of this box for a user of another one; asked by this box's agent. The user's role and limits are applied
    here."""
    return await service.answer(parse(FleetQuestionBody, body).question())


@router.post("/records", status_code=204, response_class=Response, openapi_extra=takes("FleetRecord", examples.RECORD))
async def record(body: Body, service: Service) -> None:
    """Record an order to the fleet that was carried out; this box's agent sends it."""
    asked = parse(FleetRecord, body)
    service.fleet.record(asked.order(), asked.given_on)


@router.get("/jobs", responses=example(examples.JOBS))
async def fleet_jobs(service: Service) -> FleetJobsAnswer:
    """All jobs that the head keeps, what waits and why, and the tenants' shares; asked for by this box's agent."""
    return await service.fleet_jobs.jobs()


@router.post(
    "/jobs",
    status_code=201,
    responses={201: example(examples.JOB, "the job as the head keeps it")[200]},
    openapi_extra=takes("FleetJobBody", examples.JOB_GIVEN),
)
async def submit_job(body: Body, service: Service, by: Who, response: Response) -> FleetJobAnswer:
    """Give the fleet a job. The head keeps it when this answers; it may be refused later, if it can never be placed."""
    job = await service.fleet_jobs.submit(body, by)
    response.headers["location"] = f"/api/v1/fleet/jobs/{job.id}"
    return job


@router.delete("/jobs/{job}", status_code=204, response_class=Response)
async def withdraw_job(job: JobId, service: Service, by: Who) -> None:
    """Withdraw a job: none of its tasks begins any more, and those that run are stopped."""
    await service.fleet_jobs.withdraw(job, by)


def _seen(caller: Caller, camera: str | None) -> str:
    return "" if camera is None else seen(caller, camera)
