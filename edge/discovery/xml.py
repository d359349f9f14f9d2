"""Checks of XML that a device sent, before it is read: its size, its depth, whether it is XML at all; and of faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from onveef.parsers import parse_xml

_DEEPEST: Final = 40
_MOST_ELEMENTS: Final = 20_000
_NOT_AUTHORISED: Final = "NotAuthorized"


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


def refuses(status: int, text: bytes) -> bool:
    """Whether an answer wants another login: by ONVIF's code of its fault, whatever its sentence is, or by HTTP, where
    no fault says anything else."""
    fault = _fault_in(text) if status == 403 or _NOT_AUTHORISED.encode() in text else None
    if fault is None:
        return status == 403
    codes = [value.text for code in _subcodes(fault) for value in _named(code, "Value")]
    if status == 403 and not codes:
        return True
    codes += [code.text for code in _named(fault, "faultcode")]  # SOAP 1.1
    return any((code or "").strip().endswith(_NOT_AUTHORISED) for code in codes)


def _fault_in(text: bytes) -> Any:
    root = parse_xml(text)
    for body in _named([] if root is None else root, "Body"):
        for fault in _named(body, "Fault"):
            return fault
    return None


def _subcodes(fault: Any) -> list[Any]:
    """Subcodes may have subcodes."""
    found: list[Any] = []
    level = _named(fault, "Code")
    for _ in range(_DEEPEST):
        level = [inner for code in level for inner in _named(code, "Subcode")]
        found += level
    return found


def _named(elements: Iterable[Any], name: str) -> list[Any]:
    """Of an element's children those of this name, in any namespace."""
    return [e for e in elements if isinstance(e.tag, str) and e.tag.rpartition("}")[2] == name]


def words(text: object, most: int = 100) -> str:
    """A device's word for people: one line that can be printed, not too long."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)[: 4 * most]).split())[:most]
