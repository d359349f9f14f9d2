"""From plain values to answers and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read(kind: type[T], value: object) -> T:
    """`value` (plain values, or an answer) as `kind`, which may be a list or union of answers. Raises
    pydantic.ValidationError for a key that is missing, unknown or of another type: a fault of ours."""
    known: Any = kind
    found: T = _adapter(known).validate_python(value)
    return found


def by_name(kind: type[T], value: object, **instead: object) -> T:
    """`value`, made of frozen dataclasses, as the answer `kind` (or a tuple of answers), each field from that of its
    name, or from `instead`. Raises pydantic.ValidationError for a field that only one of the two has: a fault of
    ours."""
    return read(kind, {**_fields_of(value), **instead} if instead else _fields_of(value))


def _fields_of(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _fields_of(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        named = getattr(value, "_asdict", None)  # a named tuple
        return tuple(map(_fields_of, value)) if named is None else named()
    return value


def plain(kind: Any, value: object) -> Any:
    """An answer as JSON has it: dicts, lists, text and numbers (also those that JSON cannot hold)."""
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)
