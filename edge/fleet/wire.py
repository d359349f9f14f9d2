"""Messages as JSON: fields that are not known are left out, fields that are absent have their defaults."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from edge.core.errors import InvalidValue
from edge.core.fleet_links import check_api

M = TypeVar("M")


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def encoded(message: Any) -> bytes:
    """A message (a dataclass of edge.core.fleet_links) as JSON."""
    return _adapter(type(message)).dump_json(message)


def decoded(kind: type[M], raw: bytes) -> M:
    """A message of JSON. Raises InvalidValue with the field's path, Conflict for a version of the API too far away."""
    try:
        found: M = _adapter(kind).validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InvalidValue(path, first.get("input"), first["msg"]) from None
    api = getattr(found, "api", None)
    if api is not None:
        check_api(api)
    return found
