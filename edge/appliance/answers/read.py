"""From plain values to answers and back."""

from __future__ import annotations

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


def plain(kind: Any, value: object) -> Any:
    """An answer as JSON has it: dicts, lists, text and numbers (also those that JSON cannot hold)."""
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)
