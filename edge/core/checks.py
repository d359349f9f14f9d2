"""Checks used when values are built. Each raises InvalidValue with the field's path, the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from edge.core.errors import InvalidValue


def finite(value: float) -> bool:
    """Neither infinite nor NaN; a whole number beyond all floats counts as infinite."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def in_range(path: str, value: float, low: float, high: float, *, low_open: bool = False) -> None:
    """`low <= value <= high` (or `low < value` with `low_open`), finite."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and finite(value)
    if not ok or value > high or value < low or (low_open and value == low):
        left = "above" if low_open else "from"
        raise InvalidValue(path, value, f"a number {left} {low:g} to {high:g}")


def positive(path: str, value: float) -> None:
    """`value > 0`, finite."""
    in_range(path, value, 0.0, 1e18, low_open=True)


def one_of(path: str, value: object, allowed: Collection[Any]) -> None:
    """`value` is a member of `allowed`."""
    try:
        known = value in allowed
    except TypeError:  # a list or an object, asked of a dict or a set
        known = False
    if not known:
        raise InvalidValue(path, value, "one of " + ", ".join(str(a) for a in allowed))


def not_empty(path: str, value: Sequence[Any]) -> None:
    """`value` has at least one item."""
    if len(value) == 0:
        raise InvalidValue(path, value, "at least one item")


def unique(path: str, values: Sequence[Any]) -> None:
    """No item of `values` comes twice."""
    seen = set()
    for value in values:
        if value in seen:
            raise InvalidValue(path, value, "each item once")
        seen.add(value)


def known_keys(path: str, given: Collection[str], allowed: Collection[str]) -> None:
    """Every key of `given` is one of `allowed`."""
    for key in given:
        if key not in allowed:
            where = f"{path}.{key}" if path else key
            raise InvalidValue(where, key, "one of the known fields " + ", ".join(sorted(allowed)))
