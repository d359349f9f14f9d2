"""Checks used when values are built. Each raises InvalidValue with the field's path, the value and the allowed ones."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from edge.core.errors import InvalidValue

#: Invisible characters that change the text shown: control characters, ends of lines and paragraphs, those
#: that turn the direction of the text around them, and halves of characters.
_HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PLAIN_TEXT: Final = "text of one line, without control characters and characters that turn its direction"


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


def plain_text(path: str, value: object) -> None:
    """No text in `value` (a text, or lists and mappings with texts, their keys too) holds a hidden character. Raises
    InvalidValue, in which such characters are escaped."""
    if isinstance(value, str):
        if _HIDDEN.search(value):
            raise InvalidValue(path, visible(value), PLAIN_TEXT)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            plain_text(path, key)
            plain_text(f"{path}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            plain_text(f"{path}[{number}]", item)


def made_plain(value: Any) -> Any:
    """`value` with the hidden characters of its texts as escapes, for texts kept before they were refused."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {made_plain(key): made_plain(item) for key, item in value.items()}
    return [made_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def visible(text: str) -> str:
    """The text with its hidden characters as escapes."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
