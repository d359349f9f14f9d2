"""One table from errors to HTTP answers, and one shape for all of them.

The shape is {"error": {"code", "message", "problems"?: [{"path", "given", "allowed"}], "id"?}}.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from edge.core import errors as e
from edge.core.checks import visible

log = logging.getLogger(__name__)

#: The first class that the error is an instance of decides.
STATUS: tuple[tuple[type[e.MagpieError], int], ...] = (
    (e.InvalidValue, 422),
    (e.InvalidValues, 422),
    (e.LabelError, 422),
    (e.WeightsError, 422),
    (e.LicenceRefused, 422),
    (e.NotLoggedIn, 401),
    (e.Forbidden, 403),
    (e.TooManyTries, 429),
    (e.NotFound, 404),
    (e.Conflict, 409),
    (e.Overloaded, 429),
    (e.DeadlineMissed, 504),
    (e.DiskFull, 507),
    (e.Unavailable, 503),
    (e.NotUnderstood, 503),
    (e.CameraError, 503),
    (e.StoreError, 503),
    (e.ShareError, 503),
    (e.WorkerFailed, 503),
)
_CODES = {
    400: "bad_request",
    401: "not_logged_in",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}
#: "://user:password@" anywhere in a text: the value sent is shown back, but never a password in it.
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s]*@")
_MAX_SHOWN = 200


class Json(JSONResponse):
    """JSON in which a number that JSON does not know (NaN, infinite) is null."""

    def render(self, content: Any) -> bytes:
        try:
            return super().render(content)
        except ValueError:
            return super().render(finite(content))


def finite(value: Any) -> Any:
    """The value with null for every number that JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value


def without_passwords(text: str) -> str:
    """The text with the passwords of URLs in it replaced by ***."""
    return _URL_PASSWORD.sub(r"\1***@", text)


def _shown(given: object) -> Any:
    if given is None or isinstance(given, bool | int | float):
        return finite(given) if not isinstance(given, int) or abs(given) < 2**53 else str(given)[:_MAX_SHOWN]
    text = visible(without_passwords(given if isinstance(given, str) else repr(given)))
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def status_of(error: e.MagpieError) -> int:
    """The HTTP status of an error of the product; 500 for one that the table does not know."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def body_of(error: e.MagpieError) -> dict[str, Any]:
    """The error in the one shape; its text is fit for users, and passwords in URLs are taken out."""
    problems: list[e.InvalidValue] = []
    if isinstance(error, e.InvalidValue):
        problems = [error]
    elif isinstance(error, e.InvalidValues):
        problems = error.problems
    out: dict[str, Any] = {"code": error.code, "message": without_passwords(str(error))}
    if problems:
        out["problems"] = [{"path": p.path, "given": _shown(p.given), "allowed": p.allowed} for p in problems]
    return {"error": out}


def answer(error: e.MagpieError) -> Json:
    """The whole answer."""
    headers = {"retry-after": str(math.ceil(error.retry_after_s))} if isinstance(error, e.TooManyTries) else None
    if isinstance(error, e.NotLoggedIn):
        headers = {"www-authenticate": "Bearer"}
    return Json(body_of(error), status_of(error), headers=headers)


def unexpected(error: BaseException, where: str) -> Json:
    """Log an unforeseen error under an id, and answer with the id only."""
    number = secrets.token_hex(6)
    log.error("error %s in %s", number, where, exc_info=error)
    message = f"something went wrong inside the appliance; its log tells more under {number}"
    return Json({"error": {"code": "internal", "message": message, "id": number}}, 500)


def _invalid(error: RequestValidationError) -> e.InvalidValues:
    found = []
    for problem in error.errors():
        path = ".".join(str(part) for part in problem["loc"] if part != "body") or "(body)"
        allowed = "a value (it is required)" if problem["type"] == "missing" else problem["msg"]
        given = None if problem["type"] == "missing" else problem.get("input")
        found.append(e.InvalidValue(path, given, allowed.removeprefix("Input should be ")))
    return e.InvalidValues(found)


def install(app: FastAPI) -> None:
    """Answer every error of `app` in the one shape."""

    async def magpie(_: Request, error: Exception) -> Json:
        assert isinstance(error, e.MagpieError)
        return answer(error)

    async def validation(_: Request, error: Exception) -> Json:
        assert isinstance(error, RequestValidationError)
        return answer(_invalid(error))

    async def http(_: Request, error: Exception) -> Json:
        assert isinstance(error, HTTPException)
        code = _CODES.get(error.status_code, "http")
        body = {"error": {"code": code, "message": str(error.detail)}}
        return Json(body, error.status_code, headers=dict(error.headers or {}))

    app.add_exception_handler(e.MagpieError, magpie)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)
