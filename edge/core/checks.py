"""Checks used when values are built. Each raises InvalidValue with the field's path, the value and the allowed ones."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from edge.core.errors import InvalidValue

#: Unicode's categories of invisible characters: control and format characters (zero-width spaces, marks of
#: direction), halves of characters, ends of lines and paragraphs.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Letters and marks that are blank.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
#: Scripts in which a joiner or non-joiner between two letters is part of the spelling: Arabic to N'Ko, India's.
_JOINED: Final = "[\u0620-\u07ff\u08a0-\u0dff]"
_SPELLING: Final = re.compile(f"(?<={_JOINED})[\u200c\u200d](?={_JOINED})")
PLAIN_TEXT: Final = "text of one line, without control characters and other invisible ones"


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
    InvalidValue, which names the first and escapes all."""
    if isinstance(value, str):
        if hidden := _hidden(value):
            place = hidden[0]
            name = unicodedata.name(value[place], "")
            character = f"U+{ord(value[place]):04X}" + (f" {name}" if name else "")
            raise InvalidValue(path, visible(value), f"{PLAIN_TEXT}; character {place + 1} is {character}")
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
    hidden = set(_hidden(text))
    return "".join(_escaped(c) if n in hidden else c for n, c in enumerate(text)) if hidden else text


def _hidden(text: str) -> list[int]:
    """The places of hidden characters."""
    if text.isascii() and text.isprintable():
        return []
    spelling = {found.start() for found in _SPELLING.finditer(text)}
    return [n for n, c in enumerate(text) if (unicodedata.category(c) in _HIDDEN or c in _BLANK) and n not in spelling]


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
