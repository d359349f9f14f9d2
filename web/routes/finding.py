"""The search of objects, and a camera's day."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated, Final

from fastapi import Depends, Query

from edge.appliance.answers.finding import FoundObjects, TimelineAnswer
from edge.appliance.finder_service import FinderService
from edge.core.counts import Direction
from edge.core.errors import InvalidValue
from edge.core.finding import BUCKET_S, ObjectSearch, read_cursor
from web import limits
from web.examples import finding as examples
from web.parts import Caller, CameraId, Service, example, seen
from web.rest_router import rest_router
from web.roles import VIEWER

router = rest_router("alarms")
ROLES: Final = {
    "GET /objects/search": VIEWER,
    "GET /cameras/{camera}/timeline": VIEWER,
}

Names = Annotated[list[str] | None, Query(max_length=200)]
PlaceName = Annotated[str | None, Query(min_length=1, max_length=512)]
Time = Annotated[float | None, Query(ge=0, le=2**40, description="UTC epoch seconds")]
Seconds = Annotated[float | None, Query(ge=0, le=1e9)]


async def _finder(service: Service) -> FinderService:
    return service.alarms.finder


Finder = Annotated[FinderService, Depends(_finder)]


@router.get("/objects/search", responses=example(examples.FOUND))
async def search_objects(
    service: Finder,
    caller: Caller,
    cameras: Annotated[Names, Query(description="id of a camera; several: once for each")] = None,
    classes: Annotated[Names, Query(description="a class; several: once for each")] = None,
    zone: Annotated[PlaceName, Query(description="that were in this zone")] = None,
    line: Annotated[PlaceName, Query(description="that crossed this line")] = None,
    way: Annotated[Direction | None, Query(description="in this direction; only with `line`")] = None,
    from_: Annotated[Time, Query(alias="from", description="that came then or later, UTC epoch seconds")] = None,
    to: Annotated[Time, Query(description="that came before, UTC epoch seconds")] = None,
    least_s: Annotated[Seconds, Query(description="in view for at least so many seconds (until now)")] = None,
    most_s: Annotated[Seconds, Query(description="in view for at most so many seconds (until now)")] = None,
    attribute: Annotated[
        str | None, Query(max_length=512, description="an application's label: NAME:LABEL", examples=["colour:red"])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="how many at most")] = 50,
    after: Annotated[str | None, Query(max_length=60, description="`next` of the page before")] = None,
) -> FoundObjects:
    """Objects by camera, class, zone, line, time, stay and attribute, the newest first. Page on with `after` = `next`;
    objects that come meanwhile change no later page. A page looks at 20,000 objects at most (with `attribute` at
    3,000): one that has found fewer than `limit` by then ends there, and has a `next`. To a user who may see
    some cameras only, objects of these are shown; another camera is as one that is not there."""
    wanted = ObjectSearch(
        tuple(seen(caller, camera) for camera in cameras or ()), tuple(classes or ()), zone, line, way, from_, to,
        least_s, most_s, _attribute(attribute),
    )  # fmt: skip
    cursor = None if after is None else read_cursor(after)
    found = await asyncio.to_thread(service.objects, wanted, limit, cursor, caller.cameras)
    return limits.whole(caller, found)


@router.get("/cameras/{camera}/timeline", responses=example(examples.TIMELINE))
async def timeline(
    camera: CameraId,
    caller: Caller,
    service: Finder,
    day: Annotated[date | None, Query(description="2026-11-26, in the box's time zone; today")] = None,
    bucket_s: Annotated[
        int, Query(description="length of a bucket of objects", json_schema_extra={"enum": list(BUCKET_S)})
    ] = 600,
) -> TimelineAnswer:
    """A camera's day in the box's time zone, of 23 or 25 hours where clocks change: objects by class and bucket of the
    time at which they came, alarms, retrainings, times in which the camera was not watched, clips."""
    found = await asyncio.to_thread(service.timeline, seen(caller, camera), day, bucket_s)
    return limits.whole(caller, found)


def _attribute(given: str | None) -> tuple[str, str] | None:
    """Raises InvalidValue."""
    if given is None:
        return None
    name, colon, label = given.partition(":")
    if not (name and colon and label):
        raise InvalidValue("attribute", given, "NAME:LABEL")
    return name, label
