"""The fleet that this box belongs to: boxes, the head, who answers which camera; the jobs that its head keeps."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Path, Response

from edge.appliance.answers.fleet import FleetAnswer
from edge.appliance.answers.fleet_jobs import FleetJobAnswer, FleetJobsAnswer
from web import limits
from web.examples import fleet as examples
from web.parts import Body, Caller, Service, Who, example, takes
from web.rest_router import rest_router
from web.roles import VIEWER, Row

router = rest_router("fleet")
ROLES: Final = {
    "GET /fleet": VIEWER,
    "GET /fleet/jobs": Row("viewer", every_camera=True),
    "POST /fleet/jobs": Row("operator", every_camera=True, audit="submitted"),
    "DELETE /fleet/jobs/{job}": Row("operator", every_camera=True, audit="withdrew"),
}
JobId = Annotated[str, Path(description="id of a job", max_length=100, examples=["labels-north"])]


@router.get("/fleet", responses=example(examples.FLEET))
async def fleet(service: Service, caller: Caller) -> FleetAnswer:
    """The fleet as this box's agent told it last. Orders are `magpie fleet`'s."""
    return limits.whole(caller, await asyncio.to_thread(service.fleet.fleet))


@router.get("/fleet/jobs", responses=example(examples.JOBS))
async def fleet_jobs(service: Service) -> FleetJobsAnswer:
    """All jobs that the head keeps, what waits and why, and the tenants' shares; asked for by this box's agent."""
    return await service.fleet_jobs.jobs()


@router.post(
    "/fleet/jobs",
    status_code=201,
    responses={201: example(examples.JOB, "the job as the head keeps it")[200]},
    openapi_extra=takes("FleetJobBody", examples.JOB_GIVEN),
)
async def submit_job(body: Body, service: Service, by: Who, response: Response) -> FleetJobAnswer:
    """Give the fleet a job. The head keeps it when this answers; it may be refused later, if nobody can place it."""
    told = await service.fleet_jobs.submit(body, by)
    response.headers["location"] = f"/api/v1/fleet/jobs/{told.id}"
    return told


@router.delete("/fleet/jobs/{job}", status_code=204, response_class=Response)
async def withdraw_job(job: JobId, service: Service, by: Who) -> None:
    """Withdraw a job: nothing of it begins any more, and what runs of it is stopped."""
    await service.fleet_jobs.withdraw(job, by)
