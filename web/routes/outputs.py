"""Outputs: the MQTT broker, webhooks, and messages that were given up."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response

from edge.appliance.answers.outputs import DeadLetterAnswer, OutputsAnswer, OutputTest, WebhookAnswer
from edge.appliance.outputs_service import OutputsService
from web.examples import outputs as examples
from web.parts import Body, Service, Who, example, json_object, takes
from web.rest_router import rest_router
from web.roles import EVERY_ADMIN, Row

router = rest_router("outputs", "/outputs")
ROLES: Final = {
    "GET /outputs": EVERY_ADMIN,
    "PATCH /outputs/mqtt": EVERY_ADMIN,
    "DELETE /outputs/mqtt": EVERY_ADMIN,
    "POST /outputs/mqtt/test": EVERY_ADMIN,
    "POST /outputs/webhooks": EVERY_ADMIN,
    "PATCH /outputs/webhooks/{webhook}": EVERY_ADMIN,
    "DELETE /outputs/webhooks/{webhook}": EVERY_ADMIN,
    "POST /outputs/webhooks/{webhook}/test": EVERY_ADMIN,
    "GET /outputs/dead-letters": EVERY_ADMIN,
    "POST /outputs/dead-letters/{letter}/retry": Row("admin", every_camera=True, audit="sent again"),
    "DELETE /outputs/dead-letters/{letter}": Row("admin", every_camera=True, audit="deleted"),
}


async def _outputs(service: Service) -> OutputsService:
    return service.outputs


async def _optional_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object, or {} where there is none. Raises as `json_object`."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    return await json_object(request)


Outputs = Annotated[OutputsService, Depends(_outputs)]
OptionalBody = Annotated[dict[str, Any], Depends(_optional_object)]
WebhookId = Annotated[str, Path(description="id of a webhook", max_length=63, examples=["pager"])]
LetterId = Annotated[int, Path(ge=1, le=2**53, description="id of a dead letter", examples=[3])]


@router.get("", responses=example(examples.OUTPUTS))
async def outputs(service: Outputs) -> OutputsAnswer:
    """Broker and webhooks with their settings, and what became of their messages."""
    return service.outputs()


@router.patch(
    "/mqtt",
    responses=example(examples.OUTPUTS),
    openapi_extra=takes("MqttPatch", {"host": "broker.example", "username": "magpie", "password_from": "secret:mqtt"}),
)
async def change_mqtt(body: Body, service: Outputs, by: Who) -> OutputsAnswer:
    """Configure the broker, or change it by a JSON merge patch (RFC 7396); in force at once."""
    return await service.change_mqtt(body, by)


@router.delete("/mqtt", status_code=204, response_class=Response)
async def remove_mqtt(service: Outputs, by: Who) -> None:
    """Forget the broker and the messages that wait for it. Retained messages are cleared if it can be reached."""
    await service.remove_mqtt(by)


@router.post(
    "/mqtt/test",
    responses=example(examples.OUTPUT_TEST),
    openapi_extra={
        "requestBody": {
            "required": False,
            "description": "settings to try, as a merge patch; nothing is kept. None: those in force",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MqttPatch"}, "example": {}}},
        }
    },
)
async def test_mqtt(body: OptionalBody, service: Outputs) -> OutputTest:
    """Connect, publish PREFIX/test and wait for the acknowledgement."""
    return await service.test_mqtt(body)


@router.post(
    "/webhooks",
    status_code=201,
    responses={201: example(examples.WEBHOOK, "the webhook as added")[200]},
    openapi_extra=takes("WebhookSettings", examples.WEBHOOK_SETTINGS),
)
async def add_webhook(body: Body, service: Outputs, by: Who) -> WebhookAnswer:
    """Add a receiver; it gets what happens from now on."""
    return await service.add_webhook(body, by)


@router.patch(
    "/webhooks/{webhook}",
    responses=example(examples.WEBHOOK),
    openapi_extra=takes("WebhookPatch", {"severities": ["critical"]}),
)
async def change_webhook(webhook: WebhookId, body: Body, service: Outputs, by: Who) -> WebhookAnswer:
    """Change a receiver by a JSON merge patch (RFC 7396); in force at once."""
    return await service.change_webhook(webhook, body, by)


@router.delete("/webhooks/{webhook}", status_code=204, response_class=Response)
async def remove_webhook(webhook: WebhookId, service: Outputs, by: Who) -> None:
    """Forget a receiver, what waits for it, and its dead letters."""
    await service.remove_webhook(webhook, by)


@router.post("/webhooks/{webhook}/test", responses=example(examples.OUTPUT_TEST))
async def test_webhook(webhook: WebhookId, service: Outputs) -> OutputTest:
    """Send one message of kind "test" now, and show the receiver's answer."""
    return await service.test_webhook(webhook)


@router.get("/dead-letters", responses=example([examples.DEAD_LETTER]))
async def dead_letters(
    service: Outputs,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only those with a lower id")] = None,
) -> list[DeadLetterAnswer]:
    """Messages that were given up, the newest first, each with the reason."""
    return await service.dead_letters(limit, before)


@router.post("/dead-letters/{letter}/retry", status_code=204, response_class=Response)
async def retry_dead_letter(letter: LetterId, service: Outputs, by: Who) -> None:
    """Put a message at the end of its queue: it is sent again, with the same id."""
    await service.retry_dead_letter(letter, by)


@router.delete("/dead-letters/{letter}", status_code=204, response_class=Response)
async def drop_dead_letter(letter: LetterId, service: Outputs, by: Who) -> None:
    """Delete a message that was given up."""
    await service.drop_dead_letter(letter, by)
