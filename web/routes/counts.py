"""Routes of counts: objects at lines, in zones and from zone to zone, each with how true it is."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated, Final

from fastapi import Depends, Query, Response

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.count_table import MEDIA_TYPES, TableFormat, table
from edge.appliance.counts_service import CountsService
from edge.core.counts import Step
from web import limits
from web.examples import counts as examples
from web.parts import Caller, CameraId, Service, example, seen
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("cameras", "/cameras/{camera}")
ROLES: Final = {
    "GET /cameras/{camera}/counts": VIEWER,
    "GET /cameras/{camera}/counts/compared": VIEWER,
    "GET /cameras/{camera}/counts/report.html": VIEWER,
    "GET /cameras/{camera}/counts.csv": VIEWER,
    "GET /cameras/{camera}/counts.parquet": VIEWER,
}

WEEK_S: Final = 7 * 86_400
From = Annotated[
    float, Query(alias="from", ge=0, le=2**40, description="UTC epoch seconds; the bucket that it is in comes first")
]
To = Annotated[float, Query(ge=0, le=2**40, description="UTC epoch seconds; buckets that begin before it")]
Day = Annotated[date, Query(description="2026-11-26, in the box's time zone")]
HTML: Final[dict[int | str, dict[str, object]]] = {
    200: {"description": "one HTML file", "content": {"text/html": {"schema": {"type": "string"}}}}
}
Before = Annotated[
    float | None, Query(ge=0, le=2**40, description="UTC epoch seconds; the earlier time begins there (7 days before)")
]
StepAsked = Annotated[Step, Query(description="length of a bucket")]


async def _counts(service: Service) -> CountsService:
    return service.counts


Counts = Annotated[CountsService, Depends(_counts)]


@router.get("/counts", responses=example(examples.COUNTS))
async def counts(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, step: StepAsked = "hour"
) -> CountsAnswer:
    """Counted objects by bucket of a minute, an hour or a day of UTC, at most 2,000 buckets. `corrected` says how many
    there were by the teacher's labels, with a 90 % interval; a bucket that was not watched is not
    zero."""
    found = await asyncio.to_thread(service.of_camera, seen(caller, camera), step, from_, to)
    return limits.whole(caller, found)


@router.get("/counts/report.html", response_class=Response, responses=HTML)
async def counts_report(camera: CameraId, caller: Caller, service: Counts, day: Day) -> Response:
    """A camera's day of counts as one HTML file that needs nothing else, for people: made now, in the box's time
    zone."""
    text = await asyncio.to_thread(service.day_report, seen(caller, camera), day)
    name = f"{camera}-counts-{day.isoformat()}.html"
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }
    return Response(text, media_type="text/html", headers=headers)


def _file(kind: TableFormat) -> dict[int | str, dict[str, object]]:
    shape = {"type": "string"} if kind == "csv" else {"type": "string", "format": "binary"}
    return {200: {"description": "a table", "content": {MEDIA_TYPES[kind]: {"schema": shape}}}}


@router.get("/counts/compared", responses=example(examples.COMPARED))
async def counts_compared(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, before: Before = None,
    step: StepAsked = "hour",
) -> ComparisonAnswer:  # fmt: skip
    """The same buckets beside those of an earlier time, by default a week before: the same weekday and hours. Totals
    are of buckets that were watched for nine tenths in both; where clocks are changed between the two, give
    `before`."""
    earlier = from_ - WEEK_S if before is None else before
    asked = seen(caller, camera), step, from_, to, earlier
    return limits.whole(caller, await asyncio.to_thread(service.compared, *asked))


@router.get("/counts.csv", response_class=Response, responses=_file("csv"))
async def counts_file(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, step: StepAsked = "hour"
) -> Response:
    """The same as a CSV file. A bucket without a count has one row with empty columns, so that a reader distinguishes
    a time that was not watched from one that was watched in vain."""
    found = await asyncio.to_thread(service.of_camera, seen(caller, camera), step, from_, to)
    return await _table(limits.whole(caller, found), "csv")


@router.get("/counts.parquet", response_class=Response, responses=_file("parquet"))
async def counts_parquet(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, step: StepAsked = "hour"
) -> Response:
    """The same as a Parquet file, with a column for the camera and types for the others. Needs `pyarrow` on the
    appliance; without it the answer is 409 and says so."""
    found = await asyncio.to_thread(service.of_camera, seen(caller, camera), step, from_, to)
    return await _table(limits.whole(caller, found), "parquet")


async def _table(found: CountsAnswer, wanted: TableFormat) -> Response:
    body = await asyncio.to_thread(table, found, wanted)
    name = f"{found.camera}-counts-{found.from_utc_s}-{found.to_utc_s}.{wanted}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type=MEDIA_TYPES[wanted], headers=headers)
