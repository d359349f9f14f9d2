"""A policy's memory (frozen values of numbers, tuples and other such values) as JSON values and back."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from edge.core import checks
from edge.core.errors import InvalidValue

Value = TypeVar("Value")


def memory_json(value: Any) -> Any:
    """`value` as JSON values."""
    if isinstance(value, (float, int)):
        return value
    if is_dataclass(value):
        return {f.name: memory_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [memory_json(v) for v in value]
    return value


def memory_from(value: Any, kind: type[Value], path: str = "memory") -> Value:
    """The value that `memory_json` wrote. Raises InvalidValue with the field's path."""
    return typing.cast(Value, _read(value, kind, path))


def check_count(path: str, values: Sized, count: int, of: str) -> None:
    """`values` has `count` items, one for each `of`. Raises InvalidValue."""
    if len(values) != count:
        raise InvalidValue(path, f"{len(values)} values", f"{count}, one for each {of}")


def check_each(path: str, values: Sequence[Any], low: float, high: float, *, low_open: bool = False) -> None:
    """Each item of `values` is from `low` (with `low_open`: above it) to `high`. Raises InvalidValue."""
    for n, value in enumerate(values):
        checks.in_range(f"{path}[{n}]", value, low, high, low_open=low_open)


@cache
def _hints(kind: typing.Hashable) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _read(value: Any, kind: Any, path: str) -> Any:
    if kind is float or kind is int:  # nearly all that is read
        return _number(value, kind, path)
    if is_dataclass(kind):
        if not isinstance(value, Mapping) or set(value) != {f.name for f in fields(kind)}:
            raise InvalidValue(path, value, "a memory as this version writes it")
        return typing.cast(Any, kind)(
            **{k: _read(value[k], h, f"{path}.{k}") for k, h in _hints(typing.cast(typing.Hashable, kind)).items()}
        )
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType or origin is typing.Union:
        if value is None and type(None) in inner:
            return None
        return _read(value, next(k for k in inner if k is not type(None)), path)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(path, value, "a list")
        if inner[-1] is not Ellipsis and len(value) != len(inner):
            raise InvalidValue(path, value, f"{len(inner)} values")
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_read(v, k, path) for v, k in zip(value, kinds, strict=True))
    return _number(value, kind, path)


def _number(value: Any, kind: Any, path: str) -> Any:
    try:
        number = kind(value)
        finite = math.isfinite(number)
    except (OverflowError, ValueError, TypeError):
        finite = False
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not finite:
        raise InvalidValue(path, value, "a finite number")
    if number != value:
        raise InvalidValue(path, value, "a whole number")
    return number
