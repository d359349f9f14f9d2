"""Checks values against the settings' models; problems are reported with path, value and the values allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from edge.core.errors import InvalidValue, InvalidValues
from edge.core.hours import SPAN_PATTERN
from edge.settings.base import IDENTIFIER_PATTERN, FieldProblem, Settings
from edge.settings.serving import MODEL_NAME_PATTERN

M = TypeVar("M", bound=Settings)


def _problems(error: ValidationError, prefix: str, model: type[Settings], value: Any) -> list[InvalidValue]:
    out = []
    for e in error.errors():
        path = prefix
        for part in model.place_written(value, e["loc"]):
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        given = e.get("input")
        problem = e.get("ctx", {}).get("error")
        if e["type"] == "extra_forbidden":
            allowed = "no such field; known: " + ", ".join(sorted(_fields_at(model, e["loc"])))
            given = e["loc"][-1]
        elif e["type"] == "missing":
            allowed, given = "a value (the field is required)", None
        elif isinstance(problem, FieldProblem):
            path, given = f"{path}.{problem.path}" if path else problem.path, _at(given, problem.path)
            allowed = problem.allowed
        else:
            allowed = _allowed(e["type"], e["msg"], e.get("ctx", {}))
        if "password" in path.lower() or path.endswith("secret_from"):
            given = "(not shown)"
        elif isinstance(given, str):
            given = re.sub(r"(//[^/:@\s]*):[^@/\s]*@", r"\1:***@", given)
        out.append(InvalidValue(path or "(body)", given, allowed))
    return out


def _at(given: Any, path: str) -> Any:
    """The value at `path`, as in `zones[1].name`, of the model that was given; None where there is none."""
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(given, Mapping):
            given = given.get(part)
        elif isinstance(given, (list, tuple)) and part.isdigit() and int(part) < len(given):
            given = given[int(part)]
        else:
            given = getattr(given, part, None)
    return given.model_dump() if isinstance(given, BaseModel) else given


#: The texts that a pattern lets through, for people.
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        IDENTIFIER_PATTERN: "small letters, digits, - and _, beginning with a letter or digit, at most 63",
        MODEL_NAME_PATTERN: "letters, digits, _ . and -, not beginning with . or -, at most 128",
        SPAN_PATTERN: "HH:MM-HH:MM, as 22:00-06:00",
    }
)


def _allowed(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """The allowed values, in words, of one of pydantic's errors."""
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    for end, words, key in (("too_short", "at least", "min_length"), ("too_long", "at most", "max_length")):
        if kind in (end, f"string_{end}"):
            number = context[key]
            what = "character" if kind.startswith("string_") else "item"
            return f"{words} {number} {what}{'' if number == 1 else 's'}"
    return message.removeprefix("Value error, ").removeprefix("Input should be ")


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Field names of the (nested) model that holds the last part of `loc`."""
    current: Any = model
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        info = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        if info is None:
            break
        current = info.annotation
        for inner in getattr(current, "__args__", ()):
            if hasattr(inner, "model_fields"):
                current = inner
    return list(getattr(current, "model_fields", {}))


def parse(model: type[M], value: Any, path: str = "") -> M:
    """Check `value` against `model`. Raises InvalidValues with every problem's path, value and the values allowed."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidValues(_problems(error, path, model, value)) from None


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7396) of plain dicts: null removes, objects merge, everything else replaces."""
    out = dict(base)
    for key, value in patch.items():
        if value is None:
            out[key] = None
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def without_null(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that are null, at any depth: they have their default."""
    return {k: without_null(v) if isinstance(v, Mapping) else v for k, v in value.items() if v is not None}
