"""The one table from routes to who may use them. A route without a row is refused, and fails a test.

A row is keyed by method and path as the route has it; "WS" is a WebSocket. Beside the role it says whether the right to
see every camera is needed (what is done concerns them all), and what the audit calls it where the service itself keeps
no record of the change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from edge.core.access import Role

_API = "/api/v1"


@dataclass(frozen=True)
class Row:
    """`least` None: open without login. A change is not asked by another site's page and carries the CSRF token.
    `before_change`: also for those who first have to choose their own password."""

    least: Role | None
    every_camera: bool = False
    audit: str = ""
    before_change: bool = False


OPEN: Final = Row(None)
_VIEWER, _OPERATOR, _ADMIN = Row("viewer"), Row("operator"), Row("admin")
_WAY_IN = Row("viewer", before_change=True)
_EVERY_OPERATOR, _EVERY_ADMIN = Row("operator", every_camera=True), Row("admin", every_camera=True)

_HEALTH: Mapping[str, Row] = {
    "GET /livez": OPEN,
    "GET /readyz": OPEN,  # code words only, unless somebody is logged in
    "GET /metrics": _VIEWER,
}
#: The built page; what it shows it asks for at the routes below.
_PAGE: Mapping[str, Row] = {"GET /": OPEN, "MOUNT /": OPEN}

_V1: Mapping[str, Row] = {
    "GET /openapi.json": _VIEWER,
    # access
    "POST /login": OPEN,
    "POST /login/link": OPEN,
    "GET /setup": Row(None, before_change=True),
    "POST /setup": OPEN,
    "POST /logout": _WAY_IN,
    "GET /me": _WAY_IN,
    "POST /me/password": _WAY_IN,
    "GET /users": _EVERY_ADMIN,
    "POST /users": _EVERY_ADMIN,
    "PATCH /users/{name}": _EVERY_ADMIN,
    "DELETE /users/{name}": _EVERY_ADMIN,
    "GET /tokens": _VIEWER,  # one's own; an admin's: all
    "POST /tokens": _VIEWER,
    "DELETE /tokens/{id}": _VIEWER,
    "GET /sessions": _VIEWER,
    "DELETE /sessions/{id}": _VIEWER,
    "GET /audit": _EVERY_ADMIN,
    "GET /secrets": _EVERY_ADMIN,
    "PUT /secrets/{name}": _EVERY_ADMIN,
    "DELETE /secrets/{name}": _EVERY_ADMIN,
    # state
    "GET /overview": _VIEWER,
    "GET /health": _VIEWER,
    "GET /doctor": _VIEWER,
    "GET /schema/site": _VIEWER,
    "GET /system": _VIEWER,
    "GET /log": _EVERY_OPERATOR,
    "POST /check/{kind}": _OPERATOR,  # changes nothing
    # cameras: what reaches into the network or names a secret is the admin's
    "GET /cameras": _VIEWER,
    "POST /cameras": _EVERY_ADMIN,
    "POST /cameras/test": _EVERY_ADMIN,
    "GET /cameras/{camera}": _VIEWER,
    "PATCH /cameras/{camera}": _OPERATOR,
    "DELETE /cameras/{camera}": _EVERY_ADMIN,
    "GET /cameras/{camera}/snapshot.jpg": _VIEWER,
    "GET /cameras/{camera}/stream.mjpeg": _VIEWER,
    "GET /cameras/{camera}/models": _VIEWER,
    "POST /cameras/{camera}/rollback": Row("operator", audit="rolled back"),
    "GET /cameras/{camera}/disagreements": _VIEWER,
    "GET /cameras/{camera}/disagreements/{window}/{frame}.jpg": _VIEWER,
    "GET /cameras/{camera}/classes": _VIEWER,
    "GET /cameras/{camera}/truth": _VIEWER,
    "GET /cameras/{camera}/truth/questions": _OPERATOR,
    "GET /cameras/{camera}/truth/pictures/{window}/{frame}.jpg": _VIEWER,
    "POST /cameras/{camera}/truth/answers": Row("operator", audit="answered questions"),
    "GET /cameras/{camera}/truth/export": _VIEWER,
    "POST /cameras/{camera}/truth/import": Row("operator", audit="imported labels"),
    "WS /live": _VIEWER,
    # models and windows
    "GET /models/catalogue": _EVERY_OPERATOR,
    "GET /models/{version}/lineage": _VIEWER,
    "POST /models/{version}/pin": Row("operator", audit="pinned"),
    "POST /models/{version}/unpin": Row("operator", audit="unpinned"),
    "GET /windows": _VIEWER,
    "GET /windows/{number}": _VIEWER,
    "GET /windows/{number}/explained": _VIEWER,
    "POST /windows/{number}/what-if": _EVERY_OPERATOR,
    "GET /retraining": _VIEWER,
    "GET /retraining/learning": _VIEWER,
    "PATCH /retraining": _EVERY_OPERATOR,
    # served models
    "GET /serving": _VIEWER,
    "PATCH /serving": _EVERY_OPERATOR,
    "POST /admission": _EVERY_OPERATOR,
    # the journal
    "GET /events": _VIEWER,
    "GET /events/stream": _VIEWER,
    # alarms
    "GET /rules": _VIEWER,
    "POST /rules": _EVERY_OPERATOR,
    "GET /rules/{id}": _VIEWER,
    "PATCH /rules/{id}": _EVERY_OPERATOR,
    "DELETE /rules/{id}": _EVERY_OPERATOR,
    "GET /alarms": _VIEWER,
    "POST /alarms/{id}/acknowledge": Row("operator", audit="acknowledged"),
    "GET /alarms/{id}/picture.jpg": _VIEWER,
    "GET /objects": _VIEWER,
    "GET /objects/{id}/picture.jpg": _VIEWER,
    # outputs: addresses of other systems, and how to log in there
    "GET /outputs": _EVERY_ADMIN,
    "PATCH /outputs/mqtt": _EVERY_ADMIN,
    "DELETE /outputs/mqtt": _EVERY_ADMIN,
    "POST /outputs/mqtt/test": _EVERY_ADMIN,
    "POST /outputs/webhooks": _EVERY_ADMIN,
    "PATCH /outputs/webhooks/{id}": _EVERY_ADMIN,
    "DELETE /outputs/webhooks/{id}": _EVERY_ADMIN,
    "POST /outputs/webhooks/{id}/test": _EVERY_ADMIN,
    "GET /outputs/dead-letters": _EVERY_ADMIN,
    "POST /outputs/dead-letters/{id}/retry": Row("admin", every_camera=True, audit="sent again"),
    "DELETE /outputs/dead-letters/{id}": Row("admin", every_camera=True, audit="deleted"),
}


_PARAMETER = re.compile(r"\{[^}]*\}")


def _key(method: str, template: str) -> str:
    # What a parameter is called is the route's own business.
    return f"{'GET' if method == 'HEAD' else method} {_PARAMETER.sub('{}', template)}"


def _table() -> Mapping[str, Row]:
    prefixed = {route.replace(" ", f" {_API}", 1): row for route, row in _V1.items()}
    return {_key(*route.split(" ")): row for route, row in {**_HEALTH, **_PAGE, **prefixed}.items()}


_ROWS: Final = _table()


def row_of(method: str, template: str) -> Row | None:
    """The row of a route ("GET", "/api/v1/cameras/{camera}"); None: it has none, and nobody may use it. HEAD is as
    GET; how a parameter is called does not matter."""
    return _ROWS.get(_key(method, template))
