"""Checks of XML that a device sent, before it is read: its size, its depth, whether it is XML at all."""

from __future__ import annotations

from typing import Final, Literal

from onveef.parsers import parse_xml

_DEEPEST: Final = 40
_MOST_ELEMENTS: Final = 20_000


def fault_of(text: str | bytes) -> Literal["unreadable", "too_large"] | None:
    """None: it can be read. Within each element the library searches all that is below it, which takes hours where
    thousands are nested. Its parser refuses entities, so a bomb of them is `unreadable`."""
    root = parse_xml(text)
    if root is None:
        return "unreadable"
    left, level = _MOST_ELEMENTS, [root]
    for _ in range(_DEEPEST):
        left -= len(level)
        if left < 0:
            return "too_large"
        level = [child for element in level for child in element]
        if not level:
            return None
    return "too_large"


def words(text: object, most: int = 100) -> str:
    """A device's word for people: one line that can be printed, not too long."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)[: 4 * most]).split())[:most]
