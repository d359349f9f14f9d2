"""Rules, the alarms that they raised, and the objects that were followed."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Response

from edge.appliance.alarms_service import AlarmsService
from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.core.access import Principal
from edge.core.errors import NotFound
from edge.settings import RuleSettings
from edge.settings.base import IDENTIFIER_PATTERN
from web import limits
from web.examples import alarms as examples
from web.parts import Body, Caller, OfCamera, Service, Who, example, seen, takes
from web.rest_router import JPEG, rest_router
from web.roles import EVERY_OPERATOR, VIEWER, Row

router = rest_router("alarms")
ROLES: Final = {
    "GET /rules": VIEWER,
    "POST /rules": EVERY_OPERATOR,
    "GET /rules/{rule}": VIEWER,
    "PATCH /rules/{rule}": EVERY_OPERATOR,
    "DELETE /rules/{rule}": EVERY_OPERATOR,
    "GET /alarms": VIEWER,
    "POST /alarms/{alarm}/acknowledge": Row("operator", audit="acknowledged"),
    "GET /alarms/{alarm}/picture.jpg": VIEWER,
    "GET /objects": VIEWER,
    "GET /objects/{number}/picture.jpg": VIEWER,
}


async def _alarms(service: Service) -> AlarmsService:
    return service.alarms


Alarms = Annotated[AlarmsService, Depends(_alarms)]
RuleId = Annotated[str, Path(description="id of a rule", max_length=63, examples=["parked-in-drive"])]
Number = Annotated[int, Path(ge=1, le=2**53, description="id of an alarm or an object", examples=[17])]
Limit = Annotated[int, Query(ge=1, le=1000, description="how many at most")]
Before = Annotated[int | None, Query(ge=1, le=2**53, description="only those with a lower id")]
Active = Annotated[bool | None, Query(description="only those that go on, or that have ended")]


def _of_caller(caller: Principal, rule: RuleSettings) -> RuleSettings | None:
    """A rule as the caller may see it: without other cameras; None if it is about others only."""
    if caller.sees_all:
        return rule
    mine = caller.visible(rule.cameras)
    if rule.cameras and not mine:
        return None
    return limits.whole(caller, rule.model_copy(update={"cameras": mine}))


@router.get("/rules", responses=example([examples.RULE]))
async def list_rules(service: Alarms, caller: Caller) -> list[RuleSettings]:
    """Every rule."""
    return [r for r in (_of_caller(caller, rule) for rule in service.rules()) if r is not None]


@router.post(
    "/rules",
    status_code=201,
    responses={201: example(examples.RULE, "the rule as added")[200]},
    openapi_extra=takes("RuleSettings", examples.RULE),
)
async def add_rule(body: Body, service: Alarms, by: Who, response: Response) -> RuleSettings:
    """Add a rule; it is in force at once. Without an id it gets one that is like its name."""
    rule = await service.add_rule(body, by)
    response.headers["location"] = f"/api/v1/rules/{rule.id}"
    return rule


@router.get("/rules/{rule}", responses=example(examples.RULE))
async def one_rule(rule: RuleId, service: Alarms, caller: Caller) -> RuleSettings:
    """One rule."""
    found = _of_caller(caller, service.rule(rule))
    if found is None:
        raise NotFound(f"rule {rule} does not exist")
    return found


@router.patch(
    "/rules/{rule}",
    responses=example(examples.RULE),
    openapi_extra=takes("RulePatch", {"dwell_s": 20, "enabled": True}),
)
async def change_rule(rule: RuleId, body: Body, service: Alarms, by: Who) -> RuleSettings:
    """Change a rule by a JSON merge patch (RFC 7396); null sets a field back to its default. Alarms of what it does not
    look at any more end."""
    return await service.change_rule(rule, body, by)


@router.delete("/rules/{rule}", status_code=204, response_class=Response)
async def remove_rule(rule: RuleId, service: Alarms, by: Who) -> None:
    """Forget a rule. Its active alarms end; the others stay until their retention ends."""
    await service.remove_rule(rule, by)


@router.get("/alarms", responses=example([examples.ALARM]))
async def list_alarms(
    service: Alarms,
    caller: Caller,
    limit: Limit = 100,
    before: Before = None,
    camera: OfCamera = None,
    rule: Annotated[str | None, Query(pattern=IDENTIFIER_PATTERN, description="only of this rule")] = None,
    active: Active = None,
) -> list[AlarmAnswer]:
    """Alarms, newest first. Page on with `before` = the last id. To a user who may see some cameras or tenants only,
    alarms of these are shown."""
    if camera is not None:
        seen(caller, camera)
    mine = limits.cameras_and_tenants(caller)
    return await asyncio.to_thread(service.alarms, limit, before, camera, rule, active, *mine)


@router.post("/alarms/{alarm}/acknowledge", responses=example(examples.ALARM))
async def acknowledge(alarm: Number, service: Alarms, caller: Caller, by: Who) -> AlarmAnswer:
    """Acknowledge an alarm; the first user to do so is kept. An alarm of a rolled back model ends with this."""
    await _seen_alarm(service, caller, alarm)
    return limits.alarm(caller, await service.acknowledge(alarm, by))


@router.get("/alarms/{alarm}/picture.jpg", response_class=Response, responses=JPEG)
async def alarm_picture(alarm: Number, service: Alarms, caller: Caller) -> Response:
    """The camera's picture when the alarm was raised (of rules about objects)."""
    await _seen_alarm(service, caller, alarm)
    return _picture(await asyncio.to_thread(service.alarm_picture, alarm))


@router.get("/objects", responses=example([examples.OBJECT]))
async def list_objects(
    service: Alarms,
    caller: Caller,
    limit: Limit = 100,
    before: Before = None,
    camera: OfCamera = None,
    of_class: Annotated[str | None, Query(alias="class", min_length=1, max_length=60)] = None,
    active: Active = None,
) -> list[ObjectAnswer]:
    """Objects that were followed, newest first. Page on with `before` = the last id."""
    if camera is not None:
        seen(caller, camera)
    found = await asyncio.to_thread(service.objects, limit, before, camera, of_class, active, caller.cameras)
    return limits.rows(caller, found)


@router.get("/objects/{number}/picture.jpg", response_class=Response, responses=JPEG)
async def object_picture(number: Number, service: Alarms, caller: Caller) -> Response:
    """The object at the moment when it showed best."""
    found = await asyncio.to_thread(service.object, number)
    if not caller.may_see(found.camera):
        raise NotFound(f"object {number} does not exist")
    return _picture(await asyncio.to_thread(service.object_picture, number))


async def _seen_alarm(service: AlarmsService, caller: Principal, number: int) -> None:
    """Raises NotFound, as of an alarm that is not there, if it is not the caller's."""
    limits.alarm(caller, await asyncio.to_thread(service.alarm, number))


def _picture(jpeg: bytes) -> Response:
    # Another picture may take its place, of an object that is seen better.
    return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=10"})
