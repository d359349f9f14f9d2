"""Checking settings while they are typed: the models that check them when they are sent, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import Path

from edge.access.secrets import check_secret
from edge.appliance.answers.read import read
from edge.appliance.answers.system import CheckedSettings
from edge.core.access import camera_limit, checked_password, checked_role, label, tenant_limit, user_name
from edge.core.errors import InvalidValue, InvalidValues
from edge.settings import (
    AdmissionRequest,
    CameraSettings,
    MqttSettings,
    RetrainingSettings,
    RuleSettings,
    ServingPlanning,
    Settings,
    SharingSettings,
    TenantSettings,
    WebhookSettings,
    parse,
)
from web.access_bodies import NewToken, parse_private
from web.errors import body_of
from web.examples import check as examples
from web.parts import Body, example
from web.rest_router import rest_router
from web.roles import OPERATOR

router = rest_router("state", "/check")
ROLES: Final = {
    "POST /check/{kind}": OPERATOR,  # changes nothing
}

_Body = dict[str, Any]
Kind = Literal[
    "camera", "retraining", "rule", "serving", "admission", "mqtt", "webhook", "tenant", "sharing", "user", "token",
    "secret",
]  # fmt: skip
_MODELS: Final[dict[str, type[Settings]]] = {
    "camera": CameraSettings,
    "retraining": RetrainingSettings,
    "rule": RuleSettings,
    "serving": ServingPlanning,
    "admission": AdmissionRequest,
    "mqtt": MqttSettings,
    "webhook": WebhookSettings,
    "tenant": TenantSettings,
    "sharing": SharingSettings,
}


def _user(body: _Body) -> None:
    """Each field that is there, by the rules of the users themselves; a password also beside the name."""
    name = body.get("name")
    rules: dict[str, Callable[[object], object]] = {
        "name": lambda given: user_name("name", given),
        "role": lambda given: checked_role("role", given),
        "cameras": lambda given: camera_limit("cameras", given),
        "tenants": lambda given: tenant_limit("tenants", given),
        "password": lambda given: checked_password("password", given, name if isinstance(name, str) else ""),
    }
    problems = []
    for field, rule in rules.items():
        try:
            if field in body:
                rule(body[field])
        except InvalidValue as error:
            problems.append(error)
    if problems:
        raise InvalidValues(problems)


def _token(body: _Body) -> None:
    parse_private(NewToken, body)
    label("name", body.get("name"))


#: Bodies that are no settings: fields that are not there are not looked at.
_OTHERS: Final[dict[str, Callable[[_Body], None]]] = {
    "user": _user,
    "token": _token,
    "secret": lambda body: check_secret(body.get("name"), body.get("value")),
}


@router.post("/{kind}", responses=example(examples.CHECK), openapi_extra=examples.CHECK_BODY)
async def check(kind: Annotated[Kind, Path(description="the kind of the body")], body: Body) -> CheckedSettings:
    """The problems of whole settings, by field; nothing is kept. Problems that depend on the rest of the appliance
    (a name that is taken, a class that the teacher cannot produce) appear when the settings are sent to be kept."""
    try:
        if kind in _OTHERS:
            _OTHERS[kind](body)
        else:
            parse(_MODELS[kind], body)
    except (InvalidValue, InvalidValues) as error:
        return read(CheckedSettings, {"problems": body_of(error)["error"]["problems"]})
    return CheckedSettings(problems=())
