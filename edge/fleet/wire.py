"""Messages as JSON: fields that are not known are left out, fields that are absent have their defaults."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from edge.core.errors import InvalidValue
from edge.core.fleet_links import check_api

M = TypeVar("M")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def encoded(message: Any) -> bytes:
    """A message (a dataclass of edge.core.fleet_links) as JSON."""
    kind: Any = type(message)
    return _adapter(kind).dump_json(message)


def decoded(kind: type[M], raw: bytes) -> M:
    """A message of JSON. Raises InvalidValue with the field's path, Conflict for a version of the API too far away."""
    known: Any = kind
    try:
        found: M = _adapter(known).validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InvalidValue(path, first.get("input"), first["msg"]) from None
    api = getattr(found, "api", None)
    if api is not None:
        check_api(api)
    return found
