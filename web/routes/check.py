"""Checking settings while they are typed: the models that check them when they are sent, and nothing is changed."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path

from edge.core.errors import InvalidValues
from edge.settings import (
    AdmissionRequest,
    CameraSettings,
    MqttSettings,
    RetrainingSettings,
    RuleSettings,
    ServingPlanning,
    Settings,
    WebhookSettings,
    parse,
)
from web import examples
from web.errors import Json, body_of
from web.parts import Body, example

router = APIRouter(prefix="/check", tags=["state"])

Kind = Literal["camera", "retraining", "rule", "serving", "admission", "mqtt", "webhook"]
_MODELS: Final[dict[str, type[Settings]]] = {
    "camera": CameraSettings,
    "retraining": RetrainingSettings,
    "rule": RuleSettings,
    "serving": ServingPlanning,
    "admission": AdmissionRequest,
    "mqtt": MqttSettings,
    "webhook": WebhookSettings,
}


@router.post("/{kind}", responses=example(examples.CHECK), openapi_extra=examples.CHECK_BODY)
async def check(kind: Annotated[Kind, Path(description="what the body is")], body: Body) -> Any:
    """What is wrong with whole settings, by field; nothing is kept. What depends on the rest of the appliance (a name
    that is taken, a class that the teacher cannot produce) is told when they are sent to be kept."""
    try:
        parse(_MODELS[kind], body)
    except InvalidValues as error:
        return Json({"problems": body_of(error)["error"]["problems"]})
    return Json({"problems": []})
