"""Routes of counts: objects at lines, in zones and from zone to zone, each with how true it is."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Depends, Query, Response

from edge.appliance.answers.counts import CountAnswer, CountsAnswer
from edge.appliance.counts_service import CountsService
from edge.core.counts import Step
from web import limits
from web.examples import counts as examples
from web.parts import Caller, CameraId, Service, example, seen
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("cameras", "/cameras/{camera}")
ROLES: Final = {"GET /cameras/{camera}/counts": VIEWER, "GET /cameras/{camera}/counts.csv": VIEWER}

_COLUMNS: Final = (
    "start_utc_s", "watched", "answers_per_s", "kind", "name", "way", "class", "objects", "corrected", "low", "high",
    "seconds", "standing_s", "most",
)  # fmt: skip
From = Annotated[
    float, Query(alias="from", ge=0, le=2**40, description="UTC epoch seconds; the bucket that it is in comes first")
]
To = Annotated[float, Query(ge=0, le=2**40, description="UTC epoch seconds; buckets that begin before it")]
StepAsked = Annotated[Step, Query(description="length of a bucket")]


async def _counts(service: Service) -> CountsService:
    return service.counts


Counts = Annotated[CountsService, Depends(_counts)]


@router.get("/counts", responses=example(examples.COUNTS))
async def counts(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, step: StepAsked = "hour"
) -> CountsAnswer:
    """Counted objects by bucket of a minute, an hour or a day of UTC, at most 2,000 buckets. `corrected` says how many
    there were by the teacher's labels near the place, with a 90 % interval; a bucket that was not watched is not
    zero."""
    found = await asyncio.to_thread(service.of_camera, seen(caller, camera), step, from_, to)
    return limits.whole(caller, found)


@router.get(
    "/counts.csv",
    response_class=Response,
    responses={200: {"description": "a table", "content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def counts_file(
    camera: CameraId, caller: Caller, service: Counts, from_: From, to: To, step: StepAsked = "hour"
) -> Response:
    """The same as a CSV file. A bucket without a count has one row with empty columns, so that what was not watched can
    be told from what was watched in vain."""
    found = await asyncio.to_thread(service.of_camera, seen(caller, camera), step, from_, to)
    text = await asyncio.to_thread(as_csv, limits.whole(caller, found))
    name = f"{camera}-counts-{found.from_utc_s}-{found.to_utc_s}.csv"
    return Response(text, media_type="text/csv", headers={"content-disposition": f'attachment; filename="{name}"'})


def as_csv(found: CountsAnswer) -> str:
    """A line for each count of each bucket, after one with the names of columns."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    for bucket in found.buckets:
        head = [bucket.start_utc_s, bucket.watched, bucket.answers_per_s]
        if not bucket.counts:
            writer.writerow([*head, *[""] * (len(_COLUMNS) - len(head))])
        for row in bucket.counts:
            writer.writerow([*head, *_cells(row)])
    return out.getvalue()


def _cells(row: CountAnswer) -> Iterator[object]:
    yield from (row.kind, row.name, row.way, row.class_, row.objects)
    true = row.corrected
    yield from ("", "", "") if true is None else (true.value, true.low, true.high)
    yield from (row.seconds, row.standing_s, row.most)
