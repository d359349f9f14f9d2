"""Reading fields of JSON files into values; each raises InvalidValue with the field's path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edge.core.checks import finite
from edge.core.errors import InvalidValue


def required(value: Mapping[str, Any], key: str, path: str) -> Any:
    """The value of a field that must be there."""
    if key not in value or value[key] is None:
        raise InvalidValue(_where(path, key), None, "a value (the field is required)")
    return value[key]


def number(value: Mapping[str, Any], key: str, path: str, default: float | None = None) -> Any:
    """A finite number; required unless there is a default (which null stands for, too)."""
    given = value.get(key)
    if given is None:
        return default if default is not None else required(value, key, path)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not finite(given):
        raise InvalidValue(_where(path, key), given, "a finite number")
    return given


def _where(path: str, key: str) -> str:
    return ".".join(part for part in (path, key) if part)


def points(value: Mapping[str, Any], key: str, path: str) -> tuple[tuple[Any, Any], ...]:
    """A list of pairs."""
    given = value.get(key) or ()
    if not isinstance(given, (list, tuple)):
        raise InvalidValue(f"{path}.{key}", given, "a list of pairs [x, y]")
    for n, point in enumerate(given):
        numbers = isinstance(point, (list, tuple)) and len(point) == 2
        if not numbers or any(isinstance(p, (str, bool, list, dict)) for p in point):
            raise InvalidValue(f"{path}.{key}[{n}]", point, "a pair of numbers [x, y]")
    return tuple((p[0], p[1]) for p in given)


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, Mapping):
        raise InvalidValue(path, value, "an object")
    return value


def sequence(value: Any, path: str) -> Sequence[Any]:
    """A JSON list."""
    if not isinstance(value, (list, tuple)):
        raise InvalidValue(path, value, "a list")
    return value
